"""Stores the records with which a query's steps fail next to the checkpoint, so that their batch
runs without them, even after a crash."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from pk.spark.files.object_path import Place, write_json
from pk.spark.read.ranges import OffsetRange


class FailedRecord(NamedTuple):
    """A record with which a step fails, and the reason."""

    topic: str
    partition: int
    offset: int
    why: str

    @property
    def place(self) -> str:
        return f"{self.topic}, partition {self.partition}, offset {self.offset}"


class FailedRecords:
    """The failed records of each query's newest batch."""

    def __init__(self, file: Place) -> None:
        self._file = file
        try:
            self._known: dict[str, Any] = json.loads(file.read_text())
        except FileNotFoundError:
            self._known = {}

    def of(self, query: str) -> list[FailedRecord]:
        """The records that the query skips."""
        return [FailedRecord(*each) for each in self._entry(query)["records"]]

    def unwritten(self, query: str) -> tuple[int, list[FailedRecord]]:
        """The records that may not be dead letters yet, and the batch number for writing them."""
        entry = self._entry(query)
        return entry["writes"], [FailedRecord(*each) for each in entry["unwritten"]]

    def add(self, query: str, batch: Sequence[OffsetRange], found: Sequence[FailedRecord]) -> None:
        """Add records of a batch, and forget those of earlier batches. Raises OSError."""
        within = {(each.topic, each.partition): range(each.begin, each.end) for each in batch}
        kept = [
            each
            for each in self.of(query)
            if each.offset in within.get((each.topic, each.partition), ())
        ]
        self._known[query] = {
            "writes": self._entry(query)["writes"] + 1,
            "records": [*kept, *found],
            "unwritten": list(found),
        }
        write_json(self._file, self._known)

    def written(self, query: str) -> None:
        """Record that the dead letters are in their topic. Raises OSError."""
        self._known[query] = {**self._entry(query), "unwritten": []}
        write_json(self._file, self._known)

    def _entry(self, query: str) -> dict[str, Any]:
        return self._known.get(query, {"writes": 0, "records": [], "unwritten": []})
