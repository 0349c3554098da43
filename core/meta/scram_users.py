"""Decisions about users' SCRAM credentials (KIP-554). Pure: (image, request) → events.

Errors, their order and their messages are those of Apache Kafka's ScramControlManager.
"""

from __future__ import annotations

from itertools import chain
from typing import Final

from pk.core.auth.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    Mechanism,
    ScramCredential,
)
from pk.core.errors import ErrorCode
from pk.core.machine import Decision
from pk.core.meta.events import (
    Event,
    ScramCredentialChanged,
    ScramCredentialRemoved,
    StrangersSecretMade,
)
from pk.core.meta.image import MetadataImage
from pk.core.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialUpsertion,
)
from pk.core.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

_MECHANISMS: Final = frozenset(Mechanism)

Refusal = tuple[int, str]
"""An error code and a message."""

_TWICE: Final[Refusal] = (
    ErrorCode.DUPLICATE_RESOURCE,
    "A user credential cannot be altered twice in the same request",
)
"""The error also applies if the two changes have different mechanisms."""
_MISSING: Final[Refusal] = (
    ErrorCode.RESOURCE_NOT_FOUND,
    "Attempt to delete a user credential that does not exist",
)


def describe(
    image: MetadataImage, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Describe the mechanisms and iterations of the requested users, or of all."""
    infos: dict[str, list[CredentialInfo]] = {}
    for user, mechanism in sorted(image.scram):
        info = CredentialInfo(
            mechanism=mechanism, iterations=image.scram[user, mechanism].iterations
        )
        infos.setdefault(user, []).append(info)
    asked: dict[str, int] = {}
    for user in request.users or ():
        asked[user.name] = asked.get(user.name, 0) + 1
    asked = asked or dict.fromkeys(infos, 1)
    results: list[DescribeUserScramCredentialsResult] = []
    for user, count in asked.items():
        result = DescribeUserScramCredentialsResult(user=user)
        if count > 1:
            result.error_code = ErrorCode.DUPLICATE_RESOURCE
            result.error_message = (
                "Cannot describe SCRAM credentials for the same user twice in a single request: "
                + user
            )
        elif user not in infos:
            result.error_code = ErrorCode.RESOURCE_NOT_FOUND
            result.error_message = (
                f"Attempt to describe a user credential that does not exist: {user}"
            )
        else:
            result.credential_infos = infos[user]
        results.append(result)
    return DescribeUserScramCredentialsResponse(results=results)


def alter(
    image: MetadataImage, request: AlterUserScramCredentialsRequest, secret: bytes
) -> Decision[Event, AlterUserScramCredentialsResponse]:
    """Remove and set credentials. For each user, either all changes are applied or none. `secret`
    is random: the first change in a cluster stores it as the secret for unknown users."""
    refused = _refusals(image, request)
    decision: Decision[Event, AlterUserScramCredentialsResponse] = Decision()
    for deletion in request.deletions:
        if deletion.name not in refused:
            decision.records.append(ScramCredentialRemoved(deletion.name, deletion.mechanism))
    for upsertion in request.upsertions:
        if upsertion.name not in refused:
            decision.records.append(_changed(upsertion))
    if decision.records and not image.strangers_secret:
        decision.records.insert(0, StrangersSecretMade(secret))
    response = decision.reply = AlterUserScramCredentialsResponse()
    for user in dict.fromkeys(one.name for one in chain(request.deletions, request.upsertions)):
        response.results.append(_result(user, refused.get(user)))
    return decision


def _changed(upsertion: ScramCredentialUpsertion) -> ScramCredentialChanged:
    credential = ScramCredential.of_salted_password(
        Mechanism(upsertion.mechanism),
        bytes(upsertion.salted_password),
        bytes(upsertion.salt),
        upsertion.iterations,
    )
    return ScramCredentialChanged(
        upsertion.name,
        upsertion.mechanism,
        credential.salt,
        credential.stored_key,
        credential.server_key,
        credential.iterations,
    )


def _result(user: str, refusal: Refusal | None) -> AlterUserScramCredentialsResult:
    code, message = refusal or (ErrorCode.NONE, None)
    return AlterUserScramCredentialsResult(user=user, error_code=code, error_message=message)


def _refusals(
    image: MetadataImage, request: AlterUserScramCredentialsRequest
) -> dict[str, Refusal]:
    """Return the users whose changes are refused, each with its first error."""
    refused: dict[str, Refusal] = {}
    seen: set[str] = set()
    for one in chain(request.deletions, request.upsertions):
        if one.name in refused:
            continue
        refusal = _TWICE if one.name in seen else _refused_name(one.name, one.mechanism)
        if refusal is None:
            if isinstance(one, ScramCredentialUpsertion):
                refusal = _refused_iterations(one.iterations)
            elif (one.name, one.mechanism) not in image.scram:
                refusal = _MISSING
        seen.add(one.name)
        if refusal is not None:
            refused[one.name] = refusal
    return refused


def _refused_name(user: str, mechanism: int) -> Refusal | None:
    if not user:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    if mechanism not in _MECHANISMS:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    return None


def _refused_iterations(iterations: int) -> Refusal | None:
    if iterations > ITERATIONS_MAX:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"
    if iterations < ITERATIONS_MIN:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"
    return None
