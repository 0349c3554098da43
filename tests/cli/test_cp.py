"""`pk cp`: copies are identical bit for bit, contain the records that the filters accept, and
resume after a kill."""

import base64
import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
import trio
from clients.fixtures import Kafka
from clients.pk_broker import PkBroker, running
from clients.topics import wait_until
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from listeners import scripted
from shapes import check_json
from terminal import Terminal, on_terminal
from trio.testing import MockClock
from two_partitions import KNOWN, Two

from pk.cli.main import main
from pk.cli.nouns.cp import run as cp_run
from pk.cli.nouns.cp.options import Copy
from pk.core.record.batch import Record
from pk.core.values import TopicPartition
from pk.net.client.admin import open_admin

if TYPE_CHECKING:
    from pk.net.client.producer import Producer

Run = Callable[..., Any]
Fresh = Callable[[str], str]

IMPATIENT = ("-X", "default.api.timeout.ms=8000")
FORMAT = r"%p %T %k %v %h\n"


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[str]:
    """Another cluster."""
    with PkBroker(memory=True) as broker:
        yield broker.bootstrap


@pytest.fixture
def orders(at: Run, fresh: Fresh) -> str:
    """A topic of two partitions: 20 records, the odd ones with a header, a second apart."""
    topic = fresh("orders")
    at("topics", "create", topic, "-p", "2", "-c", "retention.ms=-1")
    lines = [
        {
            "key": f"k{i % 4}",
            "value": json.dumps({"amount": i}),
            "partition": i % 2,
            "timestamp": 1_000_000_000_000 + i * 1000,
            "headers": [["error", "timeout"], ["n", str(i)]] if i % 2 else [],
        }
        for i in range(20)
    ]
    stdin = "\n".join(map(json.dumps, lines)).encode()
    assert at("produce", topic, "-f", "jsonl", "--keep-partition", stdin=stdin).code == 0
    return topic


def shown(at: Run, topic: str, *words: str) -> list[str]:
    """The records of a topic, in order."""
    return sorted(at("consume", topic, "-e", "-f", FORMAT, *words).lines)


blobs = st.one_of(
    st.none(), st.binary(max_size=12), st.just(b"\xff\xfe"), st.text(max_size=5).map(str.encode)
)
records = st.tuples(
    blobs,
    blobs,
    st.lists(st.tuples(st.text(max_size=3), blobs), max_size=3),
    st.integers(-1, 1_700_000_000_000),
)


def as_line(record: Any) -> str:
    """A record as `produce -f jsonl` reads it."""
    key, value, headers, timestamp = record

    def field(name: str, data: bytes | None) -> dict[str, Any]:
        return {name: None} if data is None else {f"{name}_b64": base64.b64encode(data).decode()}

    pairs = [[n, None if v is None else {"b64": base64.b64encode(v).decode()}] for n, v in headers]
    return json.dumps(
        field("key", key) | field("value", value) | {"headers": pairs, "timestamp": timestamp}
    )


@settings(
    max_examples=examples(8),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(records, min_size=1, max_size=15))
def test_records_go_round_and_are_copied_bit_for_bit(
    at: Run, fresh: Fresh, made: list[Any]
) -> None:
    """jsonl in, a copy, jsonl out and in again: keys, values, headers and times of all three topics
    are the same."""
    first, copy, again = fresh("first"), fresh("copy"), fresh("again")
    # Some records are dated 1970, so a broker that checks retention would delete them.
    at("topics", "create", first, again, "-c", "retention.ms=-1")
    stdin = "\n".join(map(as_line, made)).encode()
    assert at("produce", first, "-f", "jsonl", stdin=stdin).code == 0
    assert at("cp", first, copy, "--create", "--once", "--keep-timestamp", "-y").code == 0
    source = at("consume", first, "-e", "-f", "jsonl")
    assert len(source.lines) == len(made)
    for line, (key, value, headers, timestamp) in zip(source.lines, made, strict=True):
        found = json.loads(line)
        assert decoded(found, "key") == key and decoded(found, "value") == value
        assert [(n, header(v)) for n, v in found["headers"]] == headers
        assert found["timestamp"] == timestamp
    copied = at("consume", copy, "-e", "-f", "jsonl")
    assert copied.text.replace(copy, first) == source.text
    assert at("produce", again, "-f", "jsonl", stdin=copied.out).code == 0
    assert at("consume", again, "-e", "-f", "jsonl").text.replace(again, first) == source.text


