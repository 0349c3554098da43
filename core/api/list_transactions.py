"""ListTransactions (66), versions 0–2: the transactions that this broker coordinates (KIP-664), also by how long they are
open (v1, KIP-994) and by a regular expression of RE2's that the whole id must match (v2, KIP-1152)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from pk.core.api.registry import Api
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.consumer.regex import matcher
from pk.core.txn.transaction import STATES
from pk.core.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)


async def handle(context: Context, request: ListTransactionsRequest) -> ListTransactionsResponse:
    """Ask every coordinator. Raises COORDINATOR_LOAD_IN_PROGRESS where one does not know its transactions yet,
    INVALID_REGULAR_EXPRESSION."""
    transactions = context.broker.transactions
    transactions.check_loaded()
    matches = _matcher(request.transactional_id_pattern)
    response = ListTransactionsResponse(
        unknown_state_filters=[name for name in request.state_filters if name not in STATES]
    )
    for coordinator in transactions:
        if not coordinator.is_active:
            continue
        answer: Any = coordinator.submit(
            lambda machine, _, now_ms: machine.list_transactions(
                request.state_filters,
                request.producer_id_filters,
                request.duration_filter,
                matches,
                now_ms,
            )
        )
        response.transaction_states += await answer if isinstance(answer, Awaitable) else answer
    return response


def _matcher(pattern: str | None) -> Callable[[str], bool] | None:
    """What an id must pass."""
    if not pattern:
        return None
    try:
        return matcher(pattern)
    except ValueError:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"Transactional ID pattern `{pattern}` is not a valid regular expression.",
        ) from None


API = Api(key=66, versions=(0, 2), handle=handle, parks=True)
