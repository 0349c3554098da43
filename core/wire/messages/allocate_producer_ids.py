"""Gives a broker a block of producer ids (KIP-730)."""

from pk.core.wire.schema import Request, Response, message
from pk.core.wire.types import Int16, Int32, Int64


@message(versions=(0, 0))
class AllocateProducerIdsRequest(Request["AllocateProducerIdsResponse"]):
    """The request of AllocateProducerIds."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1


@message(versions=(0, 0))
class AllocateProducerIdsResponse(Response):
    """The response of AllocateProducerIds."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id_start: Int64 = 0
    producer_id_len: Int32 = 0