def decoded(found: dict[str, Any], name: str) -> bytes | None:
    if f"{name}_b64" in found:
        return base64.b64decode(found[f"{name}_b64"])
    return None if found[name] is None else found[name].encode()


def header(value: Any) -> bytes | None:
    if isinstance(value, dict):
        return base64.b64decode(value["b64"])
    return None if value is None else value.encode()


def test_a_copy_is_made_like_its_source(at: Run, fresh: Fresh, orders: str) -> None:
    copy = fresh("copy")
    without = at("cp", orders, copy, "--once", "-y")
    assert (without.code, "--create creates it" in without.err) == (1, True)
    made = at(
        "cp", orders, copy, "--once", "-y", "--create", "--keep-partition", "--keep-timestamp"
    )
    assert made.code == 0, made.err
    assert "Copied 20 records" in made.err
    assert shown(at, copy) == shown(at, orders)
    assert '"-1"' in at("configs", "describe", "-t", copy, "-f", "json").text
    assert [line.split()[:3] for line in made.lines[1:]] == [[orders, str(p), copy] for p in (0, 1)]


def test_a_dead_letter_topic_is_driven_back_in_one_line(at: Run, fresh: Fresh, orders: str) -> None:
    target = fresh("target")
    at("topics", "create", target)
    words = ["--once", "--where", "headers.error ~ time and value.amount > 10"]
    words += ["--drop-header", "error", "--set-header", "n=again", "-f", "json", "-y"]
    words += ["--set-header", os.fsdecode(b"b=\xff")]
    driven = at("cp", orders, target, *words)
    assert driven.code == 0, driven.err
    assert [row["copied"] for row in driven.json] == [0, 5]
    assert at("consume", target, "-e", "-f", r"%v %h\n").out.splitlines() == [
        b'{"amount": %d} n=again,b=\xff' % n for n in (11, 13, 15, 17, 19)
    ]
    assert "5 records of 20 read" in driven.err


def test_keys_ranges_and_numbers_say_what_is_copied(at: Run, fresh: Fresh, orders: str) -> None:
    target = fresh("target")
    at("topics", "create", target)
    assert at("cp", orders, target, "--once", "-k", "k2", "-n", "2", "-y").code == 0
    assert at("cp", orders, target, "-o", "0=8..end", "-y").code == 0
    assert at("cp", orders, target, "-o", "@1000000003..@1000000005", "-y").code == 0
    at("cp", f"pk://{orders}/1/9", target, "-y")
    found = [json.loads(v)["amount"] for v in at("consume", target, "-e").lines]
    assert found == [2, 6, 16, 18, 3, 4, 19] or found == [2, 6, 16, 18, 4, 3, 19]


def test_several_topics_each_to_its_own(at: Run, fresh: Fresh) -> None:
    stem = fresh("several")
    for name in "ab":
        at("topics", "create", f"{stem}-{name}")
        at("produce", f"{stem}-{name}", name)
    words = ["--include", f"{stem}-.", "to-{topic}", "--create", "--once", "-y"]
    assert at("cp", *words).code == 0
    for name in "ab":
        assert at("consume", f"to-{stem}-{name}", "-e").text == f"{name}\n"


