"""The brokers of a cluster: which are up, which replicas each has, and how much space is left."""

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

import trio
from msgspec.structs import replace

from pk.cli.cluster.broker_rows import BrokerOfCluster, BrokerRow
from pk.cli.cluster.features import release_of
from pk.cli.exits import Unusable
from pk.cli.phrases import partition_name
from pk.cli.runtime.context import Context
from pk.cli.runtime.name_cache import remember
from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin
from pk.net.client.answers import Answers
from pk.net.client.errors import ClientError
from pk.net.client.results import (
    ClusterDescription,
    FeatureDescription,
    LogDirDescription,
    Node,
    PartitionDescription,
    TopicDescription,
)


def parse_brokers(words: Iterable[str], option: str) -> tuple[int, ...]:
    """Broker ids from `4,5`. Raises Unusable."""
    found: list[int] = []
    for word in words:
        if not word.isdecimal():
            raise Unusable(f"{option} needs broker ids such as 4,5,6, not {word!r}.")
        found.append(int(word))
    return tuple(dict.fromkeys(found))


_QUORUM_S = 2.0


async def describe_nodes(admin: Admin) -> tuple[r.ClusterDescription, dict[int, r.Node]]:
    """The cluster and its brokers, including fenced ones if the broker that answers knows them.

    The controller is the leader of the metadata quorum: in a KRaft cluster, a broker reports as the
    controller any broker that forwards to it. The id is -1 if the leader is unknown.
    """
    try:
        cluster = await admin.describe_cluster(include_fenced=True)
    except KafkaError as e:
        if e.code != ErrorCode.UNSUPPORTED_VERSION:
            raise
        cluster = await admin.describe_cluster()
    leader = -1
    with trio.move_on_after(_QUORUM_S), suppress(ClientError):
        try:
            leader = (await admin.describe_quorum()).leader_id
        except KafkaError as e:
            if e.code == ErrorCode.UNSUPPORTED_VERSION:  # no KRaft: the brokers know the controller
                leader = cluster.controller_id
    cluster = replace(cluster, controller_id=leader)
    return cluster, {node.node_id: node for node in cluster.brokers}


def keep_names(
    context: Context,
    nodes: Iterable[int],
    topics: Iterable[str],
    partitions: Iterable[TopicPartition],
) -> None:
    """Keep the names of brokers, topics and partitions for completion."""
    bootstrap = context.settings.bootstrap
    remember(bootstrap, "broker", map(str, nodes))
    remember(bootstrap, "topic", list(topics))
    remember(bootstrap, "partition", map(partition_name, partitions))


_ANSWER_S = 3.0
"""How long each broker may take to describe itself; a suspended broker may keep its connections
open."""


Dirs = Answers[int, tuple[LogDirDescription, ...]]


Features = Answers[int, FeatureDescription]


class BrokerSnapshot(NamedTuple):
    """The cluster's brokers and what they reported about themselves."""

    cluster: ClusterDescription
    nodes: Mapping[int, Node]
    topics: Mapping[str, TopicDescription]
    dirs: Dirs
    features: Features

    @property
    def partitions(self) -> dict[TopicPartition, PartitionDescription]:
        return {
            TopicPartition(t.name, p.partition): p
            for t in self.topics.values()
            for p in t.partitions
        }


async def ask_brokers(context: Context, admin: Admin) -> BrokerSnapshot:
    """Ask the cluster for its topics, and each broker for its log directories and features; say why
    the controller is unknown."""
    cluster, nodes = await describe_nodes(admin)
    if cluster.controller_id < 0:
        down = admin.controller_down() if admin.controller_down is not None else None
        context.say(
            f"{down}."
            if down is not None
            else "The controller is unknown; `pk cluster quorum` asks each node."
        )
    topics: dict[str, TopicDescription] = {}
    dirs: Dirs = Answers()
    features: Features = Answers()
    late = TimeoutError(f"no answer within {_ANSWER_S:.0f} s")

    async def ask_topics() -> None:
        described = await admin.describe_topics()
        topics.update(described.ok)

    async def ask_dirs(broker: int) -> None:
        dirs.add(broker, late)
        with trio.move_on_after(_ANSWER_S):
            dirs.update(await admin.describe_log_dirs([broker]))

    async def ask_features(broker: int) -> None:
        features.add(broker, late)
        with trio.move_on_after(_ANSWER_S):
            try:
                features.add(broker, await admin.describe_features(broker))
            except (ClientError, KafkaError) as e:
                features.add(broker, e)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask_topics)
        for broker, node in nodes.items():
            if not node.fenced:
                nursery.start_soon(ask_dirs, broker)
                nursery.start_soon(ask_features, broker)
    snapshot = BrokerSnapshot(cluster, nodes, topics, dirs, features)
    keep_names(context, nodes, topics, snapshot.partitions)
    return snapshot


def known_brokers(snapshot: BrokerSnapshot) -> list[int]:
    """The registered brokers, and the missing ones that hold replicas."""
    return sorted({*snapshot.nodes, *(b for p in snapshot.partitions.values() for b in p.replicas)})


def is_controller(broker: int, cluster: r.ClusterDescription) -> bool | None:
    """Whether the broker is the controller; None while it is unknown."""
    return None if cluster.controller_id < 0 else broker == cluster.controller_id


def broker_rows(snapshot: BrokerSnapshot) -> list[BrokerRow]:
    partitions = snapshot.partitions.values()
    leaders = Counter(p.leader_id for p in partitions)
    replicas = Counter(b for p in partitions for b in p.replicas)
    rows: list[BrokerRow] = []
    for broker in known_brokers(snapshot):
        node = snapshot.nodes.get(broker)
        features = snapshot.features.ok.get(broker)
        dirs = snapshot.dirs.ok.get(broker)
        rows.append(
            {
                "broker": broker,
                "host": node.host if node else None,
                "port": node.port if node else None,
                "rack": node.rack if node else None,
                "controller": is_controller(broker, snapshot.cluster),
                "state": state_of(node, dirs, snapshot.features.errors.get(broker)),
                "leaders": leaders[broker],
                "replicas": replicas[broker],
                "log_bytes": None if dirs is None else _bytes_of(dirs),
                "fenced": node.fenced if node else None,
                "supports": release_of(features),
                "metadata_offset": _metadata_offset(features),
                "usable_bytes": None if dirs is None else _usable(dirs),
            }
        )
    return rows


def state_of(
    node: Node | None, dirs: Iterable[LogDirDescription] | None, error: Exception | None
) -> str:
    """`up`, `fenced`, `down` (holds replicas, but is not registered), or `silent` (registered, but
    does not answer). `error` says why the broker did not describe its features."""
    if node is None:
        return "down"
    if node.fenced:
        return "fenced"
    if isinstance(error, (ClientError, TimeoutError)):
        return "silent"
    return "directory failed" if any(d.error_code for d in dirs or ()) else "up"


def broker_style(row: BrokerRow | BrokerOfCluster) -> str | None:
    """Red for a broker that is not up."""
    return None if row["state"] == "up" else "red"


def _bytes_of(dirs: Iterable[LogDirDescription]) -> int:
    return sum(replica.size_bytes for d in dirs for replica in d.replicas)


def _usable(dirs: Iterable[LogDirDescription]) -> int | None:
    known = [d.usable_bytes for d in dirs if d.usable_bytes >= 0]
    return sum(known) if known else None


def _metadata_offset(features: FeatureDescription | None) -> int | None:
    """The offset up to which a broker has replicated the metadata log. KRaft brokers return it as
    the epoch of their features."""
    if features is not None and features.finalized_epoch >= 0:
        return features.finalized_epoch
    return None
