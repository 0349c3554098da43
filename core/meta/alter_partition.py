"""ISR changes that leaders request (AlterPartition; KIP-497, KIP-841, KIP-903)."""

from typing import Final

from pk.core.config import BrokerConfig
from pk.core.errors import ErrorCode
from pk.core.machine import Decision
from pk.core.meta.events import Event, PartitionChanged
from pk.core.meta.image import MetadataImage, PartitionImage, changed
from pk.core.meta.partition_change_builder import PartitionChangeBuilder
from pk.core.meta.partition_rules import PartitionRules
from pk.core.values import NO_EPOCH, Uuid
from pk.core.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionData,
    ResponsePartitionData,
    ResponseTopicData,
)

EPOCHS_SINCE: Final = 3
"""The first version of AlterPartition whose ISR includes broker epochs (KIP-903)."""


def alter_partition(
    image: MetadataImage, request: AlterPartitionRequest, config: BrokerConfig, version: int
) -> Decision[Event, AlterPartitionResponse]:
    """Decide a leader's AlterPartition request (KIP-497, KIP-841, KIP-903); the reply is its
    response.

    Each partition is decided separately. A new ISR that completes a reassignment may move
    leadership to another broker. The response is then NEW_LEADER_ELECTED, although the change is
    made.

    A leader that learns that a replica may not join the ISR continues without it. An earlier copy
    of the request may still arrive from a dropped connection. If that copy were accepted later, a
    replica would join without its leader waiting for it. Therefore the refusal begins a new
    partition epoch, which invalidates such copies.
    """
    decision: Decision[Event, AlterPartitionResponse] = Decision()
    if image.is_stale(request.broker_id, request.broker_epoch):
        decision.reply = AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        return decision
    rules = PartitionRules(image, config)
    decision.reply = response = AlterPartitionResponse()
    done: dict[tuple[Uuid, int], PartitionImage] = {}
    for asked in request.topics:
        topic = image.topic_by_id(asked.topic_id)
        answer = ResponseTopicData(topic_id=asked.topic_id)
        response.topics.append(answer)
        for data in asked.partitions:
            if topic is None:
                answer.partitions.append(_refused(data, ErrorCode.UNKNOWN_TOPIC_ID))
                continue
            key = (topic.topic_id, data.partition_index)
            partition = done.get(key) or topic.partition(data.partition_index)
            if partition is None:
                answer.partitions.append(_refused(data, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
                continue
            isr = _epochs(data, version)
            code = _objection(image, rules, partition, request.broker_id, data, isr)
            if code != ErrorCode.NONE:
                answer.partitions.append(_refused(data, code))
                if code == ErrorCode.INELIGIBLE_REPLICA and _joins(partition, isr):
                    void = PartitionChanged(topic.topic_id, partition.partition)
                    decision.records.append(void)
                    done[key] = changed(partition, void)
                continue
            change = PartitionChangeBuilder(rules, topic, partition)
            change.isr, change.requested_by_leader = tuple(node for node, _ in isr), True
            change.recovering = bool(data.leader_recovery_state)
            event = change.build()
            if event is not None:
                decision.records.append(event)
                partition = done[key] = changed(partition, event)
            answer.partitions.append(_answer(partition, request.broker_id))
    return decision


def _epochs(data: PartitionData, version: int) -> list[tuple[int, int]]:
    """Return the requested ISR with the broker epochs that the leader knows, or -1 if it sent
    none."""
    if version < EPOCHS_SINCE:
        return [(node, NO_EPOCH) for node in data.new_isr]
    return [(state.broker_id, state.broker_epoch) for state in data.new_isr_with_epochs]


def _objection(
    image: MetadataImage,
    rules: PartitionRules,
    partition: PartitionImage,
    leader: int,
    data: PartitionData,
    isr: list[tuple[int, int]],
) -> ErrorCode:
    """Return the reason to refuse this ISR, or NONE."""
    nodes = [node for node, _ in isr]
    # The leader is ahead of this image: its state comes from another controller, the current one.
    if data.leader_epoch > partition.leader_epoch:
        return ErrorCode.NOT_CONTROLLER
    if data.partition_epoch > partition.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if data.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if leader != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if data.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if len(set(nodes)) < len(nodes) or not set(nodes).issubset(partition.replicas):
        return ErrorCode.INVALID_REQUEST
    if leader not in nodes:
        return ErrorCode.INVALID_REQUEST
    if data.leader_recovery_state not in (0, 1):
        return ErrorCode.INVALID_REQUEST
    if data.leader_recovery_state and (len(nodes) > 1 or not partition.recovering):
        return ErrorCode.INVALID_REQUEST
    for node, epoch in isr:
        if not rules.may_lead(node, partition.directory(node)):
            return ErrorCode.INELIGIBLE_REPLICA
        if epoch not in (NO_EPOCH, image.brokers[node].broker_epoch):
            return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _joins(partition: PartitionImage, isr: list[tuple[int, int]]) -> bool:
    return any(node not in partition.isr for node, _ in isr)


def _refused(data: PartitionData, code: ErrorCode) -> ResponsePartitionData:
    return ResponsePartitionData(partition_index=data.partition_index, error_code=code)


def _answer(partition: PartitionImage, asked_by: int) -> ResponsePartitionData:
    if partition.leader != asked_by:
        return ResponsePartitionData(
            partition_index=partition.partition, error_code=ErrorCode.NEW_LEADER_ELECTED
        )
    return ResponsePartitionData(
        partition_index=partition.partition,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        leader_recovery_state=int(partition.recovering),
        partition_epoch=partition.partition_epoch,
    )
