"""Adds partitions to a transaction (KIP-98). v4 adds several transactions at once, for brokers
(KIP-890)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Int64


@struct
class AddPartitionsToTxnTopic(Struct):
    """One of `AddPartitionsToTxnTransaction.topics`."""

    name: str = ""
    partitions: list[Int32] = field(default_factory=list)


@struct
class AddPartitionsToTxnTransaction(Struct):
    """One of `AddPartitionsToTxnRequest.transactions`."""

    transactional_id: str = field(default="", since=4)
    producer_id: Int64 = field(default=0, since=4)
    producer_epoch: Int16 = field(default=0, since=4)
    verify_only: bool = field(default=False, since=4)
    topics: list[AddPartitionsToTxnTopic] = field(default_factory=list, since=4)


@message(versions=(0, 5))
class AddPartitionsToTxnRequest(Request["AddPartitionsToTxnResponse"]):
    """The request of AddPartitionsToTxn."""

    transactions: list[AddPartitionsToTxnTransaction] = field(default_factory=list, since=4)
    v3_and_below_transactional_id: str = field(default="", until=3)
    v3_and_below_producer_id: Int64 = field(default=0, until=3)
    v3_and_below_producer_epoch: Int16 = field(default=0, until=3)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(default_factory=list, until=3)


@struct
class AddPartitionsToTxnPartitionResult(Struct):
    """One of `AddPartitionsToTxnTopicResult.results_by_partition`."""

    partition_index: Int32 = 0
    partition_error_code: Int16 = 0


@struct
class AddPartitionsToTxnTopicResult(Struct):
    """One of `AddPartitionsToTxnResult.topic_results`."""

    name: str = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(default_factory=list)


@struct
class AddPartitionsToTxnResult(Struct):
    """One of `AddPartitionsToTxnResponse.results_by_transaction`."""

    transactional_id: str = field(default="", since=4)
    topic_results: list[AddPartitionsToTxnTopicResult] = field(default_factory=list, since=4)


@message(versions=(0, 5))
class AddPartitionsToTxnResponse(Response):
    """The response of AddPartitionsToTxn."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = field(default=0, since=4, ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = field(default_factory=list, since=4)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(
        default_factory=list, until=3
    )
