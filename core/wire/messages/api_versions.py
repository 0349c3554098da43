"""Lists the requests that a broker supports, with their versions. v3 adds the name of the client's
software, and features (KIP-511, KIP-584), v4 features whose versions begin at 0 (KIP-1022).

The response always has the oldest header. The response to an unknown version is UNSUPPORTED_VERSION
in v0.
"""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Int64


@message(versions=(0, 4))
class ApiVersionsRequest(Request["ApiVersionsResponse"]):
    """The request of ApiVersions."""

    client_software_name: str = field(default="", since=3, ignorable=True)
    client_software_version: str = field(default="", since=3, ignorable=True)


@struct
class ApiVersion(Struct):
    """One of `ApiVersionsResponse.api_keys`."""

    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


@struct
class SupportedFeatureKey(Struct):
    """One of `ApiVersionsResponse.supported_features`."""

    name: str = field(default="", since=3)
    min_version: Int16 = field(default=0, since=3)
    max_version: Int16 = field(default=0, since=3)


@struct
class FinalizedFeatureKey(Struct):
    """One of `ApiVersionsResponse.finalized_features`."""

    name: str = field(default="", since=3)
    max_version_level: Int16 = field(default=0, since=3)
    min_version_level: Int16 = field(default=0, since=3)


@message(versions=(0, 4))
class ApiVersionsResponse(Response):
    """The response of ApiVersions."""

    error_code: Int16 = 0
    api_keys: list[ApiVersion] = field(default_factory=list)
    throttle_time_ms: Int32 = field(default=0, since=1, ignorable=True)
    supported_features: list[SupportedFeatureKey] = field(
        default_factory=list, since=3, tag=0, ignorable=True
    )
    finalized_features_epoch: Int64 = field(default=-1, since=3, tag=1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = field(
        default_factory=list, since=3, tag=2, ignorable=True
    )
    zk_migration_ready: bool = field(default=False, since=3, tag=3, ignorable=True)
