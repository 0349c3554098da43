"""A program for Spark's own Kafka connector: it writes a batch, reads it again, and copies it with
a stream that stops and resumes from its checkpoint. `test_spark_connector.py` runs it in the
connector's own interpreter and checks what it left.

Arguments: the folder of the jars, the bootstrap server, a source topic, a sink topic, a checkpoint.
"""

from __future__ import annotations

import sys

HALF = 500


def main(jars: str, bootstrap: str, source: str, sink: str, checkpoint: str) -> None:
    from pyspark.sql import DataFrame, SparkSession

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.extraClassPath", f"{jars}/*")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    kafka = {"kafka.bootstrap.servers": bootstrap}

    def write(begin: int, end: int) -> None:
        rows = spark.range(begin, end).selectExpr(
            "string(id) AS key",
            "concat('value ', id) AS value",
            "array(struct('number' AS key, encode(string(id), 'UTF-8') AS value)) AS headers",
        )
        rows.write.format("kafka").options(**kafka).option("topic", source).save()

    def read() -> DataFrame:
        options = {**kafka, "subscribe": source, "startingOffsets": "earliest"}
        return spark.read.format("kafka").options(**options).load()

    def copy() -> None:
        options = {**kafka, "subscribe": source, "startingOffsets": "earliest"}
        stream = spark.readStream.format("kafka").options(**options).option("includeHeaders", True)
        rows = stream.load().select("key", "value", "headers")
        out = rows.writeStream.format("kafka").options(**kafka).option("topic", sink)
        query = out.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()

    for begin in (0, HALF):
        write(begin, begin + HALF)
        values = sorted(bytes(row.value).decode() for row in read().select("value").collect())
        assert values == sorted(f"value {number}" for number in range(begin + HALF)), values
        copy()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
