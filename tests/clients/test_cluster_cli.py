"""The cluster commands on clusters of four brokers, pk's own and Apache Kafka's: what they do, that
they leave nothing behind, and that kcat, kafka-python and Apache's own tools see the same.

A command runs as a process only if a signal or a terminal matters. Tests that need Apache's tools
carry the mark `peer` for pk too.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, Self

import confluent_kafka
import kafka.admin as python_admin
import pexpect
import pytest
from commands import Ran, run_command, wait_for_slow_brokers
from kafka.structs import TopicPartition
from terminal import read_until, start_on_pty

from clients import apache_kafka
from clients.cluster_topics import (
    IN_SYNC_S,
    wait_fenced_everywhere,
    wait_in_sync,
    wait_told_everywhere,
)
from clients.fixtures import fresh_name
from clients.pk_broker import pk_command, pk_environment, start_pk
from clients.pk_cluster import PkCluster
from clients.topics import wait_until
from pk.core.errors import ErrorCode

BROKERS = 4
SETTINGS = {
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "500",
    "auto.leader.rebalance.enable": "false",  # or leaders move by themselves, every five minutes
}
TOOLS = "org.apache.kafka.tools"
RECORD = os.urandom(1000)


class Cluster(Protocol):
    """Four brokers, of whichever kind."""

    @property
    def bootstrap(self) -> str: ...

    def start(self, node_id: int) -> None: ...

    def kill(self, node_id: int) -> None: ...


class Pk:
    """Runs `pk` against a cluster, with state of its own."""

    def __init__(self, cluster: Cluster, home: Path) -> None:
        self.cluster = cluster
        self._home = home
        self._own = {
            "HOME": str(home),
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_CACHE_HOME": str(home / "cache"),
            "PK_BOOTSTRAP_SERVER": cluster.bootstrap,
        }
        self.environment = pk_environment() | self._own

    def start(self, *words: str) -> subprocess.Popen[str]:
        return start_pk(
            *words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
        )

    def run(self, *words: str, code: int = 0) -> Ran:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self._own.items():
                patch.setenv(name, value)
            wait_for_slow_brokers(patch)
            ran = run_command(words, self._home)
        assert ran.code == code, (words, ran)
        assert "Traceback" not in ran.err
        return ran

    def json(self, *words: str, code: int = 0) -> Any:
        return self.run(*words, "-f", "json", code=code).json

    def replicas(self, topic: str) -> dict[int, list[int]]:
        return {p["partition"]: p["replicas"] for p in self.json("partitions", "list", topic)}

    def moving(self) -> list[dict[str, Any]]:
        (status,) = self.json("reassign", "status")
        return status["reassignments"]

    def throttles(self) -> list[dict[str, Any]]:
        return self.json("reassign", "throttle")

    def wait_settled(self, topic: str, replicas: dict[int, list[int]]) -> None:
        """Waits until all brokers know what the controller has done, of which a command of pk asks
        one only: these replicas, each led by the first, and no throttle."""
        wait_told_everywhere(self.cluster.bootstrap, topic, replicas, preferred=True)
        wait_until("throttles gone", lambda: self.throttles() == [])


@pytest.fixture(scope="module", params=["pk", pytest.param("apache", marks=pytest.mark.peer)])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    if request.param == "pk":
        with PkCluster(BROKERS, config=SETTINGS) as ours:
            yield ours
        return
    reason = apache_kafka.available()
    if reason is not None:
        pytest.skip(f"Apache Kafka cannot run here: {reason}")
    properties = SETTINGS | {
        "metadata.log.max.record.bytes.between.snapshots": "1000",
        # Four JVMs on a busy machine: no controller must be taken for dead.
        "controller.quorum.election.timeout.ms": "5000",
        "controller.quorum.fetch.timeout.ms": "10000",
    }
    with apache_kafka.ApacheKafka(BROKERS, properties=properties, heap="256m") as theirs:
        yield theirs


@pytest.fixture
def pk(cluster: Cluster, tmp_path: Path) -> Pk:
    return Pk(cluster, tmp_path)


def make_topic(pk: Pk, name: str, assignment: str, megabytes: int = 0, **config: str) -> str:
    """A topic with the replicas of `assignment` (1:2,2:3) and this much data."""
    topic = fresh_name(name)
    words = [w for k, v in config.items() for w in ("-c", f"{k.replace('_', '.')}={v}")]
    pk.run("topics", "create", topic, "--replica-assignment", assignment, *words)
    parts = assignment.split(",")
    wait_in_sync(pk.cluster.bootstrap, topic, len(parts), len(parts[0].split(":")))
    wait_told_everywhere(pk.cluster.bootstrap, topic)
    # Idempotent, because a slow broker must not cause duplicates in the final count.
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": pk.cluster.bootstrap, "linger.ms": 5, "enable.idempotence": True}
    )
    for n in range(megabytes * 1000):
        producer.produce(topic, RECORD, partition=n % len(parts))
        if n % 1000 == 0:
            producer.flush(60)
    assert producer.flush(60) == 0
    return topic


class Load:
    """A producer that keeps writing with acks=all and counts acknowledged and failed records."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acknowledged = 0
        self.failed: list[object] = []
        self._topic = topic
        self._stop = threading.Event()
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True}
        )
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(60) == 0

    def _told(self, error: object, _: object) -> None:
        if error is not None:
            self.failed.append(error)
        else:
            self.acknowledged += 1

    def _run(self) -> None:
        while not self._stop.is_set():
            self._producer.produce(self._topic, b"x" * 100, on_delivery=self._told)
            self._producer.poll(0.002)


