"""Fields that have no column yet, names that cannot become one, and records that are neither."""

import json
from typing import Any

import pytest
from each import for_each
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from pyspark.sql import types as t

from pk.spark.schemas.growth import widened
from pk.spark.text.json_columns import read_column
from pk.spark.text.json_reader import Unfit, load
from pk.spark.text.new_fields import as_text, in_one_case, names_of, new_fields, shown

INNER = t.StructType().add("y", t.ArrayType(t.LongType())).add("z", t.StructType().add("q", "long"))
SCHEMA = (
    t.StructType()
    .add("id", "long")
    .add("s", "string")
    .add("d", t.DecimalType(12, 2))
    .add("at", "timestamp")
    .add("day", "date")
    .add("raw", "binary")
    .add("x", INNER)
    .add("m", t.MapType(t.StringType(), t.StringType()))
)
NAMES = names_of(SCHEMA)


def read(*texts: bytes) -> list[dict[str, Any]]:
    return read_column(texts, SCHEMA, "UTC", NAMES).to_pylist()


@for_each(
    ("text", "said"),
    [
        ('{"id":51,"ID":9}', "the value has the field ID, which differs from id in upper"),
        ('{"Id":9}', "the value has the field Id, which differs from id in upper"),
        ('{"x":{"Y":[1]}}', "the value has the field x.Y, which differs from x.y in upper"),
        ('{"new":1,"NEW":2}', "the value has the field NEW, which differs from new in upper"),
        ('{"id":1,"id":2}', "the value has the key id twice"),
        ('{"":1}', "the value has a field whose name is ''"),
        ('{"\\ud800":1}', "the value has a field whose name is '\\ud800'"),
        ('{"id":"\\ud800"}', "id is not BIGINT: \\ud800"),
        ('{"\\ud800":1,"\\ud800":2}', "the value has the key \\ud800 twice"),
        ('{"id":"x","new":1}', "id is not BIGINT: x"),
    ],
)
def test_what_cannot_become_a_column_has_a_reason(text: str, said: str) -> None:
    [row] = read(text.encode())
    assert row["value"] is None and row["new"] is None
    assert row["error"].startswith(said), row["error"]


@pytest.mark.parametrize(
    ("text", "new"),
    [
        ('{"id":1}', None),
        ('{"id":1,"ID":null,"new":null,"empty":{},"deep":{"er":{}}}', None),
        ('{"new":1.50,"id":1}', '{"new":1.50}'),
        ('{"x":{"y":[1],"new":{"a":1},"z":{"r":1}}}', '{"x":{"new":{"a":1},"z":{"r":1}}}'),
        ('{"_corrupt_record":"kept"}', '{"_corrupt_record":"kept"}'),
        ('{"new":[{}]}', '{"new":[{}]}'),
    ],
)  # fmt: skip
def test_new_fields_are_named_with_their_values(text: str, new: str | None) -> None:
    [row] = read(text.encode())
    assert (row["new"], row["error"]) == (new, None)


def test_long_values_of_new_fields_stay_behind() -> None:
    value = {"new": "x" * 200_000, "x": {"more": 1}}
    assert shown(new_fields(value, NAMES), NAMES) == '{"new":null,"x":{"more":null}}'


def test_of_names_that_differ_in_case_alone_the_first_is_kept() -> None:
    texts = [
        b'{"id":1,"x":{"Y":2}}',
        b'{"ID":"a","x":{"y":3,"Y":4}}',
        b"no object",
        b'{"a":1,"a":2}',
    ]
    found = list(in_one_case([*texts, b'{"l":[{"a":1},{"A":2}]}']))
    assert found == [b'{"id":1,"x":{"Y":2}}', b'{"x":{"Y":4}}', b'{"l":[{"a":1},{}]}']


ANY_TEXT = st.text(st.characters(categories=("Lu", "Ll", "Nd", "Cc", "Cs", "So")), max_size=4)
NAME = st.sampled_from([*SCHEMA.names, "ID", "S", "X", "y", "Y", "z", "new", "New"]) | ANY_TEXT
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | ANY_TEXT
    | st.sampled_from([10**400, "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAME, inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
OBJECTS = st.dictionaries(NAME, VALUES, max_size=5)


@given(st.lists(OBJECTS.map(json.dumps) | ANY_TEXT, max_size=4))
def test_no_record_stops_the_reading(texts: list[str]) -> None:
    """Each has a value, a reason, or fields that are new; and these are columns of the next run."""
    given = [text.encode(errors="replace") for text in texts]
    schema = SCHEMA
    for row in read_column(given, schema, "UTC", names_of(schema)).to_pylist():
        assert (row["error"] is None) != (row["value"] is None)
        if row["new"] is not None:
            assert row["error"] is None
            new = as_text(load(row["new"].encode()), names_of(SCHEMA))
            schema = widened(schema, new)
    assert len({name.lower() for name in schema.names}) == len(schema.names)
    for row in read_column(given, schema, "UTC", names_of(schema)).to_pylist():
        assert row["new"] is None


@pytest.mark.parametrize("depth", [10, 300, 900, 5_000, 100_000])
@pytest.mark.parametrize("name", ["s", "id", "new"])
def test_an_object_may_be_deep(depth: int, name: str) -> None:
    [row] = read(f'{{"{name}":{"[" * depth}{"]" * depth}}}'.encode())
    assert (row["error"] is None) != (row["value"] is None)


def test_an_object_that_fits_is_no_error() -> None:
    with pytest.raises(Unfit):
        new_fields({"ID": 1}, NAMES)
    assert new_fields({"id": 1, "m": {"A": "1", "a": "2"}}, NAMES) == {}
