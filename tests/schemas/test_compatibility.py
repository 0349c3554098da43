"""Every pair of the tables, and the seven levels."""

from __future__ import annotations

import json
from typing import Any

import pytest
from each import for_each
from schemas import avro_pairs, json_pairs, protobuf_pairs
from schemas.test_avro import GOLDEN

from pk.core.schemas.compatibility import LEVELS, check
from pk.core.schemas.languages import Parsed, differences, parse
from pk.core.schemas.schema import JSON, PROTOBUF, Resolved, Schema


def parsed(text: str, kind: str = "AVRO") -> Parsed:
    """A schema without references."""
    return parse(Resolved(Schema(text, kind)))


def broken(old: Parsed, new: Parsed) -> list[str]:
    """The rules that a reader with the new schema finds broken."""
    return [each.kind for each in differences(new, old)]


@for_each("pair", json_pairs.PAIRS, ids=lambda pair: pair[0])
def test_json_schemas(pair: tuple[str, Any, Any, str]) -> None:
    _, old, new, rule = pair
    found = broken(parsed(json.dumps(old), JSON), parsed(json.dumps(new), JSON))
    assert rule in found if rule else not found


@for_each("pair", protobuf_pairs.PAIRS, ids=lambda pair: pair[0])
def test_protobuf_schemas(pair: tuple[str, str, str, str]) -> None:
    _, old, new, rule = pair
    found = broken(parsed(old, PROTOBUF), parsed(new, PROTOBUF))
    assert rule in found if rule else not found


def test_the_tables_are_large() -> None:
    tables = (avro_pairs.PAIRS, json_pairs.PAIRS, protobuf_pairs.PAIRS)
    assert sum(map(len, tables)) >= 200
    for table in tables:
        assert len({pair[0] for pair in table}) == len(table)


A = parsed('{"type": "record", "name": "R", "fields": []}')
B = parsed('{"type": "record", "name": "R", "fields": [{"name": "b", "type": "int"}]}')
"""Without a default: what B wrote, A reads; not the other way round."""

C = parsed(
    '{"type": "record", "name": "R", "fields": [{"name": "b", "type": "int", "default": 0}]}'
)


@pytest.mark.parametrize(
    ("older", "new", "allowed"),
    [
        ([], B, set(LEVELS)),
        ([A], C, set(LEVELS)),
        ([A], B, {"NONE", "FORWARD", "FORWARD_TRANSITIVE"}),
        ([B], A, {"NONE", "BACKWARD", "BACKWARD_TRANSITIVE"}),
        ([A, C], B, {"NONE", "BACKWARD", "FORWARD", "FORWARD_TRANSITIVE", "FULL"}),
        ([B, C], A, {"NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FULL"}),
    ],
)
def test_each_level_asks_what_it_promises(
    older: list[Parsed], new: Parsed, allowed: set[str]
) -> None:
    found = {level for level in LEVELS if check(level, new, older, differences).compatible}
    assert found == allowed


def at_each_level(backward: bool, forward: bool) -> set[str]:
    """The levels that allow a pair, by which of its schemas reads what the other wrote."""
    found = {"NONE"}
    for level, allowed in (
        ("BACKWARD", backward),
        ("FORWARD", forward),
        ("FULL", backward and forward),
    ):
        if allowed:
            found |= {level, f"{level}_TRANSITIVE"}
    return found


def allowing(old: Parsed, new: Parsed) -> set[str]:
    """The levels at which the new schema may follow the old one."""
    return {level for level in LEVELS if check(level, new, [old], differences).compatible}


def test_every_pair_at_every_level() -> None:
    """For Avro, Apache's library gives both directions; for other formats, the table gives one."""
    golden = json.loads(GOLDEN.read_text())
    count = 0
    for pair in avro_pairs.PAIRS:
        said = golden[pair[0]]
        if "backward" not in said:
            continue  # one of them is no schema
        texts = avro_pairs.asked(pair)
        expected = at_each_level(not said["backward"], not said["forward"])
        assert allowing(parsed(texts["old"]), parsed(texts["new"])) == expected, pair[0]
        count += 1
    others = [(n, json.dumps(o), json.dumps(w), r, JSON) for n, o, w, r in json_pairs.PAIRS]
    others += [(*pair, PROTOBUF) for pair in protobuf_pairs.PAIRS]
    for name, old_text, new_text, rule, kind in others:
        old, new = parsed(old_text, kind), parsed(new_text, kind)
        expected = at_each_level(not rule, not broken(new, old))
        assert allowing(old, new) == expected, name
        count += 1
    assert count >= 200


def test_another_language_is_not_compatible() -> None:
    assert broken(A, parsed('{"type": "object"}', JSON)) == ["TYPE_CHANGED"]


def test_a_schema_that_refers_to_itself_twice_at_each_level_is_compared_quickly() -> None:
    """Each pair is compared once: without it this takes 2 to the power of 60 steps."""
    definitions: dict[str, Any] = {"d0": {"type": "string"}}
    for n in range(1, 60):
        each = {"$ref": f"#/definitions/d{n - 1}"}
        definitions[f"d{n}"] = {"type": "object", "properties": {"a": each, "b": each}}
    old = {"definitions": definitions, "$ref": "#/definitions/d59"}
    new = {"definitions": definitions | {"d0": {"type": "integer"}}, "$ref": "#/definitions/d59"}
    found = broken(parsed(json.dumps(old), JSON), parsed(json.dumps(new), JSON))
    assert set(found) == {"TYPE_CHANGED"}
