"""DeleteAcls (31), versions 1–3: removes the access rules that match filters (KIP-140, KIP-290),
and returns them. Without an authorizer: SECURITY_DISABLED."""

from typing import Final

from pk.core.api.controller.decide import submit_decision
from pk.core.auth.acls import AclBinding, AclFilter
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.meta.acls import delete_acls
from pk.core.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

NO_AUTHORIZER: Final = "No Authorizer is configured."

LARGE_COMPARISONS: Final = 5_000
"""If the product of the numbers of filters and rules is greater, they are compared in a thread."""


async def handle(context: Context, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Remove the rules that match each filter. Raises KafkaError: POLICY_VIOLATION,
    NOT_CONTROLLER."""
    authorization = context.broker.authorization
    if authorization.authorizer is None:
        return DeleteAclsResponse(
            filter_results=[
                DeleteAclsFilterResult(
                    error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER
                )
                for _ in request.filters
            ]
        )
    filters = [
        AclFilter(
            one.resource_type_filter,
            one.resource_name_filter,
            one.pattern_type_filter,
            one.principal_filter,
            one.host_filter,
            one.operation,
            one.permission_type,
        )
        for one in request.filters
    ]
    comparisons = len(filters) * len(context.broker.image.acls)
    large = comparisons > LARGE_COMPARISONS
    reply = await submit_decision(
        context, lambda image: delete_acls(image, filters), request, in_thread=large
    )
    outcomes: list[list[AclBinding] | KafkaError] = reply
    deleted: dict[AclBinding, None] = {}
    results: list[DeleteAclsFilterResult] = []
    for outcome in outcomes:
        await let_others_run()
        results.append(_result(outcome))
        if not isinstance(outcome, KafkaError):
            deleted.update(dict.fromkeys(outcome))
    for rule in deleted:
        await let_others_run()
        authorization.audit.changed(context, "deleted", rule)
    return DeleteAclsResponse(filter_results=results)


def _result(outcome: list[AclBinding] | KafkaError) -> DeleteAclsFilterResult:
    if isinstance(outcome, KafkaError):
        return DeleteAclsFilterResult(error_code=outcome.code, error_message=outcome.message)
    return DeleteAclsFilterResult(
        error_message=None,
        matching_acls=[
            DeleteAclsMatchingAcl(
                error_message=None,
                resource_type=rule.resource_type,
                resource_name=rule.resource_name,
                pattern_type=rule.pattern_type,
                principal=rule.principal,
                host=rule.host,
                operation=rule.operation,
                permission_type=rule.permission,
            )
            for rule in outcome
        ],
    )


def error_response(
    request: DeleteAclsRequest, error: KafkaError, version: int
) -> DeleteAclsResponse:
    """Return the same error for every filter."""
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=error.code, error_message=error.message)
            for _ in request.filters
        ]
    )
