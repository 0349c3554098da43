"""`pk wait` exits with 0 as soon as the condition holds and with 124 on timeout. Standard error
says why the condition does not hold yet."""

import io
import os
import re
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import pytest
import trio
from clients.fixtures import Kafka
from clients.pk_broker import PkBroker, pk_environment, start_pk
from group_parts import Fresh, Reader, Run
from trio.testing import MockClock

from pk.cli.command_line.parse import parse
from pk.cli.main import main
from pk.cli.nouns.wait.options import WaitForLag
from pk.cli.nouns.wait.wait import lag
from pk.cli.positions.resolve import now_ms
from pk.cli.runtime.context import Context
from pk.cli.terminal.streams import Streams
from pk.core.durations import Duration
from pk.core.values import TopicPartition
from pk.net.client.answers import Answers
from pk.net.client.errors import RequestTimedOut
from pk.net.client.results import GroupDescription, ListedOffset, Node, OffsetAndMetadata

if TYPE_CHECKING:
    from pk.cli.runtime.session import Session


class Waiting:
    """A `pk wait` in a separate process that has reported an unmet condition."""

    def __init__(self, kafka: Kafka, *words: str) -> None:
        self.process = start_pk(
            *("wait", *words, "-b", kafka.bootstrap, "--timeout", "10m"),
            env=pk_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        self.first = self.process.stderr.readline()

    def end(self) -> str:
        """Its exit code must be 0 and its standard output empty. Returns its standard error."""
        out, err = self.process.communicate(timeout=60)
        assert (self.process.returncode, out) == (0, ""), err
        return err


@contextmanager
def waiting(kafka: Kafka, *words: str) -> Iterator[Waiting]:
    found = Waiting(kafka, *words)
    try:
        yield found
    finally:
        found.process.kill()
        found.process.wait()


def test_for_a_topic_to_be_there_and_to_be_gone(kafka: Kafka, at: Run, fresh: Fresh) -> None:
    topic = fresh("awaited")
    with waiting(kafka, "topic", topic, "-p", "2") as there:
        assert there.first == f"Waiting: topic {topic} does not exist yet.\n"
        at("topics", "create", topic, "-p", "2")
        assert f"{topic} is there, after" in there.end()
    few = at("wait", "topic", topic, "-p", "3", "--timeout", "0")
    assert (few.code, few.err) == (124, f"Not now: {topic} has 2 of 3 partitions.\n")
    with waiting(kafka, "topic", topic, "--gone") as gone:
        assert gone.first == f"Waiting: {topic} is still there.\n"
        at("topics", "delete", topic, "-y")
        assert f"{topic} is gone, after" in gone.end()


def test_the_time_is_up(at: Run, fresh: Fresh) -> None:
    topic = fresh("never")
    ran = at("wait", "topic", topic, "--timeout", "10s")
    assert (ran.code, ran.text) == (124, "")
    assert re.search(rf"Timed out after [\d.]+ m?s: topic {topic} does not exist yet", ran.err), (
        ran.err
    )


def test_nothing_is_made_by_waiting(at: Run, fresh: Fresh) -> None:
    name = fresh("not-made")
    at("wait", "topic", name, "--timeout", "0")
    at("wait", "lag", name, "--timeout", "0")
    at("wait", "group-empty", name, "--timeout", "0")
    assert name not in at("topics", "list", "-f", "name").lines
    assert name not in at("groups", "list", "-f", "name").lines


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("<=8",), 0),
        (("≤ 8",), 0),
        (("<9",), 0),
        (("8",), 0),
        (("<=7",), 124),
        (("<8",), 124),
        ((), 124),
        (("--max", "8"), 0),
        (("--max", "7"), 124),
        (("--max-time", "10s"), 124),
        (("--max-time", "36500d"), 0),
        (("<=8", "--max-time", "10s"), 124),
        (("-t", "{topic}:1", "--max", "1"), 0),
        (("<=8", "--max", "8"), 2),
        (("=8",), 2),
        (("<0",), 2),
        (("--max", "-1"), 2),
        (("--max-time", "soon"), 2),
        (("--timeout", "soon"), 2),
    ],
)
def test_for_lag(
    at: Run, fresh: Fresh, timed_topic: str, words: tuple[str, ...], code: int
) -> None:
    group = fresh("behind")
    at("groups", "reset-offsets", group, "-t", timed_topic, "--to", "0=3,1=3", "-y")
    words = tuple(word.format(topic=timed_topic) for word in words)
    ran = at("wait", "lag", group, "--timeout", "0", *words)
    assert ran.code == code, ran.err


def test_for_a_group_to_catch_up(kafka: Kafka, at: Run, fresh: Fresh, timed_topic: str) -> None:
    group = fresh("catching")
    at("groups", "reset-offsets", group, "-t", timed_topic, "--to", "start", "-y")
    with waiting(kafka, "lag", group) as caught_up:
        assert caught_up.first == (
            f"Waiting: group {group} is 14 records behind, at most 0 allowed.\n"
        )
        assert at("consume", timed_topic, "-g", group, "-n", "14").code == 0
        assert f"Group {group} is no more than 0 records behind" in caught_up.end()


