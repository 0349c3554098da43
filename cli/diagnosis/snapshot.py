"""The input and output of the checks of `pk doctor`: plain values, so that every check is a
function.

`pk.cli.diagnosis.collect` gets the snapshot from a cluster. Data that it could not get is left
empty and is listed in `unseen`; no check reports missing data as a problem.
"""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from pk.cli.phrases import count, join, partition_name
from pk.core.auth.acls import AclBinding
from pk.core.values import TopicPartition
from pk.net.client import results as r

ERROR: Final = "error"
"""Records cannot be written or read, are lost, or soon will be."""
WARNING: Final = "warning"
"""The next failure of a machine would cause an outage, or settings of the cluster conflict."""
NOTE: Final = "note"
"""Useful to know; may be intended."""
SEVERITIES: Final = (ERROR, WARNING, NOTE)
QUORUM: Final = "quorum"
"""The part of the snapshot that comes from the controller."""

_NAMED = 6
"""A command for more topics than this names only the first ones."""


class Broker(NamedTuple):
    """A broker as the cluster describes it, with its own report."""

    rack: str | None = None
    fenced: bool = False
    release: str | None = None
    """The highest metadata.version that the broker supports, by Apache's name."""

    apis: frozenset[tuple[str, int, int]] | None = None
    """The broker's APIs with their minimum and maximum versions; None if it did not answer."""

    configs: Mapping[str, str] = {}
    silent: bool = False
    """Whether the broker was asked and did not answer."""


class Partition(NamedTuple):
    """A partition; `leader` is -1 if it has none, offsets are None if unknown."""

    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    start: int | None = None
    end: int | None = None
    stable: int | None = None
    """The last stable offset, up to which read_committed readers read."""

    newest_ms: int | None = None
    """The greatest timestamp of the partition's records."""

    size_bytes: int | None = None

    @property
    def moving(self) -> bool:
        return bool(self.adding or self.removing)


class Topic(NamedTuple):
    """A topic, and the configs that checks read (min.insync.replicas, retention.ms, …), by name."""

    partitions: Mapping[int, Partition]
    internal: bool = False
    configs: Mapping[str, str] = {}
    by_leader: Mapping[int, Mapping[str, str]] = {}
    """Broker → its defaults for the configs that the topic does not set; each leader applies its
    own."""

    def configs_of(self, partition: Partition) -> Mapping[str, str]:
        """The configs that the partition's leader applies."""
        return {**self.configs, **self.by_leader.get(partition.leader, {})}

    @property
    def factor(self) -> int:
        """The target number of replicas of the partition with the fewest."""
        settled = [len(set(p.replicas) - set(p.removing)) for p in self.partitions.values()]
        return min(settled, default=0)

    @property
    def min_isr(self) -> int:
        return number(self.configs.get("min.insync.replicas"), 1)


class Commit(NamedTuple):
    """A group's committed offset for a partition, or the offset of a share group's first unread
    record."""

    offset: int
    expiring: bool = False
    """Whether the record at that offset is close to the end of its retention."""

    next_ms: int | None = None
    """The timestamp of the record at the committed offset, if it was requested."""

    reported_lag: int | None = None
    """The lag of a share group, which also acknowledges records after its start offset; None for
    other groups."""


class Group(NamedTuple):
    """A group: the number of its members, its committed offsets (the start offsets of a share
    group), and the topics that are assigned to its members."""

    state: str
    members: int = 0
    commits: Mapping[TopicPartition, Commit] = {}
    assigned: frozenset[str] = frozenset()
    is_share: bool = False


class Directory(NamedTuple):
    """A log directory of a broker; `total` and `usable` (bytes) are -1 if the broker does not
    say."""

    broker: int
    path: str
    error: str | None
    total: int = -1
    usable: int = -1

    @property
    def used(self) -> float | None:
        """The fraction of the disk that is in use; None if unknown."""
        if self.error or self.total <= 0 or self.usable < 0:
            return None
        return 1 - self.usable / self.total


class OpenTransaction(NamedTuple):
    """A transaction that a partition's leader still holds open."""

    partition: TopicPartition
    producer_id: int
    last_ms: int
    start_offset: int
    since_ms: int | None = None
    """When the transaction began; None if unknown."""

    transactional_id: str | None = None
    abandoned: bool | None = None
    """Whether no coordinator will end the transaction; None if not all coordinators answered."""


class Follower(NamedTuple):
    """A node that follows the metadata log, as the controller describes it. Times are -1 if
    unknown."""

    node: int
    end: int
    voter: bool
    fetched_ms: int = -1
    caught_up_ms: int = -1


