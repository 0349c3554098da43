"""Producing from files, pipes and templates, against a live broker. Tests that depend on a process
run the program."""

import json
import os
import re
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from clients.fixtures import Kafka
from clients.pk_broker import PkBroker, pk_environment, start_pk
from faults.small_disk import BrokerInside, SmallDisk, why_not

from pk.cli.nouns.produce.plan import is_misspelling
from pk.cli.records import percent_format

Run = Callable[..., Any]
Fresh = Callable[[str], str]
LONG = ("-X", "max.block.ms=600000")
"""The time that a command takes if it waits for a topic to appear."""


@pytest.fixture(autouse=True)
def _interrupts_are_inherited() -> Iterator[None]:
    """A run that a script started in the background ignores SIGINT, and so would its children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def topic(at: Run, fresh: Fresh) -> str:
    """A new topic of one partition."""
    name = fresh("produce")
    at("topics", "create", name, "-p", "1")
    return name


def read(at: Run, topic: str) -> list[dict[str, Any]]:
    return at("consume", topic, "-e", "-f", "json").json


def pairs(at: Run, topic: str) -> list[tuple[Any, Any]]:
    return [(r["key"], r["value"]) for r in read(at, topic)]


@pytest.mark.parametrize(
    ("words", "lines", "expected"),
    [
        (("-f", r"%k:%v\n"), b"a:1\nb:2:3\n:\n", [("a", "1"), ("b", "2:3"), ("", "")]),
        (("-f", r"%k:%v", "-Z"), b"a:\nb:x\n", [("a", None), ("b", "x")]),
        (("--property", "parse.key=true"), b"a\t1\t2\n", [("a", "1\t2")]),
        (("-k", "z", "-Z"), b"a\n\nb", [("z", "a"), ("z", None), ("z", "b")]),
        (
            ("-f", "jsonl"),
            b'{"key": "a", "value": null}\n{"value": "b"}\n',
            [("a", None), (None, "b")],
        ),
        ((), b"no end", [(None, "no end")]),
        ((), b"a\r\n\r\nb\rc\r\nd\r", [(None, "a"), (None, ""), (None, "b\rc"), (None, "d")]),
        (("--property", "parse.key=true"), b"a\tb\r\n", [("a", "b")]),
        (("-f", r"%v\n"), b"a\r\n", [(None, "a\r")]),
        ((), b"", []),
    ],
)
def test_lines(
    at: Run, topic: str, words: tuple[str, ...], lines: bytes, expected: list[tuple[Any, Any]]
) -> None:
    assert at("produce", topic, *words, stdin=lines).code == 0
    assert pairs(at, topic) == expected


@pytest.mark.parametrize("token", percent_format._READ)
def test_each_token_of_an_input_format_takes_effect(at: Run, fresh: Fresh, token: str) -> None:
    topic = fresh("token")
    at("topics", "create", topic, "-p", "3")
    form = "%k" if token in "vs" else "%v"
    said = {
        "t": topic,
        "p": "2",
        "T": "1767225600000",
        "d": "2026-01-01T00:00:00Z",
        "h": "a=1",
        "k": "word",
        "v": "word",
        "s": "word",
    }[token]
    names = () if token == "t" else (topic,)
    line = f"{said}|x\n".encode()
    assert at("produce", *names, "-f", f"%{token}|{form}\n", stdin=line).code == 0
    (record,) = read(at, topic)
    expected: dict[str, Any] = {
        "t": ("topic", topic),
        "p": ("partition", 2),
        "T": ("timestamp", 1767225600000),
        "d": ("timestamp", 1767225600000),
        "h": ("headers", [["a", "1"]]),
        "k": ("key", "word"),
        "v": ("value", "word"),
        "s": ("value", "word"),
    }
    field, value = expected[token]
    assert record[field] == value


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("t", "-f", "%t %v"), "TOPIC and %t both give the topic; keep one."),
        (("t", "-f", "%k:%v", "-k", "z"), "-k and %k both give the key; keep one."),
        (("t", "-f", "%p %v", "-p", "1"), "-p and %p both give the partition; keep one."),
        (("t", "-f", "%T %v", "--timestamp", "now"), "--timestamp and %T both give the timestamp"),
        (("t", "-f", "%d %v", "--timestamp", "now"), "--timestamp and %d both give the timestamp"),
        (("t", "--property", "parse.key=true", "-k", "z"), "-k and parse.key both give the key"),
        (("t", "-f", "%o %v"), "the broker assigns offsets"),
        (("t", "--keep-partition"), "--keep-partition needs lines that name a partition"),
        (("t", "-f", "%v", "--keep-partition"), "--keep-partition needs lines that name"),
        (("t", "--fake", "orders", "--keep-partition"), "--keep-partition"),
        (("-f", "100%%t %v"), "Name the topic"),
    ],
)
def test_what_lines_give_and_would_not_take_effect_is_refused(
    pk: Run, words: tuple[str, ...], said: str
) -> None:
    ran = pk("produce", *words)
    assert ran.code == 2
    assert said in ran.err


def test_a_partition_that_a_line_names_must_exist(at: Run, topic: str) -> None:
    ran = at("produce", topic, "-f", r"%p %v\n", stdin=b"0 a\n7 b\n")
    assert ran.code == 1
    assert "partition 7" in ran.err
    ran = at("produce", topic, "-f", r"%p %v\n", stdin=b"-1 a\n")
    assert ran.code == 1


def test_lines_with_and_without_keys_keep_their_order(at: Run, topic: str) -> None:
    lines = [{"key": None if i % 3 else f"k{i % 2}", "value": str(i)} for i in range(300)]
    at("produce", topic, "-f", "jsonl", stdin="\n".join(map(json.dumps, lines)).encode())
    assert [r["value"] for r in read(at, topic)] == [str(i) for i in range(300)]


@pytest.mark.parametrize("words", [(), ("-H", "h=1"), ("--rate", "100000"), ("--sync",)])
def test_a_line_that_does_not_fit_ends_it_and_is_named(
    at: Run, topic: str, words: tuple[str, ...]
) -> None:
    ran = at("produce", topic, "-f", r"%k:%v", *words, stdin=b"a:1\nb:2\nthree\nd:4\n")
    assert (ran.code, "Line 3" in ran.err, "2 records written" in ran.err) == (1, True, True)
    assert pairs(at, topic) == [("a", "1"), ("b", "2")]


def test_a_line_too_large_ends_it_and_is_named(at: Run, topic: str) -> None:
    ran = at("produce", topic, stdin=b"a\n" + b"x" * 1_100_000 + b"\nb\n")
    assert ran.code == 1
    assert re.search(r"Line 2: a record of 1,100,0\d\d bytes; max\.request\.size is", ran.err)
    assert pairs(at, topic) == [(None, "a")]


def test_a_line_without_end_is_not_gathered_for_ever(
    at: Run, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pk.cli.nouns.produce.produce._LINE_BYTES_MAX", 2_000_000)
    ran = at("produce", topic, stdin=b"a\n" + b"x" * 3_000_000)
    assert (ran.code, "longer than 2,000,000 bytes" in ran.err) == (1, True), ran.err
    assert "1 record written" in ran.err and pairs(at, topic) == [(None, "a")]


def test_what_the_broker_refuses_is_counted_and_the_rest_is_written(at: Run, fresh: Fresh) -> None:
    topic = fresh("small")
    at("topics", "create", topic, "-p", "1", "-c", "max.message.bytes=200")
    lines = [b"x" * 10, b"y" * 300, b"z" * 20]
    ran = at("produce", topic, stdin=b"\n".join(lines))
    assert (ran.code, "1 of 3 records was not written" in ran.err) == (1, True), ran.err
    assert [r["value"][0] for r in read(at, topic)] == ["x", "z"]


def test_json_over_several_lines(at: Run, topic: str) -> None:
    documents = [{"a": [1, {"b": "{"}]}, [], "text", 12]
    text = "\n".join(json.dumps(d, indent=2) for d in documents)
    assert at("produce", topic, "--json", stdin=text.encode()).code == 0
    assert [json.loads(r["value"]) for r in read(at, topic)] == documents
    ran = at("produce", topic, "--json", stdin=b'{"a":\n1}\n\n{"b":\nx}\n{}')
    assert (ran.code, "Line 5, column 1" in ran.err, "1 record written" in ran.err) == (
        1,
        True,
        True,
    )
    ran = at("produce", topic, "--json", stdin=b'{"a":')
    assert (ran.code, "not finished" in ran.err) == (1, True)
    ran = at("produce", topic, "--json", "-f", r"%k:%v", stdin=b"k:{}\nk:{\n")
    assert (ran.code, "Line 2: the value" in ran.err) == (1, True)
    assert len(read(at, topic)) == len(documents) + 2


def test_every_option_of_apache_s_tool(at: Run, topic: str) -> None:
    reader = "org.apache.kafka.tools.LineMessageReader"
    words = ["--topic", topic, "--sync", "--compression-codec", "zstd", "--batch-size", "1000"]
    words += ["--message-send-max-retries", "5", "--retry-backoff-ms", "50", "--timeout", "10"]
    words += ["--request-required-acks", "-1", "--request-timeout-ms", "30000"]
    words += ["--metadata-expiry-ms", "60000", "--max-block-ms", "60000"]
    words += ["--max-memory-bytes", "1000000", "--max-partition-memory-bytes", "2000"]
    words += ["--socket-buffer-size", "100000", "--line-reader", reader]
    words += ["--reader-property", "parse.key=true", "--command-property", "client.id=me"]
    assert at("console-producer", *words, stdin=b"k\tv\n").code == 0
    assert pairs(at, topic) == [("k", "v")]


def test_num_counts_records(at: Run, topic: str) -> None:
    at("produce", topic, "-n", "2", stdin=b"a\nb\nc\n")
    at("produce", topic, "-n", "1", "--json", stdin=b"[1,\n2]\n[3]\n")
    at("produce", topic, "-n", "1", "d", "e")
    assert [r["value"] for r in read(at, topic)] == ["a", "b", "[1,\n2]", "d"]


def test_made_up_records(at: Run, topic: str) -> None:
    words = ("--fake", '{"id": {{seq}}, "who": "{{name}}"}', "-k", "k{{int 1 9}}", "--seed", "4")
    assert at("produce", topic, *words, "-n", "1200", "-H", "made=up").code == 0
    found = read(at, topic)
    assert [json.loads(r["value"])["id"] for r in found] == list(range(1200))
    assert all(re.fullmatch(r"k[1-9]", r["key"]) for r in found)
    assert found[0]["headers"] == [["made", "up"]]
    at("produce", topic, *words, "-n", "3")
    again = read(at, topic)[1200:]
    assert [r["value"] for r in again] == [r["value"] for r in found[:3]]


def test_a_dry_run_shows_made_up_records(at: Run, topic: str) -> None:
    ran = at("produce", topic, "--fake", "orders", "--seed", "1", "-n", "2", "-d")
    assert ran.code == 0 and "nothing was written" in ran.err
    assert [line.split("\t")[0][:2] for line in ran.lines] == ["c-", "c-"]
    assert read(at, topic) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--fake", "order"), "did you mean orders"),
        (("--fake", "{{seq}}", "x"), "VALUE cannot be combined with it"),
        (("--fake", "{{seq}}", "-f", "jsonl"), "-f cannot be combined with it"),
        (("--fake", "{{seq}}", "--json"), "--json cannot be combined with it"),
        (("--seed", "1", "x"), "--seed needs --fake"),
        (("--line-reader", "com.example.MyReader", "x"), "use -f to say how lines are read"),
    ],
)
def test_what_makes_no_sense(at: Run, topic: str, words: tuple[str, ...], said: str) -> None:
    ran = at("produce", topic, *words)
    assert (ran.code, said in ran.err) == (2, True), ran.err


def test_a_rate_holds_records_back(at: Run, topic: str) -> None:
    began_ms = time.time() * 1000
    at("produce", topic, "--rate", "10", stdin=b"x\n" * 21)
    # No record comes before it is due. Some may come later: the first ones wait until the broker is
    # found.
    after_ms = [r["timestamp"] - began_ms for r in read(at, topic)]
    assert len(after_ms) == 21
    assert all(each >= number * 100 - 10 for number, each in enumerate(after_ms)), after_ms


def test_a_missing_topic_is_an_error_at_once_where_it_is_not_created(pk: Run) -> None:
    with PkBroker(memory=True, config={"auto.create.topics.enable": "false"}) as broker:
        pk("topics", "create", "orders", "-b", broker.bootstrap)
        started = time.monotonic()
        ran = pk("produce", "ordrs", "x", "-b", broker.bootstrap, *LONG)
        assert time.monotonic() - started < 300
    assert ran.code == 1
    assert "did you mean orders?" in ran.err and "pk topics create ordrs" in ran.err


def test_a_topic_that_the_broker_creates_is_said_to_be_new(at: Run) -> None:
    new = secrets.token_hex(12)
    ran = at("produce", new, "x")
    said = f"Topic {new} does not exist; the broker creates it with its defaults.\n"
    assert (ran.code, ran.err) == (0, said)
    assert at("produce", new, "x").err == ""
    assert len(read(at, new)) == 2


def test_a_misspelt_topic_is_not_created(at: Run, topic: str) -> None:
    mistyped = f"{topic}x"
    ran = at("produce", mistyped, "x")
    refused = f"Topic '{mistyped}' does not exist; did you mean "
    assert (ran.code, ran.err.startswith(refused)) == (1, True), ran.err
    assert f"--create creates {mistyped}" in ran.err
    assert mistyped not in at("topics", "list", "-f", "name").lines
    trial = at("produce", mistyped, "x", "--create", "--dry-run")
    assert (trial.code, f"Would create topic {mistyped}" in trial.err) == (0, True), trial.err
    assert mistyped not in at("topics", "list", "-f", "name").lines
    meant = at("produce", mistyped, "x", "--create")
    assert (meant.code, f"Created topic {mistyped}" in meant.err) == (0, True), meant.err
    assert at("produce", mistyped, "x", "--create").err == ""
    assert len(read(at, mistyped)) == 2


@pytest.mark.parametrize(
    ("form", "lines"),
    [
        ("jsonl", ['{"topic": "T", "value": "1"}', '{"topic": "M", "value": "2"}']),
        ("csv", ["topic,value", "T,1", "M,2"]),
        ("%t %s\\n", ["T 1", "M 2"]),
    ],
)
def test_a_topic_that_the_input_names_is_checked_too(
    at: Run, fresh: Fresh, form: str, lines: list[str]
) -> None:
    """A misspelled topic is not created; the records before its line are written."""
    topic = f"{fresh('inside')}-orders"
    mistyped = topic.replace("orders", "ordrs")
    assert at("topics", "create", topic).code == 0
    text = "".join(f"{line}\n" for line in lines).replace("T", topic).replace("M", mistyped)
    ran = at("produce", "-f", form, stdin=text.encode())
    assert ran.code == 1, ran.err
    said = f" 2: Topic '{mistyped}' does not exist; did you mean {topic}"
    assert said in ran.err and f"--create creates {mistyped}" in ran.err
    assert "1 record written" in ran.err
    assert at("topics", "list", mistyped, "-f", "name").lines == []
    assert at("consume", topic, "-o", "start..end").lines == ["1"]
    meant = at("produce", "-f", form, "--create", stdin=text.encode())
    assert meant.code == 0, meant.err
    assert at("consume", mistyped, "-o", "start..end").lines == ["2"]


def test_create_also_where_the_broker_creates_nothing_itself(pk: Run) -> None:
    with PkBroker(memory=True, config={"auto.create.topics.enable": "false"}) as broker:
        ran = pk("produce", "orders", "x", "--create", "-b", broker.bootstrap)
        assert (ran.code, "Created topic orders" in ran.err) == (0, True), ran.err


@pytest.mark.parametrize(
    ("typed", "name", "slip"),
    [
        ("ordrs", "orders", True),
        ("Orders", "orders", True),
        ("orders-eu", "orders", False),
        ("orders-2", "orders-1", False),
        ("orders-10", "orders-9", False),
        ("payments", "orders", False),
        ("test-a1b2c3", "test-f9e8d7", False),
        ("ordrs-1", "orders-2", True),
        ("shown-2026-11-28", "slow-2026-11-29", False),
    ],
)
def test_which_name_is_a_slip_for_another(typed: str, name: str, slip: bool) -> None:
    assert is_misspelling(typed, name) == slip


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-F", "/nowhere"), "/nowhere: No such file"),
        (("-F", "/"), "/: Is a directory"),
        (("-p", "7", "x"), "has no partition 7; it has 1, from 0 to 0."),
    ],
)
def test_what_cannot_be_done_is_said(
    at: Run, topic: str, words: tuple[str, ...], said: str
) -> None:
    ran = at("produce", topic, *words)
    assert (ran.code, said in ran.err) == (1, True), ran.err


def test_the_name_of_a_header_is_text(at: Run, topic: str) -> None:
    ran = at("produce", topic, "-H", os.fsdecode(b"h\xff=x"), "v")
    said = "-H: the name of a header must be UTF-8, not b'h\\xff'."
    assert (ran.code, said in ran.err) == (2, True), ran.err
    assert at("produce", topic, "-H", os.fsdecode(b"h=\xff"), "v").code == 0


def test_a_name_that_no_topic_can_have(at: Run) -> None:
    started = time.monotonic()
    ran = at("produce", "no topic!", "x", *LONG)
    assert (ran.code, "INVALID_TOPIC_EXCEPTION" in ran.err) == (1, True), ran.err
    assert time.monotonic() - started < 300


def test_a_profile_for_reading_only_writes_nothing(at: Run, topic: str, kafka: Kafka) -> None:
    at("profile", "add", "safe", "-b", kafka.bootstrap, "--guard", "readonly")
    ran = at("produce", topic, "x", "--profile", "safe")
    assert (ran.code, "read-only" in ran.err) == (5, True)
    assert read(at, topic) == []


class Piped:
    """`pk produce` in a separate process, with a pipe for its input."""

    def __init__(self, kafka: Kafka | PkBroker, *words: str) -> None:
        self.process = start_pk(
            *("produce", *words, "-b", kafka.bootstrap),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=pk_environment(),
        )

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def line(self) -> str:
        """The next line on standard error."""
        assert self.process.stderr is not None
        return self.process.stderr.readline().decode()

    def end(self) -> tuple[int, str]:
        _, error = self.process.communicate(timeout=60)
        return self.process.returncode, error.decode()


def test_records_are_sent_when_the_input_pauses(at: Run, kafka: Kafka, topic: str) -> None:
    piped = Piped(kafka, topic, "--print-offsets")
    piped.write(b"one\ntwo\nhal")
    assert piped.line() == f"{topic}/0 @ 0..1\n"
    piped.write(b"f\n")
    assert piped.line() == f"{topic}/0 @ 2\n"
    assert [r["value"] for r in read(at, topic)] == ["one", "two", "half"]
    assert piped.end()[0] == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_says_what_was_written(
    at: Run, kafka: Kafka, topic: str, number: int
) -> None:
    piped = Piped(kafka, topic, "--print-offsets")
    piped.write(b"one\ntwo\n")
    piped.line()
    piped.process.send_signal(number)
    piped.process.wait(60)  # its input stays open
    code, error = piped.end()
    ended = -number if number == signal.SIGINT else 130
    assert (code, "Interrupted: 2 records written." in error) == (ended, True), error
    assert len(read(at, topic)) == 2


@pytest.mark.parametrize("closed", [False, True], ids=["input open", "input at its end"])
def test_interrupted_while_refused_it_says_what_was_not_written_and_why(
    pk: Run, closed: bool
) -> None:
    # The interrupt finds the producer waiting for its next try: the result of a request that is on
    # its way would be unknown.
    backoff = ("-X", "retry.backoff.ms=60000", "-X", "retry.backoff.max.ms=60000")
    with PkBroker(config={"pk.faults.enable": "true"}, memory=True) as broker:
        pk("topics", "create", "t", "-p", "1", "-b", broker.bootstrap)
        piped = Piped(broker, "t", "--print-offsets", *backoff)
        piped.write(b"one\n")
        assert piped.line() == "t/0 @ 0\n"
        fault = ("test", "faults", "add", "fail", "Produce", "--error", "NOT_ENOUGH_REPLICAS")
        assert pk(*fault, "-b", broker.bootstrap).code == 0
        piped.write(b"two\nthree\n")
        if closed:
            assert piped.process.stdin is not None
            piped.process.stdin.close()
            piped.process.stdin = None
        assert "t/0 refuses records" in piped.line()
        piped.process.send_signal(signal.SIGINT)
        piped.process.wait(60)
        code, error = piped.end()
    assert code == -signal.SIGINT
    said = "Interrupted: 1 record written; 2 not written: The broker refused with"
    assert f"{said} NOT_ENOUGH_REPLICAS" in error, error


def test_a_broker_that_is_gone_for_a_while_loses_nothing(pk: Run, tmp_path: Path) -> None:
    with PkBroker(directory=tmp_path / "data") as broker:
        pk("topics", "create", "t", "-p", "1", "-b", broker.bootstrap)
        piped = Piped(broker, "t", "--print-offsets")
        piped.write(b"one\n")
        assert piped.line() == "t/0 @ 0\n"
        broker.kill()
        piped.write(b"two\nthree\n")
        broker.start()
        assert piped.line() == "t/0 @ 1..2\n"
        assert piped.end() == (0, "3 records written.\n")
        assert pk("consume", "t", "-e", "-b", broker.bootstrap).text == "one\ntwo\nthree\n"


@pytest.mark.thorough
@pytest.mark.skipif(why_not() is not None, reason=f"no small disk: {why_not()}")
def test_a_full_disk_is_said_at_once_and_named_at_the_end(pk: Run, tmp_path: Path) -> None:
    with (
        SmallDisk(tmp_path / "disk", 24) as disk,
        BrokerInside(disk, tmp_path / "disk" / "data", {}) as broker,
    ):
        to = ("-b", broker.bootstrap)
        assert pk("topics", "create", "g", *to).code == 0
        assert pk("produce", "g", "first", *to).code == 0  # the broker has producer ids now
        disk.fill(0)
        limits = (
            "-X",
            "delivery.timeout.ms=12000",
            "-X",
            "request.timeout.ms=10000",
            "-X",
            "linger.ms=0",
        )
        ran = pk("produce", "g", *to, *limits, stdin=b"x" * 100_000 + b"\n")
        first, last = ran.err.splitlines()
        assert first.startswith("g/0 refuses records: ") and "KAFKA_STORAGE_ERROR" in first
        assert first.endswith("Trying again; Ctrl-C stops.")
        assert last.startswith("1 of 1 record was not written: ") and "KAFKA_STORAGE_ERROR" in last
        assert ran.code == 1
        (reported,) = pk("why", "partition", "g/0", *to, "-f", "json").json
        assert reported["state"] == "disk-full" and str(disk.path) in reported["verdict"]


@pytest.mark.faults
def test_a_broker_that_does_not_come_back_fails_it(pk: Run) -> None:
    with PkBroker(memory=True) as broker:
        pk("topics", "create", "t", "-p", "1", "-b", broker.bootstrap)
        words = (
            "--print-offsets",
            "-X",
            "delivery.timeout.ms=12000",
            "-X",
            "request.timeout.ms=10000",
        )
        piped = Piped(broker, "t", *words)
        piped.write(b"one\n")
        piped.line()
        broker.kill()
        piped.write(b"two\nthree\n")
        code, error = piped.end()
    assert code in (3, 124), error
    assert "2 of 3 records were not written" in error and "Traceback" not in error


def test_bytes_that_are_no_text_go_through(at: Run, topic: str) -> None:
    line, odd = bytes(range(256)).replace(b"\n", b""), os.fsdecode(b"\xff")
    at("produce", topic, "-k", odd, "-H", f"h={odd}", stdin=line + b"\n")
    wanted = ("-k", odd, "--key-partition", "-H", f"h={odd}")
    (found,) = at("consume", topic, "-e", *wanted, "-f", "json").json
    import base64

    assert base64.b64decode(found["value_b64"]) == line
    assert base64.b64decode(found["key_b64"]) == b"\xff"
