"""DescribeGroups (15), versions 0–6: a group's state, protocol and members, with each member's
metadata and assignment.

KIP-430 (v3: authorized operations), KIP-345 (v4: static members), KIP-1043 (v6: GROUP_ID_NOT_FOUND;
before that, a group that does not exist is Dead).
"""

from __future__ import annotations

from functools import partial
from typing import Final

from pk.core.api.groups.group_descriptions import GroupDescribe
from pk.core.api.registry import Answer
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.any_group import GroupType
from pk.core.group.classic.group import State
from pk.core.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

OPERATIONS_SINCE: Final = 3
NOT_FOUND_SINCE: Final = 6
"""The first version with GROUP_ID_NOT_FOUND, and a field for its message."""


def handle(context: Context, request: DescribeGroupsRequest) -> Answer[DescribeGroupsResponse]:
    """Describe each group, by its coordinator."""
    version = context.api_version
    operations = request.include_authorized_operations and version >= OPERATIONS_SINCE
    describe = GroupDescribe(
        GroupType.CLASSIC, partial(_failed, version=version), DescribeGroupsResponse
    )
    return describe.describe(context, request.groups, with_operations=operations)


def _failed(group_id: str, error: KafkaError, version: int) -> DescribedGroup:
    described = DescribedGroup(group_id=group_id)
    if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
        described.group_state = State.DEAD.value
    if version >= NOT_FOUND_SINCE:
        described.error_code, described.error_message = error.code, error.message
    elif error.code != ErrorCode.GROUP_ID_NOT_FOUND:
        described.error_code = error.code
    return described


def error_response(
    request: DescribeGroupsRequest, error: KafkaError, version: int
) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[_failed(g, error, version) for g in request.groups])
