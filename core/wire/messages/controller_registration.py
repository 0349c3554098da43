"""Registers a controller with the active one (KIP-919)."""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Uint16, Uuid


@struct
class Listener(Struct):
    """One of `ControllerRegistrationRequest.listeners`."""

    name: str = ""
    host: str = ""
    port: Uint16 = 0
    security_protocol: Int16 = 0


@struct
class Feature(Struct):
    """One of `ControllerRegistrationRequest.features`."""

    name: str = ""
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


@message(versions=(0, 0))
class ControllerRegistrationRequest(Request["ControllerRegistrationResponse"]):
    """The request of ControllerRegistration."""

    controller_id: Int32 = 0
    incarnation_id: Uuid = ZERO_UUID
    zk_migration_ready: bool = False
    listeners: list[Listener] = field(default_factory=list)
    features: list[Feature] = field(default_factory=list)


@message(versions=(0, 0))
class ControllerRegistrationResponse(Response):
    """The response of ControllerRegistration."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = field(default="", nullable=0)
