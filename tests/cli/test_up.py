"""`pk up --brokers N`: the processes start and end together, and survive the death of one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from clients.topics import wait_until
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from etcd_server import skip_without_etcd
from shapes import check_json
from up_process import WAIT_S, Cluster

from pk.cli.exits import CommandError
from pk.cli.runtime.cluster_files import ClusterState, NodeState, read_state
from pk.cli.up import supervisor as supervisor_module
from pk.cli.up.supervisor import Supervisor

Run = Callable[..., Any]
ROOT = Path(__file__).resolve().parents[2]


ENDED = -signal.SIGINT
"""Ctrl-C drains, and then the process dies of the signal as every command does: a loop of bash
around it ends too."""


def nodes_of(pk: Run, *words: str) -> dict[int, dict[str, Any]]:
    status = ("node", "status", *words, "-f", "json")
    return {node["node"]: node for node in check_json(status, pk(*status).out)}


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def await_end(pids: list[int]) -> None:
    wait_until("their end", lambda: not any(map(is_alive, pids)), WAIT_S)


def test_brokers_come_up_are_killed_restarted_and_go(
    cluster: Callable[..., Cluster], pk: Run, tmp_path: Path
) -> None:
    up = cluster("--brokers", "2", "--no-restart")
    assert up.line.startswith("Cluster of 2 brokers is ready"), up.said
    assert len(up.bootstrap.split(",")) == 2
    nodes = nodes_of(pk)
    assert {n: (v["role"], v["state"]) for n, v in nodes.items()} == {
        0: ("controller", "running"),
        1: ("broker", "running"),
        2: ("broker", "running"),
    }
    created = pk("topics", "create", "t", "-p", "2", "-r", "2", "-b", up.bootstrap)
    assert created.code == 0, created.err
    assert pk("produce", "t", "-b", up.bootstrap, stdin=b"1\n2\n3\n").code == 0

    os.kill(nodes[2]["pid"], signal.SIGKILL)
    assert "SIGKILL" in up.wait_for("broker 2 (process")
    after = nodes_of(pk)
    assert (after[2]["state"], after[2]["pid"]) == ("dead", None)
    assert pk("node", "kill", "2").code == 1, "it is dead already"
    assert len(pk("consume", "t", "-b", up.bootstrap, "-e").lines) == 3
    assert pk("node", "start", "2").code == 0
    again = nodes_of(pk)[2]
    assert (again["state"], again["address"]) == ("running", nodes[2]["address"])
    assert again["pid"] != nodes[2]["pid"]
    again = pk("node", "start", "2")
    assert again.code == 1 and again.err.startswith("Broker 2 is already running, as process ")
    assert pk("node", "stop", "1").code == 0
    assert nodes_of(pk)[1]["state"] == "stopped"
    assert pk("node", "status").code == 1
    assert pk("node", "restart", "1").code == 0
    assert pk("node", "status").code == 0
    assert "0, 1, 2" in pk("node", "stop", "9").err

    pids = [node["pid"] for node in nodes_of(pk).values()]
    assert up.end() == ENDED, up.said
    await_end(pids)
    assert list(tmp_path.glob("pk-*")) == []
    assert "Traceback" not in "".join(up.said)
    assert "No cluster runs" in pk("node", "stop", "1").err


@pytest.mark.parametrize(
    "words",
    [
        ("start", "2", "--port", "9999"),
        ("start", "2", "-X", "log.retention.ms=1"),
        ("start", "2", "--detach"),
        ("start", "2", "--config-file", "server.properties"),
        ("stop", "2", "-X", "log.retention.ms=1"),
    ],
)
def test_a_node_takes_no_option_that_says_what_a_broker_is(pk: Run, words: tuple[str, ...]) -> None:
    refused = pk("broker", *words)
    assert (refused.code, f"{words[2]} cannot be combined" in refused.err) == (2, True), refused.err


def job_in(directory: Path, *, memory: bool = True) -> dict[str, Any]:
    """The job of a node that needs no other node."""
    config = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(directory / "data"),
    }
    return {"config": config, "memory": memory}


def test_a_node_that_dies_before_it_gets_its_configs_is_said_not_to_have_started(
    tmp_path: Path,
) -> None:
    first = NodeState(0, "controller", str(tmp_path))
    other = NodeState(1, "broker", str(tmp_path))
    state = ClusterState(os.getpid(), str(tmp_path), 1, "embedded", "", [first, other])

    def job_of(node: NodeState) -> dict[str, Any]:
        if node is first:
            assert other.pid is not None
            os.kill(other.pid, signal.SIGKILL)
        return job_in(tmp_path)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            supervisor = Supervisor(
                state, job_of, nursery, memory=True, restart=False, say=lambda _: None
            )
            with pytest.raises(CommandError, match="broker 1 did not start"):
                await supervisor.start_all()
            supervisor.kill_all()

    trio.run(main)


def test_who_is_told_of_an_end_finds_it_in_the_state(tmp_path: Path) -> None:
    job = job_in(tmp_path)
    node = NodeState(1, "broker,controller", str(tmp_path))
    state = ClusterState(os.getpid(), str(tmp_path), 1, "embedded", "", [node])
    reported: list[tuple[str, NodeState]] = []

    def say(line: str) -> None:
        now = read_state(str(tmp_path))
        assert now is not None
        reported.append((line, now.node(1)))

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            supervisor = Supervisor(
                state, lambda _: job, nursery, memory=True, restart=False, say=say
            )
            await supervisor.start_all()
            assert node.pid is not None
            os.kill(node.pid, signal.SIGKILL)
            await supervisor.all_ended()

    trio.run(main)
    ((line, then),) = reported
    assert "was killed by SIGKILL" in line
    assert (then.state, then.pid) == ("dead", None)


class Supervised:
    """A cluster of one node, which ends as soon as it is asked to."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(supervisor_module, "PAUSE_S_MIN", 0.1)
        self.directory = str(directory)
        self.node = NodeState(1, "broker,controller", self.directory)
        self.said: list[str] = []
        self._heard = trio.Event()
        self.job = job_in(directory, memory=False)

    @contextlib.asynccontextmanager
    async def run(self, *, restart: bool = True) -> AsyncIterator[Supervisor]:
        """It is ready."""
        state = ClusterState(os.getpid(), self.directory, 1, "embedded", "", [self.node])
        async with trio.open_nursery() as nursery:
            supervisor = Supervisor(
                state,
                lambda _: self.job,
                nursery,
                memory=False,
                restart=restart,
                say=self._hear,
            )
            await supervisor.start_all()
            yield supervisor
            supervisor.kill_all()
            await supervisor.all_ended()
            nursery.cancel_scope.cancel()

    def kill(self) -> None:
        """Kills the node's process, as another program might."""
        assert self.node.pid is not None
        os.kill(self.node.pid, signal.SIGKILL)

    async def hears(self, text: str) -> None:
        """Wait until the last line said has the text."""
        with trio.fail_after(WAIT_S):
            while not self.said or text not in self.said[-1]:
                await self._heard.wait()

    def _hear(self, line: str) -> None:
        self.said.append(line)
        heard, self._heard = self._heard, trio.Event()
        heard.set()