def test_a_preview_counts_and_changes_nothing(
    at: Run, fresh: Fresh, orders: str, tmp_path: Path
) -> None:
    copy, state = fresh("copy"), tmp_path / "never"
    words = ["--once", "--create", "--where", "value.amount < 3", "-d", "--state", str(state)]
    dry = at("cp", orders, copy, *words)
    assert dry.code == 0, dry.err
    assert "3 records would pass the filter; 1 topic would be created" in dry.err
    assert at("topics", "list", copy, "-f", "name").text == ""
    assert not state.exists()
    without_end = ("cp", orders, copy, "--create", "-d", "-f", "json")
    plan = check_json(without_end, at(*without_end).out)
    assert {(row["up_to"], row["offsets"], row["copied"]) for row in plan} == {(None, None, None)}


def test_nothing_is_copied_without_a_yes(
    at: Run, kafka: Kafka, fresh: Fresh, orders: str, terminal: Callable[..., Terminal]
) -> None:
    target = fresh("target")
    at("topics", "create", target)
    assert at("cp", orders, target, "--once").code == 5
    asked = terminal("cp", orders, target, "--once", "-b", kafka.bootstrap)
    asked.wait_for("y/N")
    assert "Copy up to 20 records to" in " ".join(asked.screen().split())
    asked.line("n")
    assert asked.end() == 5
    assert at("consume", target, "-e").text == ""
    asked = terminal("cp", orders, target, "--once", "-b", kafka.bootstrap)
    asked.wait_for("y/N")
    asked.line("y")
    assert asked.end() == 0
    assert asked.traces() == []
    assert len(at("consume", target, "-e").lines) == 20


def test_the_plan_in_the_question_takes_the_width_of_the_terminal(
    at: Run, kafka: Kafka, fresh: Fresh
) -> None:
    source = f"{fresh('wide')}-{'x' * 60}"
    assert at("topics", "create", source, f"{source}-copy").code == 0
    words = ("cp", source, f"{source}-copy", "--once", "-b", kafka.bootstrap)
    asked = on_terminal(main, words, (200, 24), "n\n")
    assert asked.code == 5
    assert [source, "0", f"{source}-copy"] in [
        line.split()[:3] for line in asked.screen.splitlines()
    ]


def test_a_partition_without_a_leader_is_named_while_it_is_waited_for(pk: Run) -> None:
    cluster = Two()
    cluster.leaders = [1, -1]
    with scripted(lambda _: cluster.handle) as cluster.broker:
        cluster.broker.versions = {k: v for k, v in cluster.broker.versions.items() if k in KNOWN}
        ran = pk("cp", "t", "u", "--once", "-d", "-b", cluster.broker.address, *IMPATIENT)
    assert ran.code != 0
    assert ran.err.startswith(
        "No leader now: t/1; waiting for one. `pk why partition t/1` explains"
    )


def test_a_copy_onto_itself_must_end(at: Run, orders: str) -> None:
    refused = at("cp", orders, orders, "-y")
    assert (refused.code, "would never end" in refused.err) == (5, True)
    assert at("cp", orders, orders, "--once", "-y").code == 0
    assert len(at("consume", orders, "-e").lines) == 40


def test_too_few_partitions_to_keep_them(at: Run, fresh: Fresh, orders: str) -> None:
    target = fresh("target")
    at("topics", "create", target)
    refused = at("cp", orders, target, "--once", "--keep-partition", "-y")
    assert (refused.code, "add-partitions" in refused.err) == (1, True)


def test_what_cannot_be_written_fails_the_copy(
    at: Run, fresh: Fresh, orders: str, tmp_path: Path
) -> None:
    target, state = fresh("small"), tmp_path / "state"
    at("topics", "create", target, "-c", "max.message.bytes=200")
    at("produce", orders, "-p", "0", "x" * 1000)
    failed = at("cp", orders, target, "--once", "-y", "--state", str(state))
    assert failed.code == 1
    assert "1 record was not written" in failed.err and "max.message.bytes" in failed.err
    noted = json.loads(state.read_text())["topics"][orders]["positions"]
    assert noted.get("0", 0) <= 10, "what was not written is not noted as copied"


