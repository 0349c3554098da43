"""Counting the records whose JSON has fields that an export has no column for."""

from typing import Any

import pytest

pytest.importorskip("pyspark")

from pk.spark.export.unknown_fields import FieldCounter, UnknownFields, known_fields, merged
from pk.spark.text.json_reader import load_all

SCHEMA: dict[str, Any] = {
    "type": "struct",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "deep", "type": {"type": "struct", "fields": [{"name": "er", "type": "double"}]}},
        {
            "name": "items",
            "type": {
                "type": "array",
                "elementType": {"type": "struct", "fields": [{"name": "n", "type": "long"}]},
            },
        },
        {"name": "text", "type": "string"},
    ],
}
KNOWN = known_fields(SCHEMA)


def counted(*values: bytes | None) -> tuple[int, tuple[str, ...]]:
    assert KNOWN is not None
    counter = FieldCounter(KNOWN)
    counter.see(load_all(values)[0])
    return counter.found


def test_what_the_columns_have_room_for_is_not_counted() -> None:
    assert counted(
        b'{"id": 1, "deep": {"er": 2}}',
        b'{"id": 2,\n "items": [{"n": 1}, {}], "gone": null}',
        b'{"text": {"any": "object, kept as text"}}',
        b"not json",
        b"",
        None,
    ) == (0, ())


@pytest.mark.parametrize("beside", [b'{"id": 1}', b"not json", b'{"id": "of another type"}'])
def test_records_with_more_are_counted_and_the_fields_named(beside: bytes) -> None:
    assert counted(
        beside,
        b'{"id": 1, "new": 1, "more": {"a": 1}}',
        b'{"deep": {"er": 1, "est": 2}}',
        b'{"items": [{"n": 1}, {"n": 2, "new": 3}]}',
        None,
    ) == (3, ("deep.est", "items.new", "more", "new"))


def test_tasks_are_added_up_and_a_few_fields_named() -> None:
    names = tuple(f"f{n:02}" for n in range(15))
    assert merged([(UnknownFields(3, names)), UnknownFields(4, ("a", "g"))]) == (
        7,
        ("a", *names, "g"),
    )
    many = merged([UnknownFields(1, (f"f{n:02}",)) for n in range(30)])
    assert (many.records, len(many.fields)) == (30, 20)
