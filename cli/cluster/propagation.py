"""Waits until brokers know of a change: the controller answers before they do, and the next command
may ask a broker that does not know yet. Gives up silently after `PROPAGATION_S`: the change is made
either way."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from pk.cli.cluster.configs import own_value
from pk.cli.runtime.poll import poll_until
from pk.core.auth.acls import AclBinding
from pk.core.errors import KafkaError
from pk.core.quota.entity import Entity
from pk.net.client.admin import Admin
from pk.net.client.answers import Answers
from pk.net.client.errors import ClientError
from pk.net.client.results import (
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    TopicDescription,
)

PROPAGATION_S = 5.0
"""How long to wait for the brokers."""
RETRY_S = 0.05


async def until_true(shown: Callable[[], Awaitable[bool]]) -> None:
    """Wait until `shown`, which asks the brokers, returns True."""
    with suppress(KafkaError, ClientError):
        await poll_until(shown, every_s=RETRY_S, within_s=PROPAGATION_S)


async def until_topics(
    admin: Admin,
    names: Iterable[str],
    known: Callable[[Answers[str, TopicDescription], str], bool],
) -> None:
    """Wait until `known` holds for the brokers' answers and the name of each topic."""
    left = list(names)

    async def shown() -> bool:
        nonlocal left
        found = await admin.describe_topics(left)
        left = [name for name in left if not known(found, name)]
        return not left

    if left:
        await until_true(shown)


async def until_user(admin: Admin, user: str, mechanism: int, iterations: int | None) -> None:
    """Wait until a broker reports that a user has a SCRAM credential with this number of iterations
    or, for None, no credential."""

    async def shown() -> bool:
        known = (await admin.describe_scram_users([user])).ok.get(user, ())
        found = [one.iterations for one in known if one.mechanism == mechanism]
        return found == ([] if iterations is None else [iterations])

    await until_true(shown)


async def until_acls(
    admin: Admin, *, present: Collection[AclBinding], absent: Collection[AclBinding]
) -> None:
    """Wait until a broker lists every ACL of `present` and no ACL of `absent`."""

    async def shown() -> bool:
        known = set(await admin.describe_acls())
        return known.issuperset(present) and known.isdisjoint(absent)

    await until_true(shown)


async def until_quotas(admin: Admin, entity: Entity, values: Mapping[str, float | None]) -> None:
    """Wait until a broker shows the changed quota of an entity."""

    async def shown() -> bool:
        known = (await admin.describe_quotas()).get(entity, {})
        return all(known.get(key) == value for key, value in values.items())

    await until_true(shown)


async def until_configs(
    admin: Admin,
    before: Mapping[ConfigResource, Sequence[ConfigEntry]],
    changes: Mapping[ConfigResource, Sequence[ConfigChange]],
    failed: Collection[ConfigResource],
) -> None:
    """Wait until the changed configs differ from `before`. Skips those that `failed` or already had
    the value."""
    left: dict[ConfigResource, dict[str, ConfigEntry | None]] = {}
    for resource in changes.keys() - set(failed):
        entries = {entry.name: entry for entry in before[resource]}
        waited = {c.name: entries.get(c.name) for c in changes[resource]}
        for change in changes[resource]:
            if not _shows(resource, entries.get(change.name), change):
                del waited[change.name]
        if waited:
            left[resource] = waited

    async def shown() -> bool:
        nonlocal left
        found = await admin.describe_configs(list(left))
        left = {r: old for r, old in left.items() if not _has_changed(old, found.ok.get(r))}
        return not left

    if left:
        await until_true(shown)


def _shows(resource: ConfigResource, entry: ConfigEntry | None, change: ConfigChange) -> bool:
    """Whether the description of a config will change."""
    if entry is not None and entry.sensitive:
        return False
    if change.operation is ConfigOperation.DELETE:
        return own_value(resource, entry) is not None
    if change.operation is ConfigOperation.SET:
        return entry is None or entry.value != change.value
    has: set[str] = set((entry.value or "").split(",")) if entry else set()
    named = set((change.value or "").split(","))
    return bool(named - has if change.operation is ConfigOperation.APPEND else named & has)


def _has_changed(
    old: Mapping[str, ConfigEntry | None], entries: Sequence[ConfigEntry] | None
) -> bool:
    if entries is None:
        return False
    now = {entry.name: entry for entry in entries}
    return all(_layer(now.get(name)) != _layer(entry) for name, entry in old.items())


def _layer(entry: ConfigEntry | None) -> tuple[str | None, ConfigSource] | None:
    return None if entry is None else (entry.value, entry.source)
