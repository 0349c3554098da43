"""Finds the broker that coordinates a group, a transactional id or a share partition. v1 adds
transactional ids (KIP-98), v4 several keys (KIP-699), v6 share groups (KIP-932)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int8, Int16, Int32


@message(versions=(0, 6))
class FindCoordinatorRequest(Request["FindCoordinatorResponse"]):
    """The request of FindCoordinator."""

    key: str = field(default="", until=3)
    key_type: Int8 = field(default=0, since=1)
    coordinator_keys: list[str] = field(default_factory=list, since=4)


@struct
class Coordinator(Struct):
    """One of `FindCoordinatorResponse.coordinators`."""

    key: str = field(default="", since=4)
    node_id: Int32 = field(default=0, since=4)
    host: str = field(default="", since=4)
    port: Int32 = field(default=0, since=4)
    error_code: Int16 = field(default=0, since=4)
    error_message: str | None = field(default="", since=4, nullable=4, ignorable=True)


@message(versions=(0, 6))
class FindCoordinatorResponse(Response):
    """The response of FindCoordinator."""

    throttle_time_ms: Int32 = field(default=0, since=1, ignorable=True)
    error_code: Int16 = field(default=0, until=3)
    error_message: str | None = field(default="", since=1, until=3, nullable=(1, 3), ignorable=True)
    node_id: Int32 = field(default=0, until=3)
    host: str = field(default="", until=3)
    port: Int32 = field(default=0, until=3)
    coordinators: list[Coordinator] = field(default_factory=list, since=4)
