"""Elects a leader when the ISR and the eligible leader replicas are empty: the replica with the
longest log leads (KIP-966, unclean recovery).

A broker that returns without a clean shutdown may have lost records. If all in-sync replicas return
in this way, none of them is eligible to lead, and the partition has no leader until their logs have
been compared. Each broker sees in its image that it has a replica of a partition without a leader,
and reports the end of that log to the controller (PkReplicaLogs). The controller does not request
reports, because a broker can easily repeat them by itself: to a new controller, which has none, and
after the broker has restarted.

A *report* is valid for one incarnation of the broker and one leader epoch of the partition. During
these the log is neither appended to nor truncated: a broker that has applied an image without a
leader neither leads nor follows, and the next leader begins another epoch.

The *needed* replicas are the eligible ones and those in `last_known_elr`: each of them may be the
only one that still has all acknowledged records (partition_change_builder.py, step 3). The config
`unclean.recovery.strategy` determines how long the partition waits for them:

    Balanced    until all needed replicas have reported, without a time limit
    Aggressive  the same, but at most `unclean.recovery.timeout.ms`
    None        until the last leader has reported

Then the log with the highest (leader epoch of its last batch, log end) leads. All replicas that
have reported are compared, not only the needed ones. Ties are resolved in favor of logs without
damage, then the log that begins earliest, the last leader, and the first in the list of replicas.

Proof sketch: the elected log has every acknowledged record if the log of one needed replica is
whole. Let W be that log: it has every acknowledged record. Every log is, from its start to its end,
a part of what some leader wrote. Followers append in order, and truncate the records that their
leader lacks before they append in its epoch. Recovery truncates a damaged log where the damage
begins. So two logs with batches of the same epoch agree, within that epoch, up to the end of the
shorter one. Let E be the elected log; its (epoch, end) is not below that of W.

- If the last epochs are equal, E is at least as long as W, and agrees with it up to W's end.
- If the last epoch e of E is later, then E has a batch that the leader of e wrote, and so all
  records that this leader had when e began. These include every record acknowledged until then,
  because this leader was elected by the same rules. No record was acknowledged in e or later,
  because W has no batch of e.

The proof does not cover unclean elections that gave up records; the epoch that such an election
begins is above those of the lost records.

The cases:

    case                           who leads, and when               what may be lost
    -----------------------------  --------------------------------  -------------------------------
    a single replica               that replica, at once, whatever   what its log lost; its broker
                                   its log contains                  logs that
    min.insync.replicas=1          the last leader; also others, if  what the last member of the ISR
                                   it may not have known yet that    lost
                                   it was alone in the ISR
    a needed replica never         with Balanced, none; the status   nothing while it waits; with
    returns                        names the broker, and an          Aggressive, or if an operator
                                   operator decides                  elects, what it alone had
    a replica out of the ISR has   that replica, which by the proof  nothing
    the longest log                has all acknowledged records
    all needed replicas are        the longest log, after all other  what no log has; the controller
    damaged, or all logs end       replicas have reported too; with  logs an error, and records the
    below a known high watermark   None an operator decides          epoch as unclean
    a compacted log                the longest: compaction keeps     nothing: the leader of a later
                                   the end of a log and the epoch    epoch may have removed records
                                   of its last batch                 that newer ones replace. Damage
                                                                     is truncated as in any log
    transactions                   the longest: markers are records  nothing: an acknowledged end of
                                                                     a transaction is in the log; if
                                                                     its marker is not, the
                                                                     coordinator writes it
    a closed segment was found     as if it were whole, because its  what only that segment held
    damaged while the broker ran   end is, but after equal logs
    (core/broker/upkeep/           without damage. If there is a
    scrubber.py)                   leader, the replica stays in the
                                   ISR, and hands leadership to an
                                   undamaged one
    an internal topic              as for any topic; its             nothing: committed offsets and
                                   coordinators load from the        transactions are acknowledged
                                   elected log                       records
    __cluster_metadata             it has no ISR: its store decides  embedded: the torn end of an
                                   what it contains. The embedded    unacknowledged write; with
                                   store is one directory, and a     damage before the end
                                   controller that finds it damaged  (core/log/torn_tail.py) nothing
                                   does not start; etcd and          is truncated. Others: nothing
                                   ZooKeeper have a majority         while a majority keep their
                                                                     disks
    unclean.leader.election.       the first replica that is         anything: there is no guarantee
    enable=true                    available
    an operator elects             the longest of the reported       what the others have beyond it;
    (ElectLeaders, unclean)        logs, or the replica that the     the plan shows that before
                                   operator named
                                   (PkUncleanRecovery)

If a partition has a leader, but the leader lacks records that a follower knows to be committed,
stopped_followers.py applies.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from pk.core.config import BrokerConfig
from pk.core.errors import ErrorCode
from pk.core.machine import Decision
from pk.core.meta.events import Event, PartitionChanged
from pk.core.meta.image import MetadataImage, PartitionImage, TopicImage, changed
from pk.core.meta.partition_change_builder import Nodes, PartitionChangeBuilder
from pk.core.meta.partition_rules import PartitionRules
from pk.core.meta.stopped_followers import compare, elect_follower
from pk.core.values import NO_LEADER, NO_NODE, NO_OFFSET, TopicIdPartition
from pk.core.wire.messages.pk_replica_logs import (
    PartitionResult,
    PkReplicaLogsRequest,
    PkReplicaLogsResponse,
    ReplicaLog,
    TopicResult,
)
from pk.core.wire.messages.pk_unclean_recovery import (
    PartitionState,
    PkUncleanRecoveryRequest,
    PkUncleanRecoveryResponse,
    ReplicaState,
)

AGGRESSIVE: Final = "Aggressive"
NONE: Final = "None"


class Report(NamedTuple):
    """A broker's report of one log."""

    broker_epoch: int
    log: ReplicaLog


