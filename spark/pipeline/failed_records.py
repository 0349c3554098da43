"""Records with which a step of a query fails: kept next to the checkpoint, so that the batch that
contains them runs without them, even after a crash."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from pk.spark.files.object_path import Place, write_json
from pk.spark.read.ranges import OffsetRange


class FailedRecord(NamedTuple):
    """A record, and the reason why a step fails with it."""

    topic: str
    partition: int
    offset: int
    why: str

    @property
    def place(self) -> str:
        return f"{self.topic}, partition {self.partition}, offset {self.offset}"


class FailedRecords:
    """Query → the failed records of its newest batch."""

    def __init__(self, file: Place) -> None:
        self._file = file
        try:
            self._known: dict[str, Any] = json.loads(file.read_text())
        except FileNotFoundError:
            self._known = {}

    def of(self, query: str) -> list[FailedRecord]:
        """The records that the query leaves out."""
        return [FailedRecord(*each) for each in self._entry(query)["records"]]

    def unwritten(self, query: str) -> tuple[int, list[FailedRecord]]:
        """Those that may still have to become dead letters, and the number of that write."""
        entry = self._entry(query)
        return entry["writes"], [FailedRecord(*each) for each in entry["unwritten"]]

    def add(self, query: str, batch: Sequence[OffsetRange], found: Sequence[FailedRecord]) -> None:
        """Notes records of a batch; forgets those of batches before it. Raises OSError."""
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
        """Notes that the dead letters are in their topic. Raises OSError."""
        self._known[query] = {**self._entry(query), "unwritten": []}
        write_json(self._file, self._known)

    def _entry(self, query: str) -> dict[str, Any]:
        return self._known.get(query, {"writes": 0, "records": [], "unwritten": []})
