"""ShareAcknowledge (79), versions 1–2: a member of a share group acknowledges records that it holds
(KIP-932).

KIP-1222 (v2): the member may renew its locks.
"""

from __future__ import annotations

from typing import Final

from pk.core.api.share.share_acknowledgements import (
    LEADER_ERRORS,
    Leader,
    acknowledge,
    acknowledgements_of,
    leader_of,
    session_key,
)
from pk.core.broker.requests.context import Context
from pk.core.group.any_group import GroupType
from pk.core.share.sessions import FINAL_EPOCH
from pk.core.values import Uuid
from pk.core.wire.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)

RENEWS_SINCE: Final = 2


async def handle(context: Context, request: ShareAcknowledgeRequest) -> ShareAcknowledgeResponse:
    """Store the acknowledgements, and close the session if this is its final request. Raises
    KafkaError."""
    broker = context.broker
    broker.groups.coordinators.check_protocol(GroupType.SHARE)
    key = session_key(request.group_id, request.member_id)
    acknowledgements = await acknowledgements_of(request.topics)
    broker.groups.share_partitions.sessions.acknowledge(key, request.share_session_epoch)
    renews = context.api_version >= RENEWS_SINCE and request.is_renew_ack
    found = await acknowledge(context, key, acknowledgements, renews=renews)
    if request.share_session_epoch == FINAL_EPOCH:
        broker.groups.share_partitions.end(key)
    response = ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=broker.groups.share_partitions.settings_of(
            key.group_id
        ).lock_duration_ms
    )
    topics: dict[Uuid, ShareAcknowledgeTopicResponse] = {}
    leaders: dict[int, Leader] = {}
    for tp, error in found.items():
        topic = topics.get(tp.topic_id)
        if topic is None:
            topic = topics[tp.topic_id] = ShareAcknowledgeTopicResponse(topic_id=tp.topic_id)
            response.responses.append(topic)
        data = PartitionData(partition_index=tp.partition)
        topic.partitions.append(data)
        if error is not None:
            data.error_code, data.error_message = error.code, error.message or None
            leader = leader_of(context, tp) if error.code in LEADER_ERRORS else None
            if leader is not None:
                leaders[leader.leader_id] = leader
                data.current_leader = LeaderIdAndEpoch(
                    leader_id=leader.leader_id, leader_epoch=leader.leader_epoch
                )
    response.node_endpoints = [
        NodeEndpoint(node_id=node, host=found.host, port=found.port, rack=found.rack)
        for node, found in leaders.items()
    ]
    return response