def tool(pk: Pk, name: str, *words: str, code: int = 0) -> str:
    """The output of one of Apache's tools."""
    bootstrap = ("--bootstrap-server", pk.cluster.bootstrap)
    ran = apache_kafka.run_tool(f"{TOOLS}.{name}", *bootstrap, *words, timeout=120)
    assert ran.returncode == code, (words, ran.stdout, ran.stderr)
    return ran.stdout


def test_a_loaded_topic_moves_and_goes_back_and_nothing_stays_behind(pk: Pk) -> None:
    topic = make_topic(pk, "moved", ",".join(["1:2:3", "2:3:1", "3:1:2"] * 4), 12)
    before = pk.replicas(topic)
    plan = pk.json("reassign", "plan", "-t", topic, "--to", "2,3,4", "--throttle", "50MB/s")[0]
    assert plan["bytes"] > 0 and plan["seconds"] > 0
    with Load(pk.cluster.bootstrap, topic) as load:
        words = ("reassign", "apply", "-t", topic, "--to", "2,3,4", "--throttle", "50MB/s", "-y")
        rows = pk.json(*words)
        assert {row["result"] for row in rows} == {"moved"}
        # The result is as `plan` showed it: planning is deterministic.
        after = {p["partition"]: p["after"] for p in plan["partitions"]}
        pk.wait_settled(topic, after)
        assert pk.replicas(topic) == after
        assert all(set(r) == {2, 3, 4} for r in after.values())
        listed = pk.json("partitions", "list", topic)
        assert {p["state"] for p in listed} == {"healthy"}, listed
        assert pk.moving() == []

        back = pk.run("reassign", "rollback", "--throttle", "50MB/s", "-y")
        assert "To undo it" in back.err
    pk.wait_settled(topic, before)
    assert pk.replicas(topic) == before
    assert not load.failed and load.acknowledged > 0
    offsets = pk.json("topics", "offsets", topic)
    assert sum(o["offsets"] for o in offsets) == 12_000 + load.acknowledged


@pytest.mark.slow
def test_draining_adding_and_another_factor(pk: Pk) -> None:
    topic = make_topic(pk, "shaped", "1:2,2:3,3:1,1:2,2:3,3:1", 1)
    pk.run("reassign", "apply", "-t", topic, "--drain", "3", "-y")
    drained = pk.replicas(topic)
    assert all(3 not in r and len(r) == 2 for r in drained.values())
    pk.run("reassign", "apply", "-t", topic, "--rf", "3", "-y")
    assert all(len(r) == 3 and set(drained[p]) < set(r) for p, r in pk.replicas(topic).items())
    pk.run("reassign", "apply", "-t", topic, "--rf", "1", "-y")
    assert all(len(r) == 1 for r in pk.replicas(topic).values())
    pk.run("reassign", "apply", "--set", f"{topic}/0=4,2", "--set", f"{topic}/5=2,4", "-y")
    now = pk.replicas(topic)
    assert (now[0], now[5]) == ([4, 2], [2, 4])
    leaders = {p["partition"]: p["leader"] for p in pk.json("partitions", "list", topic)}
    assert (leaders[0], leaders[5]) == (4, 2)


def _left_running(pk: Pk, topic: str, end: int) -> subprocess.CompletedProcess[str]:
    """Starts a move that takes long, also where others need long to look at it, and ends the
    command with a signal once it moves."""
    words = ("reassign", "apply", "-t", topic, "--to", "3,4", "--throttle", "20kB/s", "-y")
    process = pk.start(*words)
    wait_until("a move", lambda: pk.moving() or None)
    process.send_signal(end)
    out, err = process.communicate(timeout=120)
    return subprocess.CompletedProcess(words, process.returncode, out, err)


