"""Features of a cluster (KIP-584): the names of their levels, and the levels that every broker
supports."""

from collections.abc import Mapping
from typing import Final

from pk.net.client.results import FeatureDescription

METADATA_VERSION: Final = "metadata.version"


_METADATA_RELEASES: Final = (
    ("3.0", 1, 1),
    ("3.1", 0, 0),
    ("3.2", 0, 0),
    ("3.3", 0, 3),
    ("3.4", 0, 0),
    ("3.5", 0, 2),
    ("3.6", 0, 2),
    ("3.7", 0, 4),
    ("3.8", 0, 0),
    ("3.9", 0, 0),
    ("4.0", 0, 3),
    ("4.1", 0, 1),
    ("4.2", 0, 1),
    ("4.3", 0, 0),
)
"""Apache's releases with their first and last metadata.version, IV0 to IVn (MetadataVersion)."""


METADATA_LEVELS: Final = [
    f"{release}-IV{n}"
    for release, first, last in _METADATA_RELEASES
    for n in range(first, last + 1)
]
"""Apache's names for the levels of metadata.version, from level 1 on."""


def level_name(feature: str, level: int) -> str | None:
    """The name of a level; None if it has none."""
    if feature != METADATA_VERSION or not 1 <= level <= len(METADATA_LEVELS):
        return None
    return METADATA_LEVELS[level - 1]


def release_of(features: FeatureDescription | None) -> str | None:
    """The newest metadata.version that a broker supports, by Apache's name: the known name closest
    to the broker's release."""
    if features is None:
        return None
    for feature in features.supported:
        if feature.name == METADATA_VERSION:
            newest = feature.max_version
            return level_name(METADATA_VERSION, newest) or f"{METADATA_VERSION} {newest}"
    return None


def common_range(
    described: Mapping[int, FeatureDescription], feature: str
) -> tuple[int, int] | None:
    """The levels that every broker supports; None if one of them supports none."""
    low, high = 0, 32767
    for description in described.values():
        found = next((f for f in description.supported if f.name == feature), None)
        if found is None:
            return None
        low, high = max(low, found.min_version), min(high, found.max_version)
    return (low, high) if low <= high else None
