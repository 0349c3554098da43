"""Gives a producer its id and epoch (KIP-98). v3 can raise a producer's epoch (KIP-360), v6 adds
two-phase commit (KIP-939), which is not stable yet."""

from pk.core.wire.schema import Request, Response, field, message
from pk.core.wire.types import Int16, Int32, Int64


@message(versions=(0, 6))
class InitProducerIdRequest(Request["InitProducerIdResponse"]):
    """The request of InitProducerId."""

    transactional_id: str | None = field(default="", nullable=0)
    transaction_timeout_ms: Int32 = 0
    producer_id: Int64 = field(default=-1, since=3)
    producer_epoch: Int16 = field(default=-1, since=3)
    enable2_pc: bool = field(default=False, since=6)
    keep_prepared_txn: bool = field(default=False, since=6)


@message(versions=(0, 6))
class InitProducerIdResponse(Response):
    """The response of InitProducerId."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
    ongoing_txn_producer_id: Int64 = field(default=-1, since=6)
    ongoing_txn_producer_epoch: Int16 = field(default=-1, since=6)
