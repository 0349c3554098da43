"""Changes finalized features (KIP-584). v1 can only validate (KIP-778), v2 has one error for all
features."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int8, Int16, Int32


@struct
class FeatureUpdateKey(Struct):
    """One of `UpdateFeaturesRequest.feature_updates`."""

    feature: str = ""
    max_version_level: Int16 = 0
    allow_downgrade: bool = field(default=False, until=0)
    upgrade_type: Int8 = field(default=1, since=1)


@message(versions=(0, 2))
class UpdateFeaturesRequest(Request["UpdateFeaturesResponse"]):
    """The request of UpdateFeatures."""

    timeout_ms: Int32 = 60000
    feature_updates: list[FeatureUpdateKey] = field(default_factory=list)
    validate_only: bool = field(default=False, since=1)


@struct
class UpdatableFeatureResult(Struct):
    """One of `UpdateFeaturesResponse.results`."""

    feature: str = ""
    error_code: Int16 = 0
    error_message: str | None = field(default="", nullable=0)


@message(versions=(0, 2))
class UpdateFeaturesResponse(Response):
    """The response of UpdateFeatures."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = field(default="", nullable=0)
    results: list[UpdatableFeatureResult] = field(default_factory=list, until=1, ignorable=True)
