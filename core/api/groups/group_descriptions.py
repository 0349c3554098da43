"""Describes the groups that a request names, each by its own coordinator: what DescribeGroups,
ConsumerGroupDescribe and ShareGroupDescribe have in common.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from inspect import isawaitable
from itertools import chain
from typing import Any, Final, Protocol, TypeVar

from pk.core.api.authorization import allows, is_on
from pk.core.api.authorized import GROUP_OPERATIONS
from pk.core.auth.acls import Operation, ResourceType
from pk.core.broker.coordinator.coordinator import all_of
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.wire.schema import Message


class Described(Protocol):
    """The description of a group, in the answer of any of these requests."""

    group_id: str
    error_code: int
    authorized_operations: int


D = TypeVar("D", bound=Described)
R = TypeVar("R", bound=Message)


async def describe_each(
    context: Context,
    group_ids: Sequence[str],
    describe: Callable[[str], Any],
    failed: Callable[[str, KafkaError], D],
    respond: Callable[[list[D]], R],
    *,
    with_operations: bool,
    topics_of: Callable[[D], Iterable[str]] | None = None,
) -> R | Awaitable[R]:
    """Answer a request that describes groups: its response, or what the connection must wait for. A
    group that the asker may not describe is refused, whether it exists or not; one that is named
    again is answered once.

    `describe` asks the coordinator of one group, and returns a list of its description or an
    awaitable of that; an error that it raises is the group's own, and `failed` describes it.
    `respond` makes the response. `with_operations` adds what the client may do with each group
    (KIP-430). `topics_of` names the topics that a description tells of: a group has an error if the
    asker may not describe one of them.
    """

    async def response(answers: list[list[D]]) -> R:
        groups = list(chain.from_iterable(answers))
        if with_operations:
            await _add_operations(context, groups)
        if topics_of is not None and is_on(context):
            await _hide_topics(context, groups, topics_of, failed)
        return respond(groups)

    return await _describe_each(context, group_ids, describe, failed, response)


async def _describe_each(
    context: Context,
    group_ids: Sequence[str],
    describe: Callable[[str], Any],
    failed: Callable[[str, KafkaError], D],
    response: Callable[[list[list[D]]], Awaitable[R]],
) -> R | Awaitable[R]:
    answers: list[Any] = []
    at_hand = True
    for group_id in dict.fromkeys(group_ids):
        answer: Any
        if allows(context, Operation.DESCRIBE, ResourceType.GROUP, group_id):
            answer = _describe(group_id, describe, failed)
        else:
            answer = [failed(group_id, KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))]
        answers.append(answer)
        at_hand = at_hand and isinstance(answer, list)
        await let_others_run()
    if at_hand:
        return await response(answers)
    return _wait(answers, response)


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


async def _wait(answers: list[Any], response: Callable[[list[list[D]]], Awaitable[R]]) -> R:
    return await response(await all_of(answers))


async def _add_operations(context: Context, groups: list[D]) -> None:
    for group in groups:
        if group.error_code == ErrorCode.NONE:
            group.authorized_operations = context.broker.authorization.operations(
                context, ResourceType.GROUP, group.group_id, GROUP_OPERATIONS
            )
        await let_others_run()


UNKNOWN_TOPICS: Final = (
    "The group has described topic(s) that the client is not authorized to describe."
)


async def _hide_topics(
    context: Context,
    groups: list[D],
    topics_of: Callable[[D], Iterable[str]],
    failed: Callable[[str, KafkaError], D],
) -> None:
    """Replace the descriptions of groups that read topics which the asker may not describe by an
    error."""
    error = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPICS)
    for place, group in enumerate(groups):
        for name in dict.fromkeys(topics_of(group)):
            if not allows(context, Operation.DESCRIBE, ResourceType.TOPIC, name):
                groups[place] = failed(group.group_id, error)
                break
            await let_others_run()
        await let_others_run()
