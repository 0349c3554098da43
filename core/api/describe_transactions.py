"""DescribeTransactions (65), version 0: the state of transactions by their ids (KIP-664)."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from pk.core.api.long_requests import in_turns
from pk.core.api.registry import Api
from pk.core.broker.requests.context import Context
from pk.core.errors import KafkaError
from pk.core.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)


async def handle(
    context: Context, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    """Ask the coordinator of every id; an error is the id's own."""
    response = DescribeTransactionsResponse()
    async for transactional_id in in_turns(dict.fromkeys(request.transactional_ids)):
        try:
            answer: Any = context.broker.transactions.submit(
                transactional_id,
                lambda machine, _, now_ms, one=transactional_id: machine.describe([one], now_ms),
            )
            response.transaction_states += await answer if isinstance(answer, Awaitable) else answer
        except KafkaError as e:
            response.transaction_states.append(
                TransactionState(transactional_id=transactional_id, error_code=e.code)
            )
    return response


def _error_response(
    request: DescribeTransactionsRequest, error: KafkaError, version: int
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[
            TransactionState(transactional_id=one, error_code=error.code)
            for one in request.transactional_ids
        ]
    )


API = Api(
    key=65,
    versions=(0, 0),
    handle=handle,
    error_response=_error_response,
    parks=True,
)
