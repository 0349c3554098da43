"""CreateAcls (30), versions 1–3: add access rules (KIP-140). pk has no authorizer yet, so each rule is refused with
SECURITY_DISABLED, as Apache Kafka does without one."""

from pk.core.api.describe_acls import NO_AUTHORIZER
from pk.core.api.registry import Api
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode
from pk.core.wire.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)


def handle(context: Context, request: CreateAclsRequest) -> CreateAclsResponse:
    """One refusal for each rule."""
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
            for _ in request.creations
        ]
    )


API = Api(key=30, versions=(1, 3), handle=handle)
