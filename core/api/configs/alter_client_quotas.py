"""AlterClientQuotas (49), versions 0–1: sets and removes the quotas of users, client ids and
addresses (KIP-546, KIP-612). Version 1 differs only in its encoding."""

from __future__ import annotations

from typing import Final

import trio

from pk.core.api.controller.decide import submit_decision
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.requests.context import Context
from pk.core.errors import KafkaError
from pk.core.meta import client_quotas
from pk.core.quota.entity import IP, is_address
from pk.core.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    ResponseEntryData,
)

HOSTS_MAX: Final = 100
"""The maximum number of host names looked up for one request. The quotas of further hosts apply to
no client."""
LOOKUP_TIMEOUT_S: Final = 10.0
"""The timeout of all look-ups together, in seconds."""


async def handle(context: Context, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    """Alter each entity separately. Raises KafkaError: POLICY_VIOLATION, NOT_CONTROLLER."""
    names: dict[str, None] = {}
    for entry in request.entries:
        await let_others_run()
        for part in entry.entity:
            if part.entity_type == IP and part.entity_name and not is_address(part.entity_name):
                names[part.entity_name] = None
    unknown = await _unknown(list(names))
    return await submit_decision(
        context,
        lambda image: client_quotas.alter(image, request, unknown),
        request,
    )


async def _unknown(names: list[str]) -> set[str]:
    """Return the hosts without an address."""
    unknown = set(names)
    with trio.move_on_after(LOOKUP_TIMEOUT_S):
        for name in names[:HOSTS_MAX]:
            try:
                await trio.socket.getaddrinfo(name, None)
            except (OSError, UnicodeError):
                continue
            unknown.discard(name)
    return unknown


def error_response(
    request: AlterClientQuotasRequest, error: KafkaError, version: int
) -> AlterClientQuotasResponse:
    """Return the error for every entity."""
    return AlterClientQuotasResponse(
        entries=[
            ResponseEntryData(
                error_code=error.code, error_message=error.message, entity=entry.entity
            )
            for entry in request.entries
        ]
    )
