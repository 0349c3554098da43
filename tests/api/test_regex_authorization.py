"""A regular expression of a consumer group reads only topics that its member may describe
(KIP-848)."""

from __future__ import annotations

import trio
from api.authorization_scenario import ask_handler, authorizing_node
from nodes import trio_test

from pk.core.auth.acls import Operation, PatternType, Permission, ResourceType
from pk.core.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pk.core.wire.messages.create_acls import AclCreation, CreateAclsRequest
from pk.core.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pk.core.wire.messages.find_coordinator import FindCoordinatorRequest
from pk.net.node import Node

ALICE = "User:alice"
LOADING = (14, 15, 16)


def rule(kind: ResourceType, name: str, operation: Operation) -> AclCreation:
    return AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=PatternType.LITERAL,
        principal=ALICE,
        host="*",
        operation=operation,
        permission_type=Permission.ALLOW,
    )


async def assigned(node: Node, member: str) -> int:
    """The number of topics in which a new member of a group gets partitions."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=f"group-{member}",
        member_id=member,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=None,
        subscribed_topic_regex="re-.*",
        topic_partitions=[],
    )
    while True:
        wish = FindCoordinatorRequest(key_type=0, coordinator_keys=[request.group_id])
        await ask_handler(node, None, wish, 4)
        answer = await ask_handler(node, ALICE, request, 1)
        if answer.error_code not in LOADING:
            break
        await trio.sleep(0.02)
    assert answer.error_code == 0, answer
    assert answer.assignment is not None
    return len(answer.assignment.topic_partitions)


@trio_test
async def test_what_a_member_may_not_describe_is_not_matched() -> None:
    async with authorizing_node() as node:
        names = ("re-open", "re-closed", "re-read")
        topics = [CreatableTopic(name=n, num_partitions=1, replication_factor=1) for n in names]
        made = await ask_handler(node, None, CreateTopicsRequest(topics=topics), 7)
        assert [topic.error_code for topic in made.topics] == [0, 0, 0]
        rules = [
            rule(ResourceType.GROUP, "group-a", Operation.READ),
            rule(ResourceType.GROUP, "group-b", Operation.READ),
            rule(ResourceType.TOPIC, "re-open", Operation.DESCRIBE),
        ]
        added = await ask_handler(node, None, CreateAclsRequest(creations=rules), 3)
        assert [result.error_code for result in added.results] == [0, 0, 0]
        assert await assigned(node, "a") == 1
        more = CreateAclsRequest(creations=[rule(ResourceType.TOPIC, "re-read", Operation.READ)])
        assert (await ask_handler(node, None, more, 3)).results[0].error_code == 0
        assert await assigned(node, "b") == 2
