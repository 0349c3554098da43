"""The same queries by Spark's own Kafka connector, which delivers at least once, started by
spark_faults.run in the connector's own interpreter. A row raises now and then, since its sink is
not ours to fail."""

from __future__ import annotations

import sys

from spark_faults.streams import Forms, run, settings
from spark_faults.work import Work


def main(work: Work, jars: str) -> None:
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.appName("connector")
        .config("spark.driver.extraClassPath", f"{jars}/*")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
    )
    for name, value in settings(work).items():
        builder = builder.config(name, value)
    run(builder.getOrCreate(), work, Forms("kafka", "kafka", raises=True))


if __name__ == "__main__":
    main(Work.parse(sys.argv[1]), sys.argv[2])
