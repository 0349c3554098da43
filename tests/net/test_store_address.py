"""Addresses of etcd and ZooKeeper, and the errors if no server answers there. The tests need no
server."""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
from clients.pk_broker import pk_command, pk_environment

from pk.core.broker.offload import inline
from pk.core.meta.events import Endpoint
from pk.core.meta.store import StoreFailed
from pk.net.etcd import EtcdStore
from pk.net.etcd_client import EtcdClient
from pk.net.etcd_leader import EtcdLeader
from pk.net.store_address import parse_address
from pk.net.zookeeper import ZooKeeperStore

DEAD = "127.0.0.1:1"


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def inside() -> None:
        with inline(), trio.fail_after(60):
            await main()

    trio.run(inside)


@pytest.mark.parametrize("kind", ["etcd", "zookeeper"])
def test_without_a_server_it_is_said_what_to_look_at(kind: str) -> None:
    async def main() -> None:
        here = Endpoint("C", "h", 1, 0)
        async with trio.open_nursery() as nursery:
            client = EtcdClient(DEAD)
            locator = EtcdLeader(client, "/x", nursery, connect_timeout_ms=200)
            store = (
                EtcdStore(client, locator, 1, here, nursery)
                if kind == "etcd"
                else ZooKeeperStore(f"{DEAD}/x", 1, here, connect_timeout_ms=200)
            )
            for asked in (store.campaign(1), store.load(), store.leader()):
                with pytest.raises(StoreFailed, match="pk.metadata.store"):
                    await asked
            assert await store.locator.find() is None
            await store.close()
            nursery.cancel_scope.cancel()

    run(main)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("zookeeper://h:1,i:2/a/b", ("h:1,i:2", "/a/b")),
        ("zookeeper://h", ("h", "/pk")),
        ("etcd://a:2379,b:2379,[::1]:2379", ("a:2379,b:2379,[::1]:2379", "/pk")),
        ("h:2181/", ("h:2181", "/pk")),
        ("zookeeper://[::1]:5/p/", ("[::1]:5", "/p")),
    ],
)
def test_an_address_is_hosts_and_a_path(text: str, expected: tuple[str, str]) -> None:
    assert parse_address(text) == expected


@pytest.mark.parametrize(
    "text", ["", "zookeeper://", "zookeeper:///p", "h:p", "h:70000", "h,,i", "h/a//b", "h/../b"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_address(text)


@pytest.mark.parametrize(
    "key, value, says",
    [
        ("pk.metadata.store", "etcd://127.0.0.1:1/x", "pip install 'pk-broker[etcd]'"),
        ("pk.metadata.store", "zookeeper://127.0.0.1:1/x", "pip install 'pk-broker[zookeeper]'"),
        ("pk.metadata.store", "etcd://127.0.0.1:99999", "'127.0.0.1:99999' is not HOST:PORT"),
        (
            "pk.metadata.store",
            "zookeeper:/h",
            "must be embedded, etcd://HOST:PORT,HOST:PORT/PATH or",
        ),
        ("metadata.store", "zookeeper://h:1/x", "did you mean pk.metadata.store?"),
    ],
)
def test_a_node_that_cannot_use_its_store_says_what_to_do(
    key: str, value: str, says: str, tmp_path: Path
) -> None:
    """A machine without kazoo and h11; a key or an address that is none."""
    for name in ("kazoo", "h11"):
        tmp_path.joinpath(name).mkdir()
        tmp_path.joinpath(name, "__init__.py").write_text(
            f"raise ModuleNotFoundError('No module named {name}', name='{name}')\n"
        )
    environment = pk_environment()
    environment["PYTHONPATH"] = f"{tmp_path}:{environment['PYTHONPATH']}"
    listeners = "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"
    words = ["node", "start", "--data", str(tmp_path / "data"), "-X", "node.id=1"]
    words += ["-X", f"listeners={listeners}", "-X", "controller.listener.names=CONTROLLER"]
    ran = subprocess.run(
        pk_command(*words, "-X", f"{key}={value}"),
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode and says in ran.stderr, ran.stderr
    assert "Traceback" not in ran.stderr


def test_kazoo_says_nothing_of_its_attempts(caplog: pytest.LogCaptureFixture) -> None:
    """One line when the connection goes, none for every attempt to have it back."""

    async def main() -> None:
        store = ZooKeeperStore("127.0.0.1:1/x", 1, Endpoint("C", "h", 1, 0), connect_timeout_ms=300)
        with pytest.raises(StoreFailed):
            await store.load()
        await store.close()

    with caplog.at_level(logging.INFO):
        run(main)
    assert not [record for record in caplog.records if record.levelno >= logging.INFO]
