"""Versions that Apache Kafka 4 serves no longer, byte for byte as kafka-python 2.0.6 writes them.

Produce 0 to 2, Fetch 0 to 3, ListOffsets 0 and the like: what clients of 0.9 and 0.10 speak. The
everyday run compares with the golden file (see `old_versions.py`), the slow one with the library
itself.
"""

import json

import pytest
from each import for_each
from wire.old_versions import GOLDEN, OTHERS, VERSION, ask, by_place, dropped, fetch
from wire.values import Maker, all_messages

from pk.core.wire.codec import decode_whole, encode
from pk.core.wire.index import MESSAGES
from pk.core.wire.schema import Message

LINES = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
CLASSES = {cls.__name__: cls for cls in all_messages()}
VALUES_EACH = 20


def test_every_api_with_versions_that_apache_dropped_is_compared() -> None:
    assert {MESSAGES[cls.API_KEY].name for cls, _ in dropped()} == set(OTHERS)
    assert {(name, version) for name, version, _, _ in LINES} == {
        (cls.__name__, version) for cls, version in dropped()
    }


@for_each("line", LINES, ids=lambda line: f"{line[0]}-{line[1]}")
def test_golden_bytes(line: tuple[str, int, list[object], str]) -> None:
    name, version, values, hexed = line
    message = decode_whole(CLASSES[name], bytes.fromhex(hexed), version)
    assert by_place(message, version) == values
    assert encode(message, version).hex() == hexed


@pytest.mark.slow
def test_same_bytes_as_the_old_library() -> None:
    try:
        library = fetch()
    except RuntimeError as e:
        pytest.skip(f"no kafka-python {VERSION}: {e}")
    cases: list[tuple[Message, int]] = [
        (Maker(1000 * seed + version).message(cls, version), version)
        for cls, version in dropped()
        for seed in range(VALUES_EACH)
    ]
    wrong = [
        f"{type(message).__name__} version {version}: {message}\n{answer}"
        for (message, version), answer in zip(cases, ask(library, cases), strict=True)
        if encode(message, version).hex() != answer
    ]
    assert not wrong, f"{len(wrong)} of {len(cases)} differ:\n" + "\n".join(wrong[:10])