Reports = Mapping[TopicIdPartition, Mapping[int, Report]]
"""Reports by partition and broker."""
NO_REPORTS: Final[Mapping[int, Report]] = {}
NOTHING_KNOWN: Final[Reports] = {}


class Verdict(NamedTuple):
    """The decision about a partition without a leader."""

    leader: int = NO_LEADER
    """The new leader, or NO_LEADER while the partition waits."""
    lossy: bool = False
    """Whether electing `leader` may lose acknowledged records."""
    awaited: Nodes = ()
    """The replicas whose reports are missing."""
    reason: str = ""
    """The reason for waiting, or a description of the damage, for people."""


def needed(partition: PartitionImage) -> Nodes:
    """Return the replicas whose logs must be compared before the partition gets a leader."""
    found = dict.fromkeys((*partition.last_known_elr, *partition.elr))
    return tuple(node for node in found if node in partition.replicas)


def current_logs(
    rules: PartitionRules, partition: PartitionImage, reports: Mapping[int, Report]
) -> dict[int, ReplicaLog]:
    """Return the reported logs whose brokers may lead. Reports of earlier incarnations or leader
    epochs are left out."""
    found: dict[int, ReplicaLog] = {}
    for node in partition.replicas:
        report = reports.get(node)
        if report is None or not rules.may_lead(node, partition.directory(node)):
            continue
        log, epoch = report.log, rules.image.brokers[node].broker_epoch
        if (report.broker_epoch, log.leader_epoch) == (epoch, partition.leader_epoch):
            found[node] = log
    return found


def _is_readable(partition: PartitionImage, log: ReplicaLog) -> bool:
    """Whether the end of a log can be trusted: its last leader epoch must exist."""
    return log.end_offset >= 0 and log.last_epoch <= partition.leader_epoch


def best_replica(partition: PartitionImage, logs: Mapping[int, ReplicaLog]) -> int:
    """Return the replica with the best log, or NO_LEADER if no log can be trusted."""
    last = partition.last_known_elr[:1]

    def key(node: int) -> tuple[int, int, bool, int, bool, int]:
        log = logs[node]
        rank = -partition.replicas.index(node)
        sound = not (log.damage or log.damaged_segments)
        return log.last_epoch, log.end_offset, sound, -log.start_offset, node in last, rank

    readable = (node for node, log in logs.items() if _is_readable(partition, log))
    return max(readable, key=key, default=NO_LEADER)


