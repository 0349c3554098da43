"""The file that `pk pipeline init` writes, and the fields that it finds."""

from __future__ import annotations

import json

import pytest

from pk.spark.pipeline.definition import TopicSource, parse_pipeline
from pk.spark.pipeline.first_file import fields_of, first_file, relation_name


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


def test_names_of_relations() -> None:
    assert [relation_name(t) for t in ("orders", "a.b-c", "2026-orders", "--")] == [
        "orders",
        "a_b_c",
        "t_2026_orders",
        "records",
    ]