@pytest.mark.slow
def test_interrupted_without_a_terminal_it_goes_on_and_cancel_takes_it_back(pk: Pk) -> None:
    topic = make_topic(pk, "left", "1:2,2:1,1:2", 24)
    before = pk.replicas(topic)
    ended = _left_running(pk, topic, signal.SIGINT)
    assert ended.returncode == -signal.SIGINT
    assert "The moves continue" in ended.stderr and "--resume" in ended.stderr
    moving = pk.moving()
    assert {m["topic"] for m in moving} == {topic} and len(moving) == 3
    assert all(m["adding"] and m["total"] > 0 and m["percent"] < 100 for m in moving)
    assert len(pk.throttles()) > 0

    dry = pk.json("reassign", "cancel", "--all", "--dry-run")
    assert [row["result"] for row in dry] == ["would be cancelled"] * 3
    one = pk.json("reassign", "cancel", f"{topic}/1", "-y")
    assert [(row["partition"], row["result"]) for row in one] == [(1, "cancelled")]
    assert len(pk.moving()) == 2 and pk.throttles()
    pk.run("reassign", "cancel", "--all", "-y")
    assert pk.moving() == [] and pk.throttles() == []
    assert pk.replicas(topic) == before
    gone = pk.run("reassign", "cancel", f"{topic}/1", "-y", code=1)
    assert "is not being reassigned" in gone.err


@pytest.mark.slow
def test_killed_it_leaves_throttles_that_status_notices_and_resume_removes(pk: Pk) -> None:
    topic = make_topic(pk, "killed", "1:2,2:1", 4)
    _left_running(pk, topic, signal.SIGKILL)
    pk.run("reassign", "throttle", "100MB/s", "-y")
    assert {t["value"] for t in pk.throttles() if t["resource"].startswith("broker")} == {
        "100000000"
    }
    wait_until("the end of the moves", lambda: not pk.moving() or None)
    reported = pk.run("reassign", "status")
    assert "left behind by a reassignment from this machine" in reported.err
    health = {c["check"]: c for c in pk.json("cluster", "health")[0]["checks"]}
    assert health["orphan-throttles"]["state"] == "warning"
    pk.run("reassign", "throttle", "--remove", code=5)
    assert pk.throttles()
    resumed = pk.json("reassign", "apply", "--resume")
    assert [row["result"] for row in resumed] == ["moved", "moved"]
    assert pk.throttles() == []
    assert (
        "No unfinished reassignment was started from this machine"
        in pk.run("reassign", "apply", "--resume", code=1).err
    )


@pytest.mark.slow
def test_a_throttle_that_an_operator_set_stays(pk: Pk) -> None:
    topic = make_topic(pk, "operator", "1:2", 1)
    rate = "leader.replication.throttled.rate"
    pk.run("configs", "alter", "broker", "2", "-c", f"{rate}=77000000", "-y")
    pk.run(
        "configs", "alter", "topic", topic, "-c", "leader.replication.throttled.replicas=7:9", "-y"
    )
    try:
        pk.run("reassign", "apply", "-t", topic, "--to", "2,3", "--throttle", "50MB/s", "-y")
        assert pk.throttles() == [
            {"resource": "broker 2", "name": rate, "value": "77000000"},
            {
                "resource": f"topic {topic}",
                "name": "leader.replication.throttled.replicas",
                "value": "7:9",
            },
        ]
    finally:
        pk.run("reassign", "throttle", "--remove", "-y")
    assert pk.throttles() == []


@pytest.mark.slow
def test_detached_a_process_in_the_background_tidies_up(pk: Pk) -> None:
    topic = make_topic(pk, "detached", "1:2,2:1", 1)
    words = (
        "reassign",
        "apply",
        "-t",
        topic,
        "--to",
        "3,4",
        "--throttle",
        "1MB/s",
        "-y",
        "--detach",
    )
    rows = pk.run(*words, "-f", "jsonl")
    assert "watches it and cleans up" in rows.err
    log = Path(rows.err.partition("its log is ")[2].partition(".log")[0] + ".log")
    wait_until("throttles gone", lambda: (not pk.moving() and not pk.throttles()) or None, 60)
    assert all(set(r) == {3, 4} for r in pk.replicas(topic).values())
    wait_until("the end", lambda: "2 partitions reassigned." in log.read_text() or None, 60)


@pytest.mark.slow
def test_when_its_terminal_is_closed_a_process_in_the_background_tidies_up(pk: Pk) -> None:
    topic = make_topic(pk, "hung-up", "1:2,2:1", 12)
    words = ("reassign", "apply", "-t", topic, "--to", "3,4", "--throttle", "100kB/s", "-y")
    process, end = start_on_pty(pk_command(*words), pk.environment | {"TERM": "xterm-256color"})
    try:
        read_until(end, b"throttle 100 kB/s")
        assert pk.throttles()
        os.close(end)
        assert process.wait(60) == -signal.SIGINT
    finally:
        process.kill()
    assert pk.moving() and pk.throttles()
    pk.run("reassign", "throttle", "100MB/s", "-y")
    wait_until("throttles gone", lambda: (not pk.moving() and not pk.throttles()) or None, 60)
    assert all(set(r) == {3, 4} for r in pk.replicas(topic).values())


