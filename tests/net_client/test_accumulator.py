"""Batches, their order and the memory they take."""

from collections.abc import Sequence

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from net_client.support import trio_test

from pk.core.record.batch import SEQUENCES, read_header, records
from pk.core.record.compress import Codec
from pk.core.record.validation import validate_records
from pk.core.values import TopicPartition
from pk.net.client.accumulator import Accumulator, Batch, Pair, PartitionQueue
from pk.net.client.delivery import Deliveries
from pk.net.client.errors import Closed
from pk.net.client.producer import record_size

TP = TopicPartition("t", 0)


def new_batch(bytes_max: int = 1 << 20, codec: Codec = Codec.NONE) -> Batch:
    return Batch(TP, 0.0, 0, codec, None, bytes_max)


def contents(batch: Batch) -> list[tuple[bytes | None, bytes | None]]:
    assert batch.built is not None
    validate_records(batch.built, read_header(batch.built))
    return [(record.key, record.value) for record in records(batch.built)]


nullable = st.none() | st.binary(max_size=200)


@given(st.lists(st.tuples(nullable, nullable), min_size=1, max_size=50))
def test_the_bulk_path_makes_the_batch_that_appending_makes(pairs: list[Pair]) -> None:
    bulk, single = new_batch(), new_batch()
    assert bulk.extend_pairs(1000, pairs, 0) == len(pairs)
    for key, value in pairs:
        assert single.append(1000, key, value)
    bulk.seal()
    single.seal()
    assert bulk.built == single.built
    assert contents(bulk) == pairs


@given(st.lists(st.binary(max_size=60), min_size=1, max_size=80), st.integers(70, 400))
def test_the_bulk_path_fills_batches_within_their_bound(values: list[bytes], limit: int) -> None:
    pairs: Sequence[Pair] = [(None, value) for value in values]
    start, found = 0, []
    while start < len(pairs):
        batch = new_batch(limit)
        end = batch.extend_pairs(0, pairs, start)
        assert end > start
        assert batch.size_estimate <= limit or end == start + 1
        batch.seal()
        found += [value for _, value in contents(batch)]
        start = end
    assert found == values


def test_a_stamp_is_what_the_broker_reads() -> None:
    batch = new_batch(codec=Codec.LZ4)
    batch.extend_pairs(5, [(None, b"x")] * 3, 0)
    batch.seal()
    assert batch.built is not None
    for producer_id, epoch, sequence in ((2**40, 3, 17), (7, 32_767, SEQUENCES - 2)):
        batch.stamp(producer_id, epoch, sequence)
        header = read_header(batch.built)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (
            producer_id,
            epoch,
            sequence,
        )
        assert len(contents(batch)) == 3
    assert batch.last_sequence == 0  # wrapped


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_splitting_keeps_records_order_and_sequences(codec: Codec) -> None:
    batch = new_batch(codec=codec)
    for number in range(5):
        batch.append(100 + number, b"k", b"%d" % number, [("h", b"%d" % number), ("n", None)])
    batch.seal()
    batch.stamp(9, 1, SEQUENCES - 1)
    before = list(records(batch.built or b""))
    first, second = batch.split()
    assert (first.base_sequence, second.base_sequence) == (SEQUENCES - 1, 1)
    after = [*records(first.built or b""), *records(second.built or b"")]
    assert [r[1:] for r in after] == [r[1:] for r in before]
    assert (first.count, second.count) == (2, 3)


def test_a_batch_goes_back_before_its_successors() -> None:
    queue = PartitionQueue(TP)
    batches = []
    for number in range(4):
        batch = new_batch()
        batch.append(0, None, b"%d" % number)
        batch.seal()
        batch.stamp(1, 0, (SEQUENCES - 2 + number) % SEQUENCES)
        batches.append(batch)
    fresh = new_batch()
    queue.batches.append(fresh)
    for index in (2, 0, 3, 1):
        queue.put_back(batches[index])
    assert list(queue.batches) == [*batches, fresh]
    queue.in_flight.append(queue.batches.popleft())
    assert queue.earlier_in_flight(batches[1])
    assert not queue.earlier_in_flight(batches[0])


def test_memory_is_counted_and_freed() -> None:
    async def main() -> None:
        accumulator = Accumulator(batch_bytes=200, memory_bytes=300, codec=Codec.NONE, level=None)
        queue = accumulator.queue(TP)
        batch, new = accumulator.open_batch(queue)
        assert new
        before = batch.size_estimate
        batch.append(0, None, b"x" * 200)
        accumulator.used_bytes += batch.size_estimate - before
        assert not accumulator.has_room(100)
        woken = trio.Event()

        async def wait() -> None:
            await accumulator.wait_for_room(100)
            woken.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            assert not woken.is_set()
            batch.seal()
            accumulator.settle(batch, error=None, base_offset=3)
            with trio.fail_after(60):
                await woken.wait()
        assert accumulator.used_bytes == 0

    trio.run(main)


def test_the_size_of_a_record_counts_bytes_of_header_names() -> None:
    """A name of 1,000 letters with two bytes each takes 2,000 bytes in the batch."""
    headers = (("ü" * 1_000, b"x"),)
    batch = new_batch()
    assert batch.append(0, None, None, headers)
    batch.seal()
    assert batch.built is not None
    assert len(batch.built) <= record_size(None, None, headers)


@trio_test
async def test_each_wait_raises_an_error_of_its_own() -> None:
    """A raised exception collects frames, so two tasks must not share one."""
    batch = new_batch()
    batch.append(0, None, b"x", ())
    deliveries = Deliveries()
    deliveries.add(batch, 0, 1)
    batch.error = Closed("the producer was closed")
    batch.settled.set()
    raised = []
    for _ in range(2):
        with pytest.raises(Closed) as caught:
            await deliveries.wait()
        raised.append(caught.value)
    assert raised[0] is not raised[1]