def test_a_target_that_stamps_records_itself_is_reported(
    at: Run, fresh: Fresh, orders: str
) -> None:
    target = fresh("stamped")
    at("topics", "create", target, "-c", "message.timestamp.type=LogAppendTime")
    said = at("cp", orders, target, "--once", "--keep-timestamp", "-y").err
    assert f"{target} has message.timestamp.type=LogAppendTime" in said
    times = at("consume", target, "-e", "-f", r"%T\n").lines
    assert all(int(t) > 1_700_000_000_000 for t in times)


def test_client_keys_go_to_the_client_that_knows_them(at: Run, fresh: Fresh, orders: str) -> None:
    target = fresh("target")
    at("topics", "create", target)
    words = ("cp", orders, target, "--once", "-y")
    assert at(*words, "-X", "fetch.max.bytes=1000", "-X", "client.id=me").code == 0
    assert at(*words, "--to-property", "linger.ms=0", "-X", "fetch.max.wait.ms=10").code == 0
    wrong = at(*words, "-X", "linger.ms=0")
    assert (wrong.code, "linger.ms" in wrong.err) == (2, True), wrong.err
    wrong = at(*words, "--to-property", "fetch.max.bytes=1")
    assert (wrong.code, "fetch.max.bytes" in wrong.err) == (2, True), wrong.err
    assert len(at("consume", target, "-e").lines) == 40


def test_a_high_rate_is_not_exceeded(at: Run, fresh: Fresh) -> None:
    source, target = fresh("source"), fresh("target")
    for topic in (source, target):
        at("topics", "create", topic)
    at("produce", source, "--fake", "{{seq}}", "-n", "20000")
    began = time.monotonic()
    assert at("cp", source, target, "--once", "--rate", "20000", "-y").code == 0
    assert time.monotonic() - began > 0.7


def test_a_high_rate_is_kept_with_few_sleeps() -> None:
    """A sleep after each record would take four times as long on a quiet machine."""
    sent: list[float] = []
    waits: list[float] = []

    class Slots(trio.abc.Instrument):
        def before_io_wait(self, timeout: float) -> None:
            waits.append(timeout)

    class Taking:
        def send_nowait(self, *_: object, **__: object) -> None:
            sent.append(trio.current_time())

    async def copy() -> None:
        options = Copy(source=("a",), target="b", rate=20_000)
        job = cp_run.Job(options, {}, {"a": "b"}, None)
        writer: Any = cp_run._Writer(  # pyright: ignore[reportPrivateUsage]
            job, cast("Producer", Taking())
        )
        part = SimpleNamespace(source=TopicPartition("a", 0))
        for offset in range(20_000):
            await writer.send(part, Record(offset, 0, None, b"x"))

    trio.run(copy, clock=MockClock(autojump_threshold=0), instruments=[Slots()])
    assert 0.98 < sent[-1] - sent[0] < 1.0 and sent == sorted(sent)
    assert 50 < len(waits) < 500


def test_a_rate_is_kept(at: Run, fresh: Fresh, orders: str) -> None:
    target = fresh("slow")
    at("topics", "create", target)
    began = time.monotonic()
    assert at("cp", orders, target, "--once", "--rate", "50", "-y").code == 0
    assert time.monotonic() - began >= 19 / 50
    for rate in ("0", "-1", "nan"):
        assert at("cp", orders, target, "--once", "--rate", rate, "-y").code == 2


def copying(kafka: Kafka, *words: str) -> "AbstractContextManager[subprocess.Popen[str]]":
    return running("cp", *words, "-b", kafka.bootstrap, "-y")


def noted(path: Path, topic: str) -> int:
    """The number of offsets of `topic` that a state file marks as copied."""
    if not path.exists():
        return 0
    return sum(json.loads(path.read_text())["topics"][topic]["positions"].values())


