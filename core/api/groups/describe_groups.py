"""DescribeGroups (15), versions 0–6: a group's state, protocol and members, with what each said and
was assigned.

KIP-430 (v3: authorized operations), KIP-345 (v4: static members), KIP-1043 (v6: GROUP_ID_NOT_FOUND;
before it, a group that does not exist is one that is Dead).
"""

from __future__ import annotations

from typing import Any, Final

from pk.core.api.groups.group_descriptions import describe_each
from pk.core.api.registry import Answer
from pk.core.broker.requests.context import Context
from pk.core.errors import KafkaError
from pk.core.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

OPERATIONS_SINCE: Final = 3
MESSAGE_SINCE: Final = 6


def handle(context: Context, request: DescribeGroupsRequest) -> Answer[DescribeGroupsResponse]:
    """Ask the coordinator of every group."""
    version = context.api_version

    def describe(group_id: str) -> Any:
        return context.broker.coordinators.submit(
            group_id,
            lambda machine, _, now_ms: machine.describe_groups([group_id], version, now_ms),
        )

    return describe_each(
        context,
        request.groups,
        describe,
        lambda group_id, error: _failed(group_id, error, version),
        lambda groups: DescribeGroupsResponse(groups=groups),
        with_operations=request.include_authorized_operations and version >= OPERATIONS_SINCE,
    )


def _failed(group_id: str, error: KafkaError, version: int) -> DescribedGroup:
    message = error.message if version >= MESSAGE_SINCE else None
    return DescribedGroup(group_id=group_id, error_code=error.code, error_message=message)


def error_response(
    request: DescribeGroupsRequest, error: KafkaError, version: int
) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[_failed(g, error, version) for g in request.groups])
