"""Forwards requests from brokers to the controller (KIP-590).

A request for the controller goes to the active one, in this process or another.
(`ControllerLink.forward` looks for it as long as the request cannot have taken effect.) If the
controller is lost between its decision and its answer, the outcome is unknown: the client gets
REQUEST_TIMED_OUT, as from Apache Kafka, and must check. The request is not sent again: the second
response would depend on the effects of the first try.

A client must see its changes in its next request to this broker. So the response waits until the
image here shows them, but at most `SHOWN_MS_MAX`, since they have taken effect in any case.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import trio

from pk.core.auth.acls import AclBinding
from pk.core.broker.broker import Broker
from pk.core.broker.requests.context import Context
from pk.core.meta.image import MetadataImage
from pk.core.quota.entity import entity_of
from pk.core.values import ZERO_UUID
from pk.core.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)
from pk.core.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from pk.core.wire.messages.create_acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from pk.core.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from pk.core.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from pk.core.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from pk.core.wire.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from pk.core.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse

TIMEOUT_MS: Final = 30_000
"""The timeout of requests without one; Kafka's brokers wait as long for their controller."""

TIMEOUT_MS_MIN: Final = 5_000
"""The minimum timeout for reaching the controller, even if the request has less time left."""

SHOWN_MS_MAX: Final = 5_000

_RULES_MAX: Final = 100
"""How many ACLs of a request are checked: all of them take effect together."""


async def pass_on(context: Context, request: Any) -> Any:
    """Forward a client's request to the active controller, and return its response. Raises
    KafkaError: REQUEST_TIMED_OUT if no controller was found in time or none answered, and the
    errors of the envelope."""
    timeout_ms = max(getattr(request, "timeout_ms", TIMEOUT_MS), TIMEOUT_MS_MIN)
    response = await context.broker.link.forward(context, request, timeout_ms=timeout_ms)
    await _wait_until_shown(context.broker, request, response)
    return response


async def _wait_until_shown(broker: Broker, request: Any, response: Any) -> None:
    """Wait, for a limited time, for an image that shows the changes."""
    # The decisions of this process's controller are already in its image; those of another one are
    # recognized by their effects.
    decided = broker.controller.image.offset if broker.controller is not None else 0

    def is_shown() -> bool:
        image = broker.image
        return image.offset >= decided and shows(request, response, image)

    deadline = trio.current_time() + SHOWN_MS_MAX / 1000
    await broker.purgatory.until(is_shown, (MetadataImage,), deadline)


def shows(request: object, response: object, image: MetadataImage) -> bool:
    """Whether `image` has the topics, partitions and users that were created, and no longer those
    that were deleted."""
    match request, response:
        case CreateTopicsRequest(), CreateTopicsResponse():
            return request.validate_only or (
                all(topic.error_code or topic.name in image.topics for topic in response.topics)
            )
        case DeleteTopicsRequest(), DeleteTopicsResponse():
            return all(
                gone.error_code or not _is_there(image, gone.name, gone.topic_id)
                for gone in response.responses
            )
        case CreatePartitionsRequest(), CreatePartitionsResponse():
            return request.validate_only or _shows_partitions(request, response, image)
        case CreateAclsRequest(), CreateAclsResponse():
            return all(
                result.error_code or _rule(rule) in image.acls
                for rule, result in zip(
                    request.creations[:_RULES_MAX], response.results[:_RULES_MAX], strict=False
                )
            )
        case CreateDelegationTokenRequest(), CreateDelegationTokenResponse():
            return bool(response.error_code) or response.token_id in image.tokens
        case DeleteAclsRequest(), DeleteAclsResponse():
            return not any(
                AclBinding(
                    rule.resource_type,
                    rule.resource_name,
                    rule.pattern_type,
                    rule.principal,
                    rule.host,
                    rule.operation,
                    rule.permission_type,
                )
                in image.acls
                for result in response.filter_results[:_RULES_MAX]
                for rule in result.matching_acls[:_RULES_MAX]
            )
        case AlterUserScramCredentialsRequest(), AlterUserScramCredentialsResponse():
            return _shows_credentials(request, response, image)
        case AlterClientQuotasRequest(), AlterClientQuotasResponse():
            return request.validate_only or _shows_quotas(request, response, image)
        case _:
            return True


def _shows_partitions(
    request: CreatePartitionsRequest, response: CreatePartitionsResponse, image: MetadataImage
) -> bool:
    grown = _succeeded((one.name, one.error_code) for one in response.results)
    return all(
        topic.name not in grown or _count(image, topic.name) >= topic.count
        for topic in request.topics
    )


def _shows_credentials(
    request: AlterUserScramCredentialsRequest,
    response: AlterUserScramCredentialsResponse,
    image: MetadataImage,
) -> bool:
    altered = _succeeded((one.user, one.error_code) for one in response.results)
    return all(
        new.name not in altered
        or (
            (known := image.scram.get((new.name, new.mechanism))) is not None
            and known.salt == new.salt
        )
        for new in request.upsertions
    ) and all(
        gone.name not in altered or (gone.name, gone.mechanism) not in image.scram
        for gone in request.deletions
    )


def _succeeded(results: Iterable[tuple[str, int]]) -> set[str]:
    """The names in (name, error code) that have no error."""
    return {name for name, error_code in results if not error_code}


def _shows_quotas(
    request: AlterClientQuotasRequest, response: AlterClientQuotasResponse, image: MetadataImage
) -> bool:
    answers = {
        entity_of({part.entity_type: part.entity_name for part in answer.entity}): answer.error_code
        for answer in response.entries[:_RULES_MAX]
    }
    for entry in request.entries[:_RULES_MAX]:
        entity = entity_of({part.entity_type: part.entity_name for part in entry.entity})
        known = image.quotas.get(entity, {})
        if answers.get(entity, 1) == 0 and any(
            (op.key in known) == op.remove
            or (not op.remove and known[op.key] < op.value)
            or (not op.remove and known[op.key] > op.value)
            for op in entry.ops
        ):
            return False
    return True


def _rule(rule: AclCreation) -> AclBinding:
    return AclBinding(
        rule.resource_type,
        rule.resource_name,
        rule.resource_pattern_type,
        rule.principal,
        rule.host,
        rule.operation,
        rule.permission_type,
    )


def _is_there(image: MetadataImage, name: str | None, topic_id: bytes) -> bool:
    if topic_id != ZERO_UUID:
        return topic_id in image.topics_by_id
    return name in image.topics


def _count(image: MetadataImage, name: str) -> int:
    topic = image.topics.get(name)
    return len(topic.partitions) if topic is not None else 0
