"""Adds a voter to the metadata quorum (KIP-853).

Api key 80; Apache Kafka 4.3.1 serves versions 0 to 1.
"""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Uint16, Uuid


@struct
class Listener(Struct):
    """One of `AddRaftVoterRequest.listeners`."""

    name: str = ""
    host: str = ""
    port: Uint16 = 0


@message(versions=(0, 1), flexible=0, key=80)
class AddRaftVoterRequest(Request["AddRaftVoterResponse"]):
    """The request of AddRaftVoter."""

    cluster_id: str | None = field(default="", nullable=0)
    timeout_ms: Int32 = 0
    voter_id: Int32 = 0
    voter_directory_id: Uuid = ZERO_UUID
    listeners: list[Listener] = field(default_factory=list)
    ack_when_committed: bool = field(default=True, since=1)


@message(versions=(0, 1), flexible=0, key=80)
class AddRaftVoterResponse(Response):
    """The response of AddRaftVoter."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = field(default="", nullable=0)
