"""Forwards a client's request from a broker to the controller (KIP-590)."""

from pk.core.wire.schema import Request, Response, field, message
from pk.core.wire.types import Int16, Int64


@message(versions=(0, 0))
class EnvelopeRequest(Request["EnvelopeResponse"]):
    """The request of Envelope."""

    request_data: bytes = field(default=b"", secret=True)
    request_principal: bytes | None = field(default=b"", nullable=0)
    client_host_address: bytes = b""


@message(versions=(0, 0))
class EnvelopeResponse(Response):
    """The response of Envelope."""

    response_data: bytes | None = field(default=None, nullable=0, secret=True)
    error_code: Int16 = 0
    image_offset: Int64 = field(default=-1, tag=100)
    """The offset of the metadata log that the broker's image must reach to show the decision; -1 if
    there is none. pk only: a tag that others ignore."""
