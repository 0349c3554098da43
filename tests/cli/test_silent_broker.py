"""A broker that was paused with its connections open: the commands that need it, their errors, and
how they end.

A command that asks only this broker ends with 124 and names it. Rows of other brokers are still
shown. If a command reports the state of brokers, its output says that the broker is silent.
"""

import contextlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trio
from clients.pk_cluster import CONTROLLER, PkCluster
from listeners import listening, scripted
from net_client.support import Handler, ScriptedBroker
from terminal import on_terminal

from pk.cli.exits import Exit
from pk.cli.main import main
from pk.cli.runtime import slow_answer as waiting
from pk.cli.runtime.session import open_session
from pk.cli.runtime.settings import Settings
from pk.cli.top import collect
from pk.core.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from pk.core.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

Run = Callable[..., Any]
PATIENCE = ("-X", "pk.straggler.timeout.ms=1500", "-X", "default.api.timeout.ms=5000")
"""Long enough for brokers that do answer, even on a busy machine."""
SILENT = 2


def silent_second(port: int) -> Callable[[ScriptedBroker], Handler]:
    """A cluster of two brokers, each leading a partition of `orders`. Broker 2 listens at `port`,
    but never answers."""

    def answers(broker: ScriptedBroker) -> Handler:
        async def answer(request: Any, version: int) -> Any:
            if request.API_KEY == 3:
                hosts = [(1, broker.port), (SILENT, port)]
                partitions = [
                    MetadataResponsePartition(
                        partition_index=n - 1, leader_id=n, replica_nodes=[1, 2], isr_nodes=[1, 2]
                    )
                    for n in (1, SILENT)
                ]
                return MetadataResponse(
                    brokers=[
                        MetadataResponseBroker(node_id=n, host="127.0.0.1", port=p)
                        for n, p in hosts
                    ],
                    cluster_id="scripted",
                    controller_id=1,
                    topics=[MetadataResponseTopic(name="orders", partitions=partitions)],
                )
            assert request.API_KEY == 2, request
            return ListOffsetsResponse(
                topics=[
                    ListOffsetsTopicResponse(
                        name=t.name,
                        partitions=[
                            ListOffsetsPartitionResponse(
                                partition_index=p.partition_index, offset=7
                            )
                            for p in t.partitions
                        ],
                    )
                    for t in request.topics
                ]
            )

        return answer

    return answers


@contextlib.contextmanager
def half_a_cluster() -> Iterator[ScriptedBroker]:
    versions = {2: (1, 7), 3: (1, 12)}
    with listening(lambda _: None) as port, scripted(silent_second(port)) as broker:
        broker.versions = versions | {18: broker.versions[18]}
        yield broker


@pytest.mark.parametrize(
    "words", [("isr", "orders"), ("topics", "offsets", "orders")], ids=" ".join
)
def test_what_only_it_knows_is_missing_and_the_command_fails(
    pk: Run, words: tuple[str, ...]
) -> None:
    with half_a_cluster() as broker:
        ran = pk(*words, "-b", broker.address, *PATIENCE, "-f", "json")
    assert ran.code == Exit.TIMED_OUT
    assert len(ran.json) == 2
    assert ran.err.count("did not answer") == 1
    assert re.search(r"Broker 2 at 127.0.0.1:\d+ did not answer within 1.5 s, but", ran.err)


@pytest.mark.parametrize(
    "line",
    ["describe g", "delete g -y", "delete-offsets g -t t -y", "reset-offsets g -t t --to end -y"],
)
def test_apache_s_timeout_is_kept(pk: Run, line: str) -> None:
    with listening(lambda _: None) as port:
        ran = pk("groups", *line.split(), "--timeout", "1000", "-b", f"127.0.0.1:{port}")
    assert ran.code == Exit.TIMED_OUT
    assert "did not answer within 1 s" in ran.err


def test_features_of_the_others_are_shown(pk: Run) -> None:
    with half_a_cluster() as broker:
        ran = pk("cluster", "features", "-b", broker.address, *PATIENCE, "-f", "json")
    assert (ran.code, ran.json) == (Exit.TIMED_OUT, []), ran.err
    assert ran.err.count("did not answer") == 1


def test_a_trace_shows_what_was_not_answered(pk: Run) -> None:
    with half_a_cluster() as broker:
        ran = pk("topics", "offsets", "orders", "-b", broker.address, *PATIENCE, "--trace-json")
    reported = [json.loads(line) for line in ran.err.splitlines() if line.startswith("{")]
    silent = [row for row in reported if row["error"]]
    # Log starts and ends are requested concurrently, so more than one request may fail.
    assert {(row["broker"], row["error"]) for row in silent} == {
        (SILENT, "canceled before the response")
    }
    assert silent[0]["duration_ms"] > 250


def test_a_terminal_says_whom_it_waits_for_until_there_is_more_to_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting, "_AFTER_S", 0.01)
    monkeypatch.setattr(waiting, "_EVERY_S", 0.02)
    monkeypatch.setenv("TERM", "xterm-256color")
    with listening(lambda _: None) as port:
        patience = ("-X", "default.api.timeout.ms=1000")
        shown = on_terminal(main, ("topics", "list", "-b", f"127.0.0.1:{port}", *patience))
    assert shown.code == Exit.TIMED_OUT
    assert re.search(rf"Waiting for 127\.0\.0\.1:{port}, \d s; Ctrl-C stops\.", shown.raw)
    assert "Waiting" not in shown.screen
    assert shown.screen.startswith(f"127.0.0.1:{port} did not answer within 1 s; give another")


