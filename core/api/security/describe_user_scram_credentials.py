"""DescribeUserScramCredentials (50), version 0: the SCRAM mechanisms of users, and their iterations
(KIP-554). The credentials themselves are not returned."""

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
    """Describe the credentials in this broker's image."""
    return scram_users.describe(context.broker.image, request)


def error_response(
    request: DescribeUserScramCredentialsRequest, error: KafkaError, version: int
) -> DescribeUserScramCredentialsResponse:
    """Return the error for the whole request and for each user, without the users' names, as in
    Apache Kafka."""
    return DescribeUserScramCredentialsResponse(
        error_code=error.code,
        results=[
            DescribeUserScramCredentialsResult(error_code=error.code) for _ in request.users or ()
        ],
    )
