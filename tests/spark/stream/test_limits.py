"""The sizes of a stream's batches: the shares of the partitions, and waiting for more."""

from hypothesis import given
from hypothesis import strategies as st

from pk.core.values import TopicPartition
from pk.spark.read.options import BatchLimits
from pk.spark.stream.limits import Delay, proportional_ends

A, B, C = (TopicPartition("t", n) for n in range(3))


def test_each_partition_has_its_share_and_a_small_one_moves_on() -> None:
    begin, end = {A: 0, B: 100, C: 5}, {A: 9_000, B: 1_100, C: 6}
    assert proportional_ends(100, begin, end) == {A: 89, B: 109, C: 6}
    assert proportional_ends(20_000, begin, end) == end
    assert proportional_ends(10, {A: 5}, {A: 5, B: 20}) == {A: 5, B: 10}, (
        "a new partition begins at 0"
    )


@given(
    limit=st.integers(1, 500),
    sizes=st.lists(st.tuples(st.integers(0, 10**6), st.integers(-50, 5_000)), min_size=1),
)
def test_a_batch_moves_on_and_never_beyond_the_end(
    limit: int, sizes: list[tuple[int, int]]
) -> None:
    begin = {TopicPartition("t", n): at for n, (at, _) in enumerate(sizes)}
    end = {TopicPartition("t", n): max(at + size, 0) for n, (at, size) in enumerate(sizes)}
    found = proportional_ends(limit, begin, end)
    assert set(found) == set(end)
    assert all(found[tp] <= end[tp] for tp in end)
    assert all(found[tp] > begin[tp] for tp in end if end[tp] > begin[tp])
    taken = sum(max(found[tp] - begin[tp], 0) for tp in end)
    assert taken <= limit + len(end)


def test_a_batch_waits_for_enough_but_not_for_ever() -> None:
    delay = Delay(BatchLimits(offsets_min=10, delay_max_ms=1_000))
    assert not delay.waits(1, 50_000), "the first batch comes at once"
    assert delay.waits(9, 50_500)
    assert not delay.waits(10, 50_600)
    assert delay.waits(1, 51_599)
    assert not delay.waits(1, 51_600)
