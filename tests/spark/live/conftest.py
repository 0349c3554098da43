"""One session of Spark for the files of this folder, which one worker runs (tests/scheduling.py):
it takes as much CPU to start as most of their tests together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from pk.spark.session.local import launch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONF = {"spark.sql.shuffle.partitions": "2", "spark.driver.maxResultSize": "4m"}


@pytest.fixture(scope="package")
def spark() -> Iterator[SparkSession]:
    """For all tests that need not see Spark start. It ends after the last of them, so that other
    folders' tests can start one of their own."""
    with launch(cores=2, conf=CONF) as own:
        yield own.session()