@pytest.mark.thorough
def test_a_node_that_dies_is_started_again_after_pauses_that_grow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        one = Supervised(tmp_path, monkeypatch)
        async with one.run():
            for pause in ("0.1", "0.2"):
                one.kill()
                await one.hears(f"was killed by SIGKILL; it is started again in {pause} s")
                await one.hears("broker 1 is ready at ")
            assert (one.node.state, one.node.starts) == ("running", 3)
            # It has run for long, but its next start fails.
            monkeypatch.setattr(supervisor_module, "STEADY_S", 0.0)
            one.job["config"]["log.dirs"] = str(tmp_path / "pk-cluster.json")
            one.kill()
            await one.hears("in 0.1 s")
            await one.hears("broker 1 did not start; it is started again in 0.2 s")
            await one.hears("broker 1 did not start; it is started again in 0.4 s")
            assert one.node.state == "restarting"

    trio.run(main)


@pytest.mark.thorough
def test_a_node_that_a_command_ends_stays_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        one = Supervised(tmp_path, monkeypatch)
        async with one.run() as supervisor:
            answers = supervisor.state.answers
            await supervisor._answer("a", "kill", 1)
            assert (one.node.state, one.said) == ("stopped", [])
            await supervisor._answer("b", "start", 1)
            # A command takes effect while the restart is pending.
            for do, state in (("stop", "stopped"), ("start", "running")):
                if one.node.state == "stopped":
                    await supervisor._answer("again", "start", 1)
                monkeypatch.setattr(supervisor_module, "PAUSE_S_MIN", 3600.0)
                monkeypatch.setattr(supervisor_module, "PAUSE_S_MAX", 3600.0)
                one.kill()
                await one.hears("in 3600 s")
                assert one.node.state == "restarting"
                await supervisor._answer(do, do, 1)
                assert one.node.state == state
                assert not supervisor._returning
            assert set(answers.values()) == {None}

    trio.run(main)


