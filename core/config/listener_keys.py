"""Keys of one listener: `listener.name.clients.ssl.keystore.location`, and, for SASL, of one
mechanism there: `listener.name.clients.plain.sasl.jaas.config`.

Always use `listener_value` to read a key that may be set per listener. Kafka ignores other keys
with the prefix, which is in lower case.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from pk.core.config.keys import Value
from pk.core.config.tables import BROKER_KEYS, LISTENER_PREFIX
from pk.core.values import SASL_MECHANISMS

ONLY_OWN: Final = frozenset({"max.connection.creation.rate", "max.connections"})
"""Keys with a different meaning for the broker. A listener without its own value has no limit."""
FOR_ALL_BROKERS: Final = ONLY_OWN | {"num.network.threads"}
"""Keys that the cluster may set for all brokers. All others are per broker."""
_WITHOUT_MECHANISM: Final = frozenset({"sasl.enabled.mechanisms", "sasl.server.max.receive.size"})
LISTENER_KEYS: Final = FOR_ALL_BROKERS | {
    "connections.max.reauth.ms",
    "principal.builder.class",
    *(
        key
        for key in BROKER_KEYS
        if key.startswith(("ssl.", "sasl.")) and not key.startswith("sasl.mechanism.")
    ),
}
"""Keys that may be set per listener."""
MECHANISM_KEYS: Final = frozenset(
    key
    for key in LISTENER_KEYS - _WITHOUT_MECHANISM
    if key.startswith("sasl.") or key == "connections.max.reauth.ms"
)
"""Keys that may be set per SASL mechanism."""
MECHANISMS: Final = frozenset(name.lower() for name in SASL_MECHANISMS)


class OfListener(NamedTuple):
    """The parts of a listener's key, as written."""

    listener: str
    mechanism: str
    """The mechanism, or "" for a key without one."""
    key: str


class Keys(Protocol):
    """The parts of a `BrokerConfig` used here; that class is in a higher layer."""

    def __getitem__(self, name: str, /) -> Value: ...
    def explicit(self, name: str) -> str | None: ...


def listener_key(listener: str, key: str, mechanism: str = "") -> str:
    """Return the name of a listener's own key, such as
    `listener.name.clients.plain.sasl.jaas.config`."""
    middle = f"{mechanism.lower()}." if mechanism else ""
    return f"{LISTENER_PREFIX}{listener.lower()}.{middle}{key}"


def own_value(config: Keys, listener: str, key: str, mechanism: str = "") -> Value:
    """Return the value of a listener's own key for the mechanism, or else for all mechanisms.
    Returns None if there is none."""
    names = [listener_key(listener, key)]
    if mechanism:
        names.insert(0, listener_key(listener, key, mechanism))
    return next((config[name] for name in names if config.explicit(name) is not None), None)


def listener_value(config: Keys, listener: str, key: str, mechanism: str = "") -> Value:
    """Return the value of a key for a listener: its own for the mechanism, its own, or the
    broker's."""
    own = own_value(config, listener, key, mechanism)
    return config[key] if own is None and key not in ONLY_OWN else own


def of_listener(name: str) -> OfListener | None:
    """Split the name of a listener's key. Returns None for any other name, even with the prefix."""
    listener, dot, rest = name.removeprefix(LISTENER_PREFIX).partition(".")
    if not name.startswith(LISTENER_PREFIX) or not dot:
        return None
    if rest in LISTENER_KEYS:
        return OfListener(listener, "", rest)
    mechanism, _, key = rest.partition(".")
    if mechanism in MECHANISMS and key in MECHANISM_KEYS:
        return OfListener(listener, mechanism, key)
    return None
