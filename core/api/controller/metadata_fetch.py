"""Fetch (1) on a controller's listener, versions 4–18: the metadata log, topic `__cluster_metadata`
(KIP-595).

The topic is identified by name, from v13 on by id. There are no sessions (the response's session id
is 0), since a follower fetches only one partition. Existing records are sent at once, as whole
appends (core/broker/controller/metadata_feed.py); at the end of the log the fetch waits for more.
The high watermark is the log end: only durable records are sent.

A follower that is too far behind gets the id of a snapshot (v12, KIP-630), or OFFSET_OUT_OF_RANGE;
one whose log diverges gets a diverging epoch (v12) or OFFSET_OUT_OF_RANGE. If this node is not the
controller, the response is NOT_LEADER_OR_FOLLOWER, with the current leader.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from pk.core.api.authorization import check
from pk.core.auth.acls import CLUSTER_NAME, Operation, ResourceType
from pk.core.broker.controller.controller import Controller
from pk.core.broker.controller.embedded_store import TOPIC_ID
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.meta.image import MetadataImage
from pk.core.values import METADATA_TOPIC, NO_EPOCH
from pk.core.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    SnapshotId,
)

VERSION_DIVERGENCE: Final = 12
VERSION_TOPIC_ID: Final = 13
VERSION_REPLICA_STATE: Final = 15
VERSION_NODE_ENDPOINTS: Final = 16


def handle(context: Context, request: FetchRequest) -> FetchResponse | Awaitable[FetchResponse]:
    """Return the records from the fetch offset on, or wait for some. Raises
    KafkaError(CLUSTER_AUTHORIZATION_FAILED)."""
    check(context, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    if request.cluster_id is not None and request.cluster_id != newest_image(context).cluster_id:
        return FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    response = FetchResponse()
    wanted: tuple[FetchPartition, PartitionData] | None = None
    for topic in request.topics:
        answer = FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id)
        response.responses.append(answer)
        code = _error_for(context, topic)
        for partition in topic.partitions:
            data = PartitionData(
                partition_index=partition.partition, error_code=code, high_watermark=-1, records=b""
            )
            answer.partitions.append(data)
            if code:
                continue
            if partition.partition != 0 or wanted is not None:
                data.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            wanted = partition, data
    if wanted is None:
        return response
    return _fetch(context, request, response, *wanted)


def _error_for(context: Context, topic: FetchTopic) -> int:
    if context.api_version >= VERSION_TOPIC_ID:
        return 0 if topic.topic_id == TOPIC_ID else ErrorCode.UNKNOWN_TOPIC_ID
    return 0 if topic.topic == METADATA_TOPIC else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def _fetch(
    context: Context,
    request: FetchRequest,
    response: FetchResponse,
    wanted: FetchPartition,
    data: PartitionData,
) -> FetchResponse:
    try:
        controller = controller_in_epoch(context, wanted.current_leader_epoch)
        _record_progress(context, controller, request, wanted)
        await _read(context, controller, request, wanted, data)
        # This controller may have lost its leadership during the wait.
        controller_in_epoch(context, NO_EPOCH)
    except KafkaError as e:
        data.error_code = e.code
        data.records = b""
    if context.api_version >= VERSION_DIVERGENCE:
        image = newest_image(context)
        data.current_leader = LeaderIdAndEpoch(
            leader_id=image.controller_id, leader_epoch=image.controller_epoch
        )
    if data.error_code and context.api_version >= VERSION_NODE_ENDPOINTS:
        response.node_endpoints = _endpoints(context)
    return response


def newest_image(context: Context) -> MetadataImage:
    """Return the newest image of this node: that of the controller, which the broker may not have
    applied yet, else the broker's."""
    controller = context.broker.cluster.controller
    if controller is not None and controller.active:
        return controller.image
    return context.broker.image


def controller_in_epoch(context: Context, epoch: int) -> Controller:
    """Return this process's controller, if it is the active one in the epoch that the follower
    knows (-1: not given). Raises KafkaError: NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH,
    UNKNOWN_LEADER_EPOCH."""
    controller = context.broker.cluster.controller
    if controller is None or not controller.active:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if NO_EPOCH < epoch < controller.epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
    if epoch > controller.epoch:
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)
    return controller


def _record_progress(
    context: Context, controller: Controller, request: FetchRequest, wanted: FetchPartition
) -> None:
    """Record the follower's progress."""
    by_state = context.api_version >= VERSION_REPLICA_STATE
    replica_id = request.replica_state.replica_id if by_state else request.replica_id
    image = controller.image
    if replica_id in image.brokers or replica_id in image.controllers:
        controller.observers.fetched(
            replica_id,
            wanted.replica_directory_id,
            wanted.fetch_offset,
            controller.feed.end_offset,
            context.broker.clock.now_ms(),
        )


async def _read(
    context: Context,
    controller: Controller,
    request: FetchRequest,
    wanted: FetchPartition,
    data: PartitionData,
) -> None:
    """Add the records from the fetch offset on. Raises KafkaError(OFFSET_OUT_OF_RANGE)."""
    feed, clock = controller.feed, context.broker.clock
    offset, epoch = wanted.fetch_offset, wanted.last_fetched_epoch
    if offset == feed.end_offset and request.max_wait_ms > 0:
        await feed.wait_for_event(offset, clock.time() + request.max_wait_ms / 1000)
    found = feed.read(offset, min(request.max_bytes, wanted.partition_max_bytes), epoch)
    data.high_watermark = data.last_stable_offset = feed.end_offset
    data.log_start_offset = feed.start_offset
    if found is not None:
        data.records = found
    elif context.api_version < VERSION_DIVERGENCE:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    elif offset < feed.start_offset:
        snapshot = await feed.snapshot(clock.now_ms())
        data.snapshot_id = SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch)
    else:
        data.diverging_epoch = EpochEndOffset(
            epoch=feed.image.controller_epoch, end_offset=feed.end_offset
        )


def _endpoints(context: Context) -> list[NodeEndpoint]:
    """Return the endpoint of the active controller, if this node knows it."""
    image = context.broker.image
    known = image.controllers.get(image.controller_id)
    for endpoint in known.endpoints if known is not None else ():
        if endpoint.name == context.listener:
            return [
                NodeEndpoint(node_id=image.controller_id, host=endpoint.host, port=endpoint.port)
            ]
    return []
