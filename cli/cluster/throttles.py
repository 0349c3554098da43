"""Reads, computes, sets and removes replication throttles.

A throttle has two halves: a rate on every broker that sends or receives
(`leader.replication.throttled.rate`, `follower.replication.throttled.rate`), and, on every topic,
the replicas to which it applies (`….throttled.replicas`, entries PARTITION:BROKER). Either alone
has no effect, and both outlive the reassignment they were set for: the next replica that falls
behind catches up at that rate only. Therefore pk first writes the throttles that it sets to the
rollback file. When the moves have ended, it removes them and restores the previous values. A
reassignment leaves throttles that it did not set as they are; only `pk reassign throttle` changes
or removes all of them.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

import trio

from pk.cli.cluster.propagation import until_true
from pk.cli.cluster.replicas import Replicas
from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicPartition
from pk.net.client.admin import Admin
from pk.net.client.errors import ClientError
from pk.net.client.results import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    ResourceType,
)

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
RATES: Final = (LEADER_RATE, FOLLOWER_RATE)
REPLICAS: Final = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
_EVERY = "*"
_AGAIN_S = 0.5


class Present(NamedTuple):
    """The throttles set in the cluster."""

    rates: Mapping[int, Mapping[str, str]]
    """Broker → key → rate."""

    replicas: Mapping[str, Mapping[str, tuple[str, ...]]]
    """Topic → key → entries."""

    unread: Mapping[str, Exception]
    """`broker 3`, `topic orders` → why its configs cannot be read."""

    @property
    def any(self) -> bool:
        return bool(self.rates or self.replicas)


class Throttled(NamedTuple):
    """Throttles that were set for a reassignment, and the previous values."""

    rate: int | None = None
    brokers: Mapping[int, Mapping[str, str | None]] = {}
    """Broker → key → its own previous value; None if it had none."""

    topics: Mapping[str, Mapping[str, tuple[str, ...]]] = {}
    """Topic → key → the `partition:broker` entries that were added."""

    @property
    def any(self) -> bool:
        return bool(self.brokers or self.topics)


async def read_throttles(admin: Admin, brokers: Iterable[int], topics: Iterable[str]) -> Present:
    """The throttles of these brokers and topics: only values set on the resource itself, not
    defaults."""
    rates: dict[int, dict[str, str]] = {}
    replicas: dict[str, dict[str, tuple[str, ...]]] = {}
    resources = [ConfigResource(ResourceType.BROKER, str(b)) for b in sorted(set(brokers))]
    resources += [ConfigResource(ResourceType.TOPIC, t) for t in sorted(set(topics))]
    answers = await admin.describe_configs(
        resources, keys=(*RATES, *REPLICAS), include_synonyms=False
    )
    unread = {_resource_name(resource): error for resource, error in answers.errors.items()}
    for resource, answer in answers.ok.items():
        broker = resource.type is ResourceType.BROKER
        own = ConfigSource.DYNAMIC_BROKER if broker else ConfigSource.TOPIC
        found = {e.name: e.value for e in answer if e.source is own and e.value}
        if broker and found:
            rates[int(resource.name)] = {k: v for k, v in found.items() if k in RATES}
        elif found:
            replicas[resource.name] = {
                k: tuple(v.split(",")) for k, v in found.items() if k in REPLICAS
            }
    return Present(
        {b: keys for b, keys in rates.items() if keys},
        {t: keys for t, keys in replicas.items() if keys},
        unread,
    )


def throttles_for(
    moves: Iterable[tuple[TopicPartition, Replicas, Replicas]],
    rate: int,
    brokers: Iterable[int],
    present: Present,
) -> Throttled:
    """The throttles to set for moves, each given as (partition, current replicas, replicas to add).

    `brokers` are the live brokers: only they send, receive, and accept configs.
    """
    live = set(brokers)
    involved: set[int] = set()
    topics: dict[str, dict[str, tuple[str, ...]]] = {}
    for tp, now, adding in moves:
        if not adding:
            continue
        involved.update(now, adding)
        here = present.replicas.get(tp.topic, {})
        keys = topics.setdefault(tp.topic, {})
        for key, holders in ((LEADER_REPLICAS, now), (FOLLOWER_REPLICAS, adding)):
            there = here.get(key, ())
            if _EVERY in there:
                continue
            entries = [f"{tp.partition}:{b}" for b in holders]
            new = tuple(e for e in entries if e not in there)
            if new:
                keys[key] = (*keys.get(key, ()), *new)
    was = {
        b: {key: present.rates.get(b, {}).get(key) for key in RATES}
        for b in sorted(involved & live)
    }
    return Throttled(rate, was, {t: keys for t, keys in topics.items() if keys})


def _resource_name(resource: ConfigResource) -> str:
    return f"{'broker' if resource.type is ResourceType.BROKER else 'topic'} {resource.name}"


async def _alter(
    admin: Admin, changes: Mapping[ConfigResource, list[ConfigChange]]
) -> dict[str, Exception]:
    """Change configs. Returns the failures, by `broker 3` or `topic orders`."""
    if not changes:
        return {}
    answers = await admin.alter_configs(changes)
    return {_resource_name(resource): error for resource, error in answers.errors.items()}


async def set_throttles(admin: Admin, throttled: Throttled) -> dict[str, Exception]:
    """Set the throttled replicas, then the rates. Returns the failures."""
    assert throttled.rate is not None
    topics = {
        ConfigResource(ResourceType.TOPIC, topic): [
            ConfigChange(key, ",".join(entries), ConfigOperation.APPEND)
            for key, entries in keys.items()
        ]
        for topic, keys in throttled.topics.items()
    }
    failed = await _alter(admin, topics)
    return failed | await set_rates(admin, throttled.brokers, throttled.rate)


async def set_rates(admin: Admin, brokers: Iterable[int], rate: int) -> dict[str, Exception]:
    """Set both rates on brokers. Returns the failures."""
    return await _alter(
        admin,
        {
            ConfigResource(ResourceType.BROKER, str(b)): [
                ConfigChange(key, str(rate)) for key in RATES
            ]
            for b in brokers
        },
    )


def _undo_broker(was: Mapping[str, str | None]) -> list[ConfigChange]:
    return [
        ConfigChange(key, old)
        if old is not None
        else ConfigChange(key, None, ConfigOperation.DELETE)
        for key, old in was.items()
    ]


def _undo_topic(
    ours: Mapping[str, tuple[str, ...]], present: Mapping[str, tuple[str, ...]]
) -> list[ConfigChange]:
    """Remove pk's entries from a topic; a key without other entries is deleted."""
    changes: list[ConfigChange] = []
    for key, entries in ours.items():
        there = present.get(key, ())
        gone = [e for e in entries if e in there]
        if gone and set(there) <= set(gone):
            changes.append(ConfigChange(key, None, ConfigOperation.DELETE))
        elif gone:
            changes.append(ConfigChange(key, ",".join(gone), ConfigOperation.SUBTRACT))
    return changes


