"""Creates, lists and clears injected faults for tests (`pk.faults.enable`, core/broker/faults).

pk only. Apache Kafka has no such API.
"""

from typing import Final

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Int64

FAULTS_CLIENT_ID: Final = "pk-faults"
"""The client id whose requests no fault affects, so that it can clear even a fault for Metadata."""


@message(versions=(0, 0))
class PkFaultsRequest(Request["PkFaultsResponse"]):
    """The request of PkFaults."""

    action: str = ""
    """`add`, `list`, `clear`; or an action with an immediate effect: `disconnect`, `move-leader`,
    `rebalance`, `set-clock`."""
    kind: str = ""
    """The kind of fault to add: `fail`, `delay`, `drop`, `drop-answer`."""
    fault_id: Int64 = -1
    """The fault to clear; -1 clears all."""
    request_key: Int16 = -1
    """The API key of the requests that the fault affects."""
    fault_code: Int16 = 0
    delay_ms: Int64 = 0
    times: Int32 = -1
    """How many requests the fault affects; -1 for all until it is cleared."""
    client_id: str | None = field(default=None, nullable=0)
    topic: str = ""
    partition: Int32 = -1
    group: str = ""
    shift_ms: Int64 = 0
    """How far the broker's clock is ahead of the machine's, in ms."""

    def changes_nothing(self) -> bool:
        """Return whether this request only reads."""
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
    """How many more requests the fault affects; -1 for all."""
    met: Int32 = 0
    """How many requests the fault has affected."""
    client_id: str | None = field(default=None, nullable=0)


@message(versions=(0, 0))
class PkFaultsResponse(Response):
    """The response of PkFaults."""

    error_code: Int16 = 0
    error_message: str | None = field(default=None, nullable=0)
    count: Int64 = 0
    """The result: the new fault's id, the number of faults cleared or of connections closed, or the
    new leader."""
    shift_ms: Int64 = 0
    faults: list[FaultInForce] = field(default_factory=list)
