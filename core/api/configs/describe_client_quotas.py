"""DescribeClientQuotas (48), versions 0–1: the quotas that match a filter (KIP-546). Version 1
differs only in its encoding."""

from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.meta import client_quotas
from pk.core.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)


def handle(context: Context, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    """Return the matching quotas in this broker's image. Raises KafkaError: INVALID_REQUEST,
    UNSUPPORTED_VERSION."""
    return client_quotas.describe(context.broker.image, request)


def error_response(
    request: DescribeClientQuotasRequest, error: KafkaError, version: int
) -> DescribeClientQuotasResponse:
    """Return the error without entries. As in Apache Kafka, the message of a refusal is omitted if
    it equals that of the code."""
    is_default_message = error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return DescribeClientQuotasResponse(
        error_code=error.code,
        error_message=None if is_default_message else error.message,
        entries=None,
    )
