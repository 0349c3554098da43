"""Checks for keys in a broker's file that pk does not know.

Apache Kafka accepts them, because its plug-ins have keys of their own, and so does pk, with one
warning that names them. But a key that resembles a known one is a typo, and a key whose name
promises security would protect nothing. A broker with such keys does not start, and the error names
all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from pk.core.config.keys import ConfigError
from pk.core.config.listener_keys import LISTENER_KEYS, MECHANISM_KEYS, MECHANISMS, of_listener
from pk.core.config.listeners import Listener
from pk.core.config.tables import BROKER_KEYS, DYNAMIC_ONLY_KEYS, LISTENER_PREFIX, OWN_PREFIX
from pk.core.config.unsupported import PLUGIN_KEYS

_SECURITY: Final = (
    "authorizer.",
    "delegation.token.",
    "principal.",
    "sasl.",
    "security.",
    "ssl.",
    "super.",
)
"""Prefixes of names that promise security."""
_SEPARATOR: Final = re.compile("[_-]")
_EDITS_MAX: Final = 2
_SHORT: Final = 8
"""The minimum length of a name that may have two typos."""


class ListenerNames(Protocol):
    """The parts of a `BrokerConfig` used here; that class is in a higher layer."""

    def __getitem__(self, name: str, /) -> object: ...
    @property
    def static(self) -> dict[str, str]: ...
    @property
    def listeners(self) -> tuple[Listener, ...]: ...
    @property
    def controller_listener_names(self) -> tuple[str, ...]: ...
    @property
    def pk_security_ignore(self) -> bool: ...


def unknown_keys(names: Iterable[str]) -> list[str]:
    """Return those of `names` that pk does not read, sorted."""
    return sorted(
        name
        for name in names
        if name not in BROKER_KEYS
        and name not in DYNAMIC_ONLY_KEYS
        and name not in PLUGIN_KEYS
        and of_listener(name) is None
    )


def keys_without_reader(config: ListenerNames) -> list[str]:
    """Return the keys in the broker's file that pk does not read, including those of missing
    listeners."""
    stray = (name for name, _ in _of_unknown_listeners(config, _listeners(config)))
    return sorted((*unknown_keys(config.static), *stray))


def check_unknown_keys(config: ListenerNames) -> None:
    """Raise ConfigError, in Apache's words, if unknown keys in the broker's file are typos, or
    promise security while `pk.security.ignore` is not true."""
    refused: dict[str, str] = {}
    unknown = unknown_keys(config.static)
    for name in unknown:
        near = misspelt(name)
        if near is None and OWN_PREFIX + name in BROKER_KEYS:
            near = OWN_PREFIX + name
        if near is not None:
            refused[name] = f"did you mean {near}?"
        elif name.startswith(OWN_PREFIX):
            refused[name] = "pk has no such key"
        elif _promises(name) and not config.pk_security_ignore:
            refused[name] = "pk does not read it, so it would protect nothing"
    known = _listeners(config)
    for name, listener in _of_unknown_listeners(config, known):
        near = _nearest(listener, known)
        if near is not None:
            rest = name[len(f"{LISTENER_PREFIX}{listener}") :]
            refused[name] = f"did you mean {LISTENER_PREFIX}{near}{rest}?"
    if len(refused) == 1:
        ((name, why),) = refused.items()
        raise ConfigError(f"Unknown config name: {name}; {why}")
    if refused:
        each = ", ".join(f"{name} ({why})" for name, why in refused.items())
        raise ConfigError(f"Unknown config names: {each}")


def _promises(name: str) -> bool:
    _, _, rest = name.removeprefix(LISTENER_PREFIX).partition(".")
    if not name.startswith(LISTENER_PREFIX):
        rest = name
    return rest.startswith(_SECURITY) or rest.partition(".")[2].startswith(("sasl.", "ssl."))


def misspelt(name: str) -> str | None:
    """Return the known key of which `name` is a typo, or None. In a typo, one or two letters are
    wrong, missing, added or swapped, or the separator or case differs."""
    if name.lower().startswith(LISTENER_PREFIX):
        return _misspelt_of_listener(name)
    return _nearest(name, (*BROKER_KEYS, *DYNAMIC_ONLY_KEYS, *PLUGIN_KEYS))


def _misspelt_of_listener(name: str) -> str | None:
    listener, _, rest = name[len(LISTENER_PREFIX) :].partition(".")
    found = _nearest(rest, LISTENER_KEYS)
    if found is None:
        mechanism, _, key = rest.partition(".")
        near = _nearest(mechanism, MECHANISMS), _nearest(key, MECHANISM_KEYS)
        found = f"{near[0]}.{near[1]}" if near[0] and near[1] else None
    return None if found is None else f"{LISTENER_PREFIX}{listener.lower()}.{found}"


def _listeners(config: ListenerNames) -> frozenset[str]:
    """Return the names that listeners' keys may contain."""
    mapped = str(config["listener.security.protocol.map"]).split(",")
    return frozenset(
        {
            *(listener.name.lower() for listener in config.listeners),
            *(listener.lower() for listener in config.controller_listener_names),
            *(pair.rpartition(":")[0].strip().lower() for pair in mapped),
        }
    )


def _of_unknown_listeners(
    config: ListenerNames, known: frozenset[str]
) -> Iterator[tuple[str, str]]:
    """Yield the keys of listeners that do not exist, with the listeners' names."""
    for name in sorted(config.static):
        parts = of_listener(name)
        if parts is not None and parts.listener not in known:
            yield name, parts.listener


def _nearest(name: str, known: Iterable[str]) -> str | None:
    bound = _EDITS_MAX if len(name) >= _SHORT else 1
    plain = _SEPARATOR.sub(".", name.lower())
    found: tuple[int, str] | None = None
    for one in sorted(known):
        if plain == _SEPARATOR.sub(".", one):
            return one
        if abs(len(name) - len(one)) <= bound and len(one) > bound:
            slips = _edit_distance(name, one)
            if slips <= bound and (found is None or slips < found[0]):
                found = slips, one
    return None if found is None else found[1]


def _edit_distance(one: str, other: str) -> int:
    """Return how many letters were changed, omitted, added, or swapped with their neighbor."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, char in enumerate(one):
        before, above, row = row, before, [i + 1]
        for j, letter in enumerate(other):
            cost = min(before[j + 1] + 1, row[j] + 1, before[j] + (char != letter))
            if i and j and char == other[j - 1] and one[i - 1] == letter:
                cost = min(cost, above[j - 1] + 1)
            row.append(cost)
    return row[-1]
