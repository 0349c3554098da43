"""pk's own information about config keys, independent of the broker: their documentation, bounds
and units."""

import html
import re
from collections.abc import Mapping
from typing import Final

from pk.core.config import (
    BROKER_KEYS,
    CLIENT_METRICS_KEYS,
    DYNAMIC_ONLY_KEYS,
    GROUP_KEYS,
    TOPIC_KEYS,
    Key,
)
from pk.net.client.results import ConfigEntry, ResourceType

_KEYS: Final[dict[ResourceType, Mapping[str, Key]]] = {
    ResourceType.TOPIC: TOPIC_KEYS,
    ResourceType.BROKER: {**BROKER_KEYS, **DYNAMIC_ONLY_KEYS},
    ResourceType.GROUP: GROUP_KEYS,
    ResourceType.CLIENT_METRICS: CLIENT_METRICS_KEYS,
}
_TAG: Final = re.compile(r"<[^>]*>")
_GAP: Final = re.compile(r" ([,.;:)])")


def keys_of(kind: ResourceType) -> Mapping[str, Key]:
    """The keys of a resource type that pk knows."""
    return _KEYS.get(kind, {})


def documentation(kind: ResourceType, entry: ConfigEntry) -> str | None:
    """The documentation of a key: the broker's, without markup, or else pk's."""
    if entry.documentation:
        return " ".join(html.unescape(_TAG.sub(" ", entry.documentation)).split()).replace(
            " .", "."
        )
    key = keys_of(kind).get(entry.name)
    return key.doc if key else None


def allowed(key: Key | None) -> str:
    """A key's allowed values, for people: `one of compact, delete`; empty if anything is
    allowed."""
    if key is None or not key.valid:
        return ""
    valid = key.valid
    if valid == "nonempty":
        return "not empty"
    if valid == "nonzero":
        return "not 0"
    if valid.startswith("*"):
        return f"a list of {', '.join(valid[1:].split(','))}"
    if valid.startswith("~") or "," in valid:
        return f"one of {', '.join(valid.removeprefix('~').split(','))}"
    low, dots, high = valid.partition("..")
    if dots and "|" not in valid:
        return f"from {low} to {high}" if high else f"{low} or more"
    return valid.replace("|", " or ").replace("..", " to ").removesuffix(" to ")
