"""Avro schemas: the answers of Apache's library, kept in tests/golden/schemas/avro.json
(test_avro_peer.py makes it)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from each import for_each
from schemas.avro_pairs import PAIRS, Pair, asked

from pk.core.schemas.avro.fingerprint import crc_64
from pk.core.schemas.avro.values import plain_writer, reader
from pk.core.schemas.languages import Parsed, differences, parse
from pk.core.schemas.schema import Resolved, Schema, SchemaError, UnfitValue

GOLDEN = Path(__file__).parents[1] / "golden" / "schemas" / "avro.json"


def answers(pair: Pair) -> dict[str, Any]:
    """pk's answers for a pair, in the form of the Java program."""
    found: dict[str, Any] = {}
    parsed: dict[str, Parsed] = {}
    for name, text in asked(pair).items():
        try:
            parsed[name] = parse(Resolved(Schema(text)))
        except SchemaError:
            found[name] = None
        else:
            found[name] = parsed[name].text
            found[f"{name}_fingerprint"] = f"{crc_64(parsed[name].text):x}"
    if len(parsed) == 2:
        old, new = parsed["old"], parsed["new"]
        found["backward"] = [each.kind for each in differences(new, old)]
        found["forward"] = [each.kind for each in differences(old, new)]
    return found


@for_each("pair", PAIRS, ids=lambda pair: pair[0])
def test_each_pair_is_judged_as_by_apaches_library(pair: Pair) -> None:
    assert answers(pair) == json.loads(GOLDEN.read_text())[pair[0]]


def test_a_value_that_another_schema_cannot_read_does_not_fit() -> None:
    written, wanted = '"long"', '"int"'
    data = plain_writer(written)(7)
    assert reader(written)(data) == 7
    with pytest.raises(UnfitValue, match="does not read what another wrote: .*long is not int"):
        reader(written, (), (wanted, ()))(data)
