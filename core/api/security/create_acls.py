"""CreateAcls (30), versions 1–3: adds access rules (KIP-140, KIP-290). Each rule is created or
refused separately. Without an authorizer: SECURITY_DISABLED."""

from pk.core.api.controller.decide import submit_decision
from pk.core.api.security.describe_acls import NO_AUTHORIZER
from pk.core.auth.acls import AclBinding
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.meta.acls import create_acls
from pk.core.wire.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)


async def handle(context: Context, request: CreateAclsRequest) -> CreateAclsResponse:
    """Create the rules that are allowed. Raises KafkaError: POLICY_VIOLATION, NOT_CONTROLLER."""
    authorization = context.broker.authorization
    if authorization.authorizer is None:
        return CreateAclsResponse(
            results=[
                AclCreationResult(
                    error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER
                )
                for _ in request.creations
            ]
        )
    rules = [
        AclBinding(
            one.resource_type,
            one.resource_name,
            one.resource_pattern_type,
            one.principal,
            one.host,
            one.operation,
            one.permission_type,
        )
        for one in request.creations
    ]
    reply = await submit_decision(context, lambda image: create_acls(image, rules), request)
    errors: list[KafkaError | None] = reply
    for rule, error in zip(rules, errors, strict=True):
        await let_others_run()
        if error is None:
            authorization.audit.changed(context, "added", rule)
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_message=None)
            if error is None
            else AclCreationResult(error_code=error.code, error_message=error.message)
            for error in errors
        ]
    )


def error_response(
    request: CreateAclsRequest, error: KafkaError, version: int
) -> CreateAclsResponse:
    """Return the same error for every rule."""
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_code=error.code, error_message=error.message)
            for _ in request.creations
        ]
    )