def test_one_who_asks_for_a_node_that_is_being_started_is_refused(tmp_path: Path) -> None:
    node = NodeState(1, "broker,controller", str(tmp_path))
    state = ClusterState(os.getpid(), str(tmp_path), 1, "embedded", "", [node])
    begun: list[int | None] = []

    def job_of(node: NodeState) -> dict[str, Any]:
        begun.append(node.pid)
        return {"config": {"listeners": "none"}, "memory": True}  # so that it ends

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            supervisor = Supervisor(
                state, job_of, nursery, memory=True, restart=False, say=lambda _: None
            )
            async with trio.open_nursery() as asking:
                for number in ("a", "b"):
                    asking.start_soon(supervisor._answer, number, "start", 1)

    trio.run(main)
    assert len(begun) == 1
    assert sorted(map(str, state.answers.values())) == [
        "broker 1 did not start.",
        "broker 1 is already starting.",
    ]


@pytest.mark.thorough
def test_data_is_kept_and_the_number_of_brokers_with_it(
    cluster: Callable[..., Cluster], pk: Run, tmp_path: Path
) -> None:
    data = str(tmp_path / "data")
    first = cluster("--brokers", "2", "--data", data)
    pk("topics", "create", "t", "-r", "2", "-b", first.bootstrap)
    pk("produce", "t", "-b", first.bootstrap, stdin=b"kept\n")
    second = cluster("--data", data)
    assert second.end() == 1
    assert "in use" in "".join(second.said)
    assert first.end(signal.SIGTERM) == 0
    assert sorted(p.name for p in Path(data).glob("*er*")) == [
        "broker-1",
        "broker-2",
        "controller",
        "pk-cluster.json",
    ]
    again = cluster("--data", data)
    assert again.line.startswith("Cluster of 2 brokers"), again.said
    assert pk("consume", "t", "-b", again.bootstrap, "-e").text == "kept\n"
    state = json.loads((Path(data) / "pk-cluster.json").read_text())
    assert [node["node"] for node in state["nodes"]] == [0, 1, 2]
    assert again.end() == ENDED
    fewer = pk("up", "--brokers", "1", "--data", data)
    assert (fewer.code, "2 brokers" in fewer.err) == (2, True)


def test_children_end_when_their_parent_is_killed(cluster: Callable[..., Cluster], pk: Run) -> None:
    up = cluster("--brokers", "2", "--memory")
    pids = [node["pid"] for node in nodes_of(pk).values()]
    assert all(map(is_alive, pids))
    up.process.kill()
    up.process.wait()
    await_end(pids)


@pytest.mark.thorough
def test_several_clusters_are_told_apart(
    cluster: Callable[..., Cluster], pk: Run, tmp_path: Path
) -> None:
    one, two = (str(tmp_path / name) for name in ("one", "two"))
    first, second = (
        cluster("--brokers", "2", "--data", one),
        cluster("--brokers", "2", "--data", two),
    )
    unclear = pk("node", "stop", "2")
    assert (unclear.code, one in unclear.err, two in unclear.err) == (2, True, True)
    assert pk("node", "stop", "2", "--data", one).code == 0
    assert nodes_of(pk, "--data", one)[2]["state"] == "stopped"
    assert nodes_of(pk, "--data", two)[2]["state"] == "running"
    assert (first.end(), second.end()) == (ENDED, ENDED)


