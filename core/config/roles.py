"""The roles of a process (`process.roles`), its controller listener, and how other nodes find it:
Kafka's rules for the keys.

Without `process.roles` a process is both broker and controller, and needs neither a controller
listener nor addresses of other nodes. With it, the configuration must let the nodes of a cluster
find each other.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Protocol, cast

from pk.core.config.keys import ConfigError
from pk.core.config.listeners import Listener

BROKER: Final = "broker"
CONTROLLER: Final = "controller"
EMBEDDED: Final = "embedded"
ETCD: Final = "etcd://"
ZOOKEEPER: Final = "zookeeper://"


class Voter(NamedTuple):
    """An entry of `controller.quorum.voters`: a controller and its address."""

    node_id: int
    host: str
    port: int


class RoleKeys(Protocol):
    """The parts of a `BrokerConfig` used here; that class is in a higher layer."""

    def __getitem__(self, name: str, /) -> Any: ...
    @property
    def node_id(self) -> int: ...
    @property
    def is_broker(self) -> bool: ...
    @property
    def is_controller(self) -> bool: ...
    @property
    def pk_metadata_store(self) -> str: ...
    @property
    def listeners(self) -> tuple[Listener, ...]: ...
    @property
    def broker_listeners(self) -> tuple[Listener, ...]: ...
    @property
    def controller_listeners(self) -> tuple[Listener, ...]: ...
    @property
    def controller_listener_names(self) -> tuple[str, ...]: ...
    @property
    def inter_broker_listener_name(self) -> str: ...
    @property
    def controller_quorum_voters(self) -> tuple[Voter, ...]: ...
    @property
    def controller_quorum_bootstrap_servers(self) -> tuple[tuple[str, int], ...]: ...


def roles(config: RoleKeys) -> tuple[str, ...]:
    """Return the roles of the process; both by default."""
    given = cast("tuple[str, ...] | None", config["process.roles"])
    return tuple(dict.fromkeys(given)) if given else (BROKER, CONTROLLER)


def listener_names(config: RoleKeys) -> tuple[str, ...]:
    """Return `controller.listener.names`, in upper case like all listeners."""
    names = cast("tuple[str, ...] | None", config["controller.listener.names"])
    return tuple(name.upper() for name in names or ())


def voters(config: RoleKeys) -> tuple[Voter, ...]:
    """Parse `controller.quorum.voters`. Raises ConfigError."""
    key = "controller.quorum.voters"
    found: list[Voter] = []
    for text in cast(tuple[str, ...], config[key]):
        node_id, at, address = text.partition("@")
        if not at or not node_id.isascii() or not node_id.isdigit():
            raise ConfigError(f"{key}: {text!r} is not ID@HOST:PORT")
        found.append(Voter(int(node_id), *_address(key, address)))
    return tuple(found)


def bootstrap_servers(config: RoleKeys) -> tuple[tuple[str, int], ...]:
    """Parse `controller.quorum.bootstrap.servers` into (host, port). Raises ConfigError."""
    key = "controller.quorum.bootstrap.servers"
    return tuple(_address(key, text) for text in cast(tuple[str, ...], config[key]))


def _address(key: str, text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"{key}: {text!r} is not HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)


def controllers_of(listeners: tuple[Listener, ...], names: tuple[str, ...]) -> tuple[Listener, ...]:
    """Return those of `listeners` that are for controllers, in the order of `names`."""
    by_name = {listener.name: listener for listener in listeners}
    return tuple(by_name[name] for name in names if name in by_name)


def check(config: RoleKeys) -> None:
    """Raise ConfigError if the keys of roles contradict each other."""
    store = config.pk_metadata_store
    if store != EMBEDDED and not store.startswith((ETCD, ZOOKEEPER)):
        raise ConfigError(
            "pk.metadata.store must be embedded, etcd://HOST:PORT,HOST:PORT/PATH or "
            f"zookeeper://HOST:PORT,HOST:PORT/PATH, not {store!r}"
        )
    if config.is_controller:
        _check_controller(config)
    else:
        _check_broker_only(config)
    if config.is_broker:
        _check_broker(config)
    _check_quorum(config)


def _check_controller(config: RoleKeys) -> None:
    missing = set(config.controller_listener_names) - {li.name for li in config.listeners}
    if missing:
        raise ConfigError(
            f"controller.listener.names has {min(missing)}, which listeners lacks: add its "
            "address to listeners"
        )
    alone = not config.is_broker
    if alone and len(config.controller_listeners) < len(config.listeners):
        stray = {li.name for li in config.listeners} - set(config.controller_listener_names)
        raise ConfigError(
            f"listeners has {min(stray)}, which is not in controller.listener.names: a process "
            "that is only a controller has no other listeners"
        )
    if not config.controller_listener_names and config.pk_metadata_store != EMBEDDED:
        raise ConfigError(
            f"pk.metadata.store={config.pk_metadata_store} makes this node a controller that others"
            " must reach: name its listener in controller.listener.names"
        )


def _check_broker_only(config: RoleKeys) -> None:
    if not config.controller_listener_names:
        raise ConfigError(
            "process.roles=broker needs controller.listener.names: the listener of the controllers"
        )
    if config.controller_listeners:
        raise ConfigError(
            f"listeners has {config.controller_listeners[0].name}, which is a controller's"
            " (controller.listener.names), but process.roles=broker"
        )
    nowhere = not (config.controller_quorum_voters or config.controller_quorum_bootstrap_servers)
    if nowhere and config.pk_metadata_store == EMBEDDED:
        raise ConfigError(
            "process.roles=broker needs controller.quorum.bootstrap.servers: the address of its "
            "controller"
        )


def _check_broker(config: RoleKeys) -> None:
    if not config.broker_listeners:
        raise ConfigError(
            "listeners has only controllers' listeners, and none for brokers and clients"
        )
    name = config.inter_broker_listener_name
    if name in config.controller_listener_names:
        raise ConfigError(
            f"inter.broker.listener.name must not be a controller's listener, as {name} is"
        )
    if name not in [listener.name for listener in config.broker_listeners]:
        raise ConfigError(f"listeners lacks {name}, the listener by which brokers reach each other")


def _check_quorum(config: RoleKeys) -> None:
    named = config.controller_quorum_voters
    ids = sorted(voter.node_id for voter in named)
    if len(set(ids)) != len(ids):
        raise ConfigError("controller.quorum.voters names a node twice")
    if ids and config.is_controller and config.node_id not in ids:
        raise ConfigError(
            f"controller.quorum.voters names {', '.join(map(str, ids))}, but not this controller,"
            f" node {config.node_id}"
        )
    if config.node_id in ids and not config.is_controller:
        raise ConfigError(
            f"controller.quorum.voters names node {config.node_id}, but process.roles=broker"
        )
    for key, count in (
        ("controller.quorum.voters", len(ids)),
        ("controller.quorum.bootstrap.servers", len(config.controller_quorum_bootstrap_servers)),
    ):
        if count > 1 and config.pk_metadata_store == EMBEDDED:
            raise ConfigError(
                f"{key} names {count} controllers, but the embedded metadata store has one: for "
                "several, use etcd (pk.metadata.store=etcd://HOST:PORT,HOST:PORT/PATH)"
            )
