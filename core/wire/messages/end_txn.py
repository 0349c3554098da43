"""Commits or aborts a transaction (KIP-98). v5 returns the next producer epoch (KIP-890)."""

from pk.core.wire.schema import Request, Response, field, message
from pk.core.wire.types import Int16, Int32, Int64


@message(versions=(0, 5))
class EndTxnRequest(Request["EndTxnResponse"]):
    """The request of EndTxn."""

    transactional_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: bool = False


@message(versions=(0, 5))
class EndTxnResponse(Response):
    """The response of EndTxn."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = field(default=-1, since=5, ignorable=True)
    producer_epoch: Int16 = field(default=-1, since=5, ignorable=True)