def test_what_cannot_be_a_cluster_says_why(
    cluster: Callable[..., Cluster], pk: Run, tmp_path: Path
) -> None:
    single = tmp_path / "single"
    single.mkdir()
    (single / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    for words, said in (
        (("--brokers", "0"), "at least 1"),
        (("--brokers", "2", "-X", "node.id=4"), "node.id"),
        (("--brokers", "2", "-X", "num.partition=4"), "num.partitions"),
        (("--brokers", "2", "--data", str(single)), "single broker"),
        (("--brokers", "2", "--store", "nowhere"), "zookeeper://"),
        (("--brokers", "3", "--port", "65534"), "65535"),
    ):
        wrong = pk("up", *words)
        assert (wrong.code, said in wrong.err) == (2, True), (words, wrong.err)
    taken = cluster("--memory")
    port = taken.bootstrap.rpartition(":")[2]
    failed = cluster("--brokers", "2", "--port", port)
    assert failed.end() == 1
    assert "in use" in "".join(failed.said)
    assert list(tmp_path.glob("pk-*")) == []


@pytest.mark.thorough
def test_a_second_signal_ends_it_at_once(cluster: Callable[..., Cluster], pk: Run) -> None:
    up = cluster("--brokers", "2")
    pids = {n: node["pid"] for n, node in nodes_of(pk).items()}
    # A paused node does not drain.
    os.kill(pids[1], signal.SIGSTOP)
    up.process.send_signal(signal.SIGINT)
    await_end([pids[2]])
    assert up.process.poll() is None
    assert up.end() == ENDED
    await_end(list(pids.values()))


@pytest.mark.slow
@pytest.mark.usefixtures("usual_patience")
def test_beside_a_broker_that_hangs_the_others_are_heard_within_seconds(
    cluster: Callable[..., Cluster], pk: Run
) -> None:
    up = cluster("--brokers", "3", "--memory")
    at = ("-b", up.bootstrap)
    assert pk(*at, "topics", "create", "t", "-p", "3", "-r", "3").code == 0
    pids = {n: node["pid"] for n, node in nodes_of(pk).items()}
    asked = {1: ("groups", "list"), 2: ("top", "-n", "1"), 3: ("groups", "lag")}
    for node, words in asked.items():
        os.kill(pids[node], signal.SIGSTOP)
        try:
            ran = pk(*at, *words)
            assert f"Broker {node} " in ran.err, ran
            assert pk(*at, "topics", "list").lines[1].split() == ["t", "3", "3"]
            # `start..end` waits until another broker leads the partitions of the silent one.
            assert pk(*at, "consume", "t", "-o", "start..end").code == 0
            reset = ("groups", "reset-offsets", "g", "-t", "t", "--to", "start", "-d")
            assert pk(*at, *reset).code == 0
        finally:
            os.kill(pids[node], signal.SIGCONT)
        wait_in_sync(AdminClient({"bootstrap.servers": up.bootstrap}))
    assert up.end() == ENDED


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_while_brokers_are_killed_paused_and_restarted(
    cluster: Callable[..., Cluster], pk: Run
) -> None:
    up = cluster("--brokers", "3")
    admin = AdminClient({"bootstrap.servers": up.bootstrap})
    topic = NewTopic("t", 3, 3, config={"min.insync.replicas": "2"})
    for made in admin.create_topics([topic]).values():
        made.result()
    acknowledged: list[int] = []
    failed: list[str] = []
    over = threading.Event()

    def produce() -> None:
        producer = Producer(
            {
                "bootstrap.servers": up.bootstrap,
                "enable.idempotence": True,
                "socket.timeout.ms": 1000,
                "request.timeout.ms": 1000,
            }
        )
        number = 0
        while not over.wait(0.001):
            value = number

            def answered(error: Any, _: Any, value: int = value) -> None:
                if error is None:
                    acknowledged.append(value)
                else:
                    failed.append(str(error))

            producer.produce("t", str(value).encode(), key=b"%d" % (value % 7), callback=answered)
            producer.poll(0)
            number += 1
        assert producer.flush(WAIT_S) == 0

    producing = threading.Thread(target=produce)
    producing.start()
    try:
        for node in (1, 2, 3):
            await_more(acknowledged)
            assert pk("node", "kill", str(node)).code == 0
            await_more(acknowledged)
            assert pk("node", "start", str(node)).code == 0
            wait_in_sync(admin)
        assert pk("node", "pause", "1").code == 0
        assert nodes_of(pk)[1]["state"] == "paused"
        wait_until("an ISR without it", lambda: not any(1 in isr for isr in isrs(admin)), WAIT_S)
        await_more(acknowledged)
        assert pk("node", "resume", "1").code == 0
        wait_in_sync(admin)
        assert pk("node", "restart", "2").code == 0
        wait_in_sync(admin)
    finally:
        over.set()
        producing.join()
    assert failed == []
    assert len(acknowledged) > 5000
    by_key: dict[bytes, list[int]] = {}
    for key, value in consume_all(up.bootstrap, len(acknowledged)):
        by_key.setdefault(key, []).append(value)
    assert sorted(v for values in by_key.values() for v in values) == sorted(acknowledged)
    assert all(values == sorted(values) for values in by_key.values())
    assert up.end() == ENDED


def await_more(acknowledged: list[int], count: int = 500) -> None:
    """Waits until producing has continued for a while."""
    before = len(acknowledged)
    wait_until(f"{count} acknowledged", lambda: len(acknowledged) >= before + count, timeout=WAIT_S)


def isrs(admin: AdminClient) -> list[list[int]]:
    """The in-sync replicas of each partition of `t`, as a broker that answers has them."""
    while True:
        try:
            partitions = admin.list_topics("t", timeout=60).topics["t"].partitions
        except KafkaException:  # it asked the one that is paused
            continue
        return [partition.isrs for partition in partitions.values()]


def wait_in_sync(admin: AdminClient) -> None:
    wait_until("in sync again", lambda: all(len(isr) == 3 for isr in isrs(admin)), WAIT_S)


def consume_all(bootstrap: str, count: int) -> list[tuple[bytes, int]]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["t"])
    found: list[tuple[bytes, int]] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(1000, 1.0):
            assert message.error() is None
            found.append((message.key() or b"", int(message.value() or b"")))
    consumer.close()
    return found


