"""The records of `__transaction_state` (KIP-98); v1 adds the tagged fields of KIP-890."""

from pk.core.wire.schema import Message, Struct, field, message, struct
from pk.core.wire.types import Int8, Int16, Int32, Int64


@message(versions=(0, 0), record_type=0)
class TransactionLogKey(Message):
    """The key of a transaction log record."""

    transactional_id: str = field(default="", until=0)


@struct
class PartitionsSchema(Struct):
    """One of `TransactionLogValue.transaction_partitions`."""

    topic: str = ""
    partition_ids: list[Int32] = field(default_factory=list)


@message(versions=(0, 1), flexible=1, record_type=0)
class TransactionLogValue(Message):
    """The value of a transaction log record."""

    producer_id: Int64 = 0
    previous_producer_id: Int64 = field(default=-1, since=1, tag=0)
    next_producer_id: Int64 = field(default=-1, since=1, tag=1)
    producer_epoch: Int16 = 0
    next_producer_epoch: Int16 = field(default=-1, since=1, tag=3)
    transaction_timeout_ms: Int32 = 0
    transaction_status: Int8 = 0
    transaction_partitions: list[PartitionsSchema] | None = field(default_factory=list, nullable=0)
    transaction_last_update_timestamp_ms: Int64 = 0
    transaction_start_timestamp_ms: Int64 = 0
    client_transaction_version: Int16 = field(default=0, since=1, tag=2)
