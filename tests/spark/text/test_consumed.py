"""Records that `pk consume -f csv|jsonl` wrote are the same when an import has read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from pyspark.sql.types import StringType

from pk.cli.records.row import RECORD_FIELDS
from pk.cli.records.source import Source
from pk.cli.records.writers import writer
from pk.core.record.batch import Record
from pk.spark.importer.read_lines import json_lines
from pk.spark.text.csv_reader import CsvReader, Dialect, first_row
from pk.spark.text.csv_types import name_columns
from pk.spark.text.json_reader import Field, JsonReader

CELLS = st.none() | st.text(
    st.sampled_from("aä😀\"'\\,;{}[]\t\n\r \x00\x7f\x85\u2028")
    | st.characters(exclude_categories=["Cs"]),
    max_size=8,
)
PAIRS = st.lists(st.tuples(CELLS, CELLS), max_size=8)
Pair = tuple[str | None, str | None]


def written(form: str, pairs: list[Pair]) -> list[bytes]:
    """The lines of a file of records with these keys and values."""
    encoded = [tuple(None if each is None else each.encode() for each in pair) for pair in pairs]
    records = [Record(n, 1_000 + n, key, value) for n, (key, value) in enumerate(encoded)]
    out = writer(form)
    data = out.begin() + out.batch(Source("orders", 0), records) + out.end()
    assert data.endswith(b"\n") or not data
    return data.split(b"\n")[:-1]


@given(PAIRS)
def test_csv(pairs: list[Pair]) -> None:
    lines = written("csv", pairs)
    first = first_row(lines, Dialect())
    assert first is not None
    names = name_columns(first.fields)
    assert names == list(RECORD_FIELDS)
    reader = CsvReader(Dialect(), len(names), 2, crlf=first.crlf)
    found: list[Pair] = []
    for rows in reader.read(lines[1:]):
        keys, values = (rows.columns[names.index(name)].to_pylist() for name in ("key", "value"))
        found += zip(keys, values, strict=True)
    reader.end()
    assert found == pairs


@given(PAIRS)
def test_jsonl(pairs: list[Pair]) -> None:
    lines = written("jsonl", pairs)
    fields = [Field(name, (name,), StringType()) for name in ("key", "value")]
    columns, reasons = JsonReader(fields, "UTC").read(json_lines(lines, first=True))
    assert reasons == [None] * len(pairs)
    assert list(zip(*(column.to_pylist() for column in columns), strict=True)) == pairs