@pytest.mark.parametrize("more", [(), ("--brokers", "3")])
def test_data_that_cannot_be_a_directory_is_said_so(
    pk: Run, tmp_path: Path, more: tuple[str, ...]
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for path in (file, file / "below"):
        ran = pk("up", "--data", str(path), "--port", "0", *more)
        assert (ran.code, ran.err) == (2, f"--data: {file} is not a directory.\n")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no /proc")
@pytest.mark.parametrize("more", [(), ("--brokers", "3")])
def test_data_that_cannot_be_created_is_one_sentence(pk: Run, more: tuple[str, ...]) -> None:
    ran = pk("up", "--data", "/proc/pk-data", "--port", "0", *more)
    said = "--data: /proc/pk-data cannot be created: No such file or directory.\n"
    assert (ran.code, ran.out, ran.err) == (1, b"", said)


@pytest.mark.thorough
def test_etcd_is_started_beside_the_brokers_and_any_node_may_be_killed(
    cluster: Callable[..., Cluster], pk: Run, tmp_path: Path
) -> None:
    skip_without_etcd()
    data = str(tmp_path / "data")
    up = cluster("--brokers", "3", "--store", "etcd", "--data", data)
    assert up.line.startswith("Cluster of 3 brokers is ready"), up.said
    assert "The metadata is in etcd (" in "".join(up.said)
    nodes = nodes_of(pk)
    assert {n: (v["role"], v["state"]) for n, v in nodes.items()} == {
        **{n: ("etcd", "running") for n in (101, 102, 103)},
        **{n: ("broker,controller", "running") for n in (1, 2, 3)},
    }
    at = ("-b", up.bootstrap)
    assert pk("topics", "create", "t", "-p", "3", "-r", "3", *at).code == 0
    assert pk("node", "kill", "101").code == 0
    (about,) = json.loads(
        pk("cluster", "quorum", "-f", "json", "--where", "role = leader", *at).text
    )
    controller = about["node"]
    os.kill(nodes[controller]["pid"], signal.SIGKILL)
    os.kill(nodes[102]["pid"], signal.SIGKILL)
    up.wait_for(f"broker {controller} is ready at {nodes[controller]['address']}")
    up.wait_for(f"etcd 102 is ready at {nodes[102]['address']}")
    assert pk("topics", "create", "u", "-p", "3", "-r", "3", *at).code == 0
    assert nodes_of(pk)[101]["state"] == "stopped", "by a command"
    members = [nodes_of(pk)[n]["pid"] for n in (102, 103)]
    assert up.end() == ENDED, up.said
    await_end(members)
    # The store and its addresses are those of the directory.
    again = cluster("--data", data)
    assert {n: v["address"] for n, v in nodes_of(pk).items() if n > 100} == {
        n: nodes[n]["address"] for n in (101, 102, 103)
    }
    listed = pk("topics", "list", "-f", "name", "-b", again.bootstrap)
    assert listed.lines == ["t", "u"]
    pids = [node["pid"] for node in nodes_of(pk).values()]
    again.process.kill()
    again.process.wait()
    await_end(pids)
    moved = pk("up", "--data", data, "--store", "embedded")
    assert (moved.code, "has its metadata in etcd" in moved.err) == (2, True), moved.err


def test_etcd_that_cannot_be_started_says_what_to_do(
    pk: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = pk("up", "--store", "etcd")
    assert (few.code, "--brokers 3" in few.err) == (2, True), few.err
    monkeypatch.setenv("PATH", "/nonexistent")
    none = pk("up", "--brokers", "3", "--store", "etcd")
    assert none.code == 1 and "apt install etcd-server" in none.err, none.err
