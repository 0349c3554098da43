"""Client quota entities, and the quota that applies to a client (KIP-13, KIP-55, KIP-546, KIP-612).

The entity of a quota is a user, a client id, a client id of a user, or an address. Each of these is
named, or is the default for all that have no quota of their own. If several quotas match a client,
only one applies, the first of eight levels:

1. the user with the client id                    5. any user with any client id
2. the user with any client id                    6. any user
3. the user                                       7. the client id
4. any user with the client id                    8. any client id

Each key goes through the levels separately: a user's `producer_byte_rate` does not hide a client
id's `consumer_byte_rate`. Clients that a quota does not distinguish share its rate: all connections
of a user under levels 3 and 6, and all connections of one client id of a user under levels 1, 2, 4
and 5.

A client without a client id has the quotas of its user only, as in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Final, NamedTuple, TypeAlias

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = (USER, CLIENT_ID, IP)

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

CLIENT_KEYS: Final = (
    PRODUCER_BYTE_RATE,
    CONSUMER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    CONTROLLER_MUTATION_RATE,
)
"""The keys of quotas for users and client ids."""
IP_KEYS: Final = (CONNECTION_CREATION_RATE,)
"""The keys of quotas for addresses."""
WHOLE_KEYS: Final = frozenset({PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, CONNECTION_CREATION_RATE})
"""The keys whose values are whole numbers."""


def is_address(name: str) -> bool:
    """Whether the entity name of an address quota is an address. Otherwise it is a host name."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


class EntityPart(NamedTuple):
    """One part of an entity."""

    entity_type: str
    """The type: `user`, `client-id` or `ip`."""
    entity_name: str | None
    """The name, or None for the default, which applies to all that have no quota of their own."""


Entity: TypeAlias = tuple[EntityPart, ...]
"""The entity of a quota: its parts in the order of ENTITY_TYPES."""

Quotas: TypeAlias = Mapping[Entity, Mapping[str, float]]
"""All quotas of a cluster: the values by key of each entity."""

NO_QUOTAS: Final[Quotas] = {}


def entity_of(parts: Mapping[str, str | None]) -> Entity:
    """Return the entity with these names by type. Unknown types come last."""
    known = [EntityPart(kind, parts[kind]) for kind in ENTITY_TYPES if kind in parts]
    return (*known, *(EntityPart(*part) for part in parts.items() if part[0] not in ENTITY_TYPES))


def entity_text(entity: Iterable[tuple[str, str | None]]) -> str:
    """Describe an entity in words: `user alice, default client-id`."""
    return ", ".join(
        f"default {kind}" if name is None else f"{kind} {name}" for kind, name in entity
    )


class Limit(NamedTuple):
    """The quota that applies to a client."""

    value: float
    group: tuple[str, str]
    """The (user, client id) that identifies the clients that share the quota. "" stands for all."""


class QuotaTable:
    """The quotas of one key for users and client ids, arranged for lookups."""

    __slots__ = ("_clients", "_limits", "_pairs", "_users")

    CACHED_MAX: Final = 10_000
    """The maximum number of clients whose limit is cached."""

    def __init__(self, quotas: Quotas, key: str) -> None:
        self._pairs: dict[tuple[str | None, str | None], float] = {}
        self._users: dict[str | None, float] = {}
        self._clients: dict[str | None, float] = {}
        self._limits: dict[tuple[str, str], Limit | None] = {}
        for entity, values in quotas.items():
            value, names = values.get(key), dict(entity)
            if value is None:
                continue
            if USER in names and CLIENT_ID in names:
                self._pairs[names[USER], names[CLIENT_ID]] = value
            elif USER in names:
                self._users[names[USER]] = value
            elif CLIENT_ID in names:
                self._clients[names[CLIENT_ID]] = value

    def __bool__(self) -> bool:
        return bool(self._pairs or self._users or self._clients)

    def limit(self, user: str, client_id: str) -> Limit | None:
        """Return the limit that applies to a client, or None."""
        who = user, client_id
        try:
            return self._limits[who]
        except KeyError:
            if len(self._limits) >= self.CACHED_MAX:
                self._limits.clear()
            found = self._limits[who] = self._look_up(user, client_id)
            return found

    def _look_up(self, user: str, client_id: str) -> Limit | None:
        pairs, users = self._pairs, self._users
        for named in (user, None):
            if client_id:
                for pair in ((named, client_id), (named, None)):
                    if pair in pairs:
                        return Limit(pairs[pair], (user, client_id))
            if named in users:
                return Limit(users[named], (user, ""))
        if client_id:
            for one in (client_id, None):
                if one in self._clients:
                    return Limit(self._clients[one], ("", client_id))
        return None
