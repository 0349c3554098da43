"""The data of `pk top` about a cluster: the last values, and the rates from several samples.

Pure: the collector makes the requests and adds the responses, each with its time (`now` in seconds
of a monotonic clock, `now_ms` as epoch milliseconds); the tables read the model. A value that was
never received is None, so a screen can be drawn from the first response on.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from pk.cli.cluster.isr_changes import History, Watched, isr_changes
from pk.cli.cluster.pipelines import PipelineCommit
from pk.cli.cluster.reassignment_progress import Seen, Tracker
from pk.cli.positions.times import show_time
from pk.cli.top.meter import Cumulative, Meter, TimesMeter
from pk.cli.top.records import Found
from pk.core.values import TopicPartition
from pk.net.client.metadata import PartitionInfo, TopicInfo
from pk.net.client.results import (
    GroupListing,
    LogDirDescription,
    Node,
    PartitionDescription,
    ShareGroupOffset,
)

EVENTS_MAX = 1000
SPARK_MAX = 60


class Event(NamedTuple):
    """A change of the in-sync replicas."""

    at_ms: int
    row: Mapping[str, Any]


class Disk(NamedTuple):
    """The log directories of a broker, summed up."""

    bytes: int
    total: int | None
    usable: int | None
    failed: int


class Model:
    """The cluster as the screen shows it."""

    def __init__(self) -> None:
        self.version = 0
        """Increases with every change, so that tables are computed once for each change."""

        self.cluster_id: str | None = None
        self.controller: int | None = None
        self.nodes: Mapping[int, Node] = {}
        self.topics: Mapping[str, TopicInfo] = {}
        self.partitions: dict[TopicPartition, PartitionInfo] = {}
        self.began_ms: int | None = None
        self.seen_ms = 0
        """When the topics were last received."""

        self.under_replicated: list[TopicPartition] = []
        self.offline: list[TopicPartition] = []
        self.adding: Mapping[TopicPartition, Sequence[int]] = {}
        """Replicas that a reassignment adds. They are expected to lag, and do not count as a
        problem."""

        self.unhealthy: list[TopicPartition] = []
        """Partitions without a leader or with replicas out of sync, in order."""

        self.leads: Counter[int] = Counter()
        """Broker → the number of partitions that it leads."""

        self.holds: Counter[int] = Counter()
        """Broker → the number of replicas that it has."""

        self.ends: Meter[TopicPartition] = Meter()
        self.sparks: dict[str, deque[float]] = {}
        self.disks: dict[int, Disk] = {}
        self.sizes: dict[str, int] | None = None
        self.partition_sizes: dict[TopicPartition, int] = {}
        self.disk_growth: Meter[int] = Meter(30.0)

        self.groups: Mapping[str, GroupListing] | None = None
        self.members: dict[str, int] = {}
        self.pipelines: dict[str, PipelineCommit] = {}
        """Group → the last commit of the pipeline whose offsets the group holds."""

        self.commits: dict[str, dict[TopicPartition, int]] = {}
        """The committed offsets of groups; for a share group, the start offsets."""

        self.reported_lags: dict[str, dict[TopicPartition, int]] = {}
        """The lag of share groups, which also acknowledge records after their start offsets.
        Coordinators count it."""

        self.drains: Meter[tuple[str, TopicPartition]] = Meter()
        self.record_times: dict[tuple[TopicPartition, int], int | None] = {}

        self.history = History()
        self.events: deque[Event] = deque(maxlen=EVENTS_MAX)
        self.behind: dict[TopicPartition, dict[str, int | None] | None] = {}
        self.min_isr: dict[str, int] = {}
        self._watched: Watched | None = None

        self.request_times: TimesMeter[tuple[int, str]] = TimesMeter()
        """(broker, API) → its counts."""

        self.request_errors: Meter[tuple[int, str]] = Meter()
        self.metrics_missing: str | None = None
        """Why there are no metrics; None if there are, or while unknown."""

        self.moves = Tracker()
        self.moves_seen = False
        self.throttle: int | None = None
        self.records: Found | None = None
        """The records of the topic that is open."""

    # the cluster

    def see_nodes(
        self, nodes: Mapping[int, Node], controller: int | None, cluster_id: str | None
    ) -> None:
        """Update the brokers, including fenced ones if known, and the controller."""
        self.version += 1
        self.nodes = dict(nodes)
        self.controller = controller if controller is not None and controller >= 0 else None
        self.cluster_id = cluster_id

    def see_topics(self, topics: Mapping[str, TopicInfo], now_ms: int) -> None:
        """Update all topics. Changes of the ISR since the last call become events."""
        self.version += 1
        self.topics = dict(topics)
        self.seen_ms = now_ms
        self.partitions = {
            TopicPartition(name, number): info
            for name, topic in topics.items()
            for number, info in enumerate(topic.partitions)
        }
        self._count()
        watched: Watched = {tp: (p.leader_id, p.isr) for tp, p in self.partitions.items()}
        if self._watched is None:
            self.began_ms = now_ms
            self.history.begin({tp: _described(tp, p) for tp, p in self.partitions.items()})
        elif watched != self._watched:
            rows = isr_changes(self._watched, watched, show_time(now_ms))
            self.history.see(rows, now_ms)
            self.events.extend(Event(now_ms, row) for row in rows)
            self._forget()
        self._watched = watched

    def _forget(self) -> None:
        """Remove deleted topics and partitions."""
        self.ends.keep(self.partitions)
        for known in (self.behind, self.partition_sizes):
            for tp in [tp for tp in known if tp not in self.partitions]:
                del known[tp]
        for name in [name for name in self.sparks if name not in self.topics]:
            del self.sparks[name]

    def _count(self) -> None:
        """Compute the data that every table needs."""
        self.leads, self.holds = Counter(), Counter()
        self.under_replicated, self.offline = [], []
        for tp, p in self.partitions.items():
            self.leads[p.leader_id] += 1
            self.holds.update(p.replicas)
            if p.leader_id < 0:
                self.offline.append(tp)
            if self.missing(tp):
                self.under_replicated.append(tp)
        self.unhealthy = sorted({*self.under_replicated, *self.offline})

    def missing(self, tp: TopicPartition) -> list[int]:
        """The replicas that should be in sync and are not."""
        p, adding = self.partitions[tp], self.adding.get(tp, ())
        return [b for b in p.replicas if b not in p.isr and b not in adding]

    def see_adding(self, adding: Mapping[TopicPartition, Sequence[int]]) -> None:
        """Update the replicas that a reassignment adds, by partition."""
        if adding != self.adding:
            self.version += 1
            self.adding = dict(adding)
            self._count()

    # offsets and sizes

    def see_ends(self, ends: Mapping[TopicPartition, int], now: float) -> None:
        """Update the end offsets of partitions."""
        self.version += 1
        for tp, offset in ends.items():
            self.ends.see(tp, offset, now)
        for name in {tp.topic for tp in ends}:
            rate = self.topic_rate(name)
            if rate is not None:
                self.sparks.setdefault(name, deque(maxlen=SPARK_MAX)).append(rate)

    def topic_rate(self, name: str) -> float | None:
        """The records per second that arrive; None if unknown."""
        topic = self.topics.get(name)
        if topic is None:
            return None
        rates = [self.ends.rate(TopicPartition(name, n)) for n in range(len(topic.partitions))]
        known = [rate for rate in rates if rate is not None]
        return sum(known) if known else None

    def see_dirs(self, dirs: Mapping[int, tuple[LogDirDescription, ...]], now: float) -> None:
        """Update the log directories of the brokers that answered."""
        self.version += 1
        sizes: dict[TopicPartition, int] = {}
        for broker, answer in dirs.items():
            held = 0
            for directory in answer:
                for replica in directory.replicas:
                    held += replica.size_bytes
                    tp = replica.partition
                    p = self.partitions.get(tp)
                    if not replica.future and (p is None or p.leader_id in (broker, -1)):
                        sizes[tp] = max(sizes.get(tp, 0), replica.size_bytes)
            known = [d for d in answer if d.total_bytes >= 0 and d.usable_bytes >= 0]
            self.disks[broker] = Disk(
                held,
                sum(d.total_bytes for d in known) if known else None,
                sum(d.usable_bytes for d in known) if known else None,
                sum(d.error_code != 0 for d in answer),
            )
            self.disk_growth.see(broker, held, now)
        self.partition_sizes.update(sizes)
        by_topic: Counter[str] = Counter()
        for tp, size in self.partition_sizes.items():
            by_topic[tp.topic] += size
        self.sizes = dict(by_topic)

    # groups

    def see_groups(self, groups: Iterable[GroupListing]) -> None:
        """Replace all groups."""
        self.version += 1
        self.groups = {g.group_id: g for g in groups}
        for known in (self.members, self.commits, self.reported_lags, self.pipelines):
            for name in [name for name in known if name not in self.groups]:
                del known[name]
        self.drains.keep(_Keys(self.commits))

    def see_pipelines(self, commits: Mapping[str, PipelineCommit | None]) -> None:
        """Update the groups that belong to pipelines."""
        for group, commit in commits.items():
            if commit is None:
                self.pipelines.pop(group, None)
            else:
                self.pipelines[group] = commit

    def see_commits(
        self,
        commits: Mapping[str, Mapping[TopicPartition, int]],
        now: float,
        reported_lags: Mapping[str, Mapping[TopicPartition, int]] = {},
    ) -> None:
        """Update committed offsets. Those of a share group are its start offsets, with the lag from
        its coordinator."""
        self.version += 1
        self.reported_lags |= {group: dict(lags) for group, lags in reported_lags.items()}
        for group, offsets in commits.items():
            self.commits[group] = dict(offsets)
            for tp, offset in offsets.items():
                self.drains.see((group, tp), self._unread(group, tp, offset), now)

    def _unread(self, group: str, tp: TopicPartition, offset: int) -> int:
        """The offset of a group's first unread record, from its offset and the lag from a share
        coordinator."""
        lag = self.reported_lags.get(group, {}).get(tp)
        end = self.ends.value(tp)
        return offset if lag is None else ShareGroupOffset(offset, lag=lag).unread(end)

    def next_offset(self, group: str, tp: TopicPartition) -> int | None:
        """The offset of the record that a group reads next in a partition; None if unknown."""
        offset = self.commits.get(group, {}).get(tp)
        return None if offset is None else self._unread(group, tp, offset)

    def lag(self, group: str, tp: TopicPartition) -> int | None:
        """The number of records of a partition that a group has not read; None if unknown."""
        reported = self.reported_lags.get(group, {}).get(tp)
        if reported is not None:
            return reported
        committed, end = self.commits.get(group, {}).get(tp), self.ends.value(tp)
        return None if committed is None or end is None else max(end - committed, 0)

    def group_lag(self, group: str) -> int | None:
        """The lag over all partitions with a committed offset; None if no such offset or no end is
        known."""
        commits = self.commits.get(group)
        if commits is None:
            return None
        lags = [self.lag(group, tp) for tp in commits]
        known = [lag for lag in lags if lag is not None]
        return sum(known) if known or not lags else None

    def group_drain(self, group: str) -> float | None:
        """The records per second by which a group's committed offsets advance."""
        return _sum(self.drains.rate((group, tp)) for tp in self.commits.get(group, ()))

    def group_incoming(self, group: str) -> float | None:
        """The records per second that arrive in the partitions for which a group has committed
        offsets."""
        return _sum(self.ends.rate(tp) for tp in self.commits.get(group, ()))

    def worst(self, group: str) -> TopicPartition | None:
        """The partition in which a group has the most lag."""
        lags = {tp: lag for tp in self.commits.get(group, ()) if (lag := self.lag(group, tp))}
        return max(lags, key=lambda tp: lags[tp]) if lags else None

    def next_time_ms(self, group: str, tp: TopicPartition) -> int | None:
        """The timestamp of the record that a group reads next in a partition; None if unknown."""
        at = self.next_offset(group, tp)
        return None if at is None else self.record_times.get((tp, at))

    def see_record_times(self, times: Mapping[tuple[TopicPartition, int], int | None]) -> None:
        """Update the timestamps of single records. Once there are many, those of records that no
        group reads next are removed."""
        self.version += 1
        self.record_times.update(times)
        if len(self.record_times) > 4096:
            places = {
                (tp, self._unread(group, tp, offset))
                for group, offsets in self.commits.items()
                for tp, offset in offsets.items()
            }
            self.record_times = {k: v for k, v in self.record_times.items() if k in places}

    def readers(self) -> dict[str, dict[TopicPartition, float]]:
        """Topic → partition → the records per second that all groups together read."""
        found: dict[str, dict[TopicPartition, float]] = {}
        for group, offsets in self.commits.items():
            for tp in offsets:
                rate = self.drains.rate((group, tp))
                if rate is not None:
                    of_topic = found.setdefault(tp.topic, {})
                    of_topic[tp] = of_topic.get(tp, 0.0) + rate
        return found

    def see_members(self, members: Mapping[str, int]) -> None:
        """Update the numbers of members of groups."""
        self.version += 1
        self.members.update(members)

    # requests

    def see_requests(
        self, broker: int, counts: Mapping[str, tuple[Cumulative, int]], now: float
    ) -> None:
        """Add a sample of a broker's counts: API → how long requests took, and how many failed as a
        whole."""
        self.version += 1
        self.metrics_missing = None
        for api, (times, errors) in counts.items():
            self.request_times.see((broker, api), times, now)
            self.request_errors.see((broker, api), errors, now)

    def forget_requests(self, broker: int) -> None:
        """Remove the counts of brokers that no longer answer."""
        self.version += 1
        for meter in (self.request_times, self.request_errors):
            meter.keep({key for key in self.request_times.sampled() if key[0] != broker})

    def miss_metrics(self, why: str) -> None:
        """Record why no broker's metrics can be read."""
        self.version += 1
        self.metrics_missing = why

    # replicas

    def see_behind(self, behind: Mapping[TopicPartition, dict[str, int | None] | None]) -> None:
        """Update the numbers of records that replicas lack, for all unhealthy partitions: partition
        → broker → records."""
        self.version += 1
        self.behind = dict(behind)

    # what moves

    def see_moves(self, seen: Seen, throttle: int | None, now: float) -> None:
        """Update the reassignments in progress. A finished one is removed when a new one starts."""
        self.version += 1
        if seen.running and all(row.done for row in self.moves.rows):
            self.moves = Tracker()
        self.see_adding({tp: move.adding_replicas for tp, move in seen.running.items()})
        self.moves.see(seen, now)
        self.moves_seen = True
        self.throttle = throttle


class _Keys:
    """The (group, partition) pairs that have committed offsets, as a container."""

    def __init__(self, commits: Mapping[str, Mapping[TopicPartition, int]]) -> None:
        self._commits = commits

    def __contains__(self, key: object) -> bool:
        group, tp = cast("tuple[str, TopicPartition]", key)
        return tp in self._commits.get(group, ())


def _sum(rates: Iterable[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None


def _described(tp: TopicPartition, p: PartitionInfo) -> PartitionDescription:
    return PartitionDescription(
        tp.partition, p.leader_id, p.leader_epoch, p.replicas, p.isr, p.offline_replicas
    )
