"""DescribeConfigs for a key: its effective value, the source of that value, and the values that it
overrides (KIP-226).

A topic's `retention.ms` may come from the topic, or from the broker's `log.retention.ms`: set in
the cluster for that broker, set in the cluster for all brokers, set in the broker's file, or the
default. All values that exist are *synonyms*, in that order, and the first one is the *source*. As
in Kafka, only synonyms of the same name are shown: if a broker's file sets `log.retention.hours`,
`log.retention.ms` has no synonym for it, although topics obey the hours.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from itertools import dropwhile
from typing import Final, NamedTuple

from msgspec.structs import replace

from pk.core.config import (
    BROKER_KEYS,
    CLIENT_METRICS_KEYS,
    GROUP_KEYS,
    GROUP_SYNONYMS,
    TOPIC_KEYS,
    TOPIC_SYNONYMS,
    BrokerConfig,
    ConfigError,
    Key,
    any_broker_key,
    base_name,
    value_text,
)
from pk.core.config.tables import LISTENER_PREFIX


class Source(IntEnum):
    """The source of a value, numbered as in the protocol."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Synonym(NamedTuple):
    """One of the values that a key has, and its source."""

    name: str
    value: str | None
    source: Source


class Described(NamedTuple):
    """One described key of a resource."""

    key: Key
    value: str | None
    """The effective value, or None if there is none or it is secret."""
    source: Source
    synonyms: list[Synonym]
    read_only: bool = False


_TOGETHER: Final = (
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
)
_SYNONYMS: Final = {name: names for names in _TOGETHER for name in names}


def _broker_synonyms(name: str, config: BrokerConfig) -> list[Synonym]:
    names = _SYNONYMS.get(name)
    if names is None:
        beneath = base_name(name)
        if beneath == name and name.startswith(LISTENER_PREFIX):
            beneath = name.removeprefix(LISTENER_PREFIX).partition(".")[2]
        names = tuple(dict.fromkeys((name, beneath)))
    found: list[Synonym] = []
    for given, source in (
        (config.dynamic, Source.DYNAMIC_BROKER),
        (config.dynamic_default, Source.DYNAMIC_DEFAULT_BROKER),
        (config.static, Source.STATIC_BROKER),
        (None, Source.DEFAULT),
    ):
        for one in names:
            text = _default_text(one) if given is None else given.get(one)
            if text is not None:
                secret = any_broker_key(one).sensitive
                found.append(Synonym(one, None if secret else text, source))
    return list(dropwhile(lambda synonym: synonym.name != name, found))


def _default_text(name: str) -> str | None:
    key = BROKER_KEYS.get(name)
    return None if key is None else key.default


def _described(
    key: Key, value: str | None, synonyms: list[Synonym], read_only: bool = False
) -> Described:
    source = synonyms[0].source if synonyms else Source.DEFAULT
    return Described(key, value, source, synonyms, read_only)


def describe_topic(own: Mapping[str, str], config: BrokerConfig) -> dict[str, Described]:
    """Describe every topic key of a topic that sets `own`, on a broker with this configuration."""
    topic = config.topic(own)
    described: dict[str, Described] = {}
    for name, key in TOPIC_KEYS.items():
        value = key.text(topic[name])
        beneath = TOPIC_SYNONYMS.get(name)
        synonyms = _broker_synonyms(beneath[0], config) if beneath else []
        if name in own:
            synonyms = [Synonym(name, value, Source.TOPIC), *synonyms]
        described[name] = _described(key, value, synonyms)
    return described


def describe_broker(config: BrokerConfig) -> dict[str, Described]:
    """Describe every broker key of the broker with this configuration, and the unknown keys that it
    sets."""
    names = dict.fromkeys([*BROKER_KEYS, *config.static, *config.dynamic_default, *config.dynamic])
    described: dict[str, Described] = {}
    for name in names:
        key = _key_as_named(name)
        text = config.explicit(name)
        value = key.text(key.default_value() if text is None else _parsed(key, text))
        synonyms = _broker_synonyms(name, config)
        described[name] = _described(key, value, synonyms, _is_read_only(name, key))
    return described


def _is_read_only(name: str, key: Key) -> bool:
    """Whether Kafka reports the key as read-only. It does so for keys of a single listener,
    although they may change."""
    return name.startswith(LISTENER_PREFIX) or not key.dynamic


def _key_as_named(name: str) -> Key:
    """Return the key under the given name, so that a listener's key keeps its prefix."""
    key = any_broker_key(name)
    return key if key.name == name else replace(key, name=name)


def describe_broker_default(own: Mapping[str, str]) -> dict[str, Described]:
    """Describe the keys that the cluster sets for all brokers. Keys that are not set are left
    out."""
    described: dict[str, Described] = {}
    for name, text in own.items():
        key = _key_as_named(name)
        synonym = Synonym(name, None if key.sensitive else text, Source.DYNAMIC_DEFAULT_BROKER)
        value = key.text(_parsed(key, text))
        described[name] = _described(key, value, [synonym], _is_read_only(name, key))
    return described


def describe_group(own: Mapping[str, str], config: BrokerConfig) -> dict[str, Described]:
    """Describe every group key of a group that sets `own`."""
    described: dict[str, Described] = {}
    for name, key in GROUP_KEYS.items():
        beneath = GROUP_SYNONYMS.get(name)
        if beneath is not None:
            default, synonyms = value_text(config[beneath]), _broker_synonyms(beneath, config)
        else:
            default = key.default or ""
            synonyms = [Synonym(name, default, Source.DEFAULT)]
        value = own.get(name)
        if value is not None:
            value = key.text(_parsed(key, value))
            synonyms = [Synonym(name, value, Source.GROUP), *synonyms]
        described[name] = _described(key, default if value is None else value, synonyms)
    return described


def describe_client_metrics(own: Mapping[str, str]) -> dict[str, Described]:
    """Describe every key of a client metrics subscription (KIP-714)."""
    described: dict[str, Described] = {}
    for name, key in CLIENT_METRICS_KEYS.items():
        text = own.get(name)
        value = key.default if text is None else key.text(_parsed(key, text))
        synonyms = [] if text is None else [Synonym(name, value, Source.CLIENT_METRICS)]
        described[name] = _described(key, value, synonyms)
    return described


def _parsed(key: Key, text: str):
    try:
        return key.parse(text)
    except ConfigError:
        # The value was stored under other bounds. The default is in effect.
        return key.default_value()


def chosen(described: Mapping[str, Described], keys: Iterable[str] | None) -> list[Described]:
    """Return the existing ones among `keys`, sorted by name; None means all."""
    wanted = None if keys is None else set(keys)
    return [described[n] for n in sorted(described) if wanted is None or n in wanted]
