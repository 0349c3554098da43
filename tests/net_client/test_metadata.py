"""The metadata cache: leaders only move forward, topics made again are others."""

from __future__ import annotations

import pytest

from pk.core.values import TopicPartition
from pk.core.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pk.net.client.cluster import Backoff, parse_bootstrap
from pk.net.client.errors import ConfigError
from pk.net.client.metadata import Metadata

TP = TopicPartition("t", 0)
ONE, TWO = bytes(15) + b"\1", bytes(15) + b"\2"


def answer(leader: int, epoch: int, topic_id: bytes = ONE) -> MetadataResponse:
    return MetadataResponse(
        cluster_id="c",
        controller_id=1,
        brokers=[MetadataResponseBroker(node_id=n, host="h", port=9000 + n) for n in (1, 2, 3)],
        topics=[
            MetadataResponseTopic(
                name="t",
                topic_id=topic_id,
                partitions=[
                    MetadataResponsePartition(
                        leader_id=leader, leader_epoch=epoch, replica_nodes=[1, 2], isr_nodes=[1]
                    )
                ],
            )
        ],
    )


def test_a_leader_of_the_past_is_not_believed() -> None:
    metadata = Metadata()
    metadata.apply(answer(1, 5), 0.0, all_topics=False)
    assert metadata.leader(TP) == (1, 5)
    metadata.apply(answer(2, 4), 1.0, all_topics=False)
    assert metadata.leader(TP) == (1, 5)
    metadata.apply(answer(2, 6), 2.0, all_topics=False)
    assert metadata.leader(TP) == (2, 6)
    metadata.apply(answer(3, 0, TWO), 3.0, all_topics=False)  # deleted, made again
    assert metadata.leader(TP) == (3, 0)
    assert metadata.names == {TWO: "t"}


def test_leaders_named_by_other_answers() -> None:
    metadata = Metadata()
    metadata.apply(answer(1, 5), 0.0, all_topics=False)
    assert not metadata.note_leader(TP, 2, 5)
    assert not metadata.note_leader(TP, 9, 6)  # a broker we do not know
    assert metadata.note_leader(TP, 2, 6)
    assert metadata.leader(TP) == (2, 6)
    assert not metadata.note_leader(TopicPartition("t", 4), 2, 7)


def test_what_an_answer_for_all_topics_does_not_name_is_gone() -> None:
    metadata = Metadata()
    metadata.apply(answer(1, 5), 0.0, all_topics=True)
    metadata.apply(MetadataResponse(), 1.0, all_topics=False)
    assert metadata.leader(TP) == (1, 5)
    metadata.apply(MetadataResponse(), 2.0, all_topics=True)
    assert metadata.leader(TP) == (-1, -1)
    assert metadata.names == {}


def test_backoff_doubles_to_its_bound() -> None:
    backoff = Backoff(100, 1000)
    waits = [backoff.next_ms() for _ in range(8)]
    assert all(0.8 * low <= w <= 1.2 * low for w, low in zip(waits, (100, 200, 400), strict=False))
    assert all(800 <= wait <= 1200 for wait in waits[4:])
    backoff.reset()
    assert backoff.next_ms() <= 120


def test_addresses() -> None:
    nodes = parse_bootstrap("one:9092, [::1]:9093,two:1")
    assert [(n.host, n.port) for n in nodes] == [("one", 9092), ("::1", 9093), ("two", 1)]
    assert nodes[1].address == "[::1]:9093"
    for wrong in ("", "host", "host:", ":9092", "host:port", "::1:9092", "h:0", "h:65536", []):
        with pytest.raises(ConfigError):
            parse_bootstrap(wrong)
