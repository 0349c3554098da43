"""A query of a pipeline, which writes the rows of one sink."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pk.spark.pipeline.definition import Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Query:
    """A query that is ready to start."""

    name: str
    frame: "DataFrame"
    mode: str
    sources: frozenset[str]
    """The sources that the query reads."""

    sink: Sink | None
    """None if the query only writes dead letters."""