def test_on_a_terminal_it_shows_progress_and_asks_what_ctrl_c_is_to_mean(pk: Pk) -> None:
    topic = make_topic(pk, "asked", "1:2,2:1", 24)
    before = pk.replicas(topic)
    empty = make_topic(pk, "empty", "1:2")
    program, *words = pk_command("reassign", "apply", "-t", topic, "-t", empty, "--to", "3,4")
    child = pexpect.spawn(
        program,
        [*words, "--throttle", "100kB/s"],
        env={**pk.environment, "TERM": "xterm-256color"},
        dimensions=(24, 160),  # no line of its progress is wrapped
        timeout=180,
        encoding="utf-8",
    )
    with contextlib.closing(child):
        child.expect(re.escape("? [y/N]"))
        child.send("y\r")
        child.expect(re.escape(f"{topic}/0"))
        child.expect("throttle 100 kB/s")
        child.sendintr()
        child.expect("What now\\?")
        child.send("\r")  # continues to watch
        child.expect("1 of 3 partitions")
        child.sendintr()
        child.expect("What now\\?")
        child.send("c\r")
        child.expect("cancelled")
        child.expect("To undo it: pk reassign rollback")  # for the partitions already moved
        child.expect(pexpect.EOF)
        child.wait()  # it may close the terminal before it ends
    assert child.signalstatus == signal.SIGINT
    assert pk.moving() == []
    pk.wait_settled(topic, before)
    assert pk.replicas(topic) == before
    assert set(pk.replicas(empty)[0]) == {3, 4}


def test_what_is_typed_after_ctrl_c_does_not_answer_what_now(pk: Pk) -> None:
    """It is left in the terminal, for the shell to read; the moves go on, as after Ctrl-C alone."""
    topic = make_topic(pk, "left", "1:2", 12)
    command = shlex.join(
        pk_command("reassign", "apply", "-t", topic, "--to", "3,4", "--throttle", "100kB/s", "-y")
    )
    bash = pexpect.spawn(
        "bash",
        ["-c", f'trap : INT; {command}; read -r line; echo "typed: $line."'],
        env={**pk.environment, "TERM": "xterm-256color"},
        dimensions=(24, 160),  # no line of its progress is wrapped
        timeout=180,
        encoding="utf-8",
    )
    with contextlib.closing(bash):
        bash.expect("throttle 100 kB/s")
        bash.sendintr()
        bash.expect("What now\\?")
        bash.send("\x03c\r")
        bash.expect_exact("typed: c.")
        bash.expect(pexpect.EOF)
    assert pk.moving()
    pk.run("reassign", "cancel", topic, "-y")
    assert pk.moving() == []
    wait_until("throttles gone", lambda: pk.throttles() == [])


class Watch:
    """`pk isr -w` of a topic, in a process."""

    def __init__(self, pk: Pk, topic: str) -> None:
        self.events: list[dict[str, Any]] = []
        self._process = pk.start("isr", "-w", topic, "-f", "json")
        assert self._process.stdout is not None
        self._lines = iter(self._process.stdout.readline, "")

    def begin(self) -> str:
        """What it says after its first look."""
        assert self._process.stderr is not None
        return self._process.stderr.readline()

    def until(self, event: str, broker: int) -> dict[str, Any]:
        for line in self._lines:
            self.events.append(json.loads(line))
            if self.events[-1]["event"] == event and broker in self.events[-1]["brokers"]:
                return self.events[-1]
        raise AssertionError((event, self.events))

    def end(self) -> int:
        """Its exit code after Ctrl-C."""
        self._process.send_signal(signal.SIGINT)
        self._process.communicate(timeout=120)
        return self._process.returncode


@contextlib.contextmanager
def without_broker_4(pk: Pk) -> Iterator[None]:
    """No broker takes it for alive in the block."""
    pk.cluster.kill(4)
    try:
        wait_fenced_everywhere(pk.cluster.bootstrap.split(",")[:3], 4)
        yield
    finally:
        pk.cluster.start(4)


