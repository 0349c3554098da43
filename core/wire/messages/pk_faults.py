"""Makes, lists and clears faults that a test asked for (`pk.faults.enable`, core/broker/faults).

pk only. Apache Kafka has no such API.
"""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Int64


@message(versions=(0, 0))
class PkFaultsRequest(Request["PkFaultsResponse"]):
    """The request of PkFaults."""

    action: str = ""
    """`add`, `list`, `clear`; or what is done at once: `disconnect`, `move-leader`, `rebalance`,
    `set-clock`."""
    kind: str = ""
    """Of a fault to add: `fail`, `delay`, `drop`, `drop-answer`."""
    fault_id: Int64 = -1
    """The fault to clear; -1 clears all."""
    request_key: Int16 = -1
    """The API key of the requests that the fault meets."""
    fault_code: Int16 = 0
    delay_ms: Int64 = 0
    times: Int32 = -1
    """How many requests the fault meets; -1 for all until it is cleared."""
    client_id: str | None = field(default=None, nullable=0)
    topic: str = ""
    partition: Int32 = -1
    group: str = ""
    shift_ms: Int64 = 0
    """How far the broker's time of day is ahead of the machine's, in ms."""

    def changes_nothing(self) -> bool:
        """Whether this request only reads."""
        return self.action == "list"


@struct
class FaultInForce(Struct):
    """One of `PkFaultsResponse.faults`."""

    fault_id: Int64 = 0
    kind: str = ""
    request_key: Int16 = -1
    fault_code: Int16 = 0
    delay_ms: Int64 = 0
    times: Int32 = -1
    """How many more requests it meets; -1 for all."""
    met: Int32 = 0
    """How many requests it has met."""
    client_id: str | None = field(default=None, nullable=0)


@message(versions=(0, 0))
class PkFaultsResponse(Response):
    """The response of PkFaults."""

    error_code: Int16 = 0
    error_message: str | None = field(default=None, nullable=0)
    count: Int64 = 0
    """What was done: the new fault's id, the number of faults cleared or of connections closed, the
    new leader."""
    shift_ms: Int64 = 0
    faults: list[FaultInForce] = field(default_factory=list)