class ClusterSnapshot(NamedTuple):
    """A cluster at one moment."""

    now_ms: int
    brokers: Mapping[int, Broker]
    topics: Mapping[str, Topic]
    controller: int | None = None
    """The node that leads the metadata quorum; -1 if there is none, None if unknown."""

    controller_ahead_ms: int | None = None
    """How far the controller's clock is ahead of this machine's."""

    followers: Sequence[Follower] = ()
    groups: Mapping[str, Group] = {}
    groups_whole: bool = True
    """Whether `groups` has all groups, since every coordinator answered."""

    directories: Sequence[Directory] = ()
    throttled: str | None = None
    """The brokers and topics with replication throttles, as text; None if there are none."""

    throttles_unowned: bool = False
    """Whether throttles are set while nothing is being reassigned."""

    start_commands: Mapping[int, str] = {}
    """Broker → the command that starts or resumes it, if it is a stopped or paused broker on this
    machine."""

    finalized: Mapping[str, int] = {}
    """Feature → its finalized level."""

    common: Mapping[str, int] = {}
    """Feature → the highest level that every broker supports."""

    transactions: Sequence[OpenTransaction] = ()
    certificate_ends: Mapping[int, int] = {}
    """Broker → when the certificate that it presents expires, in epoch ms."""

    recoveries: Mapping[TopicPartition, r.UncleanRecovery] = {}
    """Partitions whose logs are compared, or whose replicas are damaged or stopped."""

    remote: Mapping[TopicPartition, r.RemoteState] = {}
    """Tiered partition → its state in remote storage."""

    acls: Sequence[AclBinding] = ()
    """All ACLs; empty if the cluster has no authorizer."""

    scram_users: frozenset[str] = frozenset()
    unseen: Mapping[str, Exception] = {}
    """Request that failed → the reason."""

    lacking: Mapping[str, Exception] = {}
    """Data that a check needs and that is missing, at least in part → the first reason."""

    @property
    def partitions(self) -> Iterable[tuple[TopicPartition, Topic, Partition]]:
        for name, topic in self.topics.items():
            for index, partition in topic.partitions.items():
                yield TopicPartition(name, index), topic, partition

    def partition(self, tp: TopicPartition) -> Partition | None:
        topic = self.topics.get(tp.topic)
        return topic.partitions.get(tp.partition) if topic else None

    @property
    def live(self) -> list[int]:
        return sorted(b for b, broker in self.brokers.items() if not broker.fenced)


class Finding(NamedTuple):
    """A problem: a description, the reason why it matters, and a command that fixes it or shows
    more."""

    check: str
    severity: str
    what: str
    why: str
    fix: str | None
    subjects: tuple[str, ...] = ()


class Check(NamedTuple):
    """A check: its name, a description of one line, the data that it needs, and its function."""

    name: str
    help: str
    needs: frozenset[str]
    run: Callable[[ClusterSnapshot], Iterable[Finding]]
    healthy: Callable[[ClusterSnapshot], str] | None = None
    """The words of `pk cluster health` if the check finds nothing; None if the check is not shown
    there."""


def number(text: str | None, otherwise: int) -> int:
    try:
        return int(text) if text else otherwise
    except ValueError:
        return otherwise


def names(tps: Iterable[TopicPartition], limit: int = 4) -> str:
    """`orders/0, orders/1 and 3 more`."""
    return join([partition_name(tp) for tp in sorted(tps)], limit)


def topic_words(topics: Iterable[str], before: str = "") -> str:
    """Topics as words of a command line, each after the word `before` (`-t `)."""
    chosen = sorted(topics)[:_NAMED]
    return " ".join(f"{before}{shlex.quote(topic)}" for topic in chosen)


def brokers_named(brokers: Iterable[int]) -> str:
    """`broker 3`, `brokers 1 and 2`."""
    ids = [str(b) for b in sorted(set(brokers))]
    return f"{'broker' if len(ids) == 1 else 'brokers'} {join(ids)}"


def partitions_counted(tps: Sequence[TopicPartition]) -> str:
    """`3 partitions (orders/0, orders/1 and orders/2)`."""
    return f"{count(len(tps), 'partition')} ({names(tps)})"


def topics_counted(topics: Iterable[str]) -> str:
    """`2 topics (orders and users)`."""
    listed = sorted(topics)
    return f"{count(len(listed), 'topic')} ({join(listed, 4)})"
