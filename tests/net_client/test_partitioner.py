"""Partitioners: a key goes where Java sends it; records without keys fill batches and spread."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pk.core.murmur2 import murmur2
from pk.net.client.partitioner import KeyCache, Sticky, partition_for_key, round_robin

theirs = pytest.importorskip("kafka.partitioner.default")


@pytest.mark.parametrize(
    ("data", "java"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_as_in_kafkas_own_test(data: bytes, java: int) -> None:
    assert murmur2(data) == java & 0xFFFFFFFF


@given(st.binary(max_size=40))
def test_murmur2_as_kafka_python_has_it(data: bytes) -> None:
    assert murmur2(data) == theirs.murmur2(data) & 0xFFFFFFFF


def test_a_key_cache_agrees_and_stays_bounded() -> None:
    cache = KeyCache(7)
    keys = [b"%d" % i for i in range(70_000)]
    assert all(cache[key] == partition_for_key(key, 7) for key in keys)
    assert len(cache) <= 65_536


def test_round_robin_deals_out_in_turn() -> None:
    choose = round_robin()
    dealt = [choose("t", b"same", b"", 3) for _ in range(6)]
    assert sorted(dealt[:3]) == [0, 1, 2]
    assert dealt[3:] == dealt[:3]


def test_sticky_stays_until_a_batch_is_full() -> None:
    sticky = Sticky(100)
    assert sticky.due(4)
    sticky.choose([1, 3], None)
    chosen = sticky.partition
    assert chosen in (1, 3)
    sticky.add(60)
    assert not sticky.due(4)
    sticky.add(60)
    assert sticky.due(4)
    assert sticky.due(chosen)  # the topic shrank: it was deleted and made again


def test_adaptive_sticky_prefers_short_queues() -> None:
    random.seed(1)
    sticky = Sticky(1)
    chosen: Counter[int] = Counter()
    for _ in range(3000):
        sticky.choose([0, 1, 2], [9, 0, 0])
        chosen[sticky.partition] += 1
    assert chosen[0] < chosen[1] / 5
    assert chosen[1] > 1000
