"""Exports without Spark: files of records as a job of Spark writes them, and manifests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from pk.spark.export.manifest import ExportedRange, Manifest, Run, name_of_range
from pk.spark.files.store import Store

COLUMNS: dict[str, Any] = {
    "type": "struct",
    "fields": [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (("value", "string"), ("offset", "long"), ("country", "string"))
    ],
}
COUNTRIES = ("DE", "a/b", None)
_FOLDERS = ("DE", "a%2Fb", "__HIVE_DEFAULT_PARTITION__")


def empty(table: str | None = None, *, export_id: str = "pk-1") -> Manifest:
    """The manifest of an export by country, before its first run."""
    return Manifest(
        topic="orders",
        topic_id="4S-K2a9bTDeJy7Pg-rvZcw",
        key="bytes",
        value="string",
        columns=COLUMNS,
        export_id=export_id,
        partition_by=("country=key",),
        table=table,
    )


def a_run(before: Manifest, files: Store, records: int) -> tuple[Manifest, dict[str, int]]:
    """Write the files of another run of `records`. Returns the manifest with the run, and the sizes
    of the files."""
    begin = before.partitions.get(0, (0, 0))[1]
    run_id = f"{len(before.runs):08x}"
    ranges: list[ExportedRange] = []
    written: dict[str, int] = {}
    for at, country in enumerate(COUNTRIES):
        offsets = range(begin + at, begin + records, len(COUNTRIES))
        if not offsets:
            continue
        columns: dict[str, Any] = {
            "value": pa.array([f"value-{n}" for n in offsets]),
            "offset": pa.array(offsets, pa.int64()),
        }
        hive = "country"
        if before.table == "iceberg":
            columns["country"] = pa.array([country] * len(offsets), pa.string())
            hive = "by_country"
        own = name_of_range("orders", 0, offsets[0], offsets[-1] + 1, run_id)
        name = f"{hive}={_FOLDERS[at]}/{own}-1-0.parquet"
        with files.create(name) as file:
            parquet.write_table(pa.table(columns), file)
            written[name] = file.tell()
        span = (0, offsets[0], offsets[-1] + 1)
        ranges.append(ExportedRange(*span, len(offsets), name, written[name]))
    run = Run(run_id, 1_700_000_000_000, tuple(ranges))
    begun = before.partitions.get(0, (0, 0))[0]
    return (
        replace(before, runs=(*before.runs, run), partitions={0: (begun, begin + records)}),
        written,
    )


def wanted(offsets: Sequence[int]) -> list[dict[str, Any]]:
    """The records of the runs up to an offset, by offset; each run begins with the first
    country."""
    return [
        {"value": f"value-{n}", "offset": n, "country": COUNTRIES[at % len(COUNTRIES)]}
        for at, n in enumerate(offsets)
    ]