def test_leaders_and_replicas_leave_with_their_broker_and_come_back(pk: Pk) -> None:
    """A start of Apache Kafka takes long, so all that is asked of a dead broker is asked here."""
    elected = make_topic(pk, "elected", "1:2:3,2:3:1,4:1:2", min_insync_replicas="2")
    watched = make_topic(pk, "watched", "1:4,4:1")
    is_apache = isinstance(pk.cluster, apache_kafka.ApacheKafka)
    if is_apache:
        make_topics_for_filters(pk)
    watch = Watch(pk, watched)
    made = make_topic(pk, "ready", "1")
    assert watch.begin() == "Watching 2 partitions; Ctrl-C ends.\n"
    killed = time.time()
    with without_broker_4(pk):
        left = watch.until("shrink", 4)
        assert left["time"] and left["topic"] == watched and left["isr"] == [1]
        check_what_is_behind(pk, watched, killed)
        check_what_is_said_without_broker_4(pk, elected)
        if is_apache:
            check_filters_agree(pk)
    back = watch.until("expand", 4)
    assert sorted(back["isr"]) == [1, 4] and back["out_for_ms"] > 0
    assert watch.end() == -signal.SIGINT
    assert all(event["topic"] != made for event in watch.events)
    check_an_election_when_it_is_back(pk, elected)


def check_what_is_behind(pk: Pk, topic: str, killed: float) -> None:
    """`pk isr` has not watched, but the controller knows since when the broker is silent."""
    rows = wait_until(
        "both partitions",
        lambda: found if len(found := pk.json("isr", topic, "--under-replicated")) == 2 else None,
    )
    assert [(r["out_of_sync"], r["behind"], r["estimated"]) for r in rows] == [
        ([4], {"4": 0}, [4])
    ] * 2
    seen = [datetime.fromisoformat(r["since"]).timestamp() for r in rows]
    assert all(killed - 10 < since <= time.time() for since in seen)


def check_what_is_said_without_broker_4(pk: Pk, topic: str) -> None:
    wait_until("a new leader", lambda: pk.json("partitions", "list", topic)[2]["leader"] == 1)
    (row,) = pk.json("partitions", "list", topic, "--under-replicated")
    assert (row["partition"], row["out_of_sync"], row["state"]) == (2, [4], "at min ISR")
    (row,) = pk.json("isr", topic, "--at-min-isr")
    assert row["behind"] == {"4": 0, "2": 0} and row["estimated"] == [4]
    refused = pk.json("partitions", "elect-leaders", f"{topic}/2", "-y", code=1)
    assert refused[0]["error"] == "PREFERRED_LEADER_NOT_AVAILABLE"
    (health,) = pk.json("cluster", "health", code=1)
    bad = {c["check"] for c in health["checks"] if c["state"] == "error"}
    assert {"brokers-down", "under-replicated"} <= bad
    states = {b["broker"]: b["state"] for b in pk.json("brokers", "list")}
    assert states[4] in ("fenced", "down") and states[1] == "up"


def check_an_election_when_it_is_back(pk: Pk, topic: str) -> None:
    wait_in_sync(pk.cluster.bootstrap, topic, 3, 3)
    wait_told_everywhere(pk.cluster.bootstrap, topic)
    dry = pk.json("partitions", "elect-leaders", topic, "--dry-run")
    wanted = [(row["partition"], row["to"]) for row in dry if row["result"] == "would be elected"]
    assert wanted == [(2, 4)]
    rows = pk.json("partitions", "elect-leaders", topic, "-y")
    assert [row["result"] for row in rows] == ["not needed", "not needed", "elected"]
    wait_told_everywhere(pk.cluster.bootstrap, topic, preferred=True)
    assert pk.json("partitions", "list", topic, "--not-preferred") == []


@pytest.mark.slow
def test_an_unclean_election_wants_its_word_and_loses_what_only_the_dead_replica_had(
    pk: Pk,
) -> None:
    topic = make_topic(pk, "unclean", "4:3", 1)
    name = f"{topic}/0"

    def row() -> dict[str, Any]:
        (found,) = pk.json("partitions", "list", topic)
        return found

    pk.cluster.kill(3)
    try:
        wait_until("the other one alone", lambda: row()["isr"] == [4] or None)
        pk.run("produce", topic, "only the dead one has this")
        pk.cluster.kill(4)
        pk.cluster.start(3)
        wait_until("no leader", lambda: row()["state"] == "offline" or None)
        refused = pk.run("partitions", "elect-leaders", name, "--unclean", code=5)
        assert "are gone, acknowledged or not" in refused.err
        assert row()["state"] == "offline"
        done = pk.json("partitions", "elect-leaders", name, "--unclean", "-y")
        assert [r["result"] for r in done] == ["elected"]
        wait_until("a leader", lambda: row()["leader"] == 3 or None)
        (end,) = pk.json("topics", "offsets", topic)
        assert end["end"] == 1000
    finally:
        up = {b["broker"] for b in pk.json("brokers", "list") if b["state"] == "up"}
        for broker in {3, 4} - up:
            pk.cluster.start(broker)
    wait_in_sync(pk.cluster.bootstrap, topic, 1, 2)


