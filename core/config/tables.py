"""All broker, topic, group and client metrics keys, by name.

A topic's or group's key that is not set takes its default from a broker key (its synonym). Kafka's
keys for unsupported features are accepted, described, and named in one warning
(`unsupported_keys`); so are unknown keys (`unknown_keys.py`).
"""

from collections.abc import Iterable, Mapping
from typing import Final

from pk.core.config import (
    broker_keys,
    coordinator_keys,
    log_keys,
    remote_keys,
    security_keys,
)
from pk.core.config.keys import ConfigError, Key, Type, read_table, unknown_key
from pk.core.config.topic_keys import CLIENT_METRICS, GROUP, TOPIC
from pk.core.config.unsupported import PLUGIN_KEYS, UNSUPPORTED

BROKER_KEYS: Final = read_table(
    broker_keys.BROKER,
    broker_keys.OWN,
    log_keys.LOG,
    coordinator_keys.COORDINATORS,
    security_keys.SECURITY,
    remote_keys.QUORUM_AND_REMOTE,
)
DYNAMIC_ONLY_KEYS: Final = read_table(broker_keys.DYNAMIC_ONLY)
"""Keys that the cluster stores for a broker and that are never in its file. They are described only
if they are set."""

TOPIC_KEYS: Final = read_table(TOPIC)
GROUP_KEYS: Final = read_table(GROUP)
CLIENT_METRICS_KEYS: Final = read_table(CLIENT_METRICS)

TOPIC_SYNONYMS: Final[dict[str, tuple[str, ...]]] = {
    "cleanup.policy": ("log.cleanup.policy",),
    "compression.gzip.level": ("compression.gzip.level",),
    "compression.lz4.level": ("compression.lz4.level",),
    "compression.type": ("compression.type",),
    "compression.zstd.level": ("compression.zstd.level",),
    "delete.retention.ms": ("log.cleaner.delete.retention.ms",),
    "file.delete.delay.ms": ("log.segment.delete.delay.ms",),
    "flush.messages": ("log.flush.interval.messages",),
    "flush.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    "index.interval.bytes": ("log.index.interval.bytes",),
    "local.retention.bytes": ("log.local.retention.bytes",),
    "local.retention.ms": ("log.local.retention.ms",),
    "max.compaction.lag.ms": ("log.cleaner.max.compaction.lag.ms",),
    "max.message.bytes": ("message.max.bytes",),
    "message.timestamp.after.max.ms": ("log.message.timestamp.after.max.ms",),
    "message.timestamp.before.max.ms": ("log.message.timestamp.before.max.ms",),
    "message.timestamp.type": ("log.message.timestamp.type",),
    "min.cleanable.dirty.ratio": ("log.cleaner.min.cleanable.ratio",),
    "min.compaction.lag.ms": ("log.cleaner.min.compaction.lag.ms",),
    "min.insync.replicas": ("min.insync.replicas",),
    "preallocate": ("log.preallocate",),
    "retention.bytes": ("log.retention.bytes",),
    "retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "segment.bytes": ("log.segment.bytes",),
    "segment.index.bytes": ("log.index.size.max.bytes",),
    "segment.jitter.ms": ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    "segment.ms": ("log.roll.ms", "log.roll.hours"),
    "unclean.leader.election.enable": ("unclean.leader.election.enable",),
}
"""The broker keys for the default of each topic key. The first one that is set wins."""

GROUP_SYNONYMS: Final = {
    name: f"group.{name}" for name in GROUP_KEYS if f"group.{name}" in BROKER_KEYS
}
"""The broker key for the default of each group key."""


def unsupported_keys(given: Iterable[str]) -> list[str]:
    """Return those of `given` that belong to unsupported features, for a warning at start."""
    beginnings = tuple(start for starts in UNSUPPORTED.values() for start in starts)
    return sorted(name for name in given if base_name(name).startswith(beginnings))


LISTENER_PREFIX: Final = "listener.name."
OWN_PREFIX: Final = "pk."
"""The prefix of keys that neither Kafka nor plug-ins have."""


def base_name(name: str) -> str:
    """Return the key that a listener's own key overrides: `ssl.keystore.type` for
    `listener.name.internal.ssl.keystore.type`."""
    if name.startswith(LISTENER_PREFIX):
        rest = name.removeprefix(LISTENER_PREFIX).partition(".")[2]
        # `listener.name.L.scram-sha-256.sasl.jaas.config` also has a mechanism.
        for key in (rest, rest.partition(".")[2]):
            if key in BROKER_KEYS:
                return key
    return name


def broker_key(name: str) -> Key:
    """Return the key `name`, which may be of one listener (`listener.name.L.KEY`). Raises
    ConfigError if it is unknown."""
    key = BROKER_KEYS.get(name) or BROKER_KEYS.get(base_name(name))
    if key is not None:
        return key
    if (extra := DYNAMIC_ONLY_KEYS.get(name)) is not None:
        return extra
    if name in PLUGIN_KEYS:
        return Key(name, Type.STRING, None, "Read by the authorizer.")
    raise ConfigError(unknown_key(name, BROKER_KEYS))


def any_broker_key(name: str) -> Key:
    """Return the key like `broker_key`, or make one for an unknown name: that of a plug-in, whose
    value may be a secret."""
    try:
        return broker_key(name)
    except ConfigError:
        return Key(name, Type.UNKNOWN, None, "")


def key_of(keys: Mapping[str, Key], name: str) -> Key:
    """Return the key `name` of a table. Raises ConfigError, with the nearest name, if it is
    unknown."""
    try:
        return keys[name]
    except KeyError:
        said = next((words for table, words in _UNKNOWN if table is keys), "config name")
        raise ConfigError(unknown_key(name, keys, said)) from None


_UNKNOWN: Final = (
    (TOPIC_KEYS, "topic config name"),
    (GROUP_KEYS, "group config name"),
    (CLIENT_METRICS_KEYS, "client metrics configuration"),
)
"""Apache's message for a key that is missing in a table."""
