"""What `pk reassign` knows of a cluster: partitions, sizes, brokers, what is being moved; and which of it is meant."""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import trio

from pk.cli.cluster.topics import topic_names, unknown_topic, whole
from pk.cli.command_line.completion.name_cache import remember
from pk.cli.nouns.reassign.plan import Change, Replicas, State
from pk.cli.runtime.context import Context, count, join, place_name
from pk.cli.runtime.exits import CommandError
from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin
from pk.net.client.errors import ClientError, ControllerSilent

_PATTERN = frozenset("*+?[]()|^$\\{}")
_FULL = 0.85
"""A disk that is fuller than this afterwards is worth a word."""
_QUORUM_S = 2.0
_SIZES_S = 10.0
"""How long the brokers have to tell their sizes; a plan without them is still a plan."""


class Live(NamedTuple):
    """The cluster as it is now."""

    cluster_id: str | None
    nodes: Mapping[int, r.Node]
    state: State
    partitions: Mapping[TopicPartition, r.PartitionDescription]
    running: Mapping[TopicPartition, r.Reassignment]
    disks: Mapping[int, tuple[int, int]]
    """Broker → bytes of its disks in all, and usable; only where it says."""

    silent: Collection[int] = ()
    """Brokers that are up and did not say what lies on their disks."""

    unknown: Exception | None = None
    """Why it is not known what is being moved."""

    @property
    def leaders(self) -> dict[TopicPartition, int]:
        return {tp: p.leader_id for tp, p in self.partitions.items() if p.leader_id >= 0}


async def describe_nodes(admin: Admin) -> tuple[r.ClusterDescription, dict[int, r.Node]]:
    """The cluster and its brokers, the fenced ones too where the broker asked can tell of them.

    Its controller is the leader of the metadata quorum where that can be known: what brokers answer as the controller is,
    in a KRaft cluster, any broker that forwards to it.
    """
    try:
        cluster = await admin.describe_cluster(include_fenced=True)
    except KafkaError as e:
        if e.code != ErrorCode.UNSUPPORTED_VERSION:
            raise
        cluster = await admin.describe_cluster()
    # Whoever cannot say, or may not: what was answered stands.
    with trio.move_on_after(_QUORUM_S), suppress(KafkaError, ClientError):
        quorum = await admin.describe_quorum()
        cluster = replace(cluster, controller_id=quorum.leader_id)
    return cluster, {node.node_id: node for node in cluster.brokers}


async def running_reassignments(admin: Admin) -> dict[TopicPartition, r.Reassignment]:
    """What is being moved; nothing where the cluster cannot say (before 2.4)."""
    try:
        return await admin.list_reassignments()
    except KafkaError as e:
        if e.code != ErrorCode.UNSUPPORTED_VERSION:
            raise
        return {}


def is_pattern(word: str) -> bool:
    """Whether a word can only be a regular expression: no topic's name holds such a character."""
    return any(c in _PATTERN for c in word)


async def named_topics(context: Context, admin: Admin, words: Iterable[str]) -> list[str]:
    """The topics that names and regular expressions (over whole names) mean. Raises CommandError where one means none."""
    words = list(words)
    known: list[str] = []
    found: list[str] = []
    for word in words:
        if not is_pattern(word):
            found.append(word)
            continue
        known = known or await topic_names(context, admin)
        pattern = whole(word, "TOPIC")
        matched = [name for name in known if pattern.fullmatch(name)]
        if not matched:
            raise CommandError(
                f"No topic's whole name matches {word}; `pk topics list` shows which there are."
            )
        found += matched
    return list(dict.fromkeys(found))


async def load(
    context: Context, admin: Admin, *, sizes: bool = True, without_controller: bool = False
) -> Live:
    """Asks for all of it at once, which may do `without_controller` where that is silent. Raises KafkaError, ClientError."""
    known: list[tuple[r.ClusterDescription, dict[int, r.Node]]] = []
    unknown: list[Exception] = []
    described: dict[str, r.TopicDescription | Exception] = {}
    running: dict[TopicPartition, r.Reassignment] = {}
    dirs: dict[int, tuple[r.LogDirDescription, ...] | Exception] = {}

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
        TopicPartition(t.name, p.partition): p
        for t in described.values()
        if isinstance(t, r.TopicDescription)
        for p in t.partitions
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
        for b, answer in dirs.items()
        if not isinstance(answer, Exception) and answer and all(d.total_bytes >= 0 for d in answer)
    }
    silent = [b for b in state.racks if sizes and isinstance(dirs.get(b, KeyError()), Exception)]
    why = unknown[0] if unknown else None
    return Live(cluster.cluster_id, nodes, state, partitions, running, disks, silent, why)


def keep_names(
    context: Context,
    nodes: Iterable[int],
    topics: Iterable[str],
    partitions: Iterable[TopicPartition],
) -> None:
    """Keeps names for completion."""
    bootstrap = context.settings.bootstrap
    remember(bootstrap, "broker", map(str, nodes))
    remember(bootstrap, "topic", list(topics))
    remember(bootstrap, "partition", map(place_name, partitions))


