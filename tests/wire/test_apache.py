"""Byte for byte what Apache Kafka's generated classes write: every message, every version of 4.3.1.

The everyday run compares with the golden file (see `apache.py`); where java and mvn are, random
values are compared with the classes themselves.
"""

import json
from functools import cache

import pytest
from clients.apache_kafka import available
from each import for_each
from wire.apache import GOLDEN, OWN, Case, apache_versions, ask, json_fields
from wire.values import Maker, all_messages

from pk.core.wire.codec import decode_whole, encode

CLASSES = {cls.__name__: cls for cls in all_messages() if cls.__name__ not in OWN}
VALUES_EACH = 8


@cache
def golden() -> dict[str, list[tuple[int, dict[str, object], bytes]]]:
    """The golden file's cases, by message."""
    found: dict[str, list[tuple[int, dict[str, object], bytes]]] = {}
    for line in GOLDEN.read_text().splitlines():
        name, version, fields, hexed = json.loads(line)
        found.setdefault(name, []).append((version, fields, bytes.fromhex(hexed)))
    return found


def test_golden_file_has_every_message_in_every_version() -> None:
    found = {(name, line[0]) for name, lines in golden().items() for line in lines}
    assert found == {(n, v) for n, cls in CLASSES.items() for v in apache_versions(cls)}


@for_each("name", CLASSES)
def test_golden_bytes(name: str) -> None:
    """Apache's bytes decode to the fields they were made from, and encode to the same bytes."""
    for version, fields, data in golden()[name]:
        message = decode_whole(CLASSES[name], data, version)
        assert json_fields(message, version) == fields
        assert encode(message, version) == data


@pytest.mark.peer
def test_random_values_are_encoded_as_apache_does() -> None:
    if reason := available():
        pytest.skip(reason)
    cases = [
        Case(Maker(seed * 1000 + version).message(cls, version) if seed else cls(), version)
        for cls in CLASSES.values()
        for version in apache_versions(cls)
        for seed in range(VALUES_EACH)
    ]
    wrong = []
    for (message, version), answer in zip(cases, ask(cases), strict=True):
        if encode(message, version).hex() != answer:
            wrong.append(f"{type(message).__name__} version {version}: {answer[:300]}")
    assert not wrong, f"{len(wrong)} of {len(cases)} differ:\n" + "\n".join(wrong[:20])
