"""A query of a pipeline: the rows of one sink."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pk.spark.pipeline.definition import Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Query:
    """One query, ready to start."""

    name: str
    frame: "DataFrame"
    mode: str
    sources: frozenset[str]
    """The sources that it reads."""

    sink: Sink | None
    """None: only dead letters."""
