"""Configs of topics, brokers, groups and other resources: the names of the resources, and the
source of a value."""

from collections.abc import Sequence

from pk.cli.exits import Unusable
from pk.cli.runtime.name_cache import remember
from pk.core.nearest import did_you_mean
from pk.net.client.results import (
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)

RESOURCE_TYPES = {
    "topic": ResourceType.TOPIC,
    "broker": ResourceType.BROKER,
    "broker-logger": ResourceType.BROKER_LOGGER,
    "group": ResourceType.GROUP,
    "client-metric": ResourceType.CLIENT_METRICS,
}


TYPE_WORDS = {kind: word for word, kind in RESOURCE_TYPES.items()} | {
    ResourceType.CLIENT_METRICS: "client-metrics"
}


_OWN = {
    ResourceType.TOPIC: ConfigSource.TOPIC,
    ResourceType.BROKER_LOGGER: ConfigSource.DYNAMIC_BROKER_LOGGER,
    ResourceType.CLIENT_METRICS: ConfigSource.CLIENT_METRICS,
    ResourceType.GROUP: ConfigSource.GROUP,
}


def own_source(resource: ConfigResource) -> ConfigSource | None:
    """The layer of the values set on the resource itself."""
    if resource.type is ResourceType.BROKER:
        return ConfigSource.DYNAMIC_BROKER if resource.name else ConfigSource.DYNAMIC_DEFAULT_BROKER
    return _OWN.get(resource.type)


def own_value(resource: ConfigResource, entry: ConfigEntry | None) -> str | None:
    """The value set on the resource itself; None if the value comes from another layer."""
    if entry is None:
        return None
    own = own_source(resource)
    if entry.source is own:
        return entry.value
    return next((s.value for s in entry.synonyms if s.source is own), None)


def resource_type(word: str) -> ResourceType:
    """The type that `topic`, `topics`, … names. Raises Unusable."""
    found = RESOURCE_TYPES.get(word.lower().removesuffix("s"))
    if found is None:
        hint = did_you_mean(word, TYPE_WORDS.values())
        raise Unusable(f"TYPE must be one of {', '.join(TYPE_WORDS.values())}, not {word!r}{hint}")
    return found


def entity_name(kind: ResourceType, name: str) -> str:
    """A resource's name in Kafka: empty for the default of all brokers. Raises Unusable."""
    if kind is ResourceType.BROKER and name in ("default", "<default>", ""):
        return ""
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and not name.isdigit():
        raise Unusable(f"A broker must be given by its id or as `default`, not {name!r}.")
    return name


def entity_word(kind: ResourceType) -> str:
    """The word for a resource type on the command line."""
    return TYPE_WORDS.get(kind, kind.name.lower())


def shown_name(resource: ConfigResource) -> str:
    """The name in a list."""
    return resource.name or "default"


def name_in_sentence(resource: ConfigResource) -> str:
    """The name at the start of a sentence: `broker 2`, since a number alone would say nothing."""
    numbered = resource.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER)
    return f"broker {resource.name}" if numbered and resource.name else shown_name(resource)


def remember_keys(resource: ConfigResource, entries: Sequence[ConfigEntry]) -> None:
    """Keep the keys of topics and brokers for completion, if the response holds all of them."""
    if resource.type in (ResourceType.TOPIC, ResourceType.BROKER) and len(entries) > 10:
        remember("", f"{TYPE_WORDS[resource.type]}-config", (e.name for e in entries))


def was_set(entry: ConfigEntry) -> bool:
    """Whether the value was set, and is not a default."""
    return entry.source in (
        ConfigSource.TOPIC,
        ConfigSource.DYNAMIC_BROKER,
        ConfigSource.DYNAMIC_DEFAULT_BROKER,
        ConfigSource.STATIC_BROKER,
        ConfigSource.DYNAMIC_BROKER_LOGGER,
        ConfigSource.CLIENT_METRICS,
        ConfigSource.GROUP,
    )
