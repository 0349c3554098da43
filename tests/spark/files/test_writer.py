"""The tasks' writer: it writes the given rows, in files that end at their limits, and in
directories by value. Without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import dataset, parquet

from pk.spark.files.store import LocalStore
from pk.spark.files.writer import Rolling, WriteFiles, WrittenFile
from pk.spark.tables.statistics import delta_statistics

ROWS = pa.schema([("n", pa.int64()), ("text", pa.string())])


def batches(count: int, size: int = 100) -> Iterator[pa.RecordBatch]:
    for begin in range(0, count, size):
        numbers = range(begin, min(begin + size, count))
        columns: dict[str, Any] = {
            "text": [f"text-{n}" for n in numbers],
            "n": pa.array(numbers, pa.int32()),
            "more": [None] * len(numbers),
            "country": [("DE", "a/b", None, "")[n % 4] for n in numbers],
            "half": [str(n % 2) for n in numbers],
        }
        yield pa.RecordBatch.from_pydict(columns)


def writing(path: Path, **given: Any) -> WriteFiles:
    return WriteFiles(LocalStore(path), ROWS, "run-", **given)


def check(path: Path, written: list[WrittenFile]) -> None:
    """Each file is as the task says."""
    for file in written:
        there = path / file.name
        assert there.stat().st_size == file.size
        metadata = parquet.read_metadata(there)
        assert metadata.num_rows == file.rows == file.metadata.num_rows
        assert (
            metadata.row_group(0).column(0).statistics
            == file.metadata.row_group(0).column(0).statistics
        )


def test_rows_without_directories(tmp_path: Path) -> None:
    written = writing(tmp_path).write(batches(1_050), 3, 17)
    assert [file.name for file in written] == ["run-00003-17-0.parquet"]
    check(tmp_path, written)
    found = parquet.read_table(tmp_path / written[0].name)
    assert found.schema.equals(ROWS)
    assert found.column("n").to_pylist() == list(range(1_050))
    assert writing(tmp_path).write(batches(0), 3, 18) == []


def test_names_by_task(tmp_path: Path) -> None:
    written = writing(tmp_path, by_task=("a", "b")).write(batches(1), 1, 2)
    assert [file.name for file in written] == ["run-b-2-0.parquet"]


def test_a_file_ends_after_so_many_rows(tmp_path: Path) -> None:
    rolling = Rolling(1 << 30, 70)
    written = writing(tmp_path, rolling=rolling).write(batches(300), 0, 0)
    assert [file.rows for file in written] == [70, 70, 70, 70, 20]
    found = [parquet.read_table(tmp_path / file.name).column("n") for file in written]
    assert [n for column in found for n in column.to_pylist()] == list(range(300))


def test_a_file_ends_at_its_size(tmp_path: Path) -> None:
    written = writing(tmp_path, codec="NONE", rolling=Rolling(4_000)).write(batches(5_000), 0, 0)
    assert len(written) > 10
    assert all(4_000 <= file.size < 12_000 for file in written[:-1])
    check(tmp_path, written)
    assert sum(file.rows for file in written) == 5_000


def test_directories_by_value(tmp_path: Path) -> None:
    folders = {"country": "country", "1/2": "half"}
    written = writing(tmp_path, folders=folders).write(batches(1_000), 0, 0)
    assert {file.name.rpartition("/")[0] for file in written} == {
        "country=DE/1%2F2=0",
        "country=a%2Fb/1%2F2=1",
        "country=__HIVE_DEFAULT_PARTITION__/1%2F2=0",
        "country=__HIVE_DEFAULT_PARTITION__/1%2F2=1",
    }
    check(tmp_path, written)
    found = dataset.dataset(tmp_path, partitioning="hive").to_table().sort_by("n")
    assert found.column("n").to_pylist() == list(range(1_000))
    first = next(file for file in written if file.name.startswith("country=DE"))
    numbers = parquet.ParquetFile(tmp_path / first.name).read().column("n").to_pylist()
    assert numbers == sorted(numbers)


def test_many_directories_do_not_keep_as_many_files_open(tmp_path: Path) -> None:
    def many() -> Iterator[pa.RecordBatch]:
        for _ in range(3):
            numbers = range(200)
            yield pa.RecordBatch.from_pydict(
                {"n": numbers, "text": [""] * 200, "by": [str(n) for n in numbers]}
            )

    rolling = Rolling(1)  # each group of rows ends a file
    written = writing(tmp_path, folders={"by": "by"}, rolling=rolling).write(many(), 0, 0)
    assert sum(file.rows for file in written) == 600
    check(tmp_path, written)


def test_a_failed_attempt_leaves_nothing(tmp_path: Path) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield from batches(500)
        raise KeyError

    with pytest.raises(KeyError):
        writing(tmp_path, rolling=Rolling(1 << 30, 70)).write(failing(), 0, 0)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_the_statistics_of_delta_are_bounds(tmp_path: Path) -> None:
    late = datetime(2026, 1, 31, 12, 0, 0, 1_001, UTC)
    columns: dict[str, pa.Array] = {
        "n": pa.array([3, None, 1], pa.int64()),
        "text": pa.array(["b" * 40, "a" * 40, None]),
        "at": pa.array([late, late, None], pa.timestamp("us", "UTC")),
        "day": pa.array([date(2026, 1, 31), None, None]),
        "price": pa.array([Decimal("1.50"), Decimal("2.25"), None]),
        "real": pa.array([1.5, float("nan"), None]),
        "raw": pa.array([b"a", b"b", None]),
        "yes": pa.array([True, False, None]),
        "inner": pa.array([{"x": 1, "y.z": "q"}, None, {"x": 2, "y.z": None}]),
        "list": pa.array([[1, 2], None, []], pa.list_(pa.int64())),
        "map": pa.array([[("a", 1)], None, None], pa.map_(pa.string(), pa.int64())),
        "last": pa.array([None, None, None], pa.int64()),
        "other": pa.array([1, 2, 3]),
    }
    parquet.write_table(pa.table(columns), tmp_path / "x.parquet")
    names = frozenset(columns) - {"other"}
    found = json.loads(delta_statistics(parquet.read_metadata(tmp_path / "x.parquet"), names))
    assert found == {
        "numRecords": 3,
        "minValues": {
            "n": 1,
            "text": "a" * 32,
            "at": "2026-01-31T12:00:00.001Z",
            "day": "2026-01-31",
            "price": 1.5,
            "real": 1.5,
            "inner": {"x": 1, "y.z": "q"},
        },
        "maxValues": {
            "n": 3,
            "text": "b" * 32 + "\U0010ffff",
            "at": "2026-01-31T12:00:00.002Z",
            "day": "2026-01-31",
            "price": 2.25,
            "inner": {"x": 2, "y.z": "q"},
        },
        "nullCount": {
            "n": 1,
            "text": 1,
            "at": 1,
            "day": 2,
            "price": 1,
            "real": 1,
            "raw": 1,
            "yes": 1,
            "inner": {"x": 1, "y.z": 2},
            "last": 3,
        },
    }
