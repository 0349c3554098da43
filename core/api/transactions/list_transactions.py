"""ListTransactions (66), versions 0–2: the transactions that this broker coordinates (KIP-664),
also filtered by duration (v1, KIP-994) and by a regular expression (RE2) that the whole id must
match (v2, KIP-1152)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pk.core.api.authorization import allows
from pk.core.auth.acls import Operation, ResourceType
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.consumer.regex import matcher
from pk.core.txn.transaction import STATES
from pk.core.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)

UNKNOWN: Final = ""
"""Replaces all states that do not exist, so that a filter with only such states matches no
transaction."""


async def handle(context: Context, request: ListTransactionsRequest) -> ListTransactionsResponse:
    """List the transactions of every coordinator. Raises COORDINATOR_LOAD_IN_PROGRESS if one has
    not loaded its transactions yet, INVALID_REGULAR_EXPRESSION."""
    transactions = context.broker.groups.transactions
    transactions.check_loaded()
    matches = _matcher(request.transactional_id_pattern)
    response = ListTransactionsResponse()
    states: set[str] = set()
    for name in request.state_filters:
        await let_others_run()
        states.add(name if name in STATES else UNKNOWN)
        if name not in STATES:
            response.unknown_state_filters.append(name)
    ids = {id_ for id_ in request.producer_id_filters}
    for coordinator in transactions:
        if not coordinator.is_active:
            continue
        listed = await coordinator.submit(
            lambda machine, _, now_ms: machine.list_transactions(
                states,
                ids,
                request.duration_filter,
                matches,
                now_ms,
            )
        )
        for state in listed:
            await let_others_run()
            id_, kind = state.transactional_id, ResourceType.TRANSACTIONAL_ID
            if allows(context, Operation.DESCRIBE, kind, id_, log=False):
                response.transaction_states.append(state)
    return response


def _matcher(pattern: str | None) -> Callable[[str], bool] | None:
    """Return the filter for ids, or None to accept all."""
    if not pattern:
        return None
    try:
        return matcher(pattern)
    except ValueError:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"Transactional ID pattern `{pattern}` is not a valid regular expression.",
        ) from None
