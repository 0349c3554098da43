"""Finalized features: levels that every broker of the cluster supports and uses (KIP-584, KIP-778).

Clients act on finalized features, so `SUPPORTED` lists only those that are implemented, and no
others can be finalized. A new cluster begins with all of them.

`metadata.version` tells tools the release of a cluster. pk supports one level of it: the level with
which Apache Kafka 4.3.1, whose requests and errors pk follows, formats a cluster. pk does not use
the formats of this level in Apache's metadata log, because its own log has its own versions
(events.py).

Eligible leader replicas cannot be disabled (Kafka's level 0), because pk keeps acknowledged records
safe only with them.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from pk.core.errors import ErrorCode, KafkaError
from pk.core.machine import Decision
from pk.core.meta.events import Event, FeatureChanged, FeatureRange
from pk.core.meta.image import MetadataImage
from pk.core.wire.messages.broker_registration import Feature
from pk.core.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

ELR_VERSION: Final = "eligible.leader.replicas.version"
"""Eligible leader replicas (KIP-966), enabled at level 1."""

METADATA_VERSION: Final = "metadata.version"
METADATA_4_3_IV0: Final = 30
"""The level of Apache Kafka 4.3.1, called 4.3-IV0."""

GROUP_VERSION: Final = "group.version"
"""Consumer groups of KIP-848, enabled at level 1."""

SHARE_VERSION: Final = "share.version"
"""Share groups (KIP-932), enabled at level 1."""

STREAMS_VERSION: Final = "streams.version"
"""Streams groups (KIP-1071), enabled at level 1."""

TRANSACTION_VERSION: Final = "transaction.version"
"""Transactions: level 1 writes tagged fields to their log; level 2 raises a producer's epoch with
each transaction (KIP-890)."""

SUPPORTED: Final[Mapping[str, tuple[int, int]]] = {
    ELR_VERSION: (1, 1),
    GROUP_VERSION: (0, 1),
    METADATA_VERSION: (METADATA_4_3_IV0, METADATA_4_3_IV0),
    SHARE_VERSION: (0, 1),
    STREAMS_VERSION: (0, 1),
    TRANSACTION_VERSION: (0, 2),
}
"""The lowest and highest level of each feature that this program supports."""

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
"""The upgrade types of UpdateFeatures."""


def supported_features() -> list[Feature]:
    """The features that a broker of this program reports when it registers."""
    return [
        Feature(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in SUPPORTED.items()
    ]


def first_features() -> list[Event]:
    """Return the events that finalize every supported feature in a new cluster."""
    return [FeatureChanged(name, high) for name, (_, high) in SUPPORTED.items()]


def update_features(
    image: MetadataImage,
    request: UpdateFeaturesRequest,
    supported: Mapping[str, tuple[int, int]] = SUPPORTED,
    *,
    controller_id: int = 1,
) -> Decision[Event, UpdateFeaturesResponse]:
    """Decide an UpdateFeatures request: applies all of its updates or none. If a feature is named
    twice, the last update counts. The reply is its response, with one result for each update in
    versions that have results, if the updates are applied. `controller_id` is this node's id, which
    Apache's messages contain.

    Error: INVALID_UPDATE_VERSION for a level that is negative, that this program or a registered
    broker does not support, that is lower while the type does not allow a downgrade, or that is
    higher while the type is a downgrade.
    """
    response = UpdateFeaturesResponse(error_message=None)
    events: list[Event] = []
    for update in {update.feature: update for update in request.feature_updates}.values():
        try:
            _check(image, update, supported, controller_id)
        except KafkaError as e:
            response.error_code = e.code
            response.error_message = (
                "The update failed for all features since the following feature had an error: "
                f"Invalid update version {update.max_version_level} for feature {update.feature}. "
                f"{e.message}"
            )
            return Decision([], reply=response)
        if image.features.get(update.feature, 0) != update.max_version_level:
            events.append(FeatureChanged(update.feature, update.max_version_level))
    response.results = [
        UpdatableFeatureResult(feature=update.feature, error_message=None)
        for update in request.feature_updates
    ]
    return Decision([] if request.validate_only else events, reply=response)


def _check(
    image: MetadataImage,
    update: FeatureUpdateKey,
    supported: Mapping[str, tuple[int, int]],
    controller_id: int,
) -> None:
    name, level = update.feature, update.max_version_level

    def refuse(why: str) -> KafkaError:
        return KafkaError(ErrorCode.INVALID_UPDATE_VERSION, why)

    kind = SAFE_DOWNGRADE if update.allow_downgrade else update.upgrade_type
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise refuse("The controller does not support the given upgrade type.")
    if level < 0:
        raise refuse("A feature version cannot be less than 0.")
    only = supported.get(name)
    if only is None and level == 0 and name not in image.features:
        raise refuse(f"Feature {name} not found.")
    if not _within(level, only):
        if only is None:
            raise refuse(f"Local controller {controller_id} does not support this feature.")
        raise refuse(f"Local controller {controller_id} only supports versions {only[0]}-{only[1]}")
    for broker in image.brokers.values():
        if not _within(level, _range(broker.features, name)):
            raise refuse(f"Broker {broker.broker_id} does not support it.")
    now = image.features.get(name, 0)
    if level < now and kind == UPGRADE:
        raise refuse(
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade."
        )
    if level > now and kind != UPGRADE:
        raise refuse(
            "Can't upgrade the version of this feature with an upgrade type that is a downgrade."
        )


def _range(features: Iterable[FeatureRange], name: str) -> tuple[int, int] | None:
    return next(((f.level_min, f.level_max) for f in features if f.name == name), None)


def _within(level: int, supported: tuple[int, int] | None) -> bool:
    low, high = supported or (0, 0)
    return low <= level <= high
