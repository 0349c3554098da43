"""DescribeAcls (29), versions 1–3: the access rules that match a filter (KIP-140, KIP-290). Without
an authorizer: SECURITY_DISABLED."""

from typing import Final

from pk.core.auth.acls import AclFilter
from pk.core.broker.offload import offload
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.meta.acls import filter_error
from pk.core.meta.image import MetadataImage
from pk.core.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

NO_AUTHORIZER: Final = "No Authorizer is configured on the broker"
"""Apache's message, also for CreateAcls; DeleteAcls has a different one."""

LARGE_RULES: Final = 500
"""The number of rules above which they are searched in a thread."""


async def handle(context: Context, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """List the rules by their resources. Raises KafkaError: SECURITY_DISABLED, INVALID_REQUEST."""
    if context.broker.authorization.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    wanted = AclFilter(
        request.resource_type_filter,
        request.resource_name_filter,
        request.pattern_type_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )
    if (error := filter_error(wanted)) is not None:
        raise error
    image = context.broker.image
    if len(image.acls) > LARGE_RULES:
        return await offload(_described, image, wanted)
    return _described(image, wanted)


def _described(image: MetadataImage, wanted: AclFilter) -> DescribeAclsResponse:
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for rule in image.acls.selected(wanted):
        key = rule.resource_type, rule.resource_name, rule.pattern_type
        resource = resources.get(key)
        if resource is None:
            resource = resources[key] = DescribeAclsResource(
                resource_type=rule.resource_type,
                resource_name=rule.resource_name,
                pattern_type=rule.pattern_type,
            )
        resource.acls.append(
            AclDescription(
                principal=rule.principal,
                host=rule.host,
                operation=rule.operation,
                permission_type=rule.permission,
            )
        )
    return DescribeAclsResponse(resources=list(resources.values()))