def test_for_a_group_to_have_committed(at: Run, fresh: Fresh, timed_topic: str) -> None:
    group = fresh("uncommitted")
    ran = at("wait", "lag", group, "--timeout", "0")
    assert f"group {group} does not exist yet" in ran.err
    at("groups", "reset-offsets", group, "-t", f"{timed_topic}:1", "--to", "end", "-y")
    assert at("wait", "lag", group, "--timeout", "0").code == 0


class LateTimes:
    """A session with a cluster whose leader of t/0 reports the age of the records only at the third
    request. In t/1, only a marker follows the group's committed offset."""

    def __init__(self) -> None:
        self.asked = 0

    async def admin(self, *_: object) -> "LateTimes":
        return self

    async def describe_groups(self, names: list[str]) -> Answers[str, GroupDescription]:
        node = Node(1, "h", 1)
        return Answers(
            (name, GroupDescription(name, "Classic", "Empty", "consumer", "", (), node))
            for name in names
        )

    async def list_groups_offsets(self, names: list[str]) -> Answers[str, Any]:
        commits = Answers((TopicPartition("t", p), OffsetAndMetadata(3)) for p in (0, 1))
        return Answers(dict.fromkeys(names, commits).items())

    async def list_offsets(self, wanted: dict[TopicPartition, int], **_: Any) -> Answers[Any, Any]:
        return Answers({tp: ListedOffset(4, -1, 0) for tp in wanted}.items())

    async def record_times(self, places: Iterable[Any], **_: Any) -> Answers[Any, Any]:
        self.asked += 1
        silent = RequestTimedOut("no answer")
        answers = {0: silent if self.asked < 3 else now_ms(), 1: None}
        return Answers({(tp, offset): answers[tp.partition] for tp, offset in places}.items())


def test_for_records_of_an_age_that_is_unknown_at_first() -> None:
    said = io.StringIO()
    parsed = parse(("wait", "lag", "g", "--max-time", "30s"))
    session = LateTimes()
    context = Context(
        parsed.values, parsed.path, Streams(io.BytesIO(), said), cast("Session", session)
    )
    options = WaitForLag(group="g", max_time=Duration(30_000))
    trio.run(lag, context, options, clock=MockClock(autojump_threshold=0))
    first, last = said.getvalue().splitlines()
    assert first == (
        "Waiting: group g is 2 records behind, by an unknown time in t/0, at most 30 s allowed."
    )
    assert "Group g is no more than 30 s behind" in last
    assert session.asked == 3


def test_for_a_group_to_be_empty(
    kafka: Kafka, at: Run, fresh: Fresh, readers: Callable[..., Reader]
) -> None:
    group = fresh("emptying")
    assert at("wait", "group-empty", group, "--timeout", "0").code == 0  # it does not exist
    reader = readers(group)
    with waiting(kafka, "group-empty", group) as empty:
        assert empty.first.startswith(f"Waiting: {group} is Stable with ")
        reader.leave()
        assert f"{group} has no members, after" in empty.end()


def test_for_replicas_and_reassignments(at: Run, timed_topic: str) -> None:
    assert at("wait", "isr", timed_topic).code == 0
    assert at("wait", "isr", "--all", timed_topic).code == 2
    assert at("wait", "isr", f"{timed_topic}-not", "--timeout", "0").code == 124
    assert at("wait", "reassign", "--timeout", "60s").code == 0
    assert at("wait", "reassign", timed_topic, "--timeout", "0").code == 0


def test_for_brokers(at: Run, kafka: Kafka) -> None:
    assert at("wait", "broker").code == 0
    (broker,) = at("brokers", "list", "--columns", "broker", "-f", "json").json
    assert at("wait", "broker", str(broker["broker"])).code == 0
    many = at("wait", "broker", "-n", "2", "--timeout", "0")
    assert (many.code, "1 of 2 brokers up" in many.err) == (124, True)
    one = at("wait", "broker", "4711", "--timeout", "0")
    assert (one.code, "broker 4711 is not up" in one.err) == (124, True)
    assert at("wait", "broker", "one").code == 2
    assert at("wait", "broker", "1", "-n", "2").code == 2


def test_a_cluster_that_does_not_run_yet_is_waited_for(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script starts a cluster in the background and waits for it."""
    with PkBroker(memory=True) as broker:
        address = broker.bootstrap
        monkeypatch.setenv("PK_BOOTSTRAP_SERVER", address)
        broker.stop()
        assert main(["wait", "broker", "--timeout", "10s"]) == 124
        assert f"no broker answers ({address}: " in capfd.readouterr().err
        began = threading.Event()
        codes: list[int] = []

        def wait() -> None:
            began.set()
            codes.append(main(["wait", "broker", "--timeout", "10m"]))

        thread = threading.Thread(target=wait)
        thread.start()
        began.wait()
        broker.start()
        thread.join()
        assert codes == [0]
        assert os.environ["PK_BOOTSTRAP_SERVER"] == broker.bootstrap


def test_what_no_waiting_will_mend_is_an_error(at: Run, fresh: Fresh) -> None:
    wrong = at("wait", "broker", "-X", "request.timeout.ms=soon")
    assert wrong.code == 2
