"""The defaults that brokers give topics, for configs that a topic does not set.

A broker describes a topic with its own defaults. These may differ from those of the broker that
leads the partition, whose defaults apply. Therefore each broker is asked for its own keys.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import trio

from pk.core.config import TOPIC_SYNONYMS
from pk.core.errors import KafkaError
from pk.net.client import results as r
from pk.net.client.admin import Admin
from pk.net.client.errors import ClientError

_ANSWER_S: Final = 3.0
_UNIT_MS: Final = {"minutes": 60_000, "hours": 3_600_000}


class Default(NamedTuple):
    """The default that a broker gives a topic config, and the broker's key that sets it."""

    value: str
    """The value in the unit of the topic's key: `log.retention.hours=1` is `3600000`."""

    key: str
    source: r.ConfigSource


def default_of(key: str, entries: Mapping[str, r.ConfigEntry]) -> Default | None:
    """The default for the topic config `key` on a broker with the configs `entries`; None if the
    broker gives none."""
    for name in TOPIC_SYNONYMS.get(key, ()):
        entry = entries.get(name)
        if entry is None or entry.value is None:
            continue
        unit_ms = _UNIT_MS.get(name.rpartition(".")[2])
        value = entry.value
        if unit_ms is not None:
            # A negative number of hours or minutes means "forever", which is -1 in the topic's key.
            value = str(max(int(value) * unit_ms, -1))
        return Default(value, name, entry.source)
    return None


async def broker_defaults(
    admin: Admin, brokers: Iterable[int], keys: Sequence[str]
) -> dict[int, dict[str, Default]]:
    """The defaults for the topic configs `keys` on each broker that answers in time and allows the
    request."""
    names = [name for key in keys for name in TOPIC_SYNONYMS.get(key, ())]
    found: dict[int, dict[str, Default]] = {}

    async def ask(broker: int) -> None:
        resource = r.ConfigResource(r.ResourceType.BROKER, str(broker))
        with trio.move_on_after(_ANSWER_S):
            try:
                answers = await admin.describe_configs(
                    [resource], keys=names, include_synonyms=False
                )
            except (KafkaError, ClientError):
                return
            for entries in answers.ok.values():
                by_name = {e.name: e for e in entries}
                defaults = {key: default_of(key, by_name) for key in keys}
                found[broker] = {k: d for k, d in defaults.items() if d is not None}

    if names:
        async with trio.open_nursery() as nursery:
            for broker in brokers:
                nursery.start_soon(ask, broker)
    return found
