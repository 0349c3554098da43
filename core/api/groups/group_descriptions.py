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
from pk.core.api.registry import Outcome
from pk.core.auth.acls import Operation, ResourceType
from pk.core.broker.coordinator.coordinator import all_of
from pk.core.broker.pauses import finish
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.turns import Pace, Turns, joined, once
from pk.core.wire.schema import Message


class Described(Protocol):
    """The description of a group, in the answer of any of these requests."""

    group_id: str
    error_code: int
    authorized_operations: int


D = TypeVar("D", bound=Described)
R = TypeVar("R", bound=Message)


def describe_each(
    context: Context,
    group_ids: Sequence[str],
    describe: Callable[[str], Any],
    failed: Callable[[str, KafkaError], D],
    respond: Callable[[list[D]], R],
    *,
    with_operations: bool,
    topics_of: Callable[[D], Iterable[str]] | None = None,
) -> Any:
    """Answer a request that describes groups: its response, or what the connection must wait for. A
    group that the asker may not describe is refused, whether it exists or not; one that is named
    again is answered once.

    `describe` asks the coordinator of one group, and returns a list of its description or an
    awaitable of that; an error that it raises is the group's own, and `failed` describes it.
    `respond` makes the response. `with_operations` adds what the client may do with each group
    (KIP-430). `topics_of` names the topics that a description tells of: a group has an error if the
    asker may not describe one of them.
    """

    def response(answers: list[list[D]]) -> Turns[R]:
        groups = yield from joined(answers)
        if with_operations:
            yield from _add_operations(context, groups)
        if topics_of is not None and is_on(context):
            yield from _hide_topics(context, groups, topics_of, failed)
        return respond(groups)

    return begin(_describe_each(context, group_ids, describe, failed, response))


def _describe_each(
    context: Context,
    group_ids: Sequence[str],
    describe: Callable[[str], Any],
    failed: Callable[[str, KafkaError], D],
    response: Callable[[list[list[D]]], Turns[R]],
) -> Turns[R | Awaitable[Outcome[R]]]:
    answers: list[Any] = []
    pace, at_hand = Pace(), True
    for group_id in once(group_ids):
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
        return (yield from response(answers))
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


async def _wait(answers: list[Any], response: Callable[[list[list[D]]], Turns[R]]) -> R:
    return await finish(response(await all_of(answers)))


def _add_operations(context: Context, groups: list[D]) -> Turns[None]:
    pace = Pace()
    for group in groups:
        if group.error_code == ErrorCode.NONE:
            group.authorized_operations = context.broker.authorization.operations(
                context, ResourceType.GROUP, group.group_id, GROUP_OPERATIONS
            )
        if pace.due():
            yield


UNKNOWN_TOPICS: Final = (
    "The group has described topic(s) that the client is not authorized to describe."
)


def _hide_topics(
    context: Context,
    groups: list[D],
    topics_of: Callable[[D], Iterable[str]],
    failed: Callable[[str, KafkaError], D],
) -> Turns[None]:
    """Replace the descriptions of groups that read topics which the asker may not describe by an
    error."""
    error = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPICS)
    pace = Pace()
    for place, group in enumerate(groups):
        for name in once(topics_of(group)):
            if not allows(context, Operation.DESCRIBE, ResourceType.TOPIC, name):
                groups[place] = failed(group.group_id, error)
                break
            if pace.due():
                yield
        if pace.due():
            yield
