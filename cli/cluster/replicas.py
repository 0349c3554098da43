"""Replicas: the size of each, its log end, and the number of records that it lacks.

The requests go to each replica's own broker. Followers, too, answer a ListOffsets request with the
replica id -2 ("debugging"): with the log end instead of the high watermark. If a broker does not
answer, `out_of_sync_since` finds out when it was last seen, and estimates how much it has
missed.
"""

from collections.abc import Iterable, Mapping

from pk.cli.cluster.out_of_sync_since import Witness
from pk.cli.cluster.replica_lag import About
from pk.cli.cluster.topics import Partitions
from pk.core.errors import KafkaError
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin
from pk.net.client.answers import Answers
from pk.net.client.errors import ClientError, Straggler

DEBUGGING_REPLICA = -2


CONSUMER = -1


_ANSWER_MS = 3000
"""A broker that has not answered after this long is left out, unless pk.straggler.timeout.ms is
set: it may be suspended, with its connections open."""


Ends = dict[TopicPartition, dict[int, int]]
"""Partition → broker → the log end offset of the replica there."""


def lags(
    tp: TopicPartition,
    p: r.PartitionDescription,
    ends: Mapping[int, int],
    seen: Mapping[tuple[TopicPartition, int], Witness],
    brokers: Iterable[int],
) -> dict[str, int | None] | None:
    """Broker → the number of records that its replica lacks; None if the leader's log end is
    unknown."""
    leo = ends.get(p.leader_id)
    if leo is None:
        return None
    return {
        str(b): max(leo - ends[b], 0) if b in ends else _missed(seen.get((tp, b))) for b in brokers
    }


def _missed(witness: Witness | None) -> int | None:
    return None if witness is None or witness.missed is None else About(witness.missed)


async def log_ends(admin: Admin, partitions: Partitions) -> Ends:
    """The log end of each replica whose broker answers."""
    ends: Ends = {}
    await ask_latest(admin, by_broker(partitions), DEBUGGING_REPLICA, ends, {})
    return ends


def by_broker(partitions: Partitions) -> dict[int, list[TopicPartition]]:
    found: dict[int, list[TopicPartition]] = {}
    for tp, p in partitions.items():
        for broker in p.replicas:
            if broker not in p.offline_replicas:
                found.setdefault(broker, []).append(tp)
    return found


async def ask_latest(
    admin: Admin,
    by_broker: Mapping[int, list[TopicPartition]],
    replica_id: int,
    offsets: Ends,
    failed: dict[int, Exception],
) -> None:
    """Ask brokers for the latest offsets of partitions. The errors of brokers that do not answer go
    into `failed`."""

    async def ask(broker: int) -> bool:
        try:
            latest_offsets = await latest(admin, broker, by_broker[broker], replica_id)
        except (ClientError, KafkaError) as e:
            failed[broker] = e
            return False
        for tp, offset in latest_offsets.items():
            offsets.setdefault(tp, {})[broker] = offset
        return True

    limit_ms = admin.config.pk_straggler_timeout_ms
    limit_ms = _ANSWER_MS if limit_ms < 0 else limit_ms
    limit_s = limit_ms / 1000
    for broker in await admin.fan_out.ask(by_broker, ask, others_s=limit_s, first_answer_s=limit_s):
        node = admin.cluster.node(broker)
        failed[broker] = Straggler(broker, node.address if node else "?", limit_ms)


async def latest(
    admin: Admin, broker: int, partitions: Iterable[TopicPartition], replica_id: int = CONSUMER
) -> dict[TopicPartition, int]:
    """The latest offsets of partitions, as a broker reports them to `replica_id`. To a consumer,
    the default, a leader reports the high watermark. Partitions that the broker refuses are left
    out.

    Sends a single request, with no metadata request before it: it runs every other second and must
    be cheap. Raises ClientError, KafkaError.
    """
    from pk.core.wire.messages.list_offsets import (
        ListOffsetsPartition,
        ListOffsetsRequest,
        ListOffsetsTopic,
    )

    topics: dict[str, ListOffsetsTopic] = {}
    for tp in partitions:
        topic = topics.setdefault(tp.topic, ListOffsetsTopic(name=tp.topic))
        topic.partitions.append(
            ListOffsetsPartition(partition_index=tp.partition, timestamp=r.LATEST)
        )
    request = ListOffsetsRequest(replica_id=replica_id, topics=list(topics.values()))
    connection = await admin.cluster.connection(broker)
    response = await connection.request(request, low=1)
    return {
        TopicPartition(topic.name, p.partition_index): p.offset
        for topic in response.topics
        for p in topic.partitions
        if p.error_code == 0
    }


Replicas = tuple[int, ...]


def sizes_by_replica(
    dirs: Answers[int, tuple[r.LogDirDescription, ...]],
) -> dict[tuple[TopicPartition, int], int]:
    """(partition, broker) → bytes of the replica there."""
    return {
        (replica.partition, broker): replica.size_bytes
        for broker, answer in dirs.ok.items()
        for directory in answer
        for replica in directory.replicas
        if not replica.future
    }
