"""A batch framed as the last one is accepted as `validate_inline` would, or not at all."""

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from record.strategies import Row, rows

from pk.core.api.records.produce_fast_path import last_record
from pk.core.api.records.produce_fast_path.last_record import (
    FRAMED_BYTES_MAX,
    Framing,
    LastRecord,
)
from pk.core.config import BrokerConfig, TopicConfig
from pk.core.errors import KafkaError
from pk.core.record.batch import HEADER_BYTES, BatchHeader, read_header
from pk.core.record.build import build_batch
from pk.core.record.compress import Codec
from pk.core.record.validation import ANY_TIME, read_one_batch, validate_inline

CONFIG = TopicConfig({}, BrokerConfig({}))
NOW_MS = 1_700_000_000_000


def note(last: LastRecord, batch: bytearray, config: TopicConfig = CONFIG) -> None:
    """`batch` passes, and is the client's last."""
    header = read_header(batch)
    assert validate_inline(memoryview(batch), header, config, ANY_TIME) is not None
    last.remember(memoryview(batch), header, config)


def known(batch: bytearray, config: TopicConfig = CONFIG) -> LastRecord:
    """A client that sent two batches framed like this one."""
    last = LastRecord()
    note(last, batch, config)
    note(last, batch, config)
    return last


def outcome(last: LastRecord, batch: bytearray, config: TopicConfig = CONFIG) -> object:
    """The result for a batch that begins a few bytes into the buffer, or None if it is not
    accepted."""
    buffer = bytearray(b"???") + batch
    view = memoryview(buffer)[3:]
    return last.validate(buffer, 3, view, read_header(view), config, ANY_TIME)


def one(key: bytes | None, value: bytes | None, timestamp_ms: int = NOW_MS) -> bytearray:
    return build_batch([(timestamp_ms, key, value, ())])


@settings(max_examples=examples(500))
@given(rows, st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=3))
def test_any_change_is_judged_as_by_validate_inline(
    row: Row, changes: list[tuple[int, int]]
) -> None:
    batch = build_batch([row])
    last = known(batch)
    for at, byte in changes:
        batch[at % len(batch)] = byte
    try:
        header = read_one_batch(memoryview(batch), CONFIG)
    except KafkaError:
        return
    found = outcome(last, batch)
    if found is not None:
        assert found == validate_inline(memoryview(batch), header, CONFIG, ANY_TIME)


@given(rows, st.binary(min_size=80, max_size=80))
def test_another_content_is_known(row: Row, content: bytes) -> None:
    timestamp_ms, key, value, headers = row
    last = known(build_batch([row]))
    key = key if key is None else content[: len(key)]
    value = value if value is None else content[-len(value) :] if value else b""
    other = build_batch([(timestamp_ms + 7, key, value, headers)])
    found = outcome(last, other)
    if headers:
        assert found is None
    else:
        assert found == validate_inline(memoryview(other), read_header(other), CONFIG, ANY_TIME)


@pytest.mark.parametrize(
    "other",
    [
        one(b"k", b"1234567"),
        one(b"ke", b"12345"),
        one(None, b"1234567"),
        build_batch([(NOW_MS, b"k", b"123456", ()), (NOW_MS, b"k", b"123456", ())]),
        build_batch([(NOW_MS, b"k", b"123456", ())], codec=Codec.GZIP),
    ],
    ids=["size", "key", "no key", "two records", "compressed"],
)
def test_what_differs_is_not_known(other: bytearray) -> None:
    last = known(one(b"k", b"123456"))
    assert outcome(last, one(b"K", b"654321")) is not None
    assert outcome(last, other) is None


def test_a_topic_with_another_config_looks_for_itself() -> None:
    """It may be compacted, and want keys."""
    last = known(one(None, b"1234"))
    compacted = TopicConfig({"cleanup.policy": "compact"}, BrokerConfig({}))
    assert outcome(last, one(None, b"1234"), compacted) is None


def test_nothing_is_known_where_the_topic_wants_another_codec() -> None:
    config = TopicConfig({"compression.type": "uncompressed"}, BrokerConfig({}))
    assert outcome(known(one(b"k", b"v"), config), one(b"k", b"v"), config) is None


def test_sizes_that_change_each_time_do_not_displace_what_is_known() -> None:
    last = known(one(b"k", b"1234"))
    for size in range(5, 20):
        note(last, one(b"k", b"v" * size))
    assert outcome(last, one(b"k", b"4321")) is not None


def test_a_large_record_is_looked_at_each_time() -> None:
    around = len(one(None, b"v" * 10_000)) - 10_000
    assert around > HEADER_BYTES
    largest, larger = (one(None, b"v" * (FRAMED_BYTES_MAX - around + n)) for n in (0, 1))
    assert outcome(known(largest), largest) is not None
    assert outcome(known(larger), larger) is None


def test_records_with_headers_are_looked_into_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    framing_of = last_record.framing_of

    def counted(batch: memoryview, header: BatchHeader) -> Framing | None:
        found = framing_of(batch, header)
        made.append(found)
        return found

    monkeypatch.setattr(last_record, "framing_of", counted)
    last = LastRecord()
    for n in range(5):
        note(last, build_batch([(NOW_MS, b"k", b"v", (("trace", b"%d" % n),))]))
    assert made == [None]
    for _ in range(2):
        note(last, one(b"k", b"v"))
    assert outcome(last, one(b"K", b"V")) is not None
