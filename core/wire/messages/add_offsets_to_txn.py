"""Adds a group's offsets to a transaction (KIP-98)."""

from pk.core.wire.schema import Request, Response, message
from pk.core.wire.types import Int16, Int32, Int64


@message(versions=(0, 4))
class AddOffsetsToTxnRequest(Request["AddOffsetsToTxnResponse"]):
    """The request of AddOffsetsToTxn."""

    transactional_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: str = ""


@message(versions=(0, 4))
class AddOffsetsToTxnResponse(Response):
    """The response of AddOffsetsToTxn."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