@pytest.mark.slow
def test_a_replica_goes_to_the_directory_that_the_file_names(pk: Pk, tmp_path: Path) -> None:
    topic = make_topic(pk, "placed", "1:2", 1)
    (there,) = pk.json("brokers", "logdirs", "3")
    file = tmp_path / "placed.json"
    entry = {
        "topic": topic,
        "partition": 0,
        "replicas": [3, 1],
        "log_dirs": [there["path"], "any"],
    }
    file.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    rows = pk.json("reassign", "apply", str(file), "-y")
    assert [(r["after"], r["result"]) for r in rows] == [([3, 1], "moved")]
    (placed,) = pk.json("brokers", "logdirs", "3", "-t", topic)
    assert placed["path"] == there["path"]
    entry["log_dirs"] = ["/no/such/directory", "any"]
    entry["replicas"] = [3, 2]
    file.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    wrong = pk.run("reassign", "apply", str(file), "-y", code=1)
    assert "broker 3" in wrong.err


# what others see


def _kcat(pk: Pk, topic: str) -> dict[int, tuple[int, list[int], list[int]]]:
    ran = subprocess.run(
        ["kcat", "-L", "-J", "-m", "60", "-b", pk.cluster.bootstrap, "-t", topic],
        capture_output=True,
        check=True,
        timeout=90,
    )
    (found,) = json.loads(ran.stdout)["topics"]
    return {
        p["partition"]: (
            p["leader"],
            [r["id"] for r in p["replicas"]],
            sorted(i["id"] for i in p["isrs"]),
        )
        for p in found["partitions"]
    }


def _ours(pk: Pk, topic: str) -> dict[int, tuple[int, list[int], list[int]]]:
    return {
        p["partition"]: (p["leader"], p["replicas"], sorted(p["isr"]))
        for p in pk.json("partitions", "list", topic)
    }


def kafka_python(pk: Pk) -> Any:
    return python_admin.KafkaAdminClient(bootstrap_servers=pk.cluster.bootstrap.split(","))


@pytest.mark.thorough
def test_kcat_and_kafka_python_see_the_same_cluster(pk: Pk) -> None:
    topic = make_topic(pk, "seen", "1:2:3,2:3:4,4:1:2")
    assert _kcat(pk, topic) == _ours(pk, topic)
    with contextlib.closing(kafka_python(pk)) as client:
        (described,) = client.describe_topics([topic])
        theirs = {
            p["partition_index"]: (
                p["leader_id"],
                list(p["replica_nodes"]),
                sorted(p["isr_nodes"]),
            )
            for p in described["partitions"]
        }
        assert theirs == _ours(pk, topic)
        brokers = {b["broker_id"] for b in client.describe_cluster()["brokers"]}
    assert brokers == {b["broker"] for b in pk.json("brokers", "list") if b["state"] == "up"}


_LINE = re.compile(
    r"Topic: (\S+)\s+Partition: (\d+)\s+Leader: (\S+)\s+Replicas: (\S*)\s+Isr: (\S*)"
)


def _described(text: str) -> set[tuple[str, int, int | None, tuple[int, ...], frozenset[int]]]:
    """The partitions that kafka-topics --describe prints."""

    def ids(words: str) -> tuple[int, ...]:
        return tuple(int(w) for w in words.split(",") if w)

    return {
        (t, int(p), int(leader) if leader.isdecimal() else None, ids(rs), frozenset(ids(isr)))
        for t, p, leader, rs, isr in _LINE.findall(text)
    }


def make_topics_for_filters(pk: Pk) -> None:
    make_topic(pk, "two", "1:2:4,2:4:1", min_insync_replicas="2")
    make_topic(pk, "three", "4:1:2", min_insync_replicas="3")
    make_topic(pk, "one", "4")


def check_filters_agree(pk: Pk) -> None:
    for ours, theirs in (
        ("--under-replicated", "--under-replicated-partitions"),
        ("--under-min-isr", "--under-min-isr-partitions"),
        ("--at-min-isr", "--at-min-isr-partitions"),
        ("--offline", "--unavailable-partitions"),
    ):
        rows = pk.json("partitions", "list", "-i", ours)
        mine = {
            (p["topic"], p["partition"], p["leader"], tuple(p["replicas"]), frozenset(p["isr"]))
            for p in rows
        }
        assert mine and mine == _described(tool(pk, "TopicCommand", "--describe", theirs)), ours
        assert {(r["topic"], r["partition"]) for r in pk.json("isr", "-i", ours)} == {
            m[:2] for m in mine
        }