def test_a_killed_copy_goes_on_without_loss(
    at: Run, kafka: Kafka, fresh: Fresh, tmp_path: Path
) -> None:
    source, target = fresh("source"), fresh("target")
    at("topics", "create", source, target, "-p", "3")
    values = [str(i) for i in range(2000)]
    at("produce", source, stdin="\n".join(values).encode())
    state = tmp_path / "state"
    words = [source, target, "--rate", "50", "--state", str(state)]
    with copying(kafka, *words) as copy:
        wait_until("a note of a second's copies", lambda: noted(state, source) > 25)
        copy.send_signal(signal.SIGKILL)
    before = json.loads(state.read_text())["topics"][source]["positions"]
    assert 25 < noted(state, source) < 2000
    assert at("cp", source, target, "--once", "--state", str(state), "-y").code == 0
    times = Counter(at("consume", target, "-e").lines)
    assert set(times) == set(values) and max(times.values()) <= 2
    for line in at("consume", source, "-e", "-f", r"%p %o %v\n").lines:
        partition, offset, value = line.split()
        again = int(offset) >= before.get(partition, 0)
        assert times[value] == 1 or again, "twice is only what came after the last note"
    assert noted(state, source) == 2000


def test_an_interrupted_copy_notes_where_it_is(
    at: Run, kafka: Kafka, fresh: Fresh, tmp_path: Path
) -> None:
    source, target = fresh("source"), fresh("target")
    at("topics", "create", source, target)
    state = tmp_path / "state"
    with copying(kafka, source, target, "--state", str(state)) as copy:
        for i in range(3):
            at("produce", source, str(i))
        words = ("--from-beginning", "-n", "3", "--timeout-ms", "60000")
        assert at("consume", target, *words).lines == ["0", "1", "2"], "what comes is copied"
        copy.send_signal(signal.SIGINT)
        _, said = copy.communicate(timeout=60)
    assert (copy.returncode, "continues from" in said) == (-signal.SIGINT, True), said
    assert noted(state, source) == 3
    at("produce", source, "3")
    assert at("cp", source, target, "--once", "--state", str(state), "-y").code == 0
    assert at("consume", target, "-e").lines == ["0", "1", "2", "3"]


def test_of_two_copies_with_one_state_the_second_is_refused(
    at: Run, kafka: Kafka, fresh: Fresh, tmp_path: Path
) -> None:
    source, target = fresh("source"), fresh("target")
    at("topics", "create", source, target)
    state = tmp_path / "state"
    words = ("cp", source, target, "--once", "--state", str(state))
    with copying(kafka, source, target, "--state", str(state)) as copy:
        at("produce", source, "0")
        wait_until("a copy of what comes", lambda: at("consume", target, "-e").lines == ["0"])
        second = at(*words, "-y")
        assert (second.code, f"Another copy, process {copy.pid}," in second.err) == (1, True)
        assert at(*words, "-d").code == 0
        copy.send_signal(signal.SIGTERM)
        assert copy.wait(60) == 130
    assert at(*words, "-y").code == 0
    assert at("consume", target, "-e").lines == ["0"]
    assert [path.name for path in tmp_path.glob("state*")] == ["state"]


def test_a_state_is_of_one_copy(at: Run, fresh: Fresh, orders: str, tmp_path: Path) -> None:
    target, other = fresh("target"), fresh("other")
    at("topics", "create", target, other)
    state = str(tmp_path / "state")
    assert at("cp", orders, target, "--once", "--state", state, "-y").code == 0
    again = at("cp", orders, target, "--once", "--state", state, "-y", "-f", "json")
    assert [row["copied"] for row in again.json] == [0, 0]
    refused = at("cp", orders, other, "--once", "--state", state, "-y")
    assert (refused.code, "belongs to another copy" in refused.err) == (5, True)
    Path(state).write_text("{}")
    spoilt = at("cp", orders, target, "--once", "--state", state, "-y")
    assert (spoilt.code, "was not written by" in spoilt.err) == (1, True)
    nowhere = at("cp", orders, target, "--once", "--state", "/nowhere/state", "-y")
    assert (nowhere.code, "cannot be written" in nowhere.err) == (1, True)


async def delete_records(bootstrap: str, tp: TopicPartition, before: int) -> None:
    async with open_admin(bootstrap) as admin:
        answers = await admin.delete_records({tp: before})
        assert tp in answers.ok, answers


