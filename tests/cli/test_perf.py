"""`pk perf`: its counts, its checks, its output, and that it leaves no topics behind."""

import json
import os
import signal
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from clients.apache_kafka import free_ports
from clients.fixtures import Kafka
from clients.pk_broker import PkBroker, running
from hypothesis import given
from hypothesis import strategies as st
from listeners import listening
from terminal import Terminal

from pk.cli.nouns.perf.comparison import compare
from pk.cli.nouns.perf.histogram import Histogram, bucket_of, top_of
from pk.cli.nouns.perf.payload import MARK_BYTES, Payloads, Verifier
from pk.cli.records.fake import fake
from pk.core.record.batch import Record

# These tests run one after another, because they check which of the tool's own topics a broker has.

Run = Callable[..., Any]
Fresh = Callable[[str], str]

# histogram


@given(st.integers(0, 1 << 40))
def test_a_bucket_holds_its_durations_and_is_narrow(us: int) -> None:
    bucket = bucket_of(us)
    assert us <= top_of(bucket) <= us * 65 // 64 + 1
    assert bucket == 0 or top_of(bucket - 1) < us


@given(st.lists(st.integers(0, 10_000_000), min_size=1, max_size=200))
def test_percentiles_are_those_of_the_durations(durations: list[int]) -> None:
    histogram = Histogram()
    for us in durations:
        histogram.add(us)
    durations.sort()
    for percent in (50, 95, 99, 99.9):
        exact = durations[max(0, -int(-len(durations) * percent // 100) - 1)]
        found = histogram.percentile_ms(percent) * 1000
        assert exact - 1e-6 <= found <= exact * 65 / 64 + 1
    summary = histogram.summary()
    assert summary["max"] == durations[-1] / 1000 and summary["min"] == durations[0] / 1000
    assert sum(bar.records for bar in histogram.bars()) == len(durations)


def test_the_bars_leave_no_gap() -> None:
    histogram = Histogram()
    histogram.add(30, 2)
    histogram.add(9_000, 5)
    assert [(bar.top_ms, bar.records) for bar in histogram.bars()] == [
        (0.05, 2),
        (0.1, 0),
        (0.2, 0),
        (0.5, 0),
        (1.0, 0),
        (2.0, 0),
        (5.0, 0),
        (10.0, 5),
    ]


# payloads


def records(template: str | None) -> list[Record]:
    made = Payloads(7, 100, None if template is None else fake(template, seed=1), 1)
    if template is None:
        return [Record(i, 0, None, v) for i, (_, v) in enumerate(made.values(0, range(20)))]
    return [
        Record(i, 0, k, v, tuple(h)) for i, (k, v, h, _, _) in enumerate(made.rows(0, range(20)))
    ]


@pytest.mark.parametrize("template", [None, "orders"])
def test_records_that_come_back_whole_are_counted_once(template: str | None) -> None:
    verifier = Verifier(7)
    made = records(template)
    assert [verifier.record(r, i % 2) for i, r in enumerate(made)] == list(range(20))
    assert verifier.faults(20) == {"lost": 0, "repeated": 0, "reordered": 0, "corrupt": 0}
    assert verifier.faults(22)["lost"] == 2


@pytest.mark.parametrize("template", [None, "orders"])
def test_every_flipped_byte_is_noticed(template: str | None) -> None:
    made = records(template)[3]
    assert made.value is not None
    for place in range(len(made.value)):
        broken = bytearray(made.value)
        broken[place] ^= 1
        verifier = Verifier(7)
        assert verifier.record(made._replace(value=bytes(broken)), 0) is None
        assert verifier.found == 0
        assert verifier.corrupt + verifier.foreign == 1, place
    if made.key is not None:
        verifier = Verifier(7)
        verifier.record(made._replace(key=made.key + b"!"), 0)
        assert verifier.corrupt == 1


def test_repeated_reordered_and_foreign_records() -> None:
    verifier = Verifier(7)
    made = records(None)
    for number in (0, 2, 1, 2, 3):
        verifier.record(made[number], 0)
    verifier.record(Record(9, 0, None, b"mine"), 0)
    verifier.record(Record(9, 0, None, Payloads(8, 50, None, 1).values(0, [0])[0][1]), 0)
    assert (verifier.found, verifier.foreign) == (4, 2)
    assert verifier.faults(5) == {"lost": 1, "repeated": 1, "reordered": 1, "corrupt": 0}


# comparison


def test_what_became_better_and_worse() -> None:
    before = {"records_per_second": 100.0, "latency_ms": {"p50": 2.0, "p99": 10.0}, "acks": "all"}
    now = {"records_per_second": 120.0, "latency_ms": {"p50": 2.01, "p99": 15.0}, "acks": "1"}
    found = compare("last", before, now)
    verdicts = {row["figure"]: (row["change_percent"], row["verdict"]) for row in found.rows}
    assert verdicts == {
        "records per second": (20.0, "better"),
        "p50": (0.5, ""),
        "p99": (50.0, "worse"),
    }
    assert found.differs == ["acks"]


# the running program


def nothing_is_left(at: Run) -> bool:
    """Whether the tool's own topics are gone. Apache Kafka lists deleted topics for a moment, and
    other measurements may be running."""
    there = [name for name in at("topics", "list", "-f", "name").lines if "pk-perf-" in name]
    return not there or at("wait", "topic", *there, "--gone", "--timeout", "60s").code == 0


@pytest.mark.parametrize(
    ("words", "records"),
    [
        (("produce", "-n", "3000", "-p", "3", "-z", "zstd", "--warmup", "500"), 3000),
        (("produce", "--rate", "1000", "--duration", "500ms", "--fake", "orders", "-p", "2"), 500),
        (("produce", "-n", "100", "--acks", "0", "--size", "28"), 100),
        (("consume", "-n", "3000", "-p", "2"), 3000),
        (("consume", "-n", "500", "--fake", "users", "-k", "{{seq}}", "-g", "perf-group"), 500),
        (("e2e", "--rate", "400", "--duration", "500ms", "-p", "2", "--warmup", "20"), 200),
        (("e2e", "--one-at-a-time", "-n", "30", "--fake", "{{seq}}"), 30),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else None,
)
def test_every_record_is_measured_and_verified(
    at: Run, kafka: Kafka, words: tuple[str, ...], records: int
) -> None:
    ran = at("perf", *words, "-f", "json")
    assert ran.code == 0, ran.err
    (result,) = ran.json
    assert result["records"] == records
    warmup = 500 if "500" in words and words[0] == "produce" else 20 if "20" in words else 0
    checked = {"checked": records + warmup, "lost": 0, "repeated": 0, "reordered": 0, "corrupt": 0}
    assert result["verified"] == checked
    if words[0] != "consume":
        latency = result["latency_ms"]
        assert 0 < latency["min"] <= latency["p50"] <= latency["p99"] <= latency["max"]
        assert sum(bar["records"] for bar in result["histogram"]) == records
    jsonschema.validate(ran.json, at("perf", *words, "-f", "schema").json)
    rows = at("perf", words[0], "-n", "20", "--limit", "1", "-f", "json")
    jsonschema.validate(rows.json, at("perf", words[0], "--limit", "1", "-f", "schema").json)
    assert nothing_is_left(at)


def test_an_existing_topic_stays_and_apache_s_words_work(at: Run, fresh: Fresh) -> None:
    topic = fresh("perf")
    at("topics", "create", topic, "-p", "2")
    at("produce", topic, "mine", "too")
    words = ("--num-records", "300", "--record-size", "50", "--throughput", "-1")
    more = ("--producer-props", "acks=1", "linger.ms=1", "--reporting-interval", "1000")
    (result,) = at("perf", "produce", "-t", topic, *words, *more, "-f", "json").json
    assert (result["topic"], result["own_topic"], result["bytes"]) == (topic, False, 15_000)
    assert result["config"] == {"acks": "1", "linger.ms": "1"}
    assert result["verified"]["checked"] == 300
    (read,) = at("perf", "consume", "-t", topic, "--messages", "5000", "-f", "json").json
    assert read["records"] == 302 and read["verified"]["checked"] == 300
    assert len(at("consume", topic, "-e", "-f", "name").lines) == 302


def test_a_result_is_shown_for_people_and_compared(at: Run, tmp_path: Path) -> None:
    last = tmp_path / "last.json"
    last.write_bytes(at("perf", "e2e", "-n", "50", "-f", "json").out)
    ran = at("perf", "e2e", "-n", "60", "--size", "200", "--compare", str(last))
    assert ran.code == 0, ran.err
    for words in (
        "End to end through 1 partition",
        "p99.9",
        "█",
        "Verified",
        "they differ in record_size",
    ):
        assert words in ran.text, words
    (result,) = at("perf", "e2e", "-n", "20", "--compare", str(last), "-f", "json").json
    assert [row["figure"] for row in result["compared"]][:2] == [
        "records per second",
        "mb per second",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("produce", "--size", "27"), "at least 28 bytes"),
        (("produce", "-k", "x"), "needs --fake"),
        (("produce", "--size", "30", "--fake", "orders"), "cannot be combined"),
        (("produce", "--fake", "order"), "did you mean orders"),
        (("produce", "-t", "x", "-p", "3"), "for a temporary topic"),
        (("consume", "-t", "x", "--size", "30"), "of a temporary topic"),
        (("produce", "one", "two"), "Name one topic, not 'one' and 'two'"),
        (("produce", "=1"), "is not KEY=VALUE"),
        (("produce", "--duration", "soon"), "needs a duration"),
        (("produce", "-X", "ack=1"), "did you mean acks"),
        (("e2e", "--one-at-a-time", "--rate", "5"), "cannot be combined"),
        (("produce", "--compare", "/nowhere"), "cannot be read"),
        (("produce", "--compare", "/dev/null"), "not a result"),
    ],
)
def test_what_makes_no_sense_makes_no_topic(at: Run, words: tuple[str, ...], said: str) -> None:
    ran = at("perf", *words, "-n", "5")
    assert (ran.code, said in ran.err) == (2, True), ran.err
    assert nothing_is_left(at)


def test_a_word_names_the_topic(at: Run, fresh: Fresh) -> None:
    topic = fresh("perf")
    at("topics", "create", topic)
    (result,) = at("perf", "produce", topic, "acks=1", "-n", "7", "-f", "json").json
    assert (result["topic"], result["own_topic"], result["records"]) == (topic, False, 7)
    for more in (("other",), ("-t", "other")):
        twice = at("perf", "produce", topic, *more, "-n", "5")
        assert (twice.code, "Name one topic" in twice.err) == (2, True), twice.err


def test_a_missing_topic_is_an_error(at: Run, fresh: Fresh) -> None:
    name = fresh("nowhere")
    ran = at("perf", "produce", "-t", name, "-n", "5")
    assert (ran.code, "does not exist" in ran.err) == (1, True)
    assert at("topics", "list", name, "-f", "name").text == ""


def test_a_topic_that_cannot_be_made_leaves_nothing_to_delete(at: Run) -> None:
    ran = at("perf", "produce", "-n", "5", "-r", "30")
    assert ran.code == 1 and "INVALID_REPLICATION_FACTOR" in ran.err
    assert "left over" not in ran.err


def test_records_that_fail_fail_it(at: Run) -> None:
    ran = at("perf", "produce", "-n", "20", "-c", "max.message.bytes=100", "-f", "json")
    assert ran.code == 1
    assert ran.json[0]["failed"] == 20 and "20 records could not be written" in ran.err
    assert ran.json[0]["verified"]["lost"] == 0


def test_records_that_are_lost_fail_it(at: Run) -> None:
    """Without acknowledgments, the producer does not learn that the broker refuses all records."""
    words = ("-n", "20", "--acks", "0", "-c", "max.message.bytes=100", "-f", "json")
    ran = at("perf", "produce", *words)
    assert (ran.code, "20 lost" in ran.err) == (1, True), ran.err
    assert ran.json[0]["verified"] == {
        "checked": 0,
        "lost": 20,
        "repeated": 0,
        "reordered": 0,
        "corrupt": 0,
    }


PRODUCE, LIST_OFFSETS = 0, 2


def _frames(connection: socket.socket) -> Iterator[bytes]:
    with connection.makefile("rb") as stream, suppress(OSError):
        while len(head := stream.read(4)) == 4:
            yield head + stream.read(*struct.unpack(">i", head))


class LateProduce:
    """A proxy to a broker. It delays Produce requests until the client sends another request on the
    same connection or, if there is none, until the broker answers ListOffsets on another."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._ends_told = threading.Event()

    def __call__(self, client: socket.socket) -> None:
        broker = socket.create_connection(("127.0.0.1", self._port))
        asked: list[int] = []
        for pump in (self._requests, self._answers):
            threading.Thread(target=pump, args=(client, broker, asked), daemon=True).start()

    def _requests(self, client: socket.socket, broker: socket.socket, asked: list[int]) -> None:
        late = b""
        with suppress(OSError):
            for frame in _frames(client):
                (api,) = struct.unpack(">h", frame[4:6])
                if api == PRODUCE:
                    late += frame
                else:
                    asked.append(api)
                    broker.sendall(late + frame)
                    late = b""
            if late:
                self._ends_told.wait(60)
                broker.sendall(late)
            broker.shutdown(socket.SHUT_WR)

    def _answers(self, client: socket.socket, broker: socket.socket, asked: list[int]) -> None:
        with closing(broker), suppress(OSError):
            for answered, frame in enumerate(_frames(broker)):
                client.sendall(frame)
                if asked[answered] == LIST_OFFSETS:
                    self._ends_told.set()


def test_records_that_nobody_acknowledges_are_not_lost_before_the_broker_has_read_them(
    pk: Run,
) -> None:
    (own,) = free_ports(1)
    with listening(LateProduce(own)) as port:
        config = {
            "listeners": f"PLAINTEXT://127.0.0.1:{own}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        }
        with PkBroker(config=config, memory=True):
            words = ("-n", "50", "--acks", "0", "-b", f"127.0.0.1:{port}", "-f", "json")
            ran = pk("perf", "produce", *words)
    assert ran.code == 0, ran.err
    assert (ran.json[0]["verified"]["checked"], ran.json[0]["verified"]["lost"]) == (50, 0)


def test_a_dry_run_makes_nothing(at: Run) -> None:
    ran = at("perf", "consume", "-n", "50", "--dry-run")
    assert (ran.code, "nothing was done" in ran.err) == (0, True)
    ran = at("perf", "consume", "-t", "orders", "--dry-run")
    assert ran.err == "Would consume the records of orders; nothing was done.\n"
    assert nothing_is_left(at)


@pytest.mark.faults
def test_a_stall_of_the_broker_counts_for_every_record_that_was_due_in_it(pk: Run) -> None:
    """A producer that waits for the answer before sending the next sees one slow record here, and
    no more."""
    with PkBroker(memory=True) as broker:
        stopped = threading.Event()

        def stall() -> None:
            assert process.stderr is not None
            assert any("p99" in line for line in process.stderr)
            os.kill(broker.pid, signal.SIGSTOP)
            stopped.wait(0.6)
            os.kill(broker.pid, signal.SIGCONT)
            process.stderr.read()

        # Far longer than the stall, which begins when the first report has been read.
        words = ("perf", "produce", "--rate", "500", "--duration", "6s")
        words = (*words, "--reporting-interval", "50", "-f", "json", "-b", broker.bootstrap)
        with running(*words) as process:
            stalling = threading.Thread(target=stall)
            stalling.start()
            assert process.stdout is not None
            (result,) = json.loads(process.stdout.read())
            stalling.join()
            assert process.wait(60) == 0
    assert result["records"] == 3000 and result["latency_ms"]["max"] >= 500
    late = sum(bar["records"] for bar in result["histogram"] if bar["up_to_ms"] > 100)
    assert late >= 150, "of 300 that were due in the 600 ms, 250 were more than 100 ms late"


@pytest.mark.parametrize("test", ["produce", "e2e"])
def test_interrupted_it_shows_what_it_has_and_deletes_its_topic(
    at: Run, kafka: Kafka, test: str
) -> None:
    words = ("perf", test, "--rate", "500", "--duration", "5m", "--reporting-interval", "50")
    with running(*words, "-f", "json", "-b", kafka.bootstrap) as process:
        assert process.stderr is not None
        while "p99" not in (line := process.stderr.readline()):
            assert line, "it ended"
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT, error
    (result,) = json.loads(out)
    assert result["interrupted"] and result["records"] > 0 and result["failed"] == 0
    assert nothing_is_left(at)


def test_on_a_terminal_it_says_how_far_it_is(
    terminal: Callable[..., Terminal], kafka: Kafka
) -> None:
    words = ("perf", "e2e", "--rate", "100", "--duration", "2500ms")
    one = terminal(*words, "-b", kafka.bootstrap, lines=50)
    one.wait_for("records/s")
    one.wait_for("Verified")
    assert one.end() == 0
    assert "▏" in one.screen() or "█" in one.screen()
    assert "End to end 1 s" not in one.screen()
    assert MARK_BYTES == 28 and one.traces() == []
