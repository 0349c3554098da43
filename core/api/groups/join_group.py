"""JoinGroup (11), versions 0–9: a member joins a group, or rejoins it in a rebalance.

KIP-62 (v1: rebalance timeout), KIP-394 (v4: MEMBER_ID_REQUIRED), KIP-345 (v5: static members),
KIP-559 (v7: protocol type), KIP-800 (v8: reasons), KIP-814 (v9: SkipAssignment). The response waits
until all members have joined (core/group/classic/groups.py).
"""

from collections.abc import Awaitable
from typing import Final

from pk.core.api.registry import Answer
from pk.core.broker.requests.context import Context
from pk.core.errors import KafkaError
from pk.core.group.settings import Client
from pk.core.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

NO_PROTOCOL_SINCE: Final = 7
"""The first version in which null means that no protocol was chosen; older ones use an empty
name."""


def handle(context: Context, request: JoinGroupRequest) -> Answer[JoinGroupResponse]:
    """Submit the join to the group's coordinator."""
    client = Client(context.client_id or "", context.client_host)
    answer = context.broker.groups.coordinators.submit_nowait(
        request.group_id,
        lambda machine, token, now_ms: machine.join(
            request, context.api_version, client, token, now_ms
        ),
    )
    if isinstance(answer, JoinGroupResponse):
        return _in_version(answer, context.api_version)
    return _wait(answer, context.api_version)


async def _wait(answer: Awaitable[JoinGroupResponse], version: int) -> JoinGroupResponse:
    return _in_version(await answer, version)


def _in_version(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    if version < NO_PROTOCOL_SINCE and response.protocol_name is None:
        response.protocol_name = ""
    return response


def error_response(request: JoinGroupRequest, error: KafkaError, version: int) -> JoinGroupResponse:
    response = JoinGroupResponse(
        error_code=error.code, member_id=request.member_id, protocol_name=None
    )
    return _in_version(response, version)