@pytest.mark.peer
@pytest.mark.parametrize("cluster", ["pk"], indirect=True)
def test_apache_s_filters_of_health_agree(pk: Pk) -> None:
    make_topics_for_filters(pk)
    with without_broker_4(pk):
        check_filters_agree(pk)
    wait_until(
        "everything in sync",
        lambda: not pk.json("partitions", "list", "-i", "--under-replicated") or None,
        IN_SYNC_S,
    )


@pytest.mark.peer
def test_apache_s_reassignment_json_goes_both_ways(pk: Pk, tmp_path: Path) -> None:
    topic = make_topic(pk, "json", "1:2,2:3,3:1", 1)
    plan = tmp_path / "plan.json"
    text = pk.run("reassign", "plan", "-t", topic, "--to", "3,4", "--json").text
    plan.write_text(text)
    reassign = "reassign.ReassignPartitionsCommand"
    file = ("--reassignment-json-file", str(plan))
    tool(pk, reassign, "--execute", *file)
    wait_until("the end", lambda: not pk.moving() or None)
    wanted = {p["partition"]: p["replicas"] for p in json.loads(text)["partitions"]}
    wait_told_everywhere(pk.cluster.bootstrap, topic, wanted)
    assert "is completed" in tool(pk, reassign, "--verify", *file)
    assert pk.replicas(topic) == wanted

    topics = tmp_path / "topics.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    generated = tool(
        pk,
        reassign,
        "--generate",
        "--topics-to-move-json-file",
        str(topics),
        "--broker-list",
        "1,2",
    )
    current, proposed = (line for line in generated.splitlines() if line.startswith("{"))
    assert {p["partition"]: p["replicas"] for p in json.loads(current)["partitions"]} == wanted
    plan.write_text(proposed)
    rows = pk.json("reassign", "apply", "--from-json", str(plan), "-y")
    assert {row["result"] for row in rows} == {"moved"}
    moved = {p["partition"]: p["replicas"] for p in json.loads(proposed)["partitions"]}
    pk.wait_settled(topic, moved)
    assert pk.replicas(topic) == moved
    # A rollback file is Apache's JSON too.
    (undo,) = sorted((tmp_path / "state" / "pk" / "reassign").glob("*.json"))
    tool(pk, reassign, "--execute", "--reassignment-json-file", str(undo))
    wait_until("the way back", lambda: pk.replicas(topic) == wanted or None)


@pytest.mark.peer
def test_apache_lists_and_throttles_what_moves_as_pk_does(pk: Pk) -> None:
    # The first megabyte of a partition moves at once, then one every fifty seconds.
    topic = make_topic(pk, "listed", "1:2,2:1", 16)
    _left_running(pk, topic, signal.SIGINT)
    listed = tool(pk, "reassign.ReassignPartitionsCommand", "--list")
    found = re.findall(
        r"(\S+)-(\d+): replicas: ([\d,]+)\.(?: adding: ([\d,]+)\.)?(?: removing: ([\d,]+)\.)?",
        listed,
    )
    theirs = {
        (t, int(p)): (sorted(adding.split(",")), sorted(removing.split(",")))
        for t, p, _, adding, removing in found
    }
    ours = {
        (m["topic"], m["partition"]): (
            sorted(map(str, m["adding"])),
            sorted(map(str, m["removing"])),
        )
        for m in pk.moving()
    }
    assert ours and ours == theirs
    with contextlib.closing(kafka_python(pk)) as client:
        python = {
            (tp.topic, tp.partition): (
                sorted(map(str, move["adding_replicas"])),
                sorted(map(str, move["removing_replicas"])),
            )
            for tp, move in client.list_partition_reassignments().items()
        }
        assert python == ours
        first = TopicPartition(topic, 0)
        assert client.alter_partition_reassignments({first: None}) == {first: None}
    assert [(m["topic"], m["partition"]) for m in pk.moving()] == [(topic, 1)]
    pk.run("reassign", "cancel", "--all", "-y")
    wait_until("throttles gone", lambda: pk.throttles() == [])
    assert "No partition reassignments found" in tool(
        pk, "reassign.ReassignPartitionsCommand", "--list"
    )