def test_what_was_deleted_before_it_was_copied_is_reported(
    at: Run, kafka: Kafka, fresh: Fresh, tmp_path: Path
) -> None:
    source, target = fresh("source"), fresh("target")
    at("topics", "create", source, target)
    at("produce", source, stdin=b"0\n1\n2\n3\n4\n5\n")
    state = str(tmp_path / "state")
    assert at("cp", source, target, "-o", "..2", "--state", state, "-y").code == 0
    trio.run(delete_records, kafka.bootstrap, TopicPartition(source, 0), 4)
    late = at("cp", source, target, "--once", "--state", state, "-y")
    assert (late.code, "2 offsets from 2 on were deleted" in late.err) == (1, True)
    assert at("consume", target, "-e").lines == ["0", "1", "4", "5"]


def test_another_cluster_is_guarded_by_its_own_profile(
    at: Run, kafka: Kafka, fresh: Fresh, orders: str, elsewhere: str
) -> None:
    target = fresh("target")
    to = ["--to-bootstrap-server", elsewhere]
    assert at("cp", orders, target, *to, "--create", "--once", "-y").code == 0
    assert len(at("consume", target, "-e", "-b", elsewhere).lines) == 20
    assert at("topics", "list", target, "-f", "name").text == "", "it was made there, not here"
    at("profile", "add", "look", "-b", kafka.bootstrap, "--guard", "readonly")
    at("profile", "add", "away", "-b", elsewhere, "--guard", "readonly")
    from_readonly = at("cp", orders, target, "--profile", "look", *to, "--once", "-y")
    assert from_readonly.code == 0, from_readonly.err
    to_readonly = at("cp", orders, target, "--to-profile", "away", "--once", "-y")
    assert (to_readonly.code, "read-only" in to_readonly.err) == (5, True)
    assert len(at("consume", target, "-e", "-b", elsewhere).lines) == 40


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("T", "T", "-o", "committed"), "needs a group: -g GROUP"),
        (("T", "T", "-g", "g"), "-o committed"),
        (("T", "T", "-o", "1..2", "--once"), "ends by itself"),
        (("T", "--include", "x", "T"), "--include"),
        (("pk://T/0", "T"), "not a permalink"),
        (("pk://T/0/1", "T", "--once"), "says what to read"),
        (("T", "T", "-r", "1"), "--create"),
        (("T", "T", "--where", "val = 1"), "did you mean value"),
        (("T", "T", "--to-config-file", "x"), "--to-bootstrap-server"),
        (("pk://nowhere/T/0/1", "T"), "another profile"),
    ],
)
def test_what_makes_no_sense_is_said(at: Run, words: tuple[str, ...], said: str) -> None:
    wrong = at("cp", *words)
    assert (wrong.code, said in wrong.err) == (2, True), wrong.err


def test_a_link_to_nothing_is_reported(at: Run, fresh: Fresh, orders: str) -> None:
    gone = at("cp", f"pk://{orders}/0/99", orders, "-y")
    assert (gone.code, "has no record at offset 99" in gone.err) == (1, True)


@pytest.mark.slow
def test_a_copy_survives_the_death_of_its_broker(pk: Run, tmp_path: Path) -> None:
    """The broker is killed and restarted with its directory. The same copy continues, and no record
    is lost or written twice."""
    with PkBroker() as broker:
        where = ("-b", broker.bootstrap)
        pk("topics", "create", "source", "target", *where)
        values = [str(i) for i in range(3000)]
        pk("produce", "source", *where, stdin="\n".join(values).encode())
        state = tmp_path / "state"
        here = Kafka("pk", broker.bootstrap, tmp_path)
        words = ("source", "target", "--once", "--rate", "1000", "--state", str(state))
        with copying(here, *words) as copy:
            wait_until("a note of a second's copies", lambda: noted(state, "source") > 500)
            broker.kill()
            assert copy.poll() is None
            broker.start()
            _, said = copy.communicate(timeout=60)
        assert copy.returncode == 0, said
        assert pk("consume", "target", "-e", *where).lines == values
