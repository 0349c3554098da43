"""Reassignments: moving replicas of partitions between brokers (KIP-455, KIP-860).

A reassignment of `[1, 2, 3]` to `[4, 2]` makes the replicas `[4, 2, 1, 3]`, with 4 *adding* and 1
and 3 *removing*. All of them replicate. The ISR change that brings both 4 and 2 into the ISR also
makes the replicas `[4, 2]` (partition_change_builder.py), and moves leadership if neither of them
leads. The replicas before the reassignment are always `replicas` without `adding`, and cancellation
restores them. This still holds if a reassignment is changed while it runs: a replica that was being
added and is no longer wanted is both adding and removing.
"""

from collections.abc import Iterable, Sequence

from pk.core.config import BrokerConfig
from pk.core.errors import ErrorCode, KafkaError
from pk.core.machine import Decision
from pk.core.meta.events import Event, PartitionChanged
from pk.core.meta.image import MetadataImage, PartitionImage, TopicImage, changed
from pk.core.meta.partition_change_builder import Nodes, PartitionChangeBuilder
from pk.core.meta.partition_rules import PartitionRules
from pk.core.values import Uuid
from pk.core.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from pk.core.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def original(partition: PartitionImage) -> Nodes:
    """Return the replicas before the reassignment in progress."""
    return tuple(n for n in partition.replicas if n not in partition.adding)


def target(partition: PartitionImage) -> Nodes:
    """Return the replicas after the reassignment in progress."""
    return tuple(n for n in partition.replicas if n not in partition.removing)


def check_replicas(image: MetadataImage, nodes: Sequence[int]) -> None:
    """Raise KafkaError(INVALID_REPLICA_ASSIGNMENT) if a partition cannot have these replicas."""

    def refuse(why: str) -> KafkaError:
        said = f"The manual partition assignment includes {why}"
        return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, said)

    if not nodes:
        raise refuse("an empty replica list.")
    for node in nodes:
        if nodes.count(node) > 1:
            raise refuse(f"the broker {node} more than once.")
        if node not in image.brokers:
            raise refuse(f"broker {node}, but no such broker is registered.")


def alter_reassignments(
    image: MetadataImage, request: AlterPartitionReassignmentsRequest, config: BrokerConfig
) -> Decision[Event, AlterPartitionReassignmentsResponse]:
    """Decide an AlterPartitionReassignments request; the reply is its response.

    Errors of each partition: UNKNOWN_TOPIC_OR_PARTITION; INVALID_REPLICA_ASSIGNMENT (see
    `check_replicas`); INVALID_REPLICATION_FACTOR if it changes and the request does not allow that;
    NO_REASSIGNMENT_IN_PROGRESS if there is nothing to cancel. Cancelling removes replicas at once,
    so it also fails with INVALID_REPLICA_ASSIGNMENT if acknowledged records would then be on fewer
    replicas than `min.insync.replicas` promises, unless unclean elections are allowed.
    """
    decision: Decision[Event, AlterPartitionReassignmentsResponse] = Decision()
    rules = PartitionRules(image, config)
    factor_may_change = request.allow_replication_factor_change
    decision.reply = response = AlterPartitionReassignmentsResponse(
        error_message=None, allow_replication_factor_change=factor_may_change
    )
    done: dict[tuple[Uuid, int], PartitionImage] = {}
    for asked in request.topics:
        answer = ReassignableTopicResponse(name=asked.name)
        response.responses.append(answer)
        for one in asked.partitions:
            result = ReassignablePartitionResponse(
                partition_index=one.partition_index, error_message=None
            )
            answer.partitions.append(result)
            try:
                topic, partition = _find(image, asked.name, one.partition_index)
                key = (topic.topic_id, partition.partition)
                partition = done.get(key, partition)
                if one.replicas is None:
                    event = _cancel(rules, topic, partition)
                else:
                    check_replicas(image, one.replicas)
                    event = _start(rules, topic, partition, one.replicas, factor_may_change)
            except KafkaError as e:
                result.error_code, result.error_message = e.code, e.message
                continue
            if event is not None:
                done[key] = changed(partition, event)
                decision.records.append(event)
    return decision


def _find(image: MetadataImage, name: str, number: int) -> tuple[TopicImage, PartitionImage]:
    topic, partition = image.topics.get(name), image.partition(name, number)
    if topic is None or partition is None:
        what = f"a topic named {name}" if topic is None else f"partition {name}:{number}"
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find {what}.")
    return topic, partition


def _start(
    rules: PartitionRules,
    topic: TopicImage,
    partition: PartitionImage,
    wanted: Sequence[int],
    factor_may_change: bool,
) -> PartitionChanged | None:
    before, now = original(partition), target(partition)
    if not factor_may_change and len(wanted) != len(now):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"the replication factor would change from {len(now)} to {len(wanted)}",
        )
    unwanted = tuple(n for n in partition.replicas if n not in wanted)
    change = PartitionChangeBuilder(rules, topic, partition)
    change.replicas = (*wanted, *unwanted)
    change.adding = _sorted(n for n in change.replicas if n not in before)
    change.removing = _sorted(unwanted)
    return change.build()


def _sorted(nodes: Iterable[int]) -> Nodes:
    return tuple(sorted(nodes))


def _cancel(
    rules: PartitionRules, topic: TopicImage, partition: PartitionImage
) -> PartitionChanged | None:
    if not partition.reassigning:
        raise KafkaError(
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
            "No partition reassignment is in progress.",
        )
    before = original(partition)
    isr_min, unclean = rules.of(topic.name)
    safe = {*partition.isr, *partition.elr}
    left = safe.intersection(before)
    if left != safe and len(left) < min(isr_min, len(before)) and not unclean:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"only {len(left)} of the replicas that {topic.name}-{partition.partition} would go"
            " back to have everything that was acknowledged",
        )
    change = PartitionChangeBuilder(rules, topic, partition)
    change.isr = tuple(n for n in partition.isr if n in before)
    change.replicas, change.adding, change.removing = before, (), ()
    return change.build()


def list_reassignments(
    image: MetadataImage, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Answer a ListPartitionReassignments request: returns those of the requested partitions (null:
    all) that are being reassigned. A partition that does not exist is left out."""
    response = ListPartitionReassignmentsResponse(error_message=None)
    asked = (
        ((t.name, range(len(t.partitions))) for t in image.topics.values())
        if request.topics is None
        else ((t.name, t.partition_indexes) for t in request.topics)
    )
    for name, numbers in asked:
        ongoing: list[OngoingPartitionReassignment] = []
        for number in numbers:
            p = image.partition(name, number)
            if p is not None and p.reassigning:
                ongoing.append(
                    OngoingPartitionReassignment(
                        partition_index=p.partition,
                        replicas=list(p.replicas),
                        adding_replicas=list(p.adding),
                        removing_replicas=list(p.removing),
                    )
                )
        if ongoing:
            response.topics.append(OngoingTopicReassignment(name=name, partitions=ongoing))
    return response
