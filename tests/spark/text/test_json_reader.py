"""JSON texts as columns: what fits arrives as it was, what does not has a reason."""

import datetime
import json
from decimal import Decimal
from typing import Any

import pytest
from each import for_each
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from pyspark.sql import types as t

from pk.spark.errors import OptionError
from pk.spark.text.json_reader import Field, JsonReader, fields_of, json_text, load

MONEY = t.DecimalType(12, 2)
SCHEMA = (
    t.StructType()
    .add("id", "long")
    .add("n", "integer")
    .add("s", "string")
    .add("d", MONEY)
    .add("f", "double")
    .add("b", "boolean")
    .add("at", "timestamp")
    .add("local", "timestamp_ntz")
    .add("day", "date")
    .add("raw", "binary")
    .add("x", t.StructType().add("y", t.ArrayType(t.LongType())))
    .add("m", t.MapType(t.StringType(), MONEY))
)
READER = JsonReader(fields_of(SCHEMA), "Europe/Berlin")


def read(text: bytes | str | None) -> tuple[dict[str, Any], str | None]:
    """The fields that are not null, and the reason."""
    given = text.encode() if isinstance(text, str) else text
    columns, [reason] = READER.read([given])
    row = {name: c[0].as_py() for name, c in zip(SCHEMA.names, columns, strict=True)}
    return {name: value for name, value in row.items() if value is not None}, reason


UTC = datetime.UTC


@for_each(
    ("text", "value"),
    [
        ('{"id":-9223372036854775808}', -(1 << 63)),
        ('{"s":"gr\\u00fc\\ud83d\\ude00n"}', "grü😀n"),
        ('{"s":""}', ""),
        ('{"s":{"b":1.10, "a":[1, 2E5, null, true, "ß"]}}', '{"b":1.10,"a":[1,2E5,null,true,"ß"]}'),
        ('{"s":9007199254740993.1}', "9007199254740993.1"),
        ('{"d":1.10}', Decimal("1.10")),
        ('{"d":1.100000}', Decimal("1.10")),
        ('{"d":1e2}', Decimal("100.00")),
        ('{"d":"-9999999999.99"}', Decimal("-9999999999.99")),
        ('{"d":0e-99999999}', Decimal("0.00")),
        ('{"f":0.1}', 0.1),
        ('{"f":"-Infinity"}', float("-inf")),
        ('{"f":9007199254740992}', 9007199254740992.0),
        ('{"b":false}', False),
        (
            '{"at":"2026-01-01T00:00:00.123456Z"}',
            datetime.datetime(2026, 1, 1, 0, 0, 0, 123456, UTC),
        ),
        (
            '{"at":"2026-01-01 00:00:00.123456000+0100"}',
            datetime.datetime(2025, 12, 31, 23, 0, 0, 123456, UTC),
        ),
        ('{"at":"2026-01-01 00:00"}', datetime.datetime(2025, 12, 31, 23, 0, tzinfo=UTC)),
        ('{"at":"2026-01-01"}', datetime.datetime(2025, 12, 31, 23, 0, tzinfo=UTC)),
        ('{"at":1700000000.000001}', datetime.datetime(2023, 11, 14, 22, 13, 20, 1, UTC)),
        ('{"local":"2026-01-01T10:00:00.5"}', datetime.datetime(2026, 1, 1, 10, 0, 0, 500_000)),
        ('{"day":"2024-02-29"}', datetime.date(2024, 2, 29)),
        ('{"raw":"AP8="}', b"\0\xff"),
        ('{"x":{"y":[1,null,3],"z":0}}', {"y": [1, None, 3]}),
        ('{"m":{"b":1.5,"a":null}}', [("b", Decimal("1.50")), ("a", None)]),
    ],
)
def test_what_fits_arrives_as_it_was(text: str, value: Any) -> None:
    row, reason = read(text)
    assert (list(row.values()), reason) == ([value], None)


