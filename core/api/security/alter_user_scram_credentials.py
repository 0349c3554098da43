"""AlterUserScramCredentials (51), version 0: sets and removes users' SCRAM credentials (KIP-554).
The client sends salted passwords, never passwords."""

import secrets
from typing import Final

from pk.core.api.controller.decide import submit_decision
from pk.core.broker.requests.context import Context
from pk.core.errors import KafkaError
from pk.core.meta import scram_users
from pk.core.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

SECRET_BYTES: Final = 32


async def handle(
    context: Context, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Alter each user separately. Raises KafkaError(NOT_CONTROLLER)."""
    secret = secrets.token_bytes(SECRET_BYTES)
    return await submit_decision(
        context, lambda image: scram_users.alter(image, request, secret), request
    )


def error_response(
    request: AlterUserScramCredentialsRequest, error: KafkaError, version: int
) -> AlterUserScramCredentialsResponse:
    """Return the error for every user."""
    users = dict.fromkeys(one.name for one in (*request.deletions, *request.upsertions))
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(
                user=user, error_code=error.code, error_message=error.message
            )
            for user in users
        ]
    )