def test_top_gives_up_where_there_is_no_first_answer(
    pk: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect, "_FIRST_S", 1)
    with listening(lambda _: None) as port:
        ran = pk("top", "-n", "1", "-b", f"127.0.0.1:{port}")
    assert (ran.code, ran.out) == (Exit.TIMED_OUT, b"")
    assert ran.err.startswith(f"127.0.0.1:{port} did not answer within 1 s; give another with -b")


def test_who_is_silent_to_several_clients_of_a_session_is_named_once() -> None:
    taken = threading.Semaphore(0)

    async def ask() -> list[str]:
        async with open_session() as session, trio.open_nursery() as nursery:
            for given in ({}, {"client.id": "another"}):
                admin = await session.admin(Settings(f"127.0.0.1:{port}", {}, given, None))
                nursery.start_soon(admin.list_topics)
                assert await trio.to_thread.run_sync(lambda: taken.acquire(timeout=60))
            names = [node.label for node in session.silent(0)]
            nursery.cancel_scope.cancel()
        return names

    with listening(lambda _: taken.release()) as port:
        assert trio.run(ask) == [f"127.0.0.1:{port}"]


# A cluster of our own


@pytest.fixture(scope="module")
def stopped() -> Iterator[PkCluster]:
    """Broker 2 of two leads orders/1, coordinates every group, and is paused."""
    config = {
        "broker.session.timeout.ms": "120000",
        "replica.lag.time.max.ms": "120000",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
    }
    with PkCluster(2, config=config) as cluster:
        at = ("-b", cluster.bootstrap)
        for words in (
            ("topics", "create", "orders", "--replica-assignment", "1:2,2:1"),
            ("groups", "reset-offsets", "app", "-t", "orders", "--to", "start", "-y"),
            ("reassign", "apply", "--set", "__consumer_offsets/0=2", "-y"),
            ("wait", "reassign"),
            ("wait", "isr"),
        ):
            shown = on_terminal(main, (*words, *at))
            assert shown.code == 0, shown.screen
        cluster.pause(SILENT)
        yield cluster
        cluster.resume(SILENT)


TIMED_OUT = [
    "isr",
    "isr orders",
    "topics offsets orders",
    "topics offsets orders -p 1",
    "topics trim orders -o end -d",
    "groups list",
    "groups describe app",
    "groups describe app -m",
    "groups members app",
    "groups lag",
    "groups lag app",
    "groups reset-offsets app -t orders --to end -d",
    "groups delete app -y",
    "groups delete-offsets app -t orders -y",
    "groups remove-members app --all -y",
    "why lag app",
    "brokers describe 2",
    "brokers logdirs",
    "brokers logdirs 2",
    "configs describe broker 2",
    "configs alter broker 2 -c num.io.threads=2 -y",
    "transactions producers orders",
    "cluster features",
    "reassign status",
    "reassign throttle",
]
FINE = [
    "topics list",
    "topics describe orders",
    "partitions list",
    "brokers list",
    "brokers describe 1",
    "configs describe broker 1",
    "configs describe topic orders",
    "configs list",
    "cluster describe",
    "cluster quorum",
    "reassign plan -t orders --rf 1",
    "why partition orders/1",
    "why config orders retention.ms",
    "wait broker",
    "wait topic orders",
    "top -n 1",
]
"""Commands that other brokers can answer, or that report that a broker is silent."""


@pytest.fixture(scope="module")
def headless() -> Iterator[PkCluster]:
    """The brokers are running, and their controller is paused."""
    with PkCluster(2) as cluster:
        made = on_terminal(main, ("topics", "create", "orders", "-r", "2", "-b", cluster.bootstrap))
        assert made.code == 0, made.screen
        cluster.pause(CONTROLLER)
        yield cluster
        cluster.resume(CONTROLLER)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("reassign status", 124),
        ("reassign plan -t orders --rf 1", 124),
        ("cluster quorum", 124),
        ("why partition orders/0", 124),
        ("top -n 1 --interval 0.2", 0),
        ("topics list", 0),
        ("topics describe orders", 0),
        ("brokers list", 0),
        ("isr", 0),
        ("reassign throttle", 0),
    ],
)
def test_each_command_beside_a_controller_that_is_stopped(
    pk: Run, headless: PkCluster, line: str, code: int
) -> None:
    # The time for an operation is longer than the test's: nothing is waited for to its end.
    patience = ("-X", "pk.straggler.timeout.ms=300", "-X", "default.api.timeout.ms=600000")
    ran = pk(*line.split(), "-b", headless.bootstrap, *patience)
    assert ran.code == code, ran.err
    if code == 124 or line.startswith("top "):
        assert ran.err.count("The controller did not answer within 0.3 s, asked through") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "code"),
    [(line, 124) for line in TIMED_OUT]
    + [(line, 0) for line in FINE]
    + [("cluster health", 1), ("doctor", 1), ("wait broker 2 --timeout 1s", 124)],
)
def test_each_command_beside_it(pk: Run, stopped: PkCluster, line: str, code: int) -> None:
    ran = pk(*line.split(), "-b", stopped.bootstrap, *PATIENCE)
    assert ran.code == code, ran.err
    assert "Traceback" not in ran.err
    if line in TIMED_OUT:
        reported = re.findall(
            r"[Bb]roker 2(?: at 127\.0\.0\.1:\d+ did not answer|: no answer)",
            ran.err + ran.out.decode(),  # a partition's own reason stands in its row
        )
        assert reported, ran.err
