"""The data source `pk` with a sink that fails: tasks that raise before and after they wrote,
commits that are killed.

Each failure is a line in a file, since the failing process cannot report it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from pk.spark.sink import commit
from pk.spark.sink.options import check_columns, parse_sink_options
from pk.spark.sink.writer import KafkaStreamWriter
from pk.spark.source import KafkaSource

NAME = "pkfaulty"
CHANCES = "faults"
NOTES = "notes"


def note(path: str, what: str) -> None:
    """Appends a whole line atomically; other processes may append at the same time."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(descriptor, f"{what}\n".encode())
    os.close(descriptor)


class TaskFails(Exception):
    """The fault of a task."""


class FaultyWriter(KafkaStreamWriter):
    """`chances`: of a task to raise `before` and `after` it wrote, of the driver's process to die
    `in_commit` and `after_commit`; `blind` does not look for the marker."""

    def __init__(self, options: Any, chances: dict[str, float], notes: str) -> None:
        super().__init__(options)
        self.chances = chances
        self.notes = notes

    def _strikes(self, fault: str) -> bool:
        if random.SystemRandom().random() >= self.chances.get(fault, 0):
            return False
        note(self.notes, fault)
        return True

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if self._strikes("before"):
            raise TaskFails("before it wrote")
        message = super().write(iterator)
        if self._strikes("after"):
            raise TaskFails("after it wrote")
        return message

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        if self.chances.get("blind"):
            commit.Markers.last = no_marker  # type: ignore[method-assign]
        if self._strikes("in_commit"):
            wait_s = random.SystemRandom().random() * 0.2
            threading.Timer(wait_s, os.kill, (os.getpid(), signal.SIGKILL)).start()
        super().commit(messages, batchId)
        if self._strikes("after_commit"):
            os.kill(os.getpid(), signal.SIGKILL)


async def no_marker(self: object, partition: object) -> None:
    """Replaces `Markers.last` in a driver that must see no marker."""


class FaultySource(KafkaSource):
    """`format("pkfaulty")`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def streamWriter(self, schema: StructType, overwrite: bool) -> FaultyWriter:
        given = dict(self.options)
        chances, notes = json.loads(given.pop(CHANCES)), given.pop(NOTES)
        options = parse_sink_options(given)
        check_columns(schema, options.topic)
        return FaultyWriter(options, chances, notes)
