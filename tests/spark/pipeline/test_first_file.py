"""The file that `pk spark pipeline init` writes, and the fields that it finds."""

from __future__ import annotations

import json

import pytest

from pk.spark.pipeline.definition import TopicSource, parse_pipeline
from pk.spark.pipeline.first_file import fields_of, first_file, mixed_fields, relation_name


@pytest.mark.parametrize(
    ("values", "fields", "selected"),
    [
        (
            [{"id": 1, "at": "2026-01-01T00:00:00Z"}],
            "id BIGINT,\n  at TIMESTAMP",
            "SELECT value.*\n",
        ),
        ([{"id": 1}, {"id": 2.5}], "id DOUBLE", "SELECT timestamp AS at, value.*\n"),
        ([{"seen": "2026-01-01 00:00:00"}], "seen TIMESTAMP", "SELECT value.seen AS at, value.*\n"),
        ([{"at": "noon"}], "at STRING", "SELECT timestamp AS at\n"),
        (["text"], None, "SELECT timestamp AS at\n"),
        ([], None, "SELECT timestamp AS at\n"),
    ],
)
def test_the_file_is_a_pipeline(values: list[object], fields: str | None, selected: str) -> None:
    text = first_file("my orders", "my-orders", "h:1", [json.dumps(v).encode() for v in values])
    pipeline = parse_pipeline(text, "x.toml")
    (source,) = pipeline.sources
    assert isinstance(source, TopicSource)
    assert (pipeline.name, source.name, source.topic) == ("my-orders", "my_orders", "my-orders")
    assert (source.fields and source.fields.strip()) == fields
    assert (pipeline.on_error == "dlq") == (fields is not None)
    assert selected in (pipeline.steps[0].sql or "")


def test_types_of_fields() -> None:
    values = [
        b'{"a": null, "b": true, "c": [1, 2.5], "d": {"x": 1}, "day": "2026-01-01", "e f": "x"}',
        b'{"a": "x", "b": 1, "big": 99999999999999999999, "empty": {}, "none": null}',
        b"not json",
        b"[1]",
    ]
    assert fields_of(values) == {
        "a": "STRING",
        "b": "STRING",
        "c": "ARRAY<DOUBLE>",
        "d": "STRUCT<x: BIGINT>",
        "day": "DATE",
        "e f": "STRING",
        "big": "DOUBLE",
        "empty": "MAP<STRING, STRING>",
        "none": "STRING",
    }


def test_a_column_that_is_text_for_a_few_values_says_so() -> None:
    good = [json.dumps({"n": number, "f": 1.5, "at": "2026-01-01"}).encode() for number in range(6)]
    bad = [
        b'{"n": "x", "f": 1}',
        b'{"n": "y"}',
        b'{"n": 1.5, "at": "soon"}',
        b'{"N": "other case"}',
    ]
    said = [
        "n is STRING: of 9 values 6 are BIGINT, 2 STRING and 1 DOUBLE",
        "at is STRING: of 7 values 6 are DATE, 1 STRING",
    ]
    assert mixed_fields([*good, *bad]) == said
    text = first_file("p", "orders", "h:1", [*good, *bad])
    assert all(f"# {each}.\n" in text for each in said)
    assert parse_pipeline(text, "x.toml").topics[0].fields
    assert mixed_fields([*good, b'{"n": null}']) == []
    assert mixed_fields([b'{"a\\nb": 1}', b'{"a\\nb": 2}', b'{"a\\nb": "x"}']) == [
        '"a\\nb" is STRING: of 3 values 2 are BIGINT, 1 STRING'
    ]


def test_names_of_relations() -> None:
    assert [relation_name(t) for t in ("orders", "a.b-c", "2026-orders", "--")] == [
        "orders",
        "a_b_c",
        "t_2026_orders",
        "records",
    ]
