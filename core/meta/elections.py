"""Elections when brokers fail and return, and on request (KIP-460, KIP-966).

This module selects the partitions to reconsider; partition_change_builder.py decides each one.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from pk.core.config import BrokerConfig
from pk.core.errors import ErrorCode, KafkaError
from pk.core.machine import Decision
from pk.core.meta.events import Event, PartitionChanged
from pk.core.meta.image import MetadataImage, PartitionImage, TopicImage
from pk.core.meta.partition_change_builder import PartitionChangeBuilder, without
from pk.core.meta.partition_rules import PartitionRules
from pk.core.meta.unclean_recovery import NO_REPORTS, Reports, best_replica, current_logs
from pk.core.values import NO_LEADER, TopicIdPartition, Uuid
from pk.core.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

PREFERRED: Final = 0
UNCLEAN: Final = 1
"""The election types of ElectLeaders."""

ELECTIONS_MAX: Final = 1_000
"""The maximum number of leaders that one round of rebalancing moves. Clients must look up each new
leader."""


def _partitions(image: MetadataImage) -> Iterator[tuple[TopicImage, PartitionImage]]:
    for topic in image.topics.values():
        for partition in topic.partitions:
            yield topic, partition


def leads(image: MetadataImage, node: int) -> bool:
    """Whether `node` leads any partition."""
    return any(partition.leader == node for _, partition in _partitions(image))


def remove_from_isrs(
    image: MetadataImage,
    rules: PartitionRules,
    node: int,
    directories: AbstractSet[Uuid] | None = None,
) -> Iterator[PartitionChanged]:
    """Remove `node` from ISRs and leadership because it may no longer lead, or, given
    `directories`, because those failed. `image` and `rules` already reflect that."""
    for topic, partition in _partitions(image):
        if node not in partition.isr and partition.leader != node:
            continue
        if directories is not None and partition.directory(node) not in directories:
            continue
        change = PartitionChangeBuilder(rules, topic, partition)
        change.isr = without(partition.isr, node)
        event = change.build()
        if event is not None:
            yield event


def broker_registered(
    image: MetadataImage, rules: PartitionRules, node: int, *, clean: bool
) -> Iterator[PartitionChanged]:
    """Change the partitions of a new incarnation of `node`: it leaves every ISR, and unless it shut
    down cleanly, it is no longer an eligible leader replica. If it stays leader (because it
    registered unfenced), it begins a new leader epoch, so that nothing from the old incarnation is
    attributed to the new one. `image` and `rules` already contain its registration."""
    for topic, partition in _partitions(image):
        led = partition.leader == node
        waits = partition.leader == NO_LEADER and node in partition.replicas
        if not (led or waits or node in partition.isr or node in partition.elr):
            continue
        change = PartitionChangeBuilder(rules, topic, partition)
        change.isr, change.new_epoch = without(partition.isr, node), led
        if not clean:
            change.lost = node
        event = change.build()
        if event is not None:
            yield event


def broker_unfenced(
    image: MetadataImage, rules: PartitionRules, node: int
) -> Iterator[PartitionChanged]:
    """Elect leaders for partitions of `node` without a leader, now that it may lead again. `image`
    and `rules` already reflect that."""
    for topic, partition in _partitions(image):
        if partition.leader == NO_LEADER and node in partition.replicas:
            event = PartitionChangeBuilder(rules, topic, partition).build()
            if event is not None:
                yield event


def elect_offline(image: MetadataImage, config: BrokerConfig) -> Decision[Event, int]:
    """Elect leaders for partitions that have none, after a change of
    `unclean.leader.election.enable` that may allow it. The reply is the number of elected
    leaders."""
    rules = PartitionRules(image, config)
    events: list[Event] = []
    for topic, partition in _partitions(image):
        if partition.leader == NO_LEADER:
            event = PartitionChangeBuilder(rules, topic, partition).build()
            if event is not None and event.leader is not None:
                events.append(event)
    return Decision(events, reply=len(events))


def rules_changed(
    old: MetadataImage, new: MetadataImage, config: BrokerConfig
) -> list[PartitionChanged]:
    """Change partitions after a change of `min.insync.replicas` or
    `unclean.leader.election.enable`.

    If the minimum is lower now, eligible leader replicas may lack records that are acknowledged
    from here on. Any partition whose minimum changes gets a new partition epoch, so that its leader
    cannot change the ISR, and act on the response, before it knows the new minimum. Partitions
    without a leader get one if the new configs allow it.
    """
    before, after = PartitionRules(old, config), PartitionRules(new, config)
    events: list[PartitionChanged] = []
    for topic, partition in _partitions(new):
        count = len(partition.replicas)
        moved = min(before.of(topic.name)[0], count) != min(after.of(topic.name)[0], count)
        if moved or partition.leader == NO_LEADER:
            event = PartitionChangeBuilder(after, topic, partition).build()
            if event is None and moved:
                event = PartitionChanged(topic.topic_id, partition.partition)
            if event is not None:
                events.append(event)
    return events


def rebalance_leaders(image: MetadataImage, config: BrokerConfig) -> Decision[Event, bool]:
    """Return leadership to preferred replicas that are in sync. The caller checks
    `auto.leader.rebalance.enable`. The reply is whether there are more to move: one decision moves
    at most ELECTIONS_MAX."""
    rules = PartitionRules(image, config)
    events: list[Event] = []
    for topic, partition in _partitions(image):
        node = partition.preferred_leader
        if partition.leader == node or node not in partition.isr:
            continue
        change = PartitionChangeBuilder(rules, topic, partition)
        change.preferred = True
        event = change.build()
        if event is None or event.leader != node:
            continue
        if len(events) == ELECTIONS_MAX:
            return Decision(events, reply=True)
        events.append(event)
    return Decision(events, reply=False)


def elect_leaders(
    image: MetadataImage,
    request: ElectLeadersRequest,
    config: BrokerConfig,
    reports: Reports | None = None,
) -> Decision[Event, ElectLeadersResponse]:
    """Decide an ElectLeaders request; the reply is its response. `reports` are the replicas' logs,
    which an unclean election compares.

    Errors of each partition: UNKNOWN_TOPIC_OR_PARTITION; ELECTION_NOT_NEEDED if the preferred
    replica leads already or (unclean) there is any leader; PREFERRED_LEADER_NOT_AVAILABLE;
    ELIGIBLE_LEADERS_NOT_AVAILABLE if no replica is available. If the request is for all partitions
    (null), those that need no election are left out. An unknown election type is answered with
    INVALID_REQUEST, for the request and for each partition.
    """
    decision: Decision[Event, ElectLeadersResponse] = Decision()
    decision.reply = response = ElectLeadersResponse()
    if request.election_type not in (PREFERRED, UNCLEAN):
        response.error_code = ErrorCode.INVALID_REQUEST
        response.replica_election_results = refused(
            request,
            KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}"),
        )
        return decision
    rules, reports = PartitionRules(image, config), reports or {}
    everything = request.topic_partitions is None
    asked = (
        ((t.name, range(len(t.partitions))) for t in image.topics.values())
        if request.topic_partitions is None
        else ((t.topic, t.partitions) for t in request.topic_partitions)
    )
    done: set[tuple[str, int]] = set()
    for name, numbers in asked:
        result = ReplicaElectionResult(topic=name)
        for number in numbers:
            code, message, event = _elect(
                image, rules, name, number, request.election_type, reports
            )
            if everything and code == ErrorCode.ELECTION_NOT_NEEDED:
                continue
            if event is not None and (name, number) not in done:
                done.add((name, number))
                decision.records.append(event)
            result.partition_result.append(
                PartitionResult(partition_id=number, error_code=code, error_message=message)
            )
        if result.partition_result or not everything:
            response.replica_election_results.append(result)
    return decision


def refused(request: ElectLeadersRequest, error: KafkaError) -> list[ReplicaElectionResult]:
    """Return results with the same error for each partition that the request names."""
    return [
        ReplicaElectionResult(
            topic=topic.topic,
            partition_result=[
                PartitionResult(
                    partition_id=number, error_code=error.code, error_message=error.message
                )
                for number in topic.partitions
            ],
        )
        for topic in request.topic_partitions or ()
    ]


def _elect(
    image: MetadataImage,
    rules: PartitionRules,
    name: str,
    number: int,
    election_type: int,
    reports: Reports,
) -> tuple[ErrorCode, str | None, PartitionChanged | None]:
    topic, partition = image.topics.get(name), image.partition(name, number)
    if topic is None or partition is None:
        what = f"topic as {name}" if topic is None else f"partition as {name}-{number}"
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such {what}", None
    leader = partition.leader
    if leader == partition.preferred_leader or (election_type == UNCLEAN and leader != NO_LEADER):
        not_needed = "Leader election not needed for topic partition."
        return ErrorCode.ELECTION_NOT_NEEDED, not_needed, None
    change = PartitionChangeBuilder(rules, topic, partition)
    change.unclean = False
    if election_type == PREFERRED:
        change.preferred = True
        event = change.build()
        if event is None or event.leader is None:  # The event may only update `last_known_elr`.
            why = f"broker {partition.preferred_leader} may not lead now"
            return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, why, None
    else:
        event = change.build()
        if event is None or event.leader is None:
            key = TopicIdPartition(topic.topic_id, number)
            logs = current_logs(rules, partition, reports.get(key, NO_REPORTS))
            change = PartitionChangeBuilder(rules, topic, partition)
            change.unclean, change.chosen = True, best_replica(partition, logs)
            change.lossy = change.chosen != NO_LEADER
            event = change.build()
        if event is None or event.leader is None:
            return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "no replica may lead now", None
    return ErrorCode.NONE, None, event
