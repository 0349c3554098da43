"""DescribeConfigs for a key: its value in force, the source of that value, and the values it
overrides (KIP-226).

A topic's `retention.ms` may be the topic's own, or the broker's `log.retention.ms` as the cluster
set it for that broker, as the cluster set it for all, as the broker was started with, or the
default. All that exist are *synonyms*, in that order; the first one is the *source*. As in Kafka a
key is described by synonyms of its own name onward: a broker started with `log.retention.hours`
describes `log.retention.ms` by no synonym at all, though its topics keep to the hours.
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
    """The source of a value, by its number on the wire."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Synonym(NamedTuple):
    """One value that the key has somewhere."""

    name: str
    value: str | None
    source: Source


class Described(NamedTuple):
    """One key of one resource."""

    key: Key
    value: str | None
    """None if there is no value, or it is secret."""
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
    """Every topic key of a topic with these keys of its own, on a broker with this
    configuration."""
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
    """Every broker key of the broker with this configuration, and those it was given beyond
    them."""
    names = dict.fromkeys([*BROKER_KEYS, *config.static, *config.dynamic_default, *config.dynamic])
    described: dict[str, Described] = {}
    for name in names:
        key = _under_its_own_name(name)
        text = config.given(name)
        value = key.text(key.default_value() if text is None else _parsed(key, text))
        synonyms = _broker_synonyms(name, config)
        described[name] = _described(key, value, synonyms, _is_read_only(name, key))
    return described


def _is_read_only(name: str, key: Key) -> bool:
    """Whether Kafka reports the key as read-only: it does for a listener's own keys, though they
    may change."""
    return name.startswith(LISTENER_PREFIX) or not key.dynamic


def _under_its_own_name(name: str) -> Key:
    """The key, also of one listener: named as it was given, not as the key that it overrides."""
    key = any_broker_key(name)
    return key if key.name == name else replace(key, name=name)


def describe_broker_default(own: Mapping[str, str]) -> dict[str, Described]:
    """The keys that the cluster keeps for all brokers; only those that are set are described."""
    described: dict[str, Described] = {}
    for name, text in own.items():
        key = _under_its_own_name(name)
        synonym = Synonym(name, None if key.sensitive else text, Source.DYNAMIC_DEFAULT_BROKER)
        value = key.text(_parsed(key, text))
        described[name] = _described(key, value, [synonym], _is_read_only(name, key))
    return described


def describe_group(own: Mapping[str, str], config: BrokerConfig) -> dict[str, Described]:
    """Every group key of a group with these keys of its own."""
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
    """Every key of a client metrics subscription (KIP-714)."""
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
        # Stored by a program with other bounds: the default is in force.
        return key.default_value()


def chosen(described: Mapping[str, Described], keys: Iterable[str] | None) -> list[Described]:
    """Those of `keys` that exist, or all for None, by name."""
    wanted = None if keys is None else set(keys)
    return [described[n] for n in sorted(described) if wanted is None or n in wanted]
