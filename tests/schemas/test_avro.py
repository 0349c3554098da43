"""Avro schemas: the answers of Apache's library, kept in tests/golden/schemas/avro.json
(test_avro_peer.py makes it)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from each import for_each
from schemas.avro_pairs import PAIRS, Pair, asked

from pk.core.schemas.avro.fingerprint import crc_64
from pk.core.schemas.languages import Parsed, differences, parse
from pk.core.schemas.schema import Resolved, Schema, SchemaError

GOLDEN = Path(__file__).parents[1] / "golden" / "schemas" / "avro.json"


def answers(pair: Pair) -> dict[str, Any]:
    """What we say of a pair, as the Java program says it."""
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
