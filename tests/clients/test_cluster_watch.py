"""A cluster's state as it is shown during changes: `pk top` as a broker dies and replicas move,
throttles at their own pace, and what an earlier command left behind. Against pk's own cluster and
Apache Kafka's (mark `peer`)."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from terminal import Terminal, environment_of

from clients import apache_kafka
from clients.cluster_topics import wait_in_sync
from clients.fixtures import fresh_name
from clients.pk_broker import pk_command, run_pk
from clients.pk_cluster import PkCluster
from clients.topics import wait_until

SETTINGS = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
LINES = "".join(f"{n:0100}\n" for n in range(10_000)).encode()
"""A megabyte."""

pytestmark = pytest.mark.slow


class Cluster(Protocol):
    """Three brokers, of whichever kind."""

    @property
    def bootstrap(self) -> str: ...

    def start(self, node_id: int) -> None: ...

    def kill(self, node_id: int) -> None: ...


@pytest.fixture(scope="module", params=["pk", pytest.param("apache", marks=pytest.mark.peer)])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    if request.param == "pk":
        with PkCluster(3, config=SETTINGS) as ours:
            yield ours
        return
    reason = apache_kafka.available()
    if reason is not None:
        pytest.skip(f"Apache Kafka cannot run here: {reason}")
    with apache_kafka.ApacheKafka(3, properties=SETTINGS, heap="256m") as theirs:
        yield theirs


class Pk:
    """`pk` against the cluster: in a pipe, and on terminals."""

    def __init__(self, cluster: Cluster, home: Path) -> None:
        self.cluster = cluster
        self.home = home
        self.terminals: list[Terminal] = []

    def run(self, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        ran = run_pk(
            *words,
            stdin=stdin,
            env=environment_of(self.home, {"PK_BOOTSTRAP_SERVER": self.cluster.bootstrap}),
        )
        assert ran.returncode == 0, (words, ran.stdout, ran.stderr)
        return ran

    def json(self, *words: str) -> Any:
        return json.loads(self.run(*words, "-f", "json").stdout)

    def on_terminal(self, *words: str, **options: Any) -> Terminal:
        options.setdefault("PK_BOOTSTRAP_SERVER", self.cluster.bootstrap)
        self.terminals.append(Terminal(*words, home=self.home, **options))
        return self.terminals[-1]

    def topic(self, name: str, assignment: str, megabytes: int = 0) -> str:
        topic = fresh_name(name)
        self.run("topics", "create", topic, "--replica-assignment", assignment)
        parts = assignment.split(",")
        wait_in_sync(self.cluster.bootstrap, topic, len(parts), len(parts[0].split(":")))
        if megabytes:
            self.run("produce", "-t", topic, stdin=LINES * megabytes)
        return topic


@pytest.fixture
def pk(cluster: Cluster, tmp_path: Path) -> Iterator[Pk]:
    made = Pk(cluster, tmp_path)
    yield made
    for one in made.terminals:
        one.close()


def test_top_shows_who_leaves_and_who_comes_back(pk: Pk) -> None:
    topic = pk.topic("left", "1:3,3:1")
    screen = pk.on_terminal("top", "isr", "--interval", "0.5")
    screen.wait_for("is in sync.")
    pk.cluster.kill(3)
    try:
        screen.wait_for(lambda text: "shrink   broker 3" in text and "2/3 brokers" in text)
        screen.keys("/")
        screen.send(topic)
        screen.keys("enter")
        row = next(
            line
            for line in screen.wait_for(f"/{topic}").splitlines()
            if line.startswith(topic[:10])
        )
        assert "3:" in row  # how far behind it is
    finally:
        pk.cluster.start(3)
    screen.wait_for("expand   broker 3  after", timeout=60)
    screen.wait_for("is in sync.", timeout=60)
    screen.keys("q")
    assert (screen.end(), screen.traces()) == (0, [])


def test_top_shows_what_moves(pk: Pk) -> None:
    topic = pk.topic("moves", "1,1", 3)
    mover = subprocess.Popen(
        pk_command("reassign", "apply", "-t", topic, "--to", "2", "--throttle", "300kB/s", "-y"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment_of(pk.home, {"PK_BOOTSTRAP_SERVER": pk.cluster.bootstrap}),
    )
    try:
        screen = pk.on_terminal("top", "reassign", "--interval", "0.5")
        screen.wait_for(lambda text: topic in text and "throttle 300 kB/s" in text)
        screen.wait_for(lambda text: "░" in text and "█" in text)
        screen.wait_for(lambda text: text.count("done") == 2, timeout=60)
        screen.keys("q")
        assert (screen.end(), screen.traces()) == (0, [])
    finally:
        mover.wait(60)
    assert mover.returncode == 0


def test_a_throttle_of_its_own_pace_is_raised_while_there_is_room(pk: Pk) -> None:
    topic = pk.topic("paced", "1", 90)
    ran = pk.run("reassign", "apply", "-t", topic, "--to", "2", "--throttle", "auto", "-y")
    assert b"Throttle raised to 15.0 MB/s: there is capacity." in ran.stderr
    assert pk.json("reassign", "throttle") == []
    assert [p["replicas"] for p in pk.json("partitions", "list", topic)] == [[2]]


def test_in_batches_no_more_move_at_once_and_an_end_leaves_the_rest(pk: Pk) -> None:
    topic = pk.topic("batched", "1,1,1,1,1,1", 6)
    words = ("reassign", "apply", "-t", topic, "--to", "2", "--batch", "2", "-y")
    mover = subprocess.Popen(
        pk_command(*words, "--throttle", "500kB/s", "-f", "json"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment_of(pk.home, {"PK_BOOTSTRAP_SERVER": pk.cluster.bootstrap}),
    )

    def moving() -> list[Any]:
        return pk.json("reassign", "status")[0]["reassignments"]

    wait_until("a move", lambda: moving() or None)
    assert len(moving()) <= 2
    mover.send_signal(signal.SIGINT)
    _, err = mover.communicate(timeout=60)
    assert mover.returncode == -signal.SIGINT and b"had not started and are unchanged" in err
    resumed = pk.json("reassign", "apply", "--resume")
    assert 1 <= len(resumed) <= 5  # it knows only what was begun
    assert pk.json("reassign", "throttle") == []
    left = [p["partition"] for p in pk.json("partitions", "list", topic) if p["replicas"] == [1]]
    assert len(left) == 6 - len(resumed)
    rest = pk.json(*words)
    assert [(row["partition"], row["result"]) for row in rest] == [(n, "moved") for n in left]
    assert {tuple(p["replicas"]) for p in pk.json("partitions", "list", topic)} == {(2,)}


def test_the_next_command_tells_of_a_throttle_that_was_left(pk: Pk) -> None:
    topic = pk.topic("killed", "1", 2)
    mover = subprocess.Popen(
        pk_command("reassign", "apply", "-t", topic, "--to", "2", "--throttle", "1MB/s", "-y"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment_of(pk.home, {"PK_BOOTSTRAP_SERVER": pk.cluster.bootstrap}),
    )
    wait_until("a move", lambda: pk.json("reassign", "status")[0]["reassignments"] or None)
    os.kill(mover.pid, signal.SIGKILL)
    mover.wait()
    wait_until("its end", lambda: not pk.json("reassign", "status")[0]["reassignments"] or None)

    def reported() -> bool:
        screen = pk.on_terminal("topics", "list", topic, columns=200)
        assert screen.end() == 0
        return "`pk reassign throttle --remove` takes it away" in screen.screen()

    assert reported()
    assert pk.run("topics", "list", topic).stderr == b""  # no group reads it
    pk.run("reassign", "throttle", "--remove", "-y")
    assert not reported()


def test_reading_goes_on_when_a_partition_has_its_leader_again(pk: Pk) -> None:
    """Consumers read the only replica by assignment, started before and after its loss, and as a
    member of a group."""
    topic = pk.topic("headless", "1,3")
    group = fresh_name("headless")
    words = ("consume", topic, "-f", "%p:%v;")
    pk.run("produce", "-t", topic, "-p", "1", stdin=b"before\n")
    lost = "No leader now: .*/1; read"
    before = pk.on_terminal(*words, "--tail", "1", "--follow", columns=200)
    member = pk.on_terminal(*words, "-g", group, "--from-beginning", columns=200)
    for screen in (before, member):
        screen.wait_for("1:before")
    pk.cluster.kill(3)
    try:
        for screen in (before, member):
            screen.wait_for(re.compile(lost), timeout=60)
        after = pk.on_terminal(*words, columns=200)
        after.wait_for(re.compile(lost), timeout=60)
        after.wait_for("Waiting for new records")  # the end of the other is known
        pk.run("produce", "-t", topic, "-p", "0", stdin=b"meanwhile\n")
        for screen in (before, member, after):
            screen.wait_for("0:meanwhile")
    finally:
        pk.cluster.start(3)
    wait_in_sync(pk.cluster.bootstrap, topic, 2, 1)
    pk.run("produce", "-t", topic, "-p", "1", stdin=b"again\n")
    for screen in (before, member, after):
        screen.wait_for("1:again", timeout=60)
        screen.keys("ctrl-c")
        assert (screen.end(), screen.traces()) == (-signal.SIGINT, [])
