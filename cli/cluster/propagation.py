"""Waiting until brokers have heard of a change: the controller answers before they have, and the next command may ask one
that has not. It gives up quietly after `HEARD_S`: the change is made all the same."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import trio

from pk.cli.cluster.configs import own_value
from pk.core.errors import KafkaError
from pk.net.client.admin import Admin
from pk.net.client.errors import ClientError
from pk.net.client.results import (
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    TopicDescription,
)

HEARD_S = 5.0
"""How long brokers are asked."""
RETRY_S = 0.05


async def until_topics(
    admin: Admin,
    names: Iterable[str],
    told: Callable[[str, TopicDescription | Exception], bool],
) -> None:
    """Wait until `told` holds for what the brokers say of each topic."""
    left = list(names)
    with trio.move_on_after(HEARD_S):
        while left:
            try:
                found = await admin.describe_topics(left)
            except (KafkaError, ClientError):
                return
            left = [name for name in left if not told(name, found[name])]
            if left:
                await trio.sleep(RETRY_S)


async def until_configs(
    admin: Admin,
    before: Mapping[ConfigResource, Sequence[ConfigEntry]],
    changes: Mapping[ConfigResource, Sequence[ConfigChange]],
    failed: Collection[ConfigResource],
) -> None:
    """Wait until what was changed is no more as it was `before`; what `failed`, or was so already, is not waited for."""
    left: dict[ConfigResource, dict[str, ConfigEntry | None]] = {}
    for resource in changes.keys() - set(failed):
        entries = {entry.name: entry for entry in before[resource]}
        waited = {c.name: entries.get(c.name) for c in changes[resource]}
        for change in changes[resource]:
            if not _shows(resource, entries.get(change.name), change):
                del waited[change.name]
        if waited:
            left[resource] = waited
    with trio.move_on_after(HEARD_S):
        while left:
            try:
                found = await admin.describe_configs(list(left))
            except (KafkaError, ClientError):
                return
            left = {r: old for r, old in left.items() if not _told(old, found[r])}
            if left:
                await trio.sleep(RETRY_S)


def _shows(resource: ConfigResource, entry: ConfigEntry | None, change: ConfigChange) -> bool:
    """Whether a description will be another after the change."""
    if entry is not None and entry.sensitive:
        return False
    if change.operation is ConfigOperation.DELETE:
        return own_value(resource, entry) is not None
    if change.operation is ConfigOperation.SET:
        return entry is None or entry.value != change.value
    has: set[str] = set((entry.value or "").split(",")) if entry else set()
    named = set((change.value or "").split(","))
    return bool(named - has if change.operation is ConfigOperation.APPEND else named & has)


def _told(old: Mapping[str, ConfigEntry | None], answer: Sequence[ConfigEntry] | Exception) -> bool:
    if isinstance(answer, Exception):
        return False
    now = {entry.name: entry for entry in answer}
    return all(_layer(now.get(name)) != _layer(entry) for name, entry in old.items())


def _layer(entry: ConfigEntry | None) -> tuple[str | None, ConfigSource] | None:
    return None if entry is None else (entry.value, entry.source)
