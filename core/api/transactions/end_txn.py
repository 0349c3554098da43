"""EndTxn (26), versions 0–5: commits or aborts a transaction (KIP-98).

The response is sent once the outcome is safe in the coordinator's log; the markers are sent after
that. From version 5 on the client follows the second protocol (KIP-890): the response has the
producer id and epoch of the next transaction.
"""

from __future__ import annotations

from typing import Final

from pk.core.api.transactions.producer_fenced import error_in_version
from pk.core.broker.requests.context import Context
from pk.core.errors import KafkaError
from pk.core.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

PRODUCER_FENCED_SINCE: Final = 2


async def handle(context: Context, request: EndTxnRequest) -> EndTxnResponse:
    """Submit the request to the coordinator. Raises the errors of `TransactionMachine.end`."""
    version = context.api_version
    return await context.broker.groups.transactions.submit_with_id(
        request.transactional_id,
        lambda machine, fresh_id, now_ms: machine.end(request, version, fresh_id, now_ms),
    )


def error_response(request: EndTxnRequest, error: KafkaError, version: int) -> EndTxnResponse:
    code = error_in_version(error.code, version, PRODUCER_FENCED_SINCE)
    return EndTxnResponse(error_code=code)
