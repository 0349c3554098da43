"""Registers a broker with the controller (KIP-631). v2 adds log directories (KIP-858), v3 the
previous epoch (KIP-966)."""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Int64, Uint16, Uuid


@struct
class Listener(Struct):
    """One of `BrokerRegistrationRequest.listeners`."""

    name: str = ""
    host: str = ""
    port: Uint16 = 0
    security_protocol: Int16 = 0


@struct
class Feature(Struct):
    """One of `BrokerRegistrationRequest.features`."""

    name: str = ""
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


@message(versions=(0, 4))
class BrokerRegistrationRequest(Request["BrokerRegistrationResponse"]):
    """The request of BrokerRegistration."""

    broker_id: Int32 = 0
    cluster_id: str = ""
    incarnation_id: Uuid = ZERO_UUID
    listeners: list[Listener] = field(default_factory=list)
    features: list[Feature] = field(default_factory=list)
    rack: str | None = field(default="", nullable=0)
    is_migrating_zk_broker: bool = field(default=False, since=1)
    log_dirs: list[Uuid] = field(default_factory=list, since=2, ignorable=True)
    previous_broker_epoch: Int64 = field(default=-1, since=3, ignorable=True)


@message(versions=(0, 4))
class BrokerRegistrationResponse(Response):
    """The response of BrokerRegistration."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    broker_epoch: Int64 = -1
