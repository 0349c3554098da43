"""The state of the cluster for `pk reassign`: partitions, sizes, brokers, disks and moves in
progress. Also selects partitions."""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import trio

from pk.cli.cluster.brokers import describe_nodes, keep_names
from pk.cli.cluster.reassignments import running_reassignments
from pk.cli.cluster.replicas import Replicas, sizes_by_replica
from pk.cli.cluster.topics import named_topics, unknown_topic
from pk.cli.exits import CommandError
from pk.cli.nouns.reassign.plan import State
from pk.cli.runtime.context import Context
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin
from pk.net.client.answers import Answers
from pk.net.client.errors import ControllerSilent

_SIZES_S = 10.0
"""How long brokers may take to report sizes; a plan can be made without them."""


class Live(NamedTuple):
    """The current state of the cluster."""

    cluster_id: str | None
    nodes: Mapping[int, r.Node]
    state: State
    partitions: Mapping[TopicPartition, r.PartitionDescription]
    running: Mapping[TopicPartition, r.Reassignment]
    disks: Mapping[int, tuple[int, int]]
    """Broker → total and usable bytes of its disks, if the broker reports them."""

    silent: Collection[int] = ()
    """Brokers that are up and did not report their log directories."""

    unknown: Exception | None = None
    """The reason why the moves in progress are unknown; None if they are known."""

    @property
    def leaders(self) -> dict[TopicPartition, int]:
        return {tp: p.leader_id for tp, p in self.partitions.items() if p.leader_id >= 0}


async def load(
    context: Context, admin: Admin, *, sizes: bool = True, without_controller: bool = False
) -> Live:
    """Request the whole state in parallel. With `without_controller`, a controller that does not
    answer is no error. Raises KafkaError, ClientError."""
    known: list[tuple[r.ClusterDescription, dict[int, r.Node]]] = []
    unknown: list[Exception] = []
    described: Answers[str, r.TopicDescription] = Answers()
    running: dict[TopicPartition, r.Reassignment] = {}
    dirs: Answers[int, tuple[r.LogDirDescription, ...]] = Answers()

    async def ask_topics() -> None:
        described.update(await admin.describe_topics())

    async def ask_nodes() -> None:
        known.append(await describe_nodes(admin))

    async def ask_running() -> None:
        try:
            running.update(await running_reassignments(admin))
        except ControllerSilent as e:
            if not without_controller:
                raise
            unknown.append(e)

    async def ask_dirs() -> None:
        with trio.move_on_after(_SIZES_S):
            dirs.update(await admin.describe_log_dirs())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask_nodes)
        nursery.start_soon(ask_topics)
        nursery.start_soon(ask_running)
        if sizes:
            nursery.start_soon(ask_dirs)
    ((cluster, nodes),) = known
    partitions = {
        TopicPartition(t.name, p.partition): p for t in described.ok.values() for p in t.partitions
    }
    keep_names(context, nodes, described, partitions)
    replicas = {tp: settled(p.replicas, running.get(tp)) for tp, p in partitions.items()}
    state = State(
        {b: node.rack for b, node in sorted(nodes.items()) if not node.fenced},
        replicas,
        replica_sizes(dirs, partitions),
        {tp: p.isr for tp, p in partitions.items()},
    )
    disks = {
        b: (
            sum(d.total_bytes for d in answer),
            sum(d.usable_bytes for d in answer),
        )
        for b, answer in dirs.ok.items()
        if answer and all(d.total_bytes >= 0 for d in answer)
    }
    silent = [b for b in state.racks if sizes and b not in dirs.ok]
    why = unknown[0] if unknown else None
    return Live(cluster.cluster_id, nodes, state, partitions, running, disks, silent, why)


def settled(replicas: Replicas, running: r.Reassignment | None) -> Replicas:
    """The replicas of a partition after its reassignment in progress."""
    if running is None:
        return tuple(replicas)
    return tuple(b for b in replicas if b not in running.removing_replicas)


def replica_sizes(
    dirs: Answers[int, tuple[r.LogDirDescription, ...]],
    partitions: Mapping[TopicPartition, r.PartitionDescription],
) -> dict[TopicPartition, int]:
    """The bytes of each partition's replica: the leader's if known, or else the largest."""
    by_replica = sizes_by_replica(dirs)
    found: dict[TopicPartition, int] = {}
    for (tp, broker), size in by_replica.items():
        p = partitions.get(tp)
        if p is None:
            continue
        if broker == p.leader_id:
            found[tp] = size
        elif (tp, p.leader_id) not in by_replica:
            found[tp] = max(found.get(tp, 0), size)
    return found


async def selected_partitions(
    context: Context, admin: Admin, live: Live, words: Iterable[str]
) -> list[TopicPartition] | None:
    """The partitions of the named topics (None: all). Raises CommandError."""
    words = list(words)
    if not words:
        return None
    names = await named_topics(context, admin, words)
    known = {tp.topic for tp in live.partitions}
    for name in names:
        if name not in known:
            raise CommandError((await unknown_topic(context, admin, name)).said)
    return [tp for tp in live.partitions if tp.topic in set(names)]
