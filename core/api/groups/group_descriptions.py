"""Describes the groups of a request, each by its own coordinator: the common part of
DescribeGroups, ConsumerGroupDescribe, ShareGroupDescribe and StreamsGroupDescribe."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, Generic, Protocol, TypeVar

from msgspec import Struct

from pk.core.api.authorization import allows, is_on
from pk.core.api.authorized import GROUP_OPERATIONS
from pk.core.auth.acls import Operation, ResourceType
from pk.core.broker.coordinator.coordinator_shard import all_of
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.any_group import GroupType
from pk.core.wire.schema import Message


class Described(Protocol):
    """The description of a group in the response to any of these requests."""

    group_id: str
    error_code: int
    authorized_operations: int


D = TypeVar("D", bound=Described)
R = TypeVar("R", bound=Message)


async def describe_each(
    context: Context,
    group_ids: Sequence[str],
    group_type: GroupType,
    failed: Callable[[str, KafkaError], D],
    respond: Callable[[list[D]], R],
    *,
    with_operations: bool,
    topics_of: Callable[[D], Iterable[str]] | None = None,
) -> R | Awaitable[R]:
    """Answer a request that describes groups of one type: returns its response, or an awaitable of
    it. A group that the client may not describe is refused, whether it exists or not. A repeated
    group is answered once.

    `failed` creates the description of a group with an error. `respond` creates the response.
    `with_operations` adds the client's authorized operations for each group (KIP-430). `topics_of`
    returns the topics in a description: a group gets an error if the client may not describe one of
    them.
    """

    async def response(groups: list[D]) -> R:
        if with_operations:
            await _add_operations(context, groups)
        if topics_of is not None and is_on(context):
            await _hide_topics(context, groups, topics_of, failed)
        return respond(groups)

    async def wait(answers: list[D | Awaitable[D]]) -> R:
        return await response(await all_of(answers))

    answers: list[D | Awaitable[D]] = []
    for group_id in dict.fromkeys(group_ids):
        answers.append(_describe(context, group_type, group_id, failed))
        await let_others_run()
    at_hand = [answer for answer in answers if not isinstance(answer, Awaitable)]
    return await response(at_hand) if len(at_hand) == len(answers) else wait(answers)


def _describe(
    context: Context,
    group_type: GroupType,
    group_id: str,
    failed: Callable[[str, KafkaError], D],
) -> D | Awaitable[D]:
    try:
        if not allows(context, Operation.DESCRIBE, ResourceType.GROUP, group_id):
            raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        if not group_id and group_type is not GroupType.CLASSIC:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        answer: D | Awaitable[D] = context.broker.groups.coordinators.submit_nowait(
            group_id, lambda machine, _, now_ms: machine.describe(group_type, group_id, now_ms)
        )
    except KafkaError as e:
        return failed(group_id, e)
    return _described(group_id, answer, failed) if isinstance(answer, Awaitable) else answer


async def _described(
    group_id: str, answer: Awaitable[D], failed: Callable[[str, KafkaError], D]
) -> D:
    try:
        return await answer
    except KafkaError as e:
        return failed(group_id, e)


class DescribeRequest(Protocol):
    """A request that describes groups of the consumer, share or streams protocol."""

    group_ids: list[str]
    include_authorized_operations: bool


class GroupDescribe(Struct, Generic[D, R], frozen=True):
    """One of these requests, with the classes of its response."""

    group_type: GroupType
    described: Callable[..., D]
    response: Callable[..., R]
    topics_of: Callable[[D], Iterable[str]]

    async def answer(self, context: Context, request: DescribeRequest) -> R | Awaitable[R]:
        """Ask the coordinator of each group. Raises UNSUPPORTED_VERSION."""
        context.broker.groups.coordinators.check_protocol(self.group_type)
        return await describe_each(
            context,
            request.group_ids,
            self.group_type,
            self._failed,
            lambda groups: self.response(groups=groups),
            with_operations=request.include_authorized_operations,
            topics_of=self.topics_of,
        )

    def error_response(self, request: DescribeRequest, error: KafkaError, version: int) -> R:
        """The response with the same error for every group."""
        return self.response(groups=[self._failed(g, error) for g in request.group_ids])

    def _failed(self, group_id: str, error: KafkaError) -> D:
        return self.described(
            group_id=group_id, error_code=error.code, error_message=error.message or None
        )


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
    """Replace the descriptions of groups with an error if they read topics that the client may not
    describe."""
    error = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPICS)
    for place, group in enumerate(groups):
        for name in dict.fromkeys(topics_of(group)):
            if not allows(context, Operation.DESCRIBE, ResourceType.TOPIC, name):
                groups[place] = failed(group.group_id, error)
                break
            await let_others_run()
        await let_others_run()
