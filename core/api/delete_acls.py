"""DeleteAcls (31), versions 1–3: remove access rules that match filters (KIP-140). pk has no authorizer yet, so each
filter is refused with SECURITY_DISABLED, as Apache Kafka does without one."""

from typing import Final

from pk.core.api.registry import Api
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode
from pk.core.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

NO_AUTHORIZER: Final = "No Authorizer is configured."


def handle(context: Context, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """One refusal for each filter."""
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(
                error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER
            )
            for _ in request.filters
        ]
    )


API = Api(key=31, versions=(1, 3), handle=handle)