def choose_leader(
    rules: PartitionRules,
    partition: PartitionImage,
    reports: Mapping[int, Report],
    *,
    timed_out: bool,
) -> Verdict:
    """Decide about a partition without a leader, by the rules above. `timed_out` is whether it has
    had none for `unclean.recovery.timeout.ms`."""
    logs, wanted = current_logs(rules, partition, reports), needed(partition)
    if rules.strategy == NONE:
        wanted = wanted[:1]
    stops_waiting = timed_out and rules.strategy == AGGRESSIVE
    missing = tuple(node for node in wanted if node not in logs)
    if missing and not stops_waiting:
        were = "it was" if len(missing) == 1 else "they were"
        reason = f"{were} in sync, and may have records that the others lack"
        return Verdict(awaited=missing, reason=reason)
    elected = (
        best_replica(partition, logs)
        if rules.strategy != NONE
        else wanted[0]
        if wanted
        else NO_NODE
    )
    loss = _loss_reason(partition, logs, wanted, elected)
    if missing:
        loss = "unclean.recovery.timeout.ms has passed"
    others = tuple(node for node in partition.replicas if node not in logs)
    if not loss:
        return Verdict(elected)
    if rules.strategy == NONE:
        return Verdict(reason=f"{loss}; an operator must elect a leader")
    if others and not stops_waiting:
        return Verdict(awaited=others, reason=loss)
    return Verdict(elected, True, reason=loss)


def _loss_reason(
    partition: PartitionImage, logs: Mapping[int, ReplicaLog], wanted: Nodes, elected: int
) -> str:
    """Return the reason that acknowledged records may be lost if `elected` leads, or ""."""
    sound = (n for n in wanted if n in logs and not logs[n].damage)
    if not any(_is_readable(partition, logs[node]) for node in sound):
        if wanted:
            return "every replica that was in sync may have lost records"
        return "no replica is known to have all records"
    valid = [log for log in logs.values() if log.last_epoch >= partition.unclean_epoch]
    committed = max((log.high_watermark for log in valid), default=NO_OFFSET)
    if logs[elected].end_offset < committed:
        return f"no log reaches offset {committed}, up to which records were committed"
    return ""


def recover(
    image: MetadataImage,
    reports: Reports,
    config: BrokerConfig,
    timed_out: AbstractSet[TopicIdPartition] = frozenset(),
) -> Decision[Event, dict[TopicIdPartition, Verdict]]:
    """Elect leaders for partitions that have reports but no leader. The reply has the `Verdict` on
    each of them."""
    verdicts: dict[TopicIdPartition, Verdict] = {}
    decision: Decision[Event, dict[TopicIdPartition, Verdict]] = Decision(reply=verdicts)
    rules = PartitionRules(image, config)
    for key, topic, partition in _leaderless(image, reports):
        verdict = choose_leader(rules, partition, reports[key], timed_out=key in timed_out)
        verdicts[key] = verdict
        if verdict.leader != NO_LEADER:
            change = PartitionChangeBuilder(rules, topic, partition)
            change.chosen, change.lossy = verdict.leader, verdict.lossy
            event = change.build()
            if event is not None:
                decision.records.append(event)
    return decision


def _leaderless(
    image: MetadataImage, reports: Reports
) -> Iterator[tuple[TopicIdPartition, TopicImage, PartitionImage]]:
    for key in reports:
        topic = image.topic_by_id(key.topic_id)
        partition = topic.partition(key.partition) if topic is not None else None
        if topic is not None and partition is not None and partition.leader == NO_LEADER:
            yield key, topic, partition