@pytest.mark.peer
def test_apache_s_leader_election_finds_nothing_left_to_elect(pk: Pk) -> None:
    topic = make_topic(pk, "tool", "1:2,2:1")
    pk.run("reassign", "apply", "--set", f"{topic}/0=2,1", "-y")
    pk.wait_settled(topic, {0: [2, 1], 1: [2, 1]})
    assert pk.json("partitions", "list", topic)[0]["leader"] == 2
    said = tool(
        pk,
        "LeaderElectionCommand",
        "--election-type",
        "preferred",
        "--topic",
        topic,
        "--partition",
        "0",
    )
    assert "Valid replica already elected" in said
    rows = pk.json("partitions", "elect-leaders", f"{topic}/0", "-y")
    assert [row["result"] for row in rows] == ["not needed"]
    with contextlib.closing(kafka_python(pk)) as client:
        second = TopicPartition(topic, 1)
        assert client.alter_partition_reassignments({second: [1, 2]}) == {second: None}
        wait_until("the new order", lambda: pk.replicas(topic)[1] == [1, 2] or None)
        answer = client.elect_leaders(0, {topic: [0, 1]})
    codes = {
        p.partition_id: p.error_code
        for t in answer.replica_election_results
        for p in t.partition_result
    }
    assert codes == {0: ErrorCode.ELECTION_NOT_NEEDED, 1: ErrorCode.NONE}
    wait_until("the new leader", lambda: pk.json("partitions", "list", topic)[1]["leader"] == 1)


@pytest.mark.peer
def test_apache_sees_the_same_quorum_and_features(pk: Pk) -> None:
    def term() -> tuple[int, int, str]:
        (quorum,) = pk.json("cluster", "quorum")
        return quorum["leader_id"], quorum["leader_epoch"], quorum["cluster_id"]

    def in_one_term() -> tuple[tuple[int, int, str], dict[str, str]] | None:
        """On a busy machine the controllers may elect another leader between two looks."""
        before = term()
        status = tool(pk, "MetadataQuorumCommand", "describe", "--status")
        said = dict(re.findall(r"^(\w+):\s+(\S+)", status, re.MULTILINE))
        return (before, said) if term() == before else None

    seen, said = wait_until("a leader that stays", in_one_term, IN_SYNC_S)
    assert seen == (int(said["LeaderId"]), int(said["LeaderEpoch"]), said["ClusterId"])
    (ours,) = pk.json("cluster", "quorum")
    if isinstance(pk.cluster, apache_kafka.ApacheKafka):
        make_topic(pk, "noted", "1:2,2:1,3:4,4:3")  # some more for a snapshot
        (ours,) = wait_until(
            "a snapshot",
            lambda: [q for q in pk.json("cluster", "quorum") if q["snapshot_offset"]] or None,
        )
        assert 0 < ours["snapshot_offset"] <= ours["high_watermark"]
        assert 0 <= ours["snapshot_age_ms"] < 600_000
    replication = tool(pk, "MetadataQuorumCommand", "describe", "--replication")
    roles = {
        int(node): role.lower()
        for node, role in re.findall(
            r"^(\d+)\s.*?(Leader|Follower|Observer)", replication, re.MULTILINE
        )
    }
    mine = {n["node"]: n["role"].replace("voter", "follower") for n in ours["nodes"]}
    assert mine == roles
    with contextlib.closing(kafka_python(pk)) as client:
        (partition,) = client.describe_metadata_quorum()["topics"][0]["partitions"]
        features = client.describe_features()
    assert partition["leader_id"] == ours["leader_id"]
    nodes = [*partition["current_voters"], *partition["observers"]]
    assert sorted(n["replica_id"] for n in nodes) == sorted(mine)

    described = tool(pk, "FeatureCommand", "describe")
    theirs = {
        name: (low, high, level)
        for name, low, high, level in re.findall(
            r"Feature: (\S+)\s+SupportedMinVersion: (\S+)\s+SupportedMaxVersion: (\S+)\s+"
            r"FinalizedVersionLevel: (\S+)",
            described,
        )
        if name != "metadata.version"
    }
    found = {
        f["feature"]: (str(f["min_supported"]), str(f["max_supported"]), str(f["level"]))
        for f in pk.json("cluster", "features")
        if f["feature"] != "metadata.version"
    }
    assert found == theirs
    levels = {name: str(f["finalized"][1]) for name, f in features.items() if "finalized" in f}
    levels.pop("metadata.version", None)
    assert levels == {name: level for name, (_, _, level) in found.items() if level != "0"}


@pytest.mark.peer
def test_apache_sees_the_same_log_directories(pk: Pk) -> None:
    topic = make_topic(pk, "sized", "1:2,3:4", 1)
    said = tool(pk, "LogDirsCommand", "--describe", "--topic-list", topic)
    data = json.loads(next(line for line in said.splitlines() if line.startswith("{")))
    theirs = {
        (b["broker"], p["partition"]): p["size"]
        for b in data["brokers"]
        for d in b["logDirs"]
        for p in d["partitions"]
    }
    ours = {
        (r["broker"], f"{r['topic']}-{r['partition']}"): r["bytes"]
        for r in pk.json("brokers", "logdirs", "-t", topic)
    }
    assert len(ours) == 4 and ours == theirs
