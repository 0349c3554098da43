"""A consumer's handling of fetched data: order, holes, transactions, corruption."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pk.core.errors import KafkaError
from pk.core.record.batch import assign, write_crc
from pk.core.record.build import build_batch, end_transaction_batch
from pk.core.record.compress import Codec
from pk.core.values import TopicPartition
from pk.net.client.subscription import Chunk, ConsumerRecord, PartitionState

TP = TopicPartition("t", 3)
_SETS = Path(__file__).resolve().parents[1] / "golden" / "message_sets.jsonl"
GOLDEN: list[tuple[int, int, str]] = [
    (magic, codec, data) for magic, codec, data in map(json.loads, _SETS.read_text().splitlines())
]
"""Magic, codec, and a message set in hex, by kafka-python 2.0.6 (tests/record/test_legacy.py)."""


def batch(first: int, count: int, *, producer_id: int = -1, codec: Codec = Codec.NONE) -> bytes:
    """Records valued by their offsets."""
    made = build_batch(
        [(1000 + n, None, b"%d" % n, ()) for n in range(first, first + count)],
        base_offset=first,
        leader_epoch=7,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=0 if producer_id >= 0 else -1,
        transactional=producer_id >= 0,
        codec=codec,
    )
    return bytes(made)


def marker(offset: int, producer_id: int, *, commit: bool) -> bytes:
    made = end_transaction_batch(commit, 0, producer_id, 0, 1000, base_offset=offset)
    return bytes(made)


def state(
    *chunks: bytes, position: int = 0, aborted: list[tuple[int, int]] | None = None
) -> PartitionState:
    made = PartitionState(TP)
    made.seek(position)
    for data in chunks:
        made.add(Chunk(TP, memoryview(data), aborted))
    return made


def take(from_: PartitionState, room: int = 1_000_000) -> list[int]:
    out: list[ConsumerRecord] = []
    from_.take_records(out, room, True)
    assert all(r.value == b"%d" % r.offset and r.timestamp == 1000 + r.offset for r in out)
    assert all((r.topic, r.partition, r.leader_epoch) == ("t", 3, 7) for r in out)
    return [r.offset for r in out]


@pytest.mark.parametrize("room", [1, 2, 3, 5, 1000])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_records_come_in_order_however_few_at_a_time(room: int, codec: Codec) -> None:
    first = batch(0, 4, codec=codec) + batch(4, 1, codec=codec)
    reading = state(first, batch(5, 6, codec=codec))
    assert reading.fetch_offset == 11
    got: list[int] = []
    while more := take(reading, room):
        assert len(more) <= room
        got += more
        assert reading.position == got[-1] + 1
    assert got == list(range(11))
    assert reading.buffered_bytes == 0
    assert (reading.position, reading.position_epoch) == (11, 7)


def test_a_fetch_may_begin_before_the_position_and_end_inside_a_batch() -> None:
    data = batch(0, 10) + batch(10, 10) + batch(20, 5)[:-3]
    reading = state(data, position=13)
    assert reading.fetch_offset == 20
    assert take(reading) == list(range(13, 20))


def test_holes_left_by_compaction_are_passed() -> None:
    hole = bytearray(batch(0, 3))
    hole[23:27] = (9).to_bytes(4, "big")  # the last offset delta: records 3 to 9 are gone
    from pk.core.record.batch import write_crc

    write_crc(hole)
    reading = state(bytes(hole), batch(10, 1))
    assert take(reading, 3) == [0, 1, 2]
    assert take(reading) == [10]
    assert reading.position == 11


def test_aborted_transactions_are_left_out_for_who_reads_committed() -> None:
    data = (
        batch(0, 2, producer_id=1)
        + batch(2, 2)
        + batch(4, 2, producer_id=2)
        + marker(6, 1, commit=False)
        + batch(7, 2, producer_id=1)
        + marker(9, 2, commit=True)
        + marker(10, 1, commit=True)
    )
    assert take(state(data)) == [0, 1, 2, 3, 4, 5, 7, 8]
    committed = state(data, aborted=[(0, 1)])
    assert take(committed) == [2, 3, 4, 5, 7, 8]
    assert committed.position == 11  # beyond the markers
    batches = state(data, aborted=[(0, 1)])
    offsets = []
    while taken := batches.take_batch(True):
        offsets.append(taken.header.base_offset)
    assert offsets == [2, 4, 7]
    assert batches.position == 11


def test_a_chunk_of_markers_alone_moves_the_position() -> None:
    reading = state(marker(0, 1, commit=True), batch(1, 1))
    assert take(reading) == [1]
    assert take(state(marker(0, 1, commit=True))) == []


def test_a_corrupt_batch_is_reported_at_its_place_and_again() -> None:
    broken = bytearray(batch(3, 3))
    broken[-1] ^= 1
    reading = state(batch(0, 3) + bytes(broken) + batch(6, 2))
    assert take(reading) == [0, 1, 2]
    for _ in range(2):
        with pytest.raises(KafkaError, match="CRC"):
            take(reading)
        assert reading.position == 3
    reading.seek(6)
    reading.add(Chunk(TP, memoryview(batch(6, 2)), None))
    assert take(reading) == [6, 7]


@pytest.mark.parametrize("damage", ["compression", "marker"])
def test_a_batch_that_cannot_be_decoded_is_not_passed_over(damage: str) -> None:
    """Its CRC is right: it was written so."""
    broken = bytearray(marker(3, 1, commit=False))
    if damage == "compression":
        broken = bytearray(batch(3, 3, codec=Codec.GZIP))
    broken[61] = 0x7E  # the magic bytes of gzip, or the length of the marker
    write_crc(broken)
    reading = state(batch(0, 3) + bytes(broken) + batch(6, 2), aborted=[(0, 1)])
    assert take(reading) == [0, 1, 2]
    for _ in range(2):
        with pytest.raises(KafkaError):
            take(reading)
        assert reading.position == 3


def test_a_batch_that_is_taken_whole_is_not_decoded() -> None:
    broken = bytearray(batch(0, 3, codec=Codec.GZIP))
    broken[61] = 0x7E
    write_crc(broken)
    taken = state(bytes(broken)).take_batch(True)
    assert taken is not None and taken.header.count == 3


def test_a_loop_takes_records_one_by_one_up_to_the_one_that_cannot_be_read() -> None:
    data = bytearray(batch(0, 3) + batch(3, 3))
    data[-3] = 0x7E  # the last record's value goes beyond the batch
    write_crc(data, len(batch(0, 3)))
    reading = state(bytes(data), position=1)

    def read() -> int | None:
        if (record := reading.take_record()) is not None:
            assert record.value == b"%d" % record.offset
            return record.offset
        return next(iter(take(reading, 1)), None)

    assert [read() for _ in range(2)] == [1, 2]
    assert (reading.position, reading.position_epoch) == (3, 7)
    assert [read() for _ in range(2)] == [3, 4]
    reading.paused = True
    assert reading.take_record() is None
    reading.paused = False
    for _ in range(2):
        with pytest.raises(KafkaError, match="record 2"):
            read()
        assert reading.position == 5


@pytest.mark.parametrize("line", GOLDEN, ids=lambda line: f"v{line[0]}-{line[1]}")
def test_messages_of_old_formats_are_records_too(line: tuple[int, int, str]) -> None:
    """kafka-python 2.0.6 wrote offsets 0 to 4; the other records were written after an upgrade."""
    magic, codec, made = line
    old = bytes.fromhex(made)
    if magic and codec:
        old = b"\0" * 7 + b"\4" + old[8:]  # the broker numbers the wrapper as the last within
    reading = state(old + batch(5, 2), position=1)
    assert reading.fetch_offset == 7
    out: list[ConsumerRecord] = []
    reading.take_records(out, 100, True)
    assert [r.offset for r in out] == [1, 2, 3, 4, 5, 6]
    times = [1_600_000_000_000, 0, 1_700_000_000_001, 1 << 45] if magic else [-1] * 4
    assert [r.timestamp for r in out] == [*times, 1005, 1006]
    assert [(r.key, r.value) for r in out[:3]] == [
        (None, b"no key"),
        (b"tombstone", None),
        (b"", b""),
    ]
    assert [r.leader_epoch for r in out] == [-1] * 4 + [7] * 2


def test_an_old_message_that_is_cut_off_or_corrupt_ends_what_can_be_read() -> None:
    old = next(bytes.fromhex(data) for magic, codec, data in GOLDEN if magic and not codec)
    for data in (old[:-1], old[:-1] + bytes((old[-1] ^ 1,))):
        assert take_offsets(state(data)) == [0, 1, 2, 3]
    broken = bytearray(old)
    broken[30] ^= 1
    with pytest.raises(KafkaError, match="CRC"):
        Chunk(TP, memoryview(broken), None)


def take_offsets(from_: PartitionState) -> list[int]:
    out: list[ConsumerRecord] = []
    from_.take_records(out, 100, True)
    return [r.offset for r in out]


def test_whole_batches_say_from_where_they_were_asked_for() -> None:
    reading = state(batch(0, 5) + batch(5, 5), position=2)
    assert take(reading, 1) == [2]
    rest = reading.take_batch(True)
    assert rest is not None
    assert (rest.header.base_offset, rest.start_offset) == (0, 3)
    following = reading.take_batch(True)
    assert following is not None
    assert (following.header.base_offset, following.start_offset) == (5, 5)
    assert reading.take_batch(True) is None
    assert reading.position == 10


def test_seeking_drops_what_is_buffered() -> None:
    reading = state(batch(0, 5))
    assert take(reading, 2) == [0, 1]
    version = reading.version
    reading.seek(40)
    assert reading.version != version
    assert (reading.buffered_bytes, take(reading), reading.position) == (0, [], 40)
    reading.seek_later(-2)
    assert not reading.has_position
    data = bytearray(batch(0, 1))
    assign(data, 0, 50, 7)
    assert Chunk(TP, memoryview(data), None).next_offset == 51