def settled(replicas: Replicas, running: r.Reassignment | None) -> Replicas:
    """The replicas a partition will have once its reassignment is over."""
    if running is None:
        return tuple(replicas)
    return tuple(b for b in replicas if b not in running.removing_replicas)


def replica_sizes(
    dirs: Mapping[int, tuple[r.LogDirDescription, ...] | Exception],
    partitions: Mapping[TopicPartition, r.PartitionDescription],
) -> dict[TopicPartition, int]:
    """Bytes of each partition's replica: the leader's if it is known, else the largest."""
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


def sizes_by_replica(
    dirs: Mapping[int, tuple[r.LogDirDescription, ...] | Exception],
) -> dict[tuple[TopicPartition, int], int]:
    """(partition, broker) → bytes of the replica there."""
    return {
        (replica.partition, broker): replica.size_bytes
        for broker, answer in dirs.items()
        if not isinstance(answer, Exception)
        for directory in answer
        for replica in directory.replicas
        if not replica.future
    }


async def selected_partitions(
    context: Context, admin: Admin, live: Live, words: Iterable[str]
) -> list[TopicPartition] | None:
    """The partitions of the topics named (None: none is named, all are meant). Raises CommandError."""
    words = list(words)
    if not words:
        return None
    names = await named_topics(context, admin, words)
    known = {tp.topic for tp in live.partitions}
    for name in names:
        if name not in known:
            raise CommandError((await unknown_topic(context, admin, name)).said)
    return [tp for tp in live.partitions if tp.topic in set(names)]


async def min_isrs(admin: Admin, topics: Iterable[str]) -> dict[str, int]:
    """min.insync.replicas of topics, as far as it can be read."""
    resources = [r.ConfigResource(r.ResourceType.TOPIC, t) for t in sorted(set(topics))]
    if not resources:
        return {}
    answers = await admin.describe_configs(
        resources, keys=("min.insync.replicas",), include_synonyms=False
    )
    return {
        resource.name: int(e.value)
        for resource, answer in answers.items()
        if not isinstance(answer, Exception)
        for e in answer
        if e.name == "min.insync.replicas" and e.value
    }


def cautions(live: Live, changes: Iterable[Change], min_isr: Mapping[str, int]) -> list[str]:
    """What a plan brings that somebody may not want: a sentence each."""
    changes = list(changes)
    racks = live.state.racks
    said: list[str] = []

    def tell(partitions: list[TopicPartition], what: str) -> None:
        if partitions:
            first = place_name(partitions[0])
            more = f" and {len(partitions) - 1} more" if len(partitions) > 1 else ""
            said.append(f"{first}{more}: {what}.")

    fewer = [c.tp for c in changes if len(c.after) < min_isr.get(c.tp.topic, 1)]
    tell(fewer, "fewer replicas than min.insync.replicas, so acks=all is refused")
    overlap = [c.tp for c in changes if c.tp in live.running]
    tell(overlap, "being moved already; this gives the move another target")
    stuck = [c.tp for c in changes if c.adding and live.partitions[c.tp].leader_id < 0]
    tell(stuck, "no leader to copy from, so the move waits until there is one")
    if all(racks.values()) and len(set(racks.values())) > 1:
        alone = [
            c.tp for c in changes if len(c.after) > 1 and len({racks.get(b) for b in c.after}) == 1
        ]
        tell(alone, "all replicas in one rack")
    if live.silent and changes:
        who = f"broker{'s'[: len(live.silent) > 1]} {join([str(b) for b in live.silent])}"
        said.append(f"What lies on the disks of {who} is not known, nor what room there is.")
    arriving: dict[int, int] = {}
    for change in changes:
        for broker in change.adding:
            arriving[broker] = arriving.get(broker, 0) + (change.size or 0)
    for broker, size in sorted(arriving.items()):
        total, usable = live.disks.get(broker, (0, 0))
        if total and size > usable:
            said.append(f"Broker {broker} has too little room on its disks for what it is to get.")
        elif total and size and total - usable + size > _FULL * total:
            part = (total - usable + size) / total
            said.append(f"Broker {broker}'s disks will be {part:.0%} full.")
    return said


def totals(changes: Iterable[Change], partitions: int) -> str:
    """`12 of 600 partitions change, 14 replicas move (8.4 GB), 3 preferred leaders change`."""
    from pk.cli.output.formats import show_bytes

    changes = list(changes)
    moved = sum(len(c.adding) for c in changes)
    dropped = sum(len(c.removing) for c in changes) - moved
    known = [c.bytes for c in changes if c.bytes is not None]
    unknown = len(known) < len(changes)
    parts = [f"{len(changes):,} of {count(partitions, 'partition')} changes"]
    if len(changes) != 1:
        parts = [f"{len(changes):,} of {count(partitions, 'partition')} change"]
    if moved:
        size = show_bytes(sum(known)) + (" and what is not known" if unknown else "")
        parts.append(f"{count(moved, 'replica')} to copy ({size})")
    if dropped > 0:
        parts.append(f"{count(dropped, 'replica')} fewer")
    leaders = sum(c.moves_leader for c in changes)
    if leaders:
        parts.append(
            f"{count(leaders, 'preferred leader')} {'changes' if leaders == 1 else 'change'}"
        )
    return ", ".join(parts)