async def remove_throttles(
    admin: Admin, throttled: Throttled, within_s: float = 0.0
) -> dict[str, Exception]:
    """Remove the throttles and restore the previous values. Returns the failures, once the brokers
    show the others as removed. A deleted topic is not a failure.

    Retries for `within_s` seconds if a broker is temporarily unavailable.
    """
    failed = await _remove(admin, throttled)
    with trio.move_on_after(within_s):
        while any(map(_may_pass, failed.values())):
            await trio.sleep(_AGAIN_S)
            failed = await _remove(admin, throttled)
    await until_true(lambda: _are_removed(admin, throttled, failed))
    return failed


async def _are_removed(admin: Admin, throttled: Throttled, failed: Collection[str]) -> bool:
    """Whether the brokers show the throttles as removed, apart from those that `failed`."""
    brokers = {b: was for b, was in throttled.brokers.items() if f"broker {b}" not in failed}
    topics = {t: ours for t, ours in throttled.topics.items() if f"topic {t}" not in failed}
    shown = await read_throttles(admin, brokers, topics)
    return all(
        shown.rates.get(b, {}).get(key) == old
        for b, was in brokers.items()
        for key, old in was.items()
    ) and not any(
        entry in shown.replicas.get(t, {}).get(key, ())
        for t, ours in topics.items()
        for key, entries in ours.items()
        for entry in entries
    )


def _may_pass(error: Exception) -> bool:
    return isinstance(error, ClientError) or (isinstance(error, KafkaError) and error.retriable)


async def _remove(admin: Admin, throttled: Throttled) -> dict[str, Exception]:
    present = await read_throttles(admin, (), throttled.topics)
    changes = {
        ConfigResource(ResourceType.BROKER, str(b)): _undo_broker(was)
        for b, was in throttled.brokers.items()
    }
    for topic, keys in throttled.topics.items():
        if undo := _undo_topic(keys, present.replicas.get(topic, {})):
            changes[ConfigResource(ResourceType.TOPIC, topic)] = undo
    failed = {**present.unread, **await _alter(admin, changes)}
    return {what: e for what, e in failed.items() if not _gone(what, e)}


def _gone(what: str, error: Exception) -> bool:
    unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
    return what.startswith("topic ") and isinstance(error, KafkaError) and error.code in unknown


def everything(present: Present, ours: Iterable[Throttled]) -> Throttled:
    """A throttle set whose removal removes every throttle and restores the previous values that the
    rollback files contain."""
    before: dict[int, dict[str, str | None]] = {}
    for throttled in ours:
        for broker, keys in throttled.brokers.items():
            before.setdefault(broker, {}).update(keys)
    return Throttled(
        None,
        {b: {key: before.get(b, {}).get(key) for key in keys} for b, keys in present.rates.items()},
        {t: dict(keys) for t, keys in present.replicas.items()},
    )


def describe(throttled: Throttled) -> str:
    """`brokers 1, 2 and topics orders`, for a sentence."""
    parts: list[str] = []
    if throttled.brokers:
        names = ", ".join(map(str, sorted(throttled.brokers)))
        parts.append(f"broker{'s' * (len(throttled.brokers) > 1)} {names}")
    if throttled.topics:
        names = sorted(throttled.topics)
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        parts.append(f"topic{'s' * (len(names) > 1)} {', '.join(names[:5])}{more}")
    return " and ".join(parts) or "nothing"
