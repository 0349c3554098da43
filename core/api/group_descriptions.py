"""Describes the groups that a request names, each by its own coordinator: what DescribeGroups,
ConsumerGroupDescribe and ShareGroupDescribe have in common.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from inspect import isawaitable
from typing import Any, Final, Protocol, TypeVar

from pk.core.api.authorization import allows, is_on
from pk.core.api.authorized import GROUP_OPERATIONS
from pk.core.api.long_requests import begin
from pk.core.auth.acls import Operation, ResourceType
from pk.core.broker.coordinator.coordinator import all_of
from pk.core.broker.requests.context import Context
from pk.core.broker.turns import finish
from pk.core.errors import ErrorCode, KafkaError
from pk.core.turns import Pace, Turns, joined


class Described(Protocol):
    """The description of a group, in the answer of any of these requests."""

    group_id: str
    error_code: int
    authorized_operations: int


D = TypeVar("D", bound=Described)
R = TypeVar("R")


def describe_each(
    context: Context,
    group_ids: Sequence[str],
    describe: Callable[[str], Any],
    failed: Callable[[str, KafkaError], D],
    respond: Callable[[list[D]], R],
    *,
    with_operations: bool,
) -> Any:
    """Answer a request that describes groups: its response, or what the connection must wait for. A
    group that the asker may not describe is refused, whether it exists or not.

    `describe` asks the coordinator of one group, and returns a list of its description or an
    awaitable of that; an error that it raises is the group's own, and `failed` describes it.
    `respond` makes the response. `with_operations` adds what the client may do with each group
    (KIP-430).
    """
    return begin(_describe_each(context, group_ids, describe, failed, respond, with_operations))


def _describe_each(
    context: Context,
    group_ids: Sequence[str],
    describe: Callable[[str], Any],
    failed: Callable[[str, KafkaError], D],
    respond: Callable[[list[D]], R],
    with_operations: bool,
) -> Turns[R | Awaitable[R]]:
    answers: list[Any] = []
    pace, at_hand = Pace(), True
    for group_id in group_ids:
        answer: Any
        if allows(context, Operation.DESCRIBE, ResourceType.GROUP, group_id):
            answer = _describe(group_id, describe, failed)
        else:
            answer = [failed(group_id, KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))]
        answers.append(answer)
        at_hand = at_hand and isinstance(answer, list)
        if pace.due():
            yield
    if at_hand:
        return (yield from _response(context, answers, respond, with_operations))
    return _wait(context, answers, respond, with_operations)


def _describe(
    group_id: str, describe: Callable[[str], Any], failed: Callable[[str, KafkaError], D]
) -> Any:
    try:
        answer = describe(group_id)
    except KafkaError as e:
        return [failed(group_id, e)]
    return _describe_later(group_id, answer, failed) if isawaitable(answer) else answer


async def _describe_later(
    group_id: str, answer: Awaitable[list[D]], failed: Callable[[str, KafkaError], D]
) -> list[D]:
    try:
        return await answer
    except KafkaError as e:
        return [failed(group_id, e)]


async def _wait(
    context: Context, answers: list[Any], respond: Callable[[list[D]], R], with_operations: bool
) -> R:
    return await finish(_response(context, await all_of(answers), respond, with_operations))


def _response(
    context: Context, answers: list[list[D]], respond: Callable[[list[D]], R], with_operations: bool
) -> Turns[R]:
    groups = yield from joined(answers)
    if with_operations:
        pace = Pace()
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = context.broker.authorization.operations(
                    context, ResourceType.GROUP, group.group_id, GROUP_OPERATIONS
                )
            if pace.due():
                yield
    return respond(groups)


UNKNOWN_TOPICS: Final = (
    "The group has described topic(s) that the client is not authorized to describe."
)


def hide_topics(
    context: Context,
    groups: list[D],
    topics_of: Callable[[D], Iterable[str]],
    failed: Callable[[str, KafkaError], D],
) -> list[D]:
    """The descriptions, without those of groups that read topics which the asker may not describe:
    they have an error."""
    if not is_on(context):
        return groups
    error = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPICS)
    return [
        group
        if all(
            allows(context, Operation.DESCRIBE, ResourceType.TOPIC, name)
            for name in dict.fromkeys(topics_of(group))
        )
        else failed(group.group_id, error)
        for group in groups
    ]
