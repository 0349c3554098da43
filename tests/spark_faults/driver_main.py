"""A driver of Spark with several queries by `format("pk")`, started by spark_faults.run, which
kills it."""

from __future__ import annotations

import json
import sys

from pk.spark.session import OwnSpark, Where, launch
from spark_faults.faulty import CHANCES, NAME, NOTES, FaultySource
from spark_faults.quick_python import quick_python
from spark_faults.streams import Forms, run, settings
from spark_faults.work import Work


def faults(work: Work) -> dict[str, str]:
    return {CHANCES: json.dumps(work.chances), NOTES: work.notes}


def main(work: Work) -> None:
    with quick_python() as python:
        sys.executable = python  # which is what Spark's workers are
        conf = dict(settings(work))
        where = Where(master=conf.pop("spark.master", None))
        with launch(cores=work.cores, conf=conf, where=where) as own:
            _run(own, work)


def _run(own: OwnSpark, work: Work) -> None:
    try:
        spark = own.session()
        spark.dataSource.register(FaultySource)
        run(spark, work, Forms("pk", NAME, faults))
    except Exception:
        print(own.log_tail(), file=sys.stderr, flush=True)
        raise


if __name__ == "__main__":
    main(Work.parse(sys.argv[1]))
