"""DescribeUserScramCredentials (50), version 0: which SCRAM mechanisms users have, and with how
many iterations (KIP-554). Nothing of a credential itself is answered."""

from pk.core.broker.requests.context import Context
from pk.core.errors import KafkaError
from pk.core.meta import scram_users
from pk.core.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def handle(
    context: Context, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """As this broker's image has them."""
    return scram_users.describe(context.broker.image, request)


def error_response(
    request: DescribeUserScramCredentialsRequest, error: KafkaError, version: int
) -> DescribeUserScramCredentialsResponse:
    """The error for the whole, and for each user, of whom nothing else is said, as Apache Kafka
    words it."""
    return DescribeUserScramCredentialsResponse(
        error_code=error.code,
        results=[
            DescribeUserScramCredentialsResult(error_code=error.code) for _ in request.users or ()
        ],
    )
