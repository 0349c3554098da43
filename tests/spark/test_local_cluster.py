"""Executors of their own on this machine: `local-cluster[…]`, which Spark's own tests use."""

import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyspark

from pk.spark.session.local import Where, launch

pytestmark = pytest.mark.slow


def test_tasks_run_in_executors() -> None:
    work = Path(pyspark.__file__).parent / "work"  # where Spark has executors write
    before = set(work.glob("app-*"))
    where = Where(master="local-cluster[1,1,600]")
    try:
        with launch(cores=1, conf={"spark.executor.memory": "512m"}, where=where) as own:
            context = own.session().sparkContext
            assert context.parallelize([20, 22], 1).map(lambda n: n + 1).collect() == [21, 23]
            java: Any = context._jsc
            assert java.sc().getExecutorMemoryStatus().size() == 2  # the driver's, and one
    finally:
        for folder in set(work.glob("app-*")) - before:
            shutil.rmtree(folder, ignore_errors=True)
