"""DescribeAcls (29), versions 1–3: access rules (KIP-140). pk has no authorizer yet, so it answers as Apache Kafka does
without one: SECURITY_DISABLED."""

from typing import Final

from pk.core.api.registry import Api
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode
from pk.core.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

NO_AUTHORIZER: Final = "No Authorizer is configured on the broker"
"""Apache's words, also of CreateAcls; DeleteAcls has others."""


def handle(context: Context, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Nobody's access is limited, and the error says why."""
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)


API = Api(key=29, versions=(1, 3), handle=handle)
