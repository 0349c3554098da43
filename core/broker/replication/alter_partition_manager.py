"""Requests changes of in-sync replicas from the controller (AlterPartition, KIP-497).

A partition that this broker leads has at most one proposal at a time; partitions with a proposal
are registered here. There is one request at a time, for all partitions that are due, so a broker
that lost a follower of a thousand partitions sends one request. No change counts before the
controller has confirmed it, except that a replica to be added already holds the high watermark
back.

Responses have Kafka's meaning. If the change is committed, or was before, the partition continues
from there. If a member is not eligible, the partition takes the proposal back and tries again
later. (An earlier copy of the proposal, whose response did not arrive, no longer counts, because
the refusal began a partition epoch.) If the partition's epoch, its leader's epoch or the topic
differs from the controller's, the controller knows more than this broker, and the proposal stays
until an image decides. After any other error, or without a response, the same request is sent
again, until an image makes it pointless.
"""

from __future__ import annotations

import logging
from typing import Final

import trio

from pk.core.broker.controller.controller_client import NodeToController
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.replication.partition import Partition
from pk.core.broker.replication.partition_environment import Proposal
from pk.core.broker.replication.proposals import Proposals
from pk.core.broker.replication.replicas import Replicas
from pk.core.broker.state import BrokerState
from pk.core.errors import ErrorCode, KafkaError, error_name
from pk.core.values import Uuid
from pk.core.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionData,
    ResponsePartitionData,
    TopicData,
)
from pk.core.wire.messages.alter_partition import BrokerState as IsrMember

logger = logging.getLogger("pk.replication")

RETRY_S: Final = 0.05
"""The pause after a failed request, in seconds."""
TIMEOUT_MS: Final = 5_000
"""How long one request may look for its controller, in ms. The next request includes all proposals
that are due then."""

REJECTED: Final = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
"""The controller's state of the partition is the same as this broker's, and the controller has
changed nothing."""
WAIT_FOR_IMAGE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""The controller's state of the partition differs from this broker's."""

Due = list[tuple[Partition, Proposal]]


class AlterPartitionManager:
    """Maintains the in-sync replicas of the partitions that this broker leads."""

    def __init__(
        self,
        state: BrokerState,
        replicas: Replicas,
        controller_client: NodeToController,
        proposals: Proposals,
    ) -> None:
        self._state = state
        self._replicas = replicas
        self._controller_client = controller_client
        self._proposals = proposals

    async def run(self) -> None:
        """Maintain the ISRs until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch)
            nursery.start_soon(self._send_proposals)

    async def _watch(self) -> None:
        """Look for followers that have fallen behind, every half of `replica.lag.time.max.ms` as
        Kafka does."""
        replicas = self._replicas
        while True:
            await trio.sleep(replicas.tasks.lag_s / 2)
            for partition in list(replicas):
                await let_others_run()
                if partition.leads and partition.followers and partition.offline is None:
                    self._shrink_and_expand(partition)

    def _shrink_and_expand(self, partition: Partition) -> None:
        slow = partition.shrink(self._replicas.tasks.now())
        if slow:
            logger.info(
                "%s: replicas %s are out of sync; log end %d, high watermark %d",
                partition.tp,
                ", ".join(_state(partition, node) for node in slow),
                partition.log.state.log_end_offset,
                partition.high_watermark,
            )
        # A follower that was about to join, and held the high watermark back, may have stopped;
        # another one may be allowed to join now.
        partition.advance_high_watermark()
        partition.expand()

    async def _send_proposals(self) -> None:
        while True:
            partitions = await self._proposals.take()
            due = [(p, p.proposal) for p in partitions if p.proposal is not None and p.leads]
            if due and (retry := await self._send(due)):
                await trio.sleep(RETRY_S)
                for partition in retry:
                    self._proposals.add(partition)

    async def _send(self, due: Due) -> list[Partition]:
        """Send the proposals in `due`. Returns the partitions whose request must be repeated."""
        request = request_of(self._state.node_id, self._state.broker_epoch, due)
        try:
            answer: AlterPartitionResponse = await self._controller_client.request(
                request, timeout_ms=TIMEOUT_MS
            )
        except KafkaError as e:
            logger.warning("could not report %d ISRs to the controller: %s", len(due), e)
            return [partition for partition, _ in due]
        if answer.error_code:
            logger.warning(
                "the controller refused changes of ISRs: %s", error_name(answer.error_code)
            )
            return [partition for partition, _ in due]
        answers = {
            (topic.topic_id, data.partition_index): data
            for topic in answer.topics
            for data in topic.partitions
        }
        retry: list[Partition] = []
        for partition, proposal in due:
            data, before = answers.get((partition.topic_id, partition.tp.partition)), partition.isr
            if data is None or not apply_result(partition, proposal, data):
                retry.append(partition)
            elif len(partition.isr) < len(before):
                self._state.metrics.isr_shrinks.value += 1
            elif len(partition.isr) > len(before):
                self._state.metrics.isr_expands.value += 1
        return retry


def request_of(node_id: int, broker_epoch: int, due: Due) -> AlterPartitionRequest:
    """Return one request for all of `due`."""
    topics: dict[Uuid, TopicData] = {}
    for partition, proposal in due:
        topic = topics.get(partition.topic_id)
        if topic is None:
            topic = topics[partition.topic_id] = TopicData(topic_id=partition.topic_id)
        topic.partitions.append(
            PartitionData(
                partition_index=partition.tp.partition,
                leader_epoch=proposal.leader_epoch,
                new_isr_with_epochs=[
                    IsrMember(broker_id=node, broker_epoch=epoch) for node, epoch in proposal.isr
                ],
                partition_epoch=proposal.partition_epoch,
            )
        )
    return AlterPartitionRequest(
        broker_id=node_id, broker_epoch=broker_epoch, topics=list(topics.values())
    )


def apply_result(partition: Partition, proposal: Proposal, data: ResponsePartitionData) -> bool:
    """Apply the result for one partition. Returns False if the request must be repeated."""
    code = data.error_code
    if code == ErrorCode.NONE:
        logger.info("%s: ISR is now %s", partition.tp, ", ".join(map(str, data.isr)))
        partition.accepted(proposal, tuple(data.isr), data.leader_epoch, data.partition_epoch)
        return True
    if code in REJECTED:
        logger.info("%s: ISR not changed: %s", partition.tp, error_name(code))
        partition.refused(proposal)
        return True
    if code in WAIT_FOR_IMAGE:
        logger.debug("%s: its ISR was not changed: %s", partition.tp, error_name(code))
        return True
    logger.warning("%s: ISR not changed: %s; retrying", partition.tp, error_name(code))
    return False


def _state(partition: Partition, node: int) -> str:
    follower = partition.followers.get(node)
    return f"{node} (at {follower.log_end_offset})" if follower is not None else str(node)