@for_each(
    ("text", "said"),
    [
        ('{"id":7} trailing', "more text after the object, at character 9"),
        ('{"id":7}{"id":8}', "more text after the object, at character 8"),
        ('{"id":7}}', "more text after the object"),
        ('{"id":7}\0', "more text after the object"),
        ("", "the value is not a JSON object"),
        ("null", "the value is not a JSON object"),
        ('[{"id":7}]', "the value is not a JSON object"),
        ('{"id":7', "the value is not JSON: "),
        ("{'id':7}", "the value is not JSON: "),
        ('{"id":07}', "the value is not JSON: "),
        ('{"f":NaN}', "the value is not JSON: NaN is not a JSON number"),
        ('{"s":"\n"}', "the value is not JSON: "),
        ('{"id":1,"id":2}', "the value has the key id twice"),
        ('{"other":{"a":1,"a":1}}', "the value has the key a twice"),
        (b'{"s":"\xff"}', "the value is not UTF-8: invalid start byte at byte 6"),
        ("[" * 100_000, "the value is nested too deeply"),
        ('{"s":"\\ud800"}', "s has half a character"),
        ('{"id":9223372036854775808}', "id is not BIGINT: 9223372036854775808"),
        ('{"id":7.0}', "id is not BIGINT: 7.0"),
        ('{"id":"7"}', "id is not BIGINT: 7"),
        ('{"id":true}', "id is not BIGINT: true"),
        ('{"n":3000000000}', "n is not INT: 3000000000"),
        ('{"d":1.005}', "d is not DECIMAL(12,2): 1.005"),
        ('{"d":10000000000}', "d is not DECIMAL(12,2): 10000000000"),
        ('{"d":1e999999999}', "d is not DECIMAL(12,2): 1e999999999"),
        ('{"d":"NaN"}', "d is not DECIMAL(12,2): NaN"),
        ('{"f":9007199254740993}', "f is not DOUBLE: 9007199254740993"),
        ('{"f":1e400}', "f is not DOUBLE: 1e400"),
        ('{"f":"0.1"}', "f is not DOUBLE: 0.1"),
        ('{"b":"true"}', "b is not BOOLEAN: true"),
        ('{"b":0}', "b is not BOOLEAN: 0"),
        ('{"at":"2026-01-01T00:00:00.1234567Z"}', "at is not TIMESTAMP: "),
        ('{"at":"2026-02-30T00:00:00Z"}', "at is not TIMESTAMP: "),
        ('{"at":"yesterday"}', "at is not TIMESTAMP: yesterday"),
        ('{"local":"2026-01-01T10:00:00Z"}', "local is not TIMESTAMP_NTZ: "),
        ('{"day":"2026-01-01T10:00"}', "day is not DATE: 2026-01-01T10:00"),
        ('{"raw":"?"}', "raw is not BINARY: ?"),
        ('{"x":{"y":[1,{"z":1.50}]}}', 'x.y[1] is not BIGINT: {"z":1.50}'),
        ('{"x":5}', "x is not STRUCT<Y:ARRAY<BIGINT>>: 5"),
        ('{"m":{"k":1.005}}', "m.k is not DECIMAL(12,2): 1.005"),
    ],
)
def test_what_does_not_fit_has_a_reason(text: bytes | str, said: str) -> None:
    row, reason = read(text)
    assert row == {} and reason is not None and said in reason


def test_all_that_is_wrong_is_said_and_the_rest_is_kept() -> None:
    row, reason = read('{"id":1,"n":"x","b":2,"new":3}')
    assert (row, reason) == ({"id": 1}, "n is not INT: x; b is not BOOLEAN: 2")
    assert read(None) == ({}, None)


def test_a_field_may_be_a_path_inside() -> None:
    fields = [Field("a.b", ("a", "b"), t.StringType()), Field("a", ("a",), t.StringType())]
    reader = JsonReader(fields, "UTC")
    columns, reasons = reader.read([b'{"a":{"b":1.0}}', b'{"a":null}', b"{}", b'{"a":5}'])
    assert columns[0].to_pylist() == ["1.0", None, None, None]
    assert columns[1].to_pylist() == ['{"b":1.0}', None, None, "5"]
    assert reasons == [None, None, None, "a.b: a is not an object: 5"]


def test_a_type_that_json_lacks_is_refused() -> None:
    with pytest.raises(OptionError, match="JSON has no type INTERVAL"):
        JsonReader([Field("i", ("i",), t.DayTimeIntervalType())], "UTC")


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text('abÄ"\\', max_size=3), inner)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text('abÄ"\\', max_size=3), VALUES))
def test_json_is_written_as_it_was_read(value: dict[str, Any]) -> None:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert json_text(load(text.encode())) == text


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_a_decimal_is_exact_or_refused(number: Decimal) -> None:
    row, reason = read(f'{{"d":"{number}"}}')
    fits = number == number.quantize(Decimal("0.01")) if abs(number) < 10**10 else False
    assert row.get("d") == (number if fits else None) and (reason is None) == fits
