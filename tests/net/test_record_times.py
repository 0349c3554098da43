"""How `Admin.record_times` reads what a Fetch brings: holes that compaction left, markers, batches
cut off, many places."""

import struct
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import trio
from hypothesis import given
from hypothesis import strategies as st

from pk.core.errors import ErrorCode, KafkaError
from pk.core.record.build import build_batch, end_transaction_batch
from pk.core.values import TopicPartition
from pk.net.client.admin_operations.records import _Search

TP = TopicPartition("t", 0)
_LAST_OFFSET_DELTA_AT = 23


def batch(base: int, times: Iterable[int], span: int = 0) -> bytes:
    """A batch of records at `base`, `base` + 1, …; with `span` it once had this many, and
    compaction removed the last ones."""
    data = build_batch([(time, None, b"v", ()) for time in times], base)
    if span:
        struct.pack_into(">i", data, _LAST_OFFSET_DELTA_AT, span - 1)
    return bytes(data)


def marker_at(offset: int) -> bytes:
    """The end of a transaction."""
    return bytes(end_transaction_batch(True, 0, 1, 0, 999, base_offset=offset))


class Log:
    """A connection to a leader of one partition: answers Fetch as a broker does, a batch at a time
    if `cut`."""

    def __init__(self, batches: list[tuple[int, int, bytes]], end: int, *, start: int = 0) -> None:
        self.batches = batches
        """(first offset, offset after it, bytes)"""

        self.start, self.end = start, end
        self.cut = False
        self.asked: list[int] = []

    async def request(self, request: Any, **_: Any) -> Any:
        await trio.lowlevel.checkpoint()
        (topic,) = request.topics
        (wanted,) = topic.partitions
        offset = wanted.fetch_offset
        self.asked.append(offset)
        error = 0 if self.start <= offset <= self.end else ErrorCode.OFFSET_OUT_OF_RANGE
        found = b"" if error else self._from(offset)
        data = SimpleNamespace(
            partition_index=0,
            error_code=int(error),
            high_watermark=self.end,
            records=memoryview(found),
        )
        return SimpleNamespace(
            error_code=0, responses=[SimpleNamespace(topic="t", partitions=[data])]
        )

    def _from(self, offset: int) -> bytes:
        left = [data for _, after, data in self.batches if after > offset]
        if not self.cut:
            return b"".join(left)
        # The first batch whole, and a piece of the next one, as a limit of bytes leaves it.
        return left[0] + left[1][:30] if len(left) > 1 else b"".join(left)


def search(log: Log, offsets: Iterable[int], within_ms: int = 0) -> dict[int, Any]:
    connection: Any = log
    found = trio.run(_Search(connection, [(TP, o) for o in offsets], within_ms).run)
    return {offset: answer for (_, offset), answer in (found.ok | found.errors).items()}


def test_a_hole_is_answered_by_the_record_behind_it() -> None:
    # 0–4 are left of a batch of ten; 10–11 follow.
    batches = [(0, 10, batch(0, range(100, 105), 10)), (10, 12, batch(10, (200, 201)))]
    for cut in (False, True):
        log = Log(batches, 12)
        log.cut = cut
        assert search(log, (3, 4, 5, 9, 10, 11)) == {
            3: 103,
            4: 104,
            5: 200,
            9: 200,
            10: 200,
            11: 201,
        }
        assert search(log, (7,)) == {7: 200}


def test_a_hole_at_the_end_has_nothing_behind_it() -> None:
    log = Log([(0, 10, batch(0, range(100, 105), 10))], 10)
    assert search(log, (4, 5, 9)) == {4: 104, 5: None, 9: None}


def test_a_marker_is_no_record() -> None:
    marker = marker_at(1)
    log = Log([(0, 1, batch(0, (100,))), (1, 2, marker), (2, 3, batch(2, (300,)))], 3)
    assert search(log, (0, 1, 2)) == {0: 100, 1: 300, 2: 300}
    assert search(Log(log.batches[:2], 2), (1,)) == {1: None}


def test_places_outside_the_log() -> None:
    log = Log([(5, 7, batch(5, (100, 101)))], 7, start=5)
    found = search(log, (2, 6, 7, 9))
    assert (found[6], found[7]) == (101, None)
    for offset in (2, 9):
        assert isinstance(found[offset], KafkaError)
        assert found[offset].code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_places_close_together_take_one_fetch() -> None:
    log = Log([(0, 1000, batch(0, range(1000)))], 1000)
    assert search(log, range(0, 1000, 7)) == {o: o for o in range(0, 1000, 7)}
    assert log.asked == [0]


@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.integers(0, 3), st.booleans()), min_size=1, max_size=8
    ),
    st.booleans(),
    st.data(),
)
def test_every_offset_has_the_time_of_the_first_record_from_it_on(
    shape: list[tuple[int, int, bool]], cut: bool, data: st.DataObject
) -> None:
    """Logs of batches with these numbers of records and of records removed after them, and some
    markers."""
    batches: list[tuple[int, int, bytes]] = []
    times: dict[int, int] = {}
    at = 0
    for records, hole, marked in shape:
        held = {at + i: 1000 + (at + i) * 10 for i in range(records)}
        times |= held
        batches.append((at, at + records + hole, batch(at, held.values(), records + hole)))
        at += records + hole
        if marked:
            batches.append((at, at + 1, marker_at(at)))
            at += 1
    log = Log(batches, at)
    log.cut = cut
    wanted = data.draw(st.sets(st.integers(0, at), min_size=1))
    expected = {o: next((t for at_, t in times.items() if at_ >= o), None) for o in wanted}
    assert search(log, wanted) == expected
