"""Topics of several replicas, and who leads them, as librdkafka's metadata tells."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import confluent_kafka
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from meta.test_against_kafka import Asking

from clients.fixtures import Kafka
from clients.topics import wait_until
from pk.core.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

ASKED_S = 10.0
IN_SYNC_S = 120.0


@functools.cache  # a client that nothing holds is destroyed with its requests in flight
def _admin(bootstrap: str) -> AdminClient:
    return AdminClient(
        {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 200, "log_level": 0}
    )


def create_replicated(
    bootstrap: str,
    name: str,
    partitions: int,
    *,
    replicas: int = 3,
    leader: int | None = None,
    config: Mapping[str, str] | None = None,
) -> None:
    """Create a topic with min.insync.replicas 2, and wait until it has leaders and all replicas are
    in sync.

    `leader` is to lead every partition; its replicas are on brokers 1 to `replicas` then.
    """
    keys = {"min.insync.replicas": "2"} | dict(config or {})
    topic: Any = NewTopic(name, partitions, replicas, config=keys)
    if leader is not None:
        order = [leader, *(n for n in range(1, replicas + 1) if n != leader)]
        topic = NewTopic(name, partitions, replica_assignment=[order] * partitions, config=keys)
    _admin(bootstrap).create_topics([topic])[name].result(60)
    wait_in_sync(bootstrap, name, partitions, replicas)


def partitions_of(bootstrap: str, topic: str) -> dict[int, Any] | None:
    """Partition → librdkafka's metadata of it (`leader`, `isrs`, …); None without an answer."""
    try:
        found = _admin(bootstrap).list_topics(topic, timeout=ASKED_S).topics[topic]
    except confluent_kafka.KafkaException:
        return None
    return dict(found.partitions) if found.error is None else None


def leader_of(bootstrap: str, topic: str, partition: int = 0) -> int:
    """The id of a partition's leader; waits until there is one."""

    def ask() -> int | None:
        found = partitions_of(bootstrap, topic)
        if not found or partition not in found or found[partition].leader < 1:
            return None
        return found[partition].leader

    return wait_until(f"a leader of {topic}-{partition}", ask)


def wait_in_sync(
    bootstrap: str, topic: str, partitions: int, replicas: int, timeout: float = IN_SYNC_S
) -> None:
    """Wait until every partition has a leader and this many replicas in sync."""

    def ask() -> bool:
        found = partitions_of(bootstrap, topic)
        return (
            found is not None
            and len(found) == partitions
            and all(p.leader >= 1 and len(p.isrs) == replicas for p in found.values())
        )

    wait_until(f"{replicas} replicas in sync of {topic}", ask, timeout)


def wait_fenced_everywhere(addresses: Iterable[str], broker: int) -> None:
    """Wait until each of these brokers tells that `broker` is in sync nowhere."""

    def reported(address: str) -> bool:
        with Asking(Kafka("any", address, Path())) as asking:
            answer = asking.ask(MetadataRequest(topics=None, allow_auto_topic_creation=False))
        return all(broker not in p.isr_nodes for t in answer.topics for p in t.partitions)

    for address in addresses:
        wait_until(f"{address} without {broker}", functools.partial(reported, address), IN_SYNC_S)


def wait_told_everywhere(
    bootstrap: str,
    topic: str,
    replicas: Mapping[int, Sequence[int]] | None = None,
    *,
    preferred: bool = False,
) -> None:
    """Wait until every broker says that all replicas of the topic are in sync, because the next
    request may go to any of them.

    `replicas` are those that the partitions then have; with `preferred` the first one leads.
    """

    def reported(address: str) -> bool:
        new = MetadataRequestTopic(name=topic)
        with Asking(Kafka("any", address, Path())) as asking:
            answer = asking.ask(MetadataRequest(topics=[new], allow_auto_topic_creation=False))
        partitions = answer.topics[0].partitions
        told = {p.partition_index: p.replica_nodes for p in partitions}
        if not told or (replicas is not None and told != replicas):
            return False
        return all(
            p.leader_id in (p.replica_nodes[:1] if preferred else p.isr_nodes)
            and sorted(p.isr_nodes) == sorted(p.replica_nodes)
            for p in partitions
        )

    for address in bootstrap.split(","):
        wait_until(f"{topic} as {address} has it", functools.partial(reported, address), IN_SYNC_S)
