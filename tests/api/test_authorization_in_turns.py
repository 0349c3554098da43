"""Whoever asks about many names has each looked up, so many in a turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from nodes import running_node, trio_test

from pk.core.api.authorization import check_subscription
from pk.core.api.groups import list_groups, streams_group_heartbeat
from pk.core.api.transactions import describe_transactions
from pk.core.auth.acls import ResourceType
from pk.core.auth.principal import KafkaPrincipal
from pk.core.broker.requests.authorization import Authorization
from pk.core.broker.requests.context import Context
from pk.core.config.views import STANDARD_AUTHORIZER
from pk.core.errors import ErrorCode, KafkaError
from pk.core.turns import AT_ONCE, Turns
from pk.core.wire.messages.describe_transactions import TopicData, TransactionState
from pk.core.wire.messages.list_groups import ListedGroup
from pk.core.wire.messages.streams_group_heartbeat import Subtopology, TopicInfo, Topology

TURNS = 4
NAMES = [f"name-{number}" for number in range(TURNS * AT_ONCE)]
OF_TOPICS, OF_GROUPS = ResourceType.TOPIC, ResourceType.GROUP


def groups(context: Context) -> Turns[Any]:
    return list_groups._visible(context, [ListedGroup(group_id=name) for name in NAMES])


def transaction(context: Context) -> Turns[Any]:
    state = TransactionState(topics=[TopicData(topic=name) for name in NAMES])
    return describe_transactions._hide_topics(context, state)


def subscription(context: Context) -> Turns[Any]:
    return check_subscription(context, NAMES)


def read(context: Context) -> Turns[Any]:
    parts = [Subtopology(source_topics=NAMES)]
    return streams_group_heartbeat._check_topology(context, Topology(subtopologies=parts))


def changelogs(context: Context) -> Turns[Any]:
    parts = [Subtopology(state_changelog_topics=[TopicInfo(name=name) for name in NAMES])]
    return streams_group_heartbeat._check_topology(context, Topology(subtopologies=parts))


@pytest.mark.parametrize("ask", [groups, transaction, subscription, read, changelogs])
def test_so_many_names_are_looked_up_in_a_turn(
    ask: Callable[[Context], Turns[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0
    allows = Authorization.allows

    def counting(self: Authorization, asker: Any, operation: Any, kind: Any, name: str, **log: Any):
        nonlocal asked
        asked += kind in (OF_TOPICS, OF_GROUPS)
        return allows(self, asker, operation, kind, name, **log)

    @trio_test
    async def run() -> None:
        nonlocal asked
        async with running_node(authorizer__class__name=STANDARD_AUTHORIZER) as node:
            monkeypatch.setattr(Authorization, "allows", counting)
            nobody = KafkaPrincipal("User", "nobody")
            work = ask(Context(node.broker, 68, 1, client_host="/127.0.0.1", principal=nobody))
            for _ in range(TURNS):
                asked = 0
                next(work)
                assert asked == AT_ONCE
            try:
                while True:
                    next(work)
            except StopIteration as done:
                assert not done.value, "nobody may see anything"
            except KafkaError as e:
                assert e.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    run()
