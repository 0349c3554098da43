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
from pk.spark.text.json_columns import JsonFields, read_column
from pk.spark.text.json_reader import Unfit, load
from pk.spark.text.new_fields import as_text, in_one_case, names_of, new_fields, shown
from pk.spark.text.wider_numbers import not_double, wider_numbers, with_doubles

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
    return read_column(texts, JsonFields(SCHEMA), "UTC", NAMES).to_pylist()


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
    known = JsonFields(schema)
    for row in read_column(given, known, "UTC", names_of(schema)).to_pylist():
        if row["new"] is None:
            assert (row["error"] is None) != (row["value"] is None)
        else:
            assert row["error"] is None
            new = load(row["new"].encode())
            schema = widened(schema, as_text(new, names_of(SCHEMA)))
            schema = with_doubles(schema, wider_numbers(new, schema))
    assert len({name.lower() for name in schema.names}) == len(schema.names)
    for row in read_column(given, JsonFields(schema), "UTC", names_of(schema)).to_pylist():
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


WIDE = JsonFields(SCHEMA, {("x", "z", "q"): "stays BIGINT: there is a reason"})


def evolved(text: str) -> tuple[str | None, str | None]:
    """The columns that must change for a text, and why it does not fit."""
    [row] = read_column([text.encode()], WIDE, "UTC", NAMES).to_pylist()
    return row["new"], row["error"]


def test_a_number_with_a_fraction_in_a_bigint_field_is_something_new() -> None:
    assert evolved('{"id":1.50,"s":"a","more":{"a":1}}') == ('{"more":{"a":1},"id":1.50}', None)
    assert evolved('{"id":1e3}') == ('{"id":1e3}', None)
    assert evolved('{"id":1}') == (None, None)


def test_a_number_in_an_object_that_does_not_fit_anyway_is_nothing_new() -> None:
    assert evolved('{"id":1.5,"day":"x"}') == (None, "day is not DATE: x")
    assert evolved('{"id":1.5,"ID":1}') == (
        None,
        "the value has the field ID, which differs from id in upper and lower case alone",
    )
    assert evolved('{"id":1e400}') == (None, "id is not DOUBLE: 1e400")
    long = f"0.{'1' * 200}"
    assert evolved(f'{{"id":{long}}}') == (None, f"id is not BIGINT: {long[:100]}")
    assert evolved('{"x":{"y":[1.5]}}')[0] is None


def test_a_field_that_stays_says_why() -> None:
    new, error = evolved('{"x":{"z":{"q":1.5}}}')
    assert new is None and error is not None
    assert error.endswith("; x.z.q stays BIGINT: there is a reason")
    assert evolved('{"x":{"z":{"q":7}}}') == (None, None)


def test_the_type_becomes_double_where_the_number_is() -> None:
    found = wider_numbers(load(b'{"id":1,"x":{"z":{"q":0.5}},"s":2.5}'), SCHEMA)
    assert found == {("x", "z", "q"): "0.5"}
    wider = with_doubles(SCHEMA, found)
    assert "z:struct<q:double>" in wider["x"].dataType.simpleString()
    assert with_doubles(wider, []) == wider != SCHEMA
    assert wider["id"] == SCHEMA["id"]


def test_whole_numbers_that_no_double_is_are_found() -> None:
    exact = [b'{"a":{"b":9007199254740992}}', b'{"a":{"b":1.5}}', b"{", b'{"a":7}', b"{}"]
    assert not_double(exact, ("a", "b")) is None
    assert not_double([*exact, b'{"a":{"b":9007199254740993}}'], ("a", "b")) == 2**53 + 1
    huge = b'{"a":1' + b"0" * 400 + b"}"
    assert not_double([huge], ("a",)) == 10**400


def test_numbers_stay_where_long_values_do_not() -> None:
    [row] = read(b'{"id":0.5,"new":"' + b"x" * 200_000 + b'"}')
    assert row["new"] == '{"new":null,"id":0.5}'
