"""DescribeQuorum (55), versions 0–2: the leader of the metadata log, and the progress of its
followers (KIP-595). v1 adds the times at which they last fetched and were last caught up (KIP-836),
v2 directories and addresses (KIP-853).

Voters are the nodes that may become the controller: one node with the embedded store; with etcd or
ZooKeeper, which elect one of them, all nodes. Observers are the other brokers that fetch. A node's
offset comes from its fetches; it is -1 if the node has not fetched from this controller.
"""

from __future__ import annotations

from typing import Final

from pk.core.api.controller.decide import active_controller
from pk.core.broker.controller.controller import Controller
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode
from pk.core.meta.topic_names import UNKNOWN_TOPIC
from pk.core.values import METADATA_TOPIC, ZERO_UUID, Uuid
from pk.core.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)

VERSION_NODES: Final = 2
OBSERVER_MS: Final = 300_000
"""The time after which an observer that does not fetch is no longer listed, in ms, as in Apache
Kafka."""


async def handle(context: Context, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Describe the quorum from the controller's state. Raises KafkaError(NOT_CONTROLLER)."""
    controller = active_controller(context)
    response = DescribeQuorumResponse(error_message=None)
    for topic in request.topics:
        answer = ResponseTopicData(topic_name=topic.topic_name)
        response.topics.append(answer)
        for partition in topic.partitions:
            data = ResponsePartitionData(
                partition_index=partition.partition_index, error_message=None
            )
            answer.partitions.append(data)
            if topic.topic_name == METADATA_TOPIC and partition.partition_index == 0:
                _describe(context, controller, data)
            else:
                data.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if context.api_version >= VERSION_NODES:
                    data.error_message = UNKNOWN_TOPIC
            await let_others_run()
    if context.api_version >= VERSION_NODES:
        response.nodes = [
            Node(
                node_id=node,
                listeners=[
                    Listener(name=e.name, host=e.host, port=e.port) for e in known.endpoints
                ],
            )
            for node, known in sorted(controller.image.controllers.items())
        ]
    return response


def _describe(context: Context, controller: Controller, data: ResponsePartitionData) -> None:
    image, end = controller.image, controller.feed.end_offset
    now_ms = context.broker.clock.now_ms()
    data.leader_id, data.leader_epoch = controller.controller_id, controller.epoch
    data.high_watermark = end
    for node in sorted({*image.controllers, controller.controller_id}):
        if node == controller.controller_id:
            leader = ReplicaState(
                replica_id=node,
                log_end_offset=end,
                last_fetch_timestamp=now_ms,
                last_caught_up_timestamp=now_ms,
            )
            _place(context, leader, _own_directory(context))
            data.current_voters.append(leader)
        else:
            data.current_voters.append(_state(context, controller, node))
    voters = {voter.replica_id for voter in data.current_voters}
    data.observers = [
        _state(context, controller, one.node_id)
        for one in sorted(controller.observers, key=lambda one: one.node_id)
        if one.node_id not in voters and now_ms - one.last_fetch_ms <= OBSERVER_MS
    ]


def _state(context: Context, controller: Controller, node: int) -> ReplicaState:
    one = controller.observers.get(node)
    if one is None:
        return ReplicaState(replica_id=node, log_end_offset=-1)
    state = ReplicaState(
        replica_id=node,
        log_end_offset=one.offset,
        last_fetch_timestamp=one.last_fetch_ms,
        last_caught_up_timestamp=one.caught_up_ms,
    )
    directory_id = one.directory_id
    if directory_id == ZERO_UUID:
        directory_id = _first_directory(controller, node)
    _place(context, state, directory_id)
    return state


def _place(context: Context, state: ReplicaState, directory_id: Uuid) -> None:
    if context.api_version >= VERSION_NODES:
        state.replica_directory_id = directory_id


def _first_directory(controller: Controller, node: int) -> Uuid:
    """Return the directory of a node that does not name one in its fetches: the first that it
    registered."""
    broker = controller.image.brokers.get(node)
    return broker.log_dirs[0] if broker is not None and broker.log_dirs else ZERO_UUID


def _own_directory(context: Context) -> Uuid:
    """Return the first of this process's log directories."""
    return next((d.directory_id for d in context.broker.data.replicas.directories), ZERO_UUID)
