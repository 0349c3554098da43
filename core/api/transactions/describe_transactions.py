"""DescribeTransactions (65), version 0: the state of transactions by their ids (KIP-664)."""

from __future__ import annotations

from pk.core.api.authorization import allows, check, is_on
from pk.core.auth.acls import Operation, ResourceType
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.requests.context import Context
from pk.core.errors import KafkaError
from pk.core.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


async def handle(
    context: Context, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    """Describe each transaction, by its coordinator; errors are in its result."""
    response = DescribeTransactionsResponse()
    for transactional_id in dict.fromkeys(request.transactional_ids):
        await let_others_run()
        try:
            check(context, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id)
            states = await context.broker.groups.transactions.submit(
                transactional_id,
                lambda machine, _, now_ms, one=transactional_id: machine.describe([one], now_ms),
            )
            if is_on(context):
                for state in states:
                    await _hide_topics(context, state)
            response.transaction_states += states
        except KafkaError as e:
            response.transaction_states.append(
                TransactionState(transactional_id=transactional_id, error_code=e.code)
            )
    return response


async def _hide_topics(context: Context, state: TransactionState) -> None:
    """Remove the topics that the client may not describe."""
    shown: list[TopicData] = []
    for topic in state.topics:
        if allows(context, Operation.DESCRIBE, ResourceType.TOPIC, topic.topic, log=False):
            shown.append(topic)
        await let_others_run()
    state.topics = shown


def error_response(
    request: DescribeTransactionsRequest, error: KafkaError, version: int
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[
            TransactionState(transactional_id=one, error_code=error.code)
            for one in request.transactional_ids
        ]
    )
