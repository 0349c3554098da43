"""The data kept about records with which a step fails."""

from __future__ import annotations

from pathlib import Path

from pk.spark.pipeline.failed_records import FailedRecord, FailedRecords
from pk.spark.read.ranges import OffsetRange


def test_records_are_kept_for_their_batch_and_written_once(tmp_path: Path) -> None:
    file = tmp_path / "failed.json"
    first, second = FailedRecord("t", 0, 3, "x"), FailedRecord("t", 1, 4, "y\n\U0001f600")
    known = FailedRecords(file)
    assert (known.of("q"), known.unwritten("q")) == ([], (0, []))
    batch = [OffsetRange("t", 0, 0, 10), OffsetRange("t", 1, 0, 10)]
    known.add("q", batch, [first])
    known = FailedRecords(file)
    assert known.unwritten("q") == (1, [first])
    known.written("q")
    known.add("q", batch, [second])
    known = FailedRecords(file)
    assert known.of("q") == [first, second]
    assert known.unwritten("q") == (2, [second]), "what was written is not written again"
    assert known.of("other") == []


def test_records_of_batches_that_are_done_are_forgotten(tmp_path: Path) -> None:
    known = FailedRecords(tmp_path / "failed.json")
    known.add("q", [OffsetRange("t", 0, 0, 10)], [FailedRecord("t", 0, 3, "x")])
    last = FailedRecord("t", 0, 12, "y")
    known.add("q", [OffsetRange("t", 0, 10, 20)], [last])
    assert known.of("q") == [last]
