"""The environment of a test's pipelines: topics, a directory, a Spark session."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline_examples import EXAMPLES, Record, append, committed

from pk.spark.pipeline.check import check_in
from pk.spark.pipeline.definition import Pipeline, parse_pipeline
from pk.spark.pipeline.run import RunOptions, run_pipeline
from pk.spark.pipeline.status import Status

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class World:
    """A broker of its own, whose topics have the names that the examples say, and a directory."""

    def __init__(self, bootstrap: str, spark: SparkSession, directory: Path) -> None:
        self.bootstrap = bootstrap
        self.spark = spark
        self.directory = directory
        self.said: list[str] = []
        """The messages of pipelines to their user."""

    def topic(self, name: str, values: Iterable[str | bytes] = (), partitions: int = 2) -> None:
        append(self.bootstrap, name, values, partitions)

    def changes(self, topic: str, changes: Iterable[Mapping[str, Any]]) -> None:
        """Appends changes to a topic of one partition, in order."""
        self.topic(topic, [json.dumps(change) for change in changes], 1)

    def committed(self, topic: str) -> list[Record]:
        return committed(self.bootstrap, topic)

    def rows(self, topic: str) -> list[dict[str, Any]]:
        return [json.loads(value or b"null") for _, value, _ in self.committed(topic)]

    def pipeline(self, text: str, file: str = "p.toml") -> Pipeline:
        path = self.directory / file
        path.write_text(text)
        return parse_pipeline(text, str(path))

    def run(self, pipeline: Pipeline, *, once: bool = True) -> Status:
        kafka = {"kafka.bootstrap.servers": self.bootstrap}
        options = RunOptions(kafka, once=once, say=self.said.append)
        return run_pipeline(pipeline, options, self.spark).status

    def check(self, pipeline: Pipeline) -> dict[str, str]:
        kafka = {"kafka.bootstrap.servers": self.bootstrap}
        return {each.name: each.columns for each in check_in(self.spark, pipeline, kafka)}

    def example(self, name: str) -> Pipeline:
        """An example, with the data next to it."""
        if not (self.directory / "data").exists():
            shutil.copytree(EXAMPLES / "data", self.directory / "data")
        text = (EXAMPLES / f"{name}.toml").read_text()
        return self.pipeline(text, f"{name}.toml")
