"""The listeners of a node (`listeners`, `advertised.listeners`, `listener.security.protocol.map`),
and how nodes connect to the listeners of brokers and controllers: Kafka's rules for the keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, cast

from pk.core.config.keys import ConfigError

MAP_KEY = "listener.security.protocol.map"


class Listener(NamedTuple):
    """A listener of a node."""

    name: str
    host: str
    port: int
    security_protocol: str


class ListenerConfig(Protocol):
    """The parts of a `BrokerConfig` used here; that class is in a higher layer."""

    def __getitem__(self, name: str, /) -> Any: ...
    def explicit(self, name: str) -> str | None: ...
    @property
    def listeners(self) -> tuple[Listener, ...]: ...
    @property
    def broker_listeners(self) -> tuple[Listener, ...]: ...
    @property
    def controller_listener_names(self) -> tuple[str, ...]: ...
    @property
    def inter_broker_listener_name(self) -> str: ...


def listeners_of(config: ListenerConfig, key: str) -> tuple[Listener, ...]:
    """Parse the listeners in the value of `key`. Raises ConfigError."""
    protocols = _protocols(config)
    return tuple(_listener(key, text, protocols) for text in cast(tuple[str, ...], config[key]))


def advertised_listeners(config: ListenerConfig) -> tuple[Listener, ...]:
    """Return the addresses that the node's listeners advertise. Raises ConfigError."""
    if config["advertised.listeners"]:
        return listeners_of(config, "advertised.listeners")
    # "" listens on every address, and advertises this machine's name, which only net/ can
    # determine.
    return tuple(li._replace(host="") if li.host == "0.0.0.0" else li for li in config.listeners)


def check_listeners(listeners: Sequence[Listener], advertised: Sequence[Listener]) -> None:
    """Raise ConfigError if the listeners contradict each other."""
    names = [listener.name for listener in listeners]
    if len(set(names)) != len(names):
        raise ConfigError("listeners names a listener twice")
    ports = [(li.host, li.port) for li in listeners if li.port]
    if len(set(ports)) != len(ports):
        raise ConfigError("listeners has two listeners on one port")
    if stray := {li.name for li in advertised} - set(names):
        raise ConfigError(f"advertised.listeners has {min(stray)}, which listeners lacks")
    if any(li.host == "0.0.0.0" for li in advertised):
        raise ConfigError("advertised.listeners must name a host that clients can reach")


def inter_broker_listener_name(config: ListenerConfig) -> str:
    """Return the name of the listener for connections between brokers."""
    name = config["inter.broker.listener.name"]
    if name is not None:
        return cast(str, name).upper()
    protocol = config["security.inter.broker.protocol"]
    for listener in config.broker_listeners:
        if listener.security_protocol == protocol:
            return listener.name
    return cast(str, protocol)


def inter_broker_login(config: ListenerConfig) -> tuple[str, str, str]:
    """Return how brokers connect to each other: listener, security protocol, SASL mechanism."""
    name = config.inter_broker_listener_name
    mechanism = cast(str, config["sasl.mechanism.inter.broker.protocol"])
    return name, _protocols(config).get(name, "PLAINTEXT"), mechanism


def controller_login(config: ListenerConfig) -> tuple[str, str, str]:
    """Return how brokers connect to controllers: as in Kafka, to the first controller listener,
    with its keys."""
    name = next(iter(config.controller_listener_names), "")
    mechanism = cast(str, config["sasl.mechanism.controller.protocol"])
    return name, _protocols(config).get(name, "PLAINTEXT"), mechanism


def _protocols(config: ListenerConfig) -> dict[str, str]:
    """Parse the security protocol of each listener."""
    pairs = cast(str, config[MAP_KEY]).split(",")
    protocols: dict[str, str] = {}
    for pair in filter(None, (p.strip() for p in pairs)):
        name, colon, protocol = pair.rpartition(":")
        if not colon or protocol.upper() not in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"):
            raise ConfigError(f"{MAP_KEY}: {pair!r} is not NAME:PROTOCOL")
        protocols[name.upper()] = protocol.upper()
    if config.explicit(MAP_KEY) is None:
        _map_controllers(config, protocols)
    return protocols


def _map_controllers(config: ListenerConfig, protocols: dict[str, str]) -> None:
    """Add PLAINTEXT for controllers' listeners. As in Kafka, they need no entry in the map if no
    key requires TLS or SASL."""
    names = [
        text.partition("://")[0].upper() for text in cast(tuple[str, ...], config["listeners"])
    ]
    names += config.controller_listener_names
    if all(protocols.get(name, "PLAINTEXT") == "PLAINTEXT" for name in names):
        for name in config.controller_listener_names:
            protocols.setdefault(name, "PLAINTEXT")


def _listener(key: str, text: str, protocols: Mapping[str, str]) -> Listener:
    name, separator, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    if not separator or not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"{key}: {text!r} is not NAME://HOST:PORT")
    name = name.upper()
    if name not in protocols:
        raise ConfigError(f"{key}: {MAP_KEY} lacks {name}")
    return Listener(name, host.removeprefix("[").removesuffix("]"), int(port), protocols[name])
