"""StreamsGroupHeartbeat (88), version 0: a member of a streams group joins with its topology,
learns its tasks, and leaves (KIP-1071).

Topics that the topology needs and that do not exist are reported as a status in a successful
response. The broker creates missing internal topics (core/group/streams/groups.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from itertools import chain

from pk.core.api.authorization import allows_cluster, check, check_subscription, is_on
from pk.core.api.registry import Outcome
from pk.core.auth.acls import Operation, ResourceType
from pk.core.broker.requests.context import Context
from pk.core.group.any_group import GroupType
from pk.core.group.settings import Client
from pk.core.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    Topology,
)


def handle(
    context: Context, request: StreamsGroupHeartbeatRequest
) -> StreamsGroupHeartbeatResponse | Awaitable[Outcome[StreamsGroupHeartbeatResponse]]:
    """Submit the heartbeat to the group's coordinator."""
    client = Client(context.client_id or "", context.client_host)
    coordinators = context.broker.groups.coordinators
    coordinators.check_protocol(GroupType.STREAMS)
    if request.topology is not None and is_on(context):
        _check_topology(context, request.topology)
    return coordinators.submit_nowait(
        request.group_id,
        lambda machine, _, now_ms: machine.streams_heartbeat(request, client, now_ms),
    )


def _check_topology(context: Context, topology: Topology) -> None:
    """Raise KafkaError(TOPIC_AUTHORIZATION_FAILED) if the member may not describe the topics that
    it reads and writes, or not create the internal topics that the broker would create for it."""
    parts = topology.subtopologies
    read = (name for part in parts for name in part.source_topics)
    check_subscription(context, chain(read, _internal(parts)))
    if allows_cluster(context, Operation.CREATE, log=False):
        return
    topics = context.broker.image.topics
    for name in dict.fromkeys(_internal(parts)):
        if name not in topics:
            check(context, Operation.CREATE, ResourceType.TOPIC, name)


def _internal(parts: list[Subtopology]) -> Iterator[str]:
    """Return the names of the topology's internal topics."""
    for part in parts:
        for topic in chain(part.repartition_source_topics, part.state_changelog_topics):
            yield topic.name