def report(
    image: MetadataImage,
    request: PkReplicaLogsRequest,
    config: BrokerConfig,
    reports: Reports = NOTHING_KNOWN,
) -> Decision[Event, PkReplicaLogsResponse]:
    """Decide a PkReplicaLogs request; the reply is its response. `reports` are those received
    before.

    A damaged replica leaves the ISR and is no longer an eligible leader replica. A replica with
    damaged closed segments stays in the ISR, because its end is intact, but does not lead if an
    undamaged one may. The log of a stopped follower is compared with its leader's.

    Errors: STALE_BROKER_EPOCH for the whole request; for each partition UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER if the broker has no replica of the
    partition, FENCED_LEADER_EPOCH if the partition has no leader, or the replica has stopped, and
    the report is from another leader epoch.
    """
    node = request.broker_id
    if image.is_stale(node, request.broker_epoch):
        return Decision(reply=PkReplicaLogsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    decision: Decision[Event, PkReplicaLogsResponse] = Decision()
    decision.reply = response = PkReplicaLogsResponse()
    rules = PartitionRules(image, config)
    done: dict[TopicIdPartition, PartitionImage] = {}
    for asked in request.topics:
        topic = image.topic_by_id(asked.topic_id)
        answer = TopicResult(topic_id=asked.topic_id)
        response.topics.append(answer)
        for log in asked.partitions:
            result = PartitionResult(partition_index=log.partition_index)
            answer.partitions.append(result)
            if topic is None:
                result.error_code = ErrorCode.UNKNOWN_TOPIC_ID
                continue
            key = TopicIdPartition(asked.topic_id, log.partition_index)
            partition = done.get(key) or topic.partition(log.partition_index)
            if partition is None:
                result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            if node not in partition.replicas:
                result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                continue
            event = None
            if log.damage:
                event = _damaged(rules, topic, partition, node)
            elif log.damaged_segments:
                event = _move_leadership(
                    rules, topic, partition, node, reports.get(key, NO_REPORTS)
                )
            if event is not None:
                decision.records.append(event)
                partition = done[key] = changed(partition, event)
            is_old = log.leader_epoch != partition.leader_epoch
            if is_old and (partition.leader == NO_LEADER or log.stopped):
                result.error_code = ErrorCode.FENCED_LEADER_EPOCH
            elif _is_stopped(partition, node, log):
                compared = compare(rules, topic, partition, node, log)
                result.may_cut, result.why = compared.may_continue, compared.reason
                if compared.becomes_leader:
                    event = elect_follower(rules, topic, partition, node)
                    if event is not None:
                        decision.records.append(event)
                        done[key] = changed(partition, event)
    return decision


def _is_stopped(partition: PartitionImage, node: int, log: ReplicaLog) -> bool:
    return log.stopped and partition.leader not in (NO_LEADER, node)


def _damaged(
    rules: PartitionRules, topic: TopicImage, partition: PartitionImage, node: int
) -> PartitionChanged | None:
    """Remove a damaged replica from the ISR or the eligible replicas. Its broker has just opened
    its logs and does not serve clients yet, so it joined them before the damage was found. A sole
    replica stays, because no other could lead."""
    if len(partition.replicas) == 1:
        return None
    if node in partition.elr or (node in partition.isr and node != partition.leader):
        change = PartitionChangeBuilder(rules, topic, partition)
        change.lost = node
        return change.build()
    return None


def _move_leadership(
    rules: PartitionRules,
    topic: TopicImage,
    partition: PartitionImage,
    node: int,
    reports: Mapping[int, Report],
) -> PartitionChanged | None:
    """Move leadership from a broker with a damaged segment to an in-sync replica without reported
    damage. Returns None if there is no such replica, or the broker does not lead."""
    if partition.leader != node:
        return None
    for other in partition.isr:
        if (
            other != node
            and rules.may_lead(other, partition.directory(other))
            and not _has_damage(rules, other, reports)
        ):
            return PartitionChanged(topic.topic_id, partition.partition, leader=other)
    return None


def _has_damage(rules: PartitionRules, node: int, reports: Mapping[int, Report]) -> bool:
    """Whether the broker has reported damage in this incarnation."""
    report = reports.get(node)
    if report is None or report.broker_epoch != rules.image.brokers[node].broker_epoch:
        return False
    return bool(report.log.damage or report.log.damaged_segments)


def describe(
    image: MetadataImage,
    reports: Reports,
    request: PkUncleanRecoveryRequest,
    config: BrokerConfig,
    timed_out: AbstractSet[TopicIdPartition] = frozenset(),
) -> Decision[Event, PkUncleanRecoveryResponse]:
    """Decide a PkUncleanRecovery request, which elects `leader_id` if given; the reply is its
    response, with the state of the partitions before that.

    Errors of each partition: UNKNOWN_TOPIC_OR_PARTITION; ELECTION_NOT_NEEDED if it has a leader and
    no stopped follower; ELIGIBLE_LEADERS_NOT_AVAILABLE if the broker has no replica, or may not
    lead.
    """
    rules, decision = PartitionRules(image, config), Decision[Event, PkUncleanRecoveryResponse]()
    decision.reply = response = PkUncleanRecoveryResponse(error_message=None)
    for name, number in _requested_partitions(image, reports, request):
        topic, partition = image.topics.get(name), image.partition(name, number)
        state = PartitionState(topic=name, partition=number, error_message=None)
        response.partitions.append(state)
        if topic is None or partition is None:
            state.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            continue
        key = TopicIdPartition(topic.topic_id, number)
        of_partition = reports.get(key, NO_REPORTS)
        _describe_partition(
            rules, topic, partition, of_partition, state, timed_out=key in timed_out
        )
        if request.leader_id == NO_NODE:
            continue
        stopped = any(replica.stopped for replica in state.replicas)
        node = request.leader_id
        if partition.leader != NO_LEADER and not stopped:
            state.error_code = ErrorCode.ELECTION_NOT_NEEDED
        elif node not in partition.replicas or not rules.may_lead(node, partition.directory(node)):
            state.error_code = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
            state.error_message = f"broker {node} has no replica of the partition that may lead now"
        else:
            change = PartitionChangeBuilder(rules, topic, partition)
            change.chosen, change.lossy, change.new_epoch = node, True, True
            event = change.build()
            decision.records += [] if event is None else [event]
    return decision


def _requested_partitions(
    image: MetadataImage, reports: Reports, request: PkUncleanRecoveryRequest
) -> Iterator[tuple[str, int]]:
    if request.topics is not None:
        for asked in request.topics:
            yield from ((asked.topic, number) for number in asked.partitions)
        return
    for topic in image.topics.values():
        for p in topic.partitions:
            logs = reports.get(TopicIdPartition(topic.topic_id, p.partition), NO_REPORTS)
            if p.leader == NO_LEADER or any(
                r.log.stopped or r.log.damage or r.log.damaged_segments for r in logs.values()
            ):
                yield topic.name, p.partition


def _describe_partition(
    rules: PartitionRules,
    topic: TopicImage,
    partition: PartitionImage,
    reports: Mapping[int, Report],
    state: PartitionState,
    *,
    timed_out: bool,
) -> None:
    state.leader_id, state.leader_epoch = partition.leader, partition.leader_epoch
    logs = current_logs(rules, partition, reports)
    if partition.leader == NO_LEADER:
        state.needed = list(needed(partition))
        # If only eligible replicas are needed, the first to return leads without a comparison.
        if set(state.needed) != set(partition.elr):
            verdict = choose_leader(rules, partition, reports, timed_out=timed_out)
            state.awaits, state.why = list(verdict.awaited), verdict.reason
    stopped = {node: log for node, log in logs.items() if _is_stopped(partition, node, log)}
    if stopped:
        found = {n: compare(rules, topic, partition, n, log).reason for n, log in stopped.items()}
        state.why = "; ".join(f"broker {node}: {reason}" for node, reason in found.items())
    for node in partition.replicas:
        report = reports.get(node)
        log = report.log if report is not None else None
        if log is None and node == partition.leader and stopped:
            log = logs[node] = _reported_leader_log(stopped.values())
        state.replicas.append(
            ReplicaState(broker_id=node)
            if log is None or (node not in logs and not log.damage and not log.damaged_segments)
            else ReplicaState(
                broker_id=node,
                reported=node in logs,
                last_epoch=log.last_epoch,
                end_offset=log.end_offset,
                start_offset=log.start_offset,
                high_watermark=log.high_watermark,
                damage=log.damage,
                kept_bytes=log.kept_bytes,
                stopped=log.stopped,
                damaged_segments=log.damaged_segments,
            )
        )


def _reported_leader_log(stopped: Iterable[ReplicaLog]) -> ReplicaLog:
    """Return the leader's log as stopped followers have reported it."""
    last = max(stopped, key=lambda log: log.leader_end_offset)
    return ReplicaLog(end_offset=last.leader_end_offset, last_epoch=last.leader_last_epoch)
