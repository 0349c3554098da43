"""Batches that executors publish, with faults: the driver dies between sealing, list, publication
and markers; tasks fail between a file's records and its marker."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa

from pk.spark.sink import publish_files
from pk.spark.sink.foreach_batch import PublishLanes, write_batch
from pk.spark.sink.large_batch import LargeBatch
from pk.spark.sink.sealed_files import SealedList
from spark_faults.faulty import TaskFails, note

POINTS = ("sealed", "listed", "in_publish", "published", "after_commit", "no_marker")
LIMITS = (0, 0, 0, 1 << 30)
"""The limits of the bytes that pass the driver. Most batches get 0 and are large."""

_publish = publish_files.Publisher.publish


def strikes(chances: dict[str, float], notes: str, fault: str) -> bool:
    if random.SystemRandom().random() >= chances.get(fault, 0):
        return False
    note(notes, fault)
    return True


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class FaultyBatch(LargeBatch):
    """The process may die, by its `chances`, where a batch changes its state."""

    chances: ClassVar[dict[str, float]] = {}
    notes: ClassVar[str] = ""

    def make_list(self, parts: Any) -> SealedList:
        if strikes(self.chances, self.notes, "sealed"):
            die()
        found = super().make_list(parts)
        if strikes(self.chances, self.notes, "listed"):
            die()
        return found

    def publish_listed(self, listed: SealedList, publish: Callable[[SealedList], None]) -> None:
        def job(listed: SealedList) -> None:
            if strikes(self.chances, self.notes, "in_publish"):
                threading.Timer(random.SystemRandom().random() * 0.3, die).start()
            publish(listed)
            if strikes(self.chances, self.notes, "published"):
                die()

        super().publish_listed(listed, job)

    def remove(self, has_files: bool) -> None:
        if strikes(self.chances, self.notes, "after_commit"):
            die()
        super().remove(has_files)


@dataclass(frozen=True)
class FaultyLanes(PublishLanes):
    """Tasks raise between a file's records and its marker; `blind` does not look for markers."""

    chances: dict[str, float] = field(default_factory=dict[str, float])
    notes: str = ""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task_faults(self.chances, self.notes)
        yield from super().__call__(batches)


def task_faults(chances: dict[str, float], notes: str) -> None:
    """Lets the publishing tasks of this process fail."""

    async def publish(self: Any, batches: Any) -> None:
        await _publish(self, batches)
        name = next(iter(batches)).topic if batches else ""
        if not name.startswith("__") and strikes(chances, notes, "no_marker"):
            raise TaskFails("before the marker")

    publish_files.Publisher = FaultyPublisher  # type: ignore[misc]
    FaultyPublisher.publish = publish  # type: ignore[method-assign]
    if chances.get("blind"):
        publish_files.published_files = no_markers


class FaultyPublisher(publish_files.Publisher):
    """That of publishing tasks alone."""


async def no_markers(options: object, listed: object) -> set[str]:
    """Replaces `published_files` in a task that must see no marker."""
    return set()


def writer(
    options: dict[str, str], checkpoint: str, chances: dict[str, float], notes: str
) -> Callable[[Any, int], None]:
    """A function for `foreachBatch`."""
    kind = type("Faulty", (FaultyBatch,), {"chances": chances, "notes": notes})
    lanes = partial(FaultyLanes, chances=chances, notes=notes)

    def write(frame: Any, batch: int) -> None:
        write_batch(
            frame,
            batch,
            options,
            checkpoint=checkpoint,
            driver_bytes=random.choice(LIMITS),
            kind=kind,
            lanes_kind=lanes,
        )

    return write
