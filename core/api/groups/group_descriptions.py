"""Describes the groups of a request, each by its own coordinator: the common part of
DescribeGroups, ConsumerGroupDescribe, ShareGroupDescribe and StreamsGroupDescribe."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, Generic, Protocol, TypeVar

from msgspec import Struct

from pk.core.api.authorization import allows, is_on
from pk.core.api.authorized import GROUP_OPERATIONS
from pk.core.auth.acls import Operation, ResourceType
from pk.core.broker.coordinator.coordinator_shard import gather_replies
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.any_group import GroupType
from pk.core.wire.schema import Message

UNKNOWN_TOPICS: Final = (
    "The group has described topic(s) that the client is not authorized to describe."
)


class Described(Protocol):
    """The description of a group in the response to any of these requests."""

    group_id: str
    error_code: int
    authorized_operations: int


D = TypeVar("D", bound=Described)
R = TypeVar("R", bound=Message)


class DescribeRequest(Protocol):
    """A request to describe groups of the consumer, share or streams protocol."""

    group_ids: list[str]
    include_authorized_operations: bool


class GroupDescribe(Struct, Generic[D, R], frozen=True):
    """One of the APIs that describe groups."""

    group_type: GroupType
    failed: Callable[[str, KafkaError], D]
    """Creates the description of a group with an error."""
    response: Callable[..., R]
    """The class of the response."""
    topics_of: Callable[[D], Iterable[str]] | None = None
    """The topics in a description: a group gets an error if the client may not describe one of
    them."""

    async def answer(self, context: Context, request: DescribeRequest) -> R | Awaitable[R]:
        """Describe the groups of a request, each by its coordinator. Raises UNSUPPORTED_VERSION."""
        context.broker.groups.coordinators.check_protocol(self.group_type)
        operations = request.include_authorized_operations
        return await self.describe(context, request.group_ids, with_operations=operations)

    def error_response(self, request: DescribeRequest, error: KafkaError, version: int) -> R:
        """Return the response with the same error for every group."""
        return self.response(groups=[self.failed(g, error) for g in request.group_ids])

    async def describe(
        self, context: Context, group_ids: Sequence[str], *, with_operations: bool
    ) -> R | Awaitable[R]:
        """Return the response to a request for these groups, or an awaitable of it. A group that
        the client may not describe is refused, whether it exists or not. A repeated group is
        described once. `with_operations` adds the client's authorized operations for each group
        (KIP-430)."""

        async def response(groups: list[D]) -> R:
            if with_operations:
                await _add_operations(context, groups)
            if self.topics_of is not None and is_on(context):
                await self._hide_topics(context, groups, self.topics_of)
            return self.response(groups=groups)

        async def wait(answers: list[D | Awaitable[D]]) -> R:
            return await response(await gather_replies(answers))

        answers: list[D | Awaitable[D]] = []
        for group_id in dict.fromkeys(group_ids):
            answers.append(self._describe_group(context, group_id))
            await let_others_run()
        ready = [answer for answer in answers if not isinstance(answer, Awaitable)]
        return await response(ready) if len(ready) == len(answers) else wait(answers)

    def _describe_group(self, context: Context, group_id: str) -> D | Awaitable[D]:
        group_type = self.group_type
        try:
            if not allows(context, Operation.DESCRIBE, ResourceType.GROUP, group_id):
                raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
            if not group_id and group_type is not GroupType.CLASSIC:
                raise KafkaError(ErrorCode.INVALID_GROUP_ID)
            answer: D | Awaitable[D] = context.broker.groups.coordinators.submit_nowait(
                group_id, lambda machine, _, now_ms: machine.describe(group_type, group_id, now_ms)
            )
        except KafkaError as e:
            return self.failed(group_id, e)
        return self._described(group_id, answer) if isinstance(answer, Awaitable) else answer

    async def _described(self, group_id: str, answer: Awaitable[D]) -> D:
        try:
            return await answer
        except KafkaError as e:
            return self.failed(group_id, e)

    async def _hide_topics(
        self, context: Context, groups: list[D], topics_of: Callable[[D], Iterable[str]]
    ) -> None:
        """Replace the descriptions of groups with an error if they read topics that the client may
        not describe."""
        error = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPICS)
        for index, group in enumerate(groups):
            for name in dict.fromkeys(topics_of(group)):
                if not allows(context, Operation.DESCRIBE, ResourceType.TOPIC, name):
                    groups[index] = self.failed(group.group_id, error)
                    break
                await let_others_run()
            await let_others_run()


def failed_description(described: Callable[..., D]) -> Callable[[str, KafkaError], D]:
    """Return a `failed` for descriptions of this class, which have fields for the error's code and
    message."""

    def failed(group_id: str, error: KafkaError) -> D:
        message = error.message or None
        return described(group_id=group_id, error_code=error.code, error_message=message)

    return failed


async def _add_operations(context: Context, groups: list[D]) -> None:
    for group in groups:
        if group.error_code == ErrorCode.NONE:
            group.authorized_operations = context.broker.authorization.operations(
                context, ResourceType.GROUP, group.group_id, GROUP_OPERATIONS
            )
        await let_others_run()
