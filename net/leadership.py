"""The parts of a node that campaign for the controller's leadership and find the controller. They
depend on `pk.metadata.store`."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from pk.core.broker.node_lifecycle import Leadership
from pk.core.config import BrokerConfig
from pk.core.config.roles import EMBEDDED, ETCD
from pk.net.endpoints import BoundListener, StartError
from pk.net.store_address import parse_address


def leadership_of(
    config: BrokerConfig, controllers: Sequence[BoundListener], nursery: trio.Nursery
) -> Leadership:
    """Return the parts for a node whose controller has these listeners. Their tasks run in the
    nursery. Raises StartError."""
    address = config.pk_metadata_store
    if address == EMBEDDED:
        return Leadership()
    try:
        hosts, root = parse_address(address)
    except ValueError as e:
        raise StartError(f"pk.metadata.store: {e}") from e
    if address.startswith(ETCD):
        return _on_etcd(config, hosts, root, controllers, nursery)
    return _on_zookeeper(config, hosts, root, controllers)


def _on_etcd(
    config: BrokerConfig,
    hosts: str,
    root: str,
    controllers: Sequence[BoundListener],
    nursery: trio.Nursery,
) -> Leadership:
    try:
        from pk.net.etcd import EtcdStore
        from pk.net.etcd_client import EtcdClient
        from pk.net.etcd_leader import EtcdLeader
        from pk.net.etcd_tls import tls_of
    except ModuleNotFoundError as e:
        if e.name != "h11":
            raise
        raise StartError(
            "pk.metadata.store names etcd, whose client needs h11, which is not installed: pip "
            "install "
            "'pk-broker[etcd]'"
        ) from e
    client = EtcdClient(
        hosts,
        tls=tls_of(config),
        user=config.pk_etcd_user,
        password=config.pk_etcd_password,
        try_s=config.pk_etcd_session_timeout_ms / 6000,
    )
    locator = EtcdLeader(client, root, nursery)
    if config.is_controller:
        store = EtcdStore(
            client,
            locator,
            config.node_id,
            controllers[0].advertised,
            nursery,
            session_timeout_ms=config.pk_etcd_session_timeout_ms,
        )
        return Leadership(store, locator)
    return Leadership(locator=locator, close=client.close)


def _on_zookeeper(
    config: BrokerConfig, hosts: str, root: str, controllers: Sequence[BoundListener]
) -> Leadership:
    try:
        from pk.net.zookeeper import ZooKeeperStore
        from pk.net.zookeeper_locator import ZooKeeperLocator
        from pk.net.zookeeper_session import ZooKeeperSession
    except ModuleNotFoundError as e:
        if e.name != "kazoo":
            raise
        raise StartError(
            "pk.metadata.store names ZooKeeper, whose client is not installed: pip install "
            "'pk-broker[zookeeper]'"
        ) from e
    timeout_ms = config.pk_zookeeper_session_timeout_ms
    if config.is_controller:
        store = ZooKeeperStore(
            config.pk_metadata_store,
            config.node_id,
            controllers[0].advertised,
            session_timeout_ms=timeout_ms,
        )
        return Leadership(store, store.locator)
    session = ZooKeeperSession(hosts, session_timeout_ms=timeout_ms)
    return Leadership(locator=ZooKeeperLocator(session, root), close=session.close)
