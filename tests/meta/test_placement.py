"""Placement of replicas: leaders even, racks spread, followers mixed, fenced brokers last."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meta.world import cluster

from pk.core.errors import ErrorCode, KafkaError
from pk.core.meta.image import MetadataImage
from pk.core.meta.placement import place


def placed(image: MetadataImage, partitions: int, factor: int, seed: int = 1, first: int = 0):
    return place(image.brokers.values(), partitions, factor, Random(seed), first)


@settings(max_examples=examples(60))
@given(
    racks=st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=8),
    partitions=st.integers(1, 40),
    seed=st.integers(0, 1000),
    data=st.data(),
)
def test_replicas_are_spread(
    racks: list[str | None], partitions: int, seed: int, data: st.DataObject
) -> None:
    image = cluster(*racks)
    factor = data.draw(st.integers(1, len(racks)))
    replicas = placed(image, partitions, factor, seed)
    assert len(replicas) == partitions
    for nodes in replicas:
        assert len(set(nodes)) == len(nodes) == factor
        used = {racks[node - 1] for node in nodes}
        assert len(used) == min(factor, len(set(racks))), "as many racks as can be"
    leaders = Counter(nodes[0] for nodes in replicas)
    even = [leaders[node] for node in image.brokers]
    assert max(even) - min(even) <= 1, "leaders are even"


def test_followers_of_one_leader_are_all_the_others() -> None:
    replicas = placed(cluster(*[None] * 5), 100, 2)
    for leader in range(1, 6):
        others = {nodes[1] for nodes in replicas if nodes[0] == leader}
        assert others == {1, 2, 3, 4, 5} - {leader}


def test_racks_hold_even_shares() -> None:
    replicas = placed(cluster("a", "a", "b", "b", "c", "c"), 60, 3)
    counts = Counter(node for nodes in replicas for node in nodes)
    assert max(counts.values()) - min(counts.values()) <= 6


def test_chance_decides_where_it_begins() -> None:
    image = cluster(*[None] * 6)
    assert len({placed(image, 1, 1, seed)[0] for seed in range(30)}) == 6
    assert placed(image, 9, 2, 5) == placed(image, 9, 2, 5)


def test_later_partitions_go_on_where_the_first_ended() -> None:
    image = cluster(*[None] * 3)
    assert placed(image, 6, 2)[2:] == placed(image, 4, 2, first=2)


def test_a_fenced_broker_follows_where_it_must_and_never_leads() -> None:
    image = cluster(None, None, None, fenced=(2,))
    for seed in range(10):
        assert all(2 not in nodes for nodes in placed(image, 6, 2, seed))
        for nodes in placed(image, 6, 3, seed):
            assert nodes[2] == 2


def test_a_rack_with_nobody_alive_is_no_reason_to_wait_for_it() -> None:
    image = cluster("a", "a", "b", fenced=(3,))
    for seed in range(10):
        assert all(set(nodes) == {1, 2} for nodes in placed(image, 4, 2, seed))
        assert all(nodes[2] == 3 for nodes in placed(image, 4, 3, seed))


@pytest.mark.parametrize(
    "image, factor", [(cluster(None), 2), (cluster(), 1), (cluster(None, fenced=(1,)), 1)]
)
def test_too_few_brokers_are_an_error(image: MetadataImage, factor: int) -> None:
    with pytest.raises(KafkaError) as caught:
        placed(image, 1, factor)
    assert caught.value.code == ErrorCode.INVALID_REPLICATION_FACTOR
