"""A dead broker or controller of a cluster on this machine: commands ask other brokers, name the
dead node, and give the command that starts it again."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from up_process import Cluster

from pk.cli.runtime import cluster_files
from pk.cli.runtime.cluster_files import ClusterState, NodeState, silent_controller, silent_nodes
from pk.cli.runtime.known_brokers import KnownBrokers
from pk.cli.runtime.paths import user_dir
from pk.net.client.broker_store import RememberedBrokers
from pk.net.client.node import Node

Run = Callable[..., Any]
A, B, C = Node(1, "a", 9092), Node(2, "b", 9092), Node(3, "c", 9092)


def addresses(found: RememberedBrokers) -> set[str]:
    return {node.address for node in found.nodes}


def test_brokers_are_kept_by_the_addresses_given_and_the_profile() -> None:
    KnownBrokers().store([A], RememberedBrokers((A, B, C), "id"))
    found = KnownBrokers().brokers([A])
    assert (addresses(found), found.cluster_id) == ({"a:9092", "b:9092", "c:9092"}, "id")
    assert KnownBrokers().brokers([B]) == RememberedBrokers()
    assert KnownBrokers("prod").brokers([A]) == RememberedBrokers()
    KnownBrokers().store([A], RememberedBrokers((A, C), "id"))
    assert addresses(KnownBrokers().brokers([A])) == {"a:9092", "c:9092"}


def test_only_an_address_that_the_cluster_advertises_is_remembered() -> None:
    """The address of a tunnel or load balancer may lead to another cluster tomorrow."""
    KnownBrokers().store([Node(-1, "tunnel", 1)], RememberedBrokers((A, B), "id"))
    assert KnownBrokers().brokers([Node(-1, "tunnel", 1)]) == RememberedBrokers()


def test_what_is_kept_is_the_user_s_alone_and_holds_no_secret() -> None:
    KnownBrokers("prod").store([A], RememberedBrokers((A, B), "id"))
    folder = Path(user_dir("state")) / "brokers"
    (kept,) = folder.iterdir()
    assert json.loads(kept.read_text()) == {"cluster_id": "id", "brokers": ["a:9092", "b:9092"]}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cluster_id": 1, "brokers": ["x"]}', "\0"])
def test_a_file_that_cannot_be_read_is_none(text: str) -> None:
    KnownBrokers().store([A], RememberedBrokers((A, B), "id"))
    (kept,) = (Path(user_dir("state")) / "brokers").iterdir()
    kept.write_text(text)
    assert KnownBrokers().brokers([A]) == RememberedBrokers()


def local(tmp_path: Path, **states: str) -> str:
    """A cluster on this machine with a controller and two brokers, in these states."""
    directory = tmp_path / "cluster"
    directory.mkdir()
    nodes = [
        NodeState(0, "controller", "", "x:1", 1, states.get("controller", "running")),
        NodeState(1, "broker", "", "x:2", 1, states.get("first", "running")),
        NodeState(2, "broker", "", "x:3", 1, states.get("second", "running")),
    ]
    cluster_files.write_state(ClusterState(1, str(directory), 2, "embedded", "x:2,x:3", nodes))
    assert cluster_files.enlist(str(directory)) is not None
    return str(directory)


@pytest.mark.parametrize(
    ("state", "said", "step"),
    [
        ("stopped", "was stopped or killed", "pk node start 0"),
        ("dead", "has died", "pk node start 0"),
        ("paused", "is paused", "pk node resume 0"),
    ],
)
def test_why_a_controller_is_silent(tmp_path: Path, state: str, said: str, step: str) -> None:
    fd = cluster_files.hold(directory := local(tmp_path, controller=state))
    try:
        why, command = silent_controller(["x:3"]) or ("", "")
        assert f"node 0 of the cluster in {directory}, {said}," in why
        assert command == step
        assert silent_controller(["elsewhere:3"]) is None
    finally:
        os.close(fd)


def test_nodes_that_run_are_not_blamed(tmp_path: Path) -> None:
    fd = cluster_files.hold(local(tmp_path, first="dead", second="paused"))
    try:
        assert silent_controller(["x:2"]) is None
        assert silent_nodes(["x:2"]) == (
            "node 1 has died, node 2 is paused: `pk node start 1` and `pk node resume 2` bring "
            "them back"
        )
        assert silent_nodes(["elsewhere:2"]) is None
    finally:
        os.close(fd)


@pytest.mark.thorough
def test_a_dead_controller_and_a_dead_first_broker(
    cluster: Callable[..., Cluster], pk: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    up = cluster("--brokers", "2")
    first, second = up.bootstrap.split(",")
    monkeypatch.setenv("PK_BOOTSTRAP_SERVER", first)
    assert pk("topics", "create", "t", "-r", "2").code == 0
    wrong = pk("topics", "list", "-b", "127.0.0.1:1")
    assert f"a cluster of this machine runs at {first} (-b {first})." in wrong.err
    assert pk("node", "kill", "0", "-y").code == 0
    for words in (
        ("topics", "create", "more"),
        ("configs", "alter", "topic", "t", "-c", "retention.ms=500000", "-y"),
        ("cluster", "quorum"),
    ):
        ran = pk(*words)
        assert ran.code == 3, ran.err
        assert "The controller, node 0 of the cluster in " in ran.err
        assert "was stopped or killed" in ran.err and "`pk node start 0` brings it" in ran.err
        assert "it hangs" not in ran.err and "take effect" not in ran.err
    brokers = pk("brokers", "list", "-f", "json")
    assert [row["controller"] for row in brokers.json] == [None, None]
    assert "`pk node start 0` brings it back" in brokers.err
    (found,) = [f for f in pk("doctor", "-f", "json").json if f["check"] == "controller"]
    assert (found["severity"], found["fix"]) == ("error", "pk node start 0")
    assert pk(*found["fix"].split()[1:]).code == 0
    assert pk("topics", "create", "more").code == 0
    assert [row["controller"] for row in pk("brokers", "list", "-f", "json").json] == [False, False]

    assert pk("wait", "topic", "more", "-b", second).code == 0
    assert pk("node", "kill", "1", "-y").code == 0
    by_files = pk("topics", "list", "-f", "name")
    assert by_files.lines == ["more", "t"], by_files.err
    assert f"{first} does not answer; {second}, another broker of the cluster, did (node 1 was" in (
        by_files.err
    )
    with monkeypatch.context() as patched:  # only the last metadata is known
        patched.setattr(cluster_files, "running", list)
        by_memory = pk("consume", "t", "-e")
    assert by_memory.code == 0, by_memory.err
    assert f"{first} does not answer; {second}, another broker" in by_memory.err
    assert pk("node", "kill", "2", "-y").code == 0
    dead = pk("topics", "list")
    assert dead.code == 3
    assert "`pk node start 1` and `pk node start 2` bring them back" in dead.err
