"""Describes transactions by their ids (KIP-664)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Int64


@message(versions=(0, 0))
class DescribeTransactionsRequest(Request["DescribeTransactionsResponse"]):
    """The request of DescribeTransactions."""

    transactional_ids: list[str] = field(default_factory=list)


@struct
class TopicData(Struct):
    """One of `TransactionState.topics`."""

    topic: str = ""
    partitions: list[Int32] = field(default_factory=list)


@struct
class TransactionState(Struct):
    """One of `DescribeTransactionsResponse.transaction_states`."""

    error_code: Int16 = 0
    transactional_id: str = ""
    transaction_state: str = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: list[TopicData] = field(default_factory=list)


@message(versions=(0, 0))
class DescribeTransactionsResponse(Response):
    """The response of DescribeTransactions."""

    throttle_time_ms: Int32 = 0
    transaction_states: list[TransactionState] = field(default_factory=list)
