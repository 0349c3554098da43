"""Describes the brokers or controllers of a cluster (KIP-700). v1 adds controllers (KIP-919), v2
fenced brokers (KIP-1073)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int8, Int16, Int32


@message(versions=(0, 2))
class DescribeClusterRequest(Request["DescribeClusterResponse"]):
    """The request of DescribeCluster."""

    include_cluster_authorized_operations: bool = False
    endpoint_type: Int8 = field(default=1, since=1)
    include_fenced_brokers: bool = field(default=False, since=2)


@struct
class DescribeClusterBroker(Struct):
    """One of `DescribeClusterResponse.brokers`."""

    broker_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: str | None = field(default=None, nullable=0)
    is_fenced: bool = field(default=False, since=2)


@message(versions=(0, 2))
class DescribeClusterResponse(Response):
    """The response of DescribeCluster."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = field(default=None, nullable=0)
    endpoint_type: Int8 = field(default=1, since=1)
    cluster_id: str = ""
    controller_id: Int32 = -1
    brokers: list[DescribeClusterBroker] = field(default_factory=list)
    cluster_authorized_operations: Int32 = -2147483648
