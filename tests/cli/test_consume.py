"""`pk consume`: searching by link, key, recency and JSON fields of values, consuming as a member of
a group, and how it ends."""

import fcntl
import io
import json
import signal
import subprocess
import sys
import termios
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any

import pytest
import trio
from clients.fixtures import Kafka
from clients.pk_broker import PkBroker, running
from clients.topics import admin, create_topic, wait_for_marks, wait_until
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewPartitions
from listeners import scripted
from terminal import Terminal, on_terminal
from two_partitions import KNOWN, Two

from pk.cli.command_line.parse import parse
from pk.cli.main import main
from pk.cli.nouns.consume import later_partitions
from pk.cli.nouns.consume.later_partitions import LaterPartitions
from pk.cli.nouns.consume.partitions import Leadership, without_leaderless
from pk.cli.runtime.context import Context
from pk.cli.terminal.streams import Streams
from pk.core.values import TopicPartition
from pk.net.client.partitioner import partition_for_key

Run = Callable[..., Any]
Fresh = Callable[[str], str]


_KEPT: dict[str, str] = {}
"""A topic for each broker, which tests only read."""


@pytest.fixture
def kept(at: Run, kafka: Kafka, fresh: Fresh) -> str:
    """A topic like `orders`, for tests that only read it."""
    if kafka.bootstrap not in _KEPT:
        _KEPT[kafka.bootstrap] = make_orders(at, fresh)
    return _KEPT[kafka.bootstrap]


@pytest.fixture
def orders(at: Run, fresh: Fresh) -> str:
    """A topic of three partitions with 30 records, a second apart, in the partitions that the
    partitioner chooses for their keys."""
    return make_orders(at, fresh)


def make_orders(at: Run, fresh: Fresh) -> str:
    topic = fresh("orders")
    # The records are dated 2001, so a broker that checks retention would delete them.
    at("topics", "create", topic, "-p", "3", "-c", "retention.ms=-1")
    lines = [
        json.dumps(
            {
                "key": f"k{i % 5}",
                "value": json.dumps({"amount": i, "user": {"name": f"u{i % 3}"}, "tags": ["a", i]}),
                "timestamp": 1_000_000_000_000 + i * 1000,
                "headers": [["eu", str(i % 2)]],
            }
        )
        for i in range(30)
    ]
    assert at("produce", topic, "-f", "jsonl", stdin="\n".join(lines).encode()).code == 0
    return topic


def reading(kafka: Kafka, *words: str) -> "AbstractContextManager[subprocess.Popen[str]]":
    return running("consume", *words, "-b", kafka.bootstrap)


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def test_a_link_leads_to_its_record(at: Run, kept: str) -> None:
    links = at("consume", kept, "-e", "-f", r"%L\n").lines
    assert links[0].startswith(f"pk://{kept}/") and len(set(links)) == 30
    some = [links[3], links[17]]
    again = at("consume", *some, "-f", r"%L\n")
    assert (again.code, again.lines) == (0, some)
    by_template = at("consume", kept, "-e", "-f", "{link} {value.amount}\\n").lines
    wanted = dict(pair.split() for pair in by_template)[some[0]]
    assert json.loads(at("consume", some[0]).text)["amount"] == int(wanted)


def test_a_link_of_a_profile_leads_to_its_cluster(
    at: Run, kafka: Kafka, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at("profile", "add", "here", "-b", kafka.bootstrap)
    (link,) = at("consume", kept, "-e", "-n", "1", "-f", r"%L\n", "--profile", "here").lines
    assert link.startswith("pk://here/")
    monkeypatch.setenv("PK_BOOTSTRAP_SERVER", "127.0.0.1:1")
    assert at("consume", link, "-f", r"%L\n").lines == [link]
    missing = at("consume", link.replace("here", "hre"))
    assert (missing.code, "did you mean here" in missing.err) == (2, True)


@pytest.mark.parametrize("words", [("-k", "k", "--key-partition"), ("-p", "1"), ("-e",)])
def test_what_a_link_says_is_not_said_twice(pk: Run, words: tuple[str, ...]) -> None:
    wrong = pk("consume", "pk://orders/0/1", *words)
    assert (wrong.code, "A permalink says what to read" in wrong.err) == (2, True), wrong.err


def test_a_link_to_nothing_is_reported_and_the_others_are_shown(at: Run, kept: str) -> None:
    (good,) = at("consume", kept, "-p", "0", "-e", "-n", "1", "-f", r"%L\n").lines
    some = at("consume", f"pk://{kept}/0/999", good, "-f", r"%L\n")
    assert (some.code, some.lines) == (1, [good])
    assert "there is no record at offset 999" in some.err
    assert at("consume", f"pk://{kept}/7/0").code == 1
    assert at("consume", f"pk://{kept}/0").code == 2
    for words in (("--topic", kept), ("--from-beginning",), ("--partitions", "0")):
        both = at("consume", good, *words)
        assert (both.code, f"; {words[0]} cannot be combined with it" in both.err) == (2, True), (
            both.err
        )
    assert at("consume", good, "-e").code == 2
    assert at("consume", good, kept).code == 2


def test_a_key_can_be_looked_for_in_its_own_partition(at: Run, orders: str) -> None:
    own = partition_for_key(b"k1", 3)
    at("produce", orders, "-k", "k1", "-p", str((own + 1) % 3), '{"amount": 99}')
    words = ("consume", orders, "-e", "-k", "k1", "-f", "{partition} {value.amount}\\n")
    everywhere = at(*words).lines
    in_its_own = at(*words, "--key-partition").lines
    assert in_its_own == [f"{own} {n}" for n in range(1, 30, 5)]
    assert sorted(everywhere) == sorted([*in_its_own, f"{(own + 1) % 3} 99"])
    assert at("consume", orders, "-e", "--key-partition").code == 2


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("value.amount > 27", [28, 29]),
        ("value.user.name = u1 and value.amount < 5", [1, 4]),
        ("value.tags contains 7", [7]),
        ("value.tags.1 in (3, 4)", [3, 4]),
        ("headers.eu = 1 and offset >= 0 and value.amount < 4", [1, 3]),
        ("time ~ ':46:59' and value.amount < 20", [19]),
        ("value.nothing.here > 1", []),
        ("not key and value.amount = 1", []),
    ],
)
def test_conditions_reach_into_json(
    at: Run, kept: str, condition: str, expected: list[int]
) -> None:
    found = at("consume", kept, "-e", "--where", condition, "-f", "{value.amount}\\n")
    assert (found.code, sorted(map(int, found.lines))) == (0, expected), found.err


def test_the_newest_of_what_the_filters_let_through(at: Run, kept: str) -> None:
    words = ("consume", kept, "-f", "{value.amount}\\n", "--tail")
    assert at(*words, "3").lines == ["27", "28", "29"]
    assert at(*words, "2", "-k", "k2").lines == ["22", "27"]
    assert at(*words, "3", "--where", "value.amount < 12").lines == ["9", "10", "11"]
    assert at(*words, "3", "-H", "eu=1").lines == ["25", "27", "29"]
    assert at(*words, "99", "--where", "value.amount < 2").lines == ["0", "1"]


def test_the_newest_and_then_what_comes(at: Run, kafka: Kafka, orders: str) -> None:
    with reading(kafka, orders, "--tail", "2", "--follow", "-f", "{value.amount}\\n") as process:
        assert [line(process), line(process)] == ["28", "29"]
        at("produce", orders, '{"amount": 30}')
        assert line(process) == "30"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == -signal.SIGINT
    assert at("consume", orders, "--follow").code == 2


def test_an_interrupt_ends_it(kafka: Kafka, kept: str) -> None:
    with reading(kafka, kept, "--from-beginning", "-n", "99", "-f", r"%o\n") as process:
        for _ in range(30):
            assert line(process)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == -signal.SIGINT
        assert process.stderr is not None and process.stderr.read() == ""


def test_what_was_written_is_whole_however_it_ends(at: Run, kafka: Kafka, kept: str) -> None:
    assert at("consume", "nowhere", "-e", "-f", "json").out == b""
    assert at("consume", kept, "-o", "end..", "-f", "json", "--timeout-ms", "100").json == []
    with reading(kafka, kept, "--from-beginning", "-f", "json") as process:
        shown = [line(process) for _ in range(30)]  # the last waits for a comma
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == -signal.SIGINT
        assert process.stdout is not None
        assert len(json.loads("".join(shown) + process.stdout.read())) == 30


def test_a_timeout_below_0_is_none(at: Run, kept: str, fresh: Fresh) -> None:
    for how in (("--from-beginning",), ("-g", fresh("patient"), "--from-beginning")):
        ran = at("consume", kept, *how, "-n", "30", "--timeout-ms", "-1")
        assert (ran.code, len(ran.lines)) == (0, 30), ran.err


def test_topics_and_partitions_that_come_meanwhile_are_read(
    at: Run, kafka: Kafka, fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    stem = fresh("meanwhile")
    first, second = f"{stem}-1", f"{stem}-2"
    at("topics", "create", first, "-p", "1")
    look, made = LaterPartitions.check, []

    def make() -> None:
        admin(kafka).create_partitions([NewPartitions(first, 2)])[first].result(60)
        create_topic(kafka, second, 1)
        producer = Producer({"bootstrap.servers": kafka.bootstrap})
        producer.produce(first, "a partition", partition=1)
        producer.produce(second, "a topic")
        producer.flush(60)

    async def after_both_are_made(self: Any) -> None:
        if not made:
            made.append(True)
            await trio.to_thread.run_sync(make)
        await look(self)

    monkeypatch.setattr(later_partitions, "_NEW_PARTITIONS_S", 0.1)
    monkeypatch.setattr(LaterPartitions, "check", after_both_are_made)
    read = at("consume", "--include", f"{stem}-.*", "-n", "2", "--timeout-ms", "60000")
    assert sorted(read.lines) == ["a partition", "a topic"], read.err
    assert f"{first}/1" in read.err and f"{second}/0" in read.err


@pytest.mark.parametrize(
    ("led", "endless", "read", "code", "said"),
    [
        ((True, True), False, [0, 1], 0, ""),
        ((True, False), False, [0], 1, "No leader now: t/1; skipped. `pk why partition t/1`"),
        ((False, False), False, [0, 1], 0, "No leader now: t/0 and t/1; waiting for one."),
        ((True, False), True, [0], 0, "No leader now: t/1; reading starts when there is one."),
        (
            (False, False),
            True,
            [],
            0,
            "No leader now: t/0 and t/1; reading starts when there is one.",
        ),
    ],
)
def test_a_partition_without_a_leader_does_not_keep_the_others_from_being_read(
    led: tuple[bool, ...], endless: bool, read: list[int], code: int, said: str
) -> None:
    parsed = parse(("consume", "t"))
    err = io.StringIO()
    context = Context(parsed.values, parsed.path, Streams(io.BytesIO(), err))
    found = {TopicPartition("t", i): Leadership(each) for i, each in enumerate(led)}
    kept = without_leaderless(context, found, endless=endless)
    assert ([tp.partition for tp in kept], int(context.exit)) == (read, code)
    assert err.getvalue().startswith(said) and bool(err.getvalue()) == bool(said)


@pytest.mark.parametrize("leaders", [[1, -1], [-1, -1]])
def test_a_partition_that_gets_a_leader_is_read_from_where_it_stood_without_one(
    pk: Run, monkeypatch: pytest.MonkeyPatch, leaders: list[int]
) -> None:
    cluster = Two()
    cluster.leaders = leaders
    cluster.records = cluster.ends[0] = [4, 4]
    look = LaterPartitions.check

    async def after_a_leader_came_and_took_records(self: Any) -> None:
        # Both have records by the time that the command sees the leader.
        cluster.epoch, cluster.leaders, cluster.records = 1, [1, 1], [5, 5]
        await look(self)

    monkeypatch.setattr(later_partitions, "_LEADERS_S", 0.0)
    monkeypatch.setattr(LaterPartitions, "check", after_a_leader_came_and_took_records)
    with scripted(lambda _: cluster.handle) as cluster.broker:
        cluster.broker.versions = {k: v for k, v in cluster.broker.versions.items() if k in KNOWN}
        read = pk("consume", "t", "-b", cluster.broker.address, "-f", "%p@%o\\n", "-n", "2")
    assert (read.code, sorted(read.lines)) == (0, ["0@4", "1@4"])
    assert "t/1 has a leader now" in read.err or "t/0 and t/1 have a leader now" in read.err


@pytest.mark.parametrize(
    ("words", "lines", "code", "said"),
    [
        (("t", "-e", "--merge"), ["0@0"], 0, ""),
        (("t", "-e", "--merge", "-n", "2"), ["0@0"], 124, "Timed out after 300 ms with 1 of 2"),
        (("t", "--tail", "2"), ["0@0"], 0, ""),
        (("t", "--tail", "2", "--follow"), ["0@0"], 0, ""),
        (("t", "--tail", "2", "-n", "2"), ["0@0"], 124, "Timed out after 300 ms with 1 of 2"),
        (("pk://t/0/0", "pk://t/1/0"), ["0@0"], 124, "offset 0: none arrived within 300 ms"),
    ],
)
def test_a_partition_that_sends_nothing_does_not_keep_it_from_ending(
    pk: Run, words: tuple[str, ...], lines: list[str], code: int, said: str
) -> None:
    cluster = Two()
    cluster.silent = {1}
    with scripted(lambda _: cluster.handle) as cluster.broker:
        cluster.broker.versions = {k: v for k, v in cluster.broker.versions.items() if k in KNOWN}
        where = ("-b", cluster.broker.address, "--timeout-ms", "300")
        read = pk("consume", *words, *where, "-f", "%p@%o\\n")
    assert (read.code, read.lines) == (code, lines), read.err
    assert said in read.err


def test_a_topic_that_is_deleted_while_it_has_no_leader_ends_it(
    pk: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Two()
    cluster.leaders = [-1, -1]
    look = LaterPartitions.check

    async def after_it_was_deleted(self: Any) -> None:
        cluster.deleted = True
        await look(self)

    monkeypatch.setattr(later_partitions, "_LEADERS_S", 0.0)
    monkeypatch.setattr(later_partitions, "GONE_S", 0.0)
    monkeypatch.setattr(LaterPartitions, "check", after_it_was_deleted)
    with scripted(lambda _: cluster.handle) as cluster.broker:
        cluster.broker.versions = {k: v for k, v in cluster.broker.versions.items() if k in KNOWN}
        where = ("-b", cluster.broker.address, "--timeout-ms", "20000")
        read = pk("consume", "t", *where, "-n", "1")
    assert (read.code, read.out) == (1, b"")
    assert read.err.endswith("t was deleted while none of its partitions had a leader.\n")


def test_a_topic_that_is_deleted_meanwhile_ends_it(at: Run, kafka: Kafka, orders: str) -> None:
    with reading(kafka, orders, "--from-beginning", "-f", r"%o\n") as process:
        for _ in range(30):
            assert line(process)
        at("topics", "delete", orders, "-y")
        assert process.wait(60) == 1
        assert process.stderr is not None
        assert process.stderr.read() == f"{orders} was deleted while it was read.\n"


def test_a_member_commits_what_it_showed_and_no_more(at: Run, fresh: Fresh, orders: str) -> None:
    group = fresh("group")
    words = ("consume", orders, "-g", group, "--from-beginning", "-f", "{value.amount}\\n")
    first = at(*words, "-n", "7")
    assert len(first.lines) == 7
    rest = at(*words, "-e")
    assert sorted(map(int, first.lines + rest.lines)) == list(range(30))
    assert at(*words, "-e").lines == []
    at("produce", orders, '{"amount": 30}')
    assert at(*words, "-e", "--where", "value.amount > 29").lines == ["30"]
    assert at("consume", orders, "-o", "committed..end", "-g", group).lines == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_a_member_showed_before_it_was_ended_is_committed(
    at: Run, kafka: Kafka, fresh: Fresh, orders: str, number: int
) -> None:
    group = fresh("group")
    words = ("-g", group, "--from-beginning", "-X", "auto.commit.interval.ms=600000")
    with reading(kafka, orders, *words, "-f", r"%o\n") as process:
        for _ in range(30):
            assert line(process)
        at("produce", orders, '{"amount": 30}')
        assert line(process)  # so the 30 are behind it, whether or not it has noted this one
        process.send_signal(number)
        assert process.wait(60) == (-number if number == signal.SIGINT else 130)
    assert at("groups", "describe", group, "--state", "-f", "json").json[0]["state"] == "Empty"
    again = at("consume", orders, *words, "-e", "-f", "{value.amount}\\n").lines
    assert again in ([], ["30"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_in_the_middle_of_output_commits_only_what_was_written(
    at: Run, kafka: Kafka, fresh: Fresh, number: int
) -> None:
    topic, group = fresh("much"), fresh("group")
    at("topics", "create", topic)
    at("produce", topic, stdin=b"".join(b"%0100d\n" % i for i in range(20_000)))
    with reading(kafka, topic, "-g", group, "--from-beginning") as process:
        out = process.stdout
        assert out is not None
        shown = [line(process)]  # and then it blocks: the pipe is full, and nobody reads it
        wait_until("a full pipe", lambda: _waiting_in(out) >= 60_000)
        process.send_signal(number)
        shown += out.read().split()
        assert process.wait(60) == (-number if number == signal.SIGINT else 130)
    rest = at("consume", topic, "-g", group, "--from-beginning", "-e").lines
    assert {int(number) for number in shown + rest} == set(range(20_000))


def _waiting_in(pipe: IO[str]) -> int:
    """The number of unread bytes in a pipe."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4), sys.byteorder)


def test_null_and_empty_are_told_apart(at: Run, fresh: Fresh) -> None:
    topic = fresh("nulls")
    at("topics", "create", topic)
    at("produce", topic, "-f", "jsonl", stdin=b'{"value": null}\n{"value": ""}\n{"value": "v"}\n')
    assert at("consume", topic, "-e").text == "null\n\nv\n"
    assert at("consume", topic, "-e", "-f", "%v;").text == ";;v;"
    assert at("consume", topic, "-e", "-f", "%v%%\\n").text == "%\n%\nv%\n"
    apache = ("--property", "null.literal=NULL", "--property", "line.separator=|")
    assert at("consume", topic, "-e", *apache).text == "NULL||v|"
    assert at("consume", topic, "-e", "-n", "2").text == "null\n\n"
    assert at("consume", topic, "-o", "1..3").text == "\nv\n"


def test_apache_s_formatters_by_their_names(
    at: Run, fresh: Fresh, orders: str, tmp_path: Any
) -> None:
    group = fresh("group")
    at("groups", "reset-offsets", group, "-t", orders, "--to", "2", "-y")
    words = ("console-consumer", "--topic", "__consumer_offsets", "-e", "--formatter")
    for package in (
        "org.apache.kafka.tools.consumer.",
        "kafka.coordinator.group.GroupMetadataManager$",
    ):
        read = at(*words, f"{package}OffsetsMessageFormatter")
        found = [r for r in map(json.loads, read.lines) if r["key"]["group"] == group]
        assert [r["value"]["offset"] for r in found] == [2, 2, 2]
    assert at(*words, "NoOpMessageFormatter").text == ""
    unknown = at(*words, "MyFormatter")
    assert (unknown.code, "OffsetsMessageFormatter" in unknown.err) == (2, True)
    config = tmp_path / "formatter.properties"
    config.write_text("print.key=true\nkey.separator=:\n")
    read = at("consume", orders, "--tail", "1", "--formatter-config", str(config))
    assert read.text.startswith("k4:{")


def test_a_table_has_its_columns_below_their_heads(at: Run, kept: str) -> None:
    head, *rows = at("consume", kept, "-e", "-f", "table").lines
    assert len(rows) == 30
    for row in rows:
        assert row[head.index("KEY") :].startswith("k")
        assert row[head.index("VALUE") :].startswith('{"amount"')


def test_no_such_isolation_is_refused(pk: Run) -> None:
    ran = pk("consume", "t", "-b", "127.0.0.1:1", "-X", "isolation.level=none")
    assert (ran.code, "read_committed" in ran.err) == (2, True), ran.err


@pytest.mark.parametrize("form", ["json", "jsonl", "{value}", "{value}\\n"])
def test_on_a_terminal_the_total_has_a_line_of_its_own(at: Run, fresh: Fresh, form: str) -> None:
    topic = fresh("shown")
    made = at("produce", topic, stdin=b"one\n")
    assert made.code == 0, made.err
    screen = on_terminal(main, ("consume", topic, "-e", "-f", form))
    lines = screen.screen.rstrip().splitlines()
    assert lines[-1] == "1 record." and lines[-2].strip(), lines


@pytest.mark.parametrize("form", ["json", "jsonl", "csv", "yaml", "cbor"])
def test_what_programs_read_is_committed_unless_told_otherwise(
    kafka: Kafka, at: Run, fresh: Fresh, form: str
) -> None:
    topic = fresh("transactions")
    at("topics", "create", topic, "-p", "1")
    config = {"bootstrap.servers": kafka.bootstrap, "transactional.id": topic}
    producer = Producer(config)
    producer.init_transactions(30)
    for value in ("kept", "aborted"):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(60)
        (producer.abort_transaction if value == "aborted" else producer.commit_transaction)(30)
    wait_for_marks(kafka, topic, 4)

    def read(*words: str) -> tuple[bool, bool]:
        out = at("consume", topic, "-e", *words).out
        return b"kept" in out, b"aborted" in out

    assert read() == read("-f", "%v\n") == (True, True), "as Apache's tool"
    assert read("-f", form) == (True, False)
    for words in (
        ("--isolation-level", "read_uncommitted"),
        ("-X", "isolation.level=read_uncommitted"),
    ):
        assert read("-f", form, *words) == (True, True)
    linked = at("consume", f"pk://{topic}/0/2", "-f", form)
    assert b"aborted" in linked.out, "a link names its record"


@pytest.mark.peer
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("-e",), [0, 1, 2, 3, 4]),
        (("-e", "--isolation-level", "read_committed"), [0, 2, 4]),
        (("-e", "-X", "isolation.level=read_committed"), [0, 2, 4]),
        (("--tail", "2"), [3, 4]),
        (("--tail", "2", "--isolation-level", "read_committed"), [2, 4]),
        (("-o", "-3..end", "--isolation-level", "read_committed"), [4]),
        (("-e", "--merge", "--isolation-level", "read_committed"), [0, 2, 4]),
    ],
)
def test_a_range_ends_beyond_the_marks_of_transactions(
    apache: Kafka, pk: Run, fresh: Fresh, words: tuple[str, ...], expected: list[int]
) -> None:
    """Five transactions of one record, every second one aborted: the marker of each takes an
    offset."""
    topic = fresh("transactions")
    at = ("-b", apache.bootstrap)
    # The records are dated 2001, so a broker that checks retention would delete them.
    pk("topics", "create", topic, "-c", "retention.ms=-1", *at)
    producer = Producer({"bootstrap.servers": apache.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for i in range(5):
        producer.begin_transaction()
        producer.produce(topic, str(i), timestamp=1_000_000_000_000 + i)
        producer.flush(60)
        (producer.abort_transaction if i % 2 else producer.commit_transaction)(30)
    wait_for_marks(apache, topic, 10)
    read = pk("consume", topic, *words, *at)
    assert (read.code, list(map(int, read.lines))) == (0, expected)


def test_a_scan_shows_how_far_it_is(terminal: Callable[..., Terminal]) -> None:
    """The bar appears after a second, with its rate. It disappears for a line of output, and at the
    end."""
    import sys

    source = """
import signal
from pk.cli.runtime.context import Context
from pk.cli.terminal.streams import Streams
from pk.cli.options.option_values import Values
from pk.cli.runtime.progress import Progress
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
context = Context(Values(), (), Streams())
def go_on(done, note):
    while not signal.sigtimedwait([signal.SIGUSR1], 0.01):
        bar.update(done, note, bytes_done=10_000_000)
with Progress(context, "Reading", 1000, unit="offsets", over_output=True) as bar:
    go_on(500, "7 shown")
    context.clear_status()
    print("a record", flush=True)
    go_on(600, "8 shown")
"""
    one = terminal("-c", source, program=sys.executable)
    shown = one.wait_for("MB/s")
    assert "500 of 1,000 offsets" in shown and "50%" in shown and "7 shown" in shown
    one.signal(signal.SIGUSR1)
    one.wait_for("8 shown")
    one.signal(signal.SIGUSR1)
    assert one.end() == 0
    assert one.screen().split() == ["a", "record"]
    assert one.traces() == []


@pytest.mark.slow
def test_a_broker_that_goes_and_returns_is_reported_and_nothing_is_missed(pk: Run) -> None:
    """The data directory remains, so the broker still has its records when it returns."""
    with PkBroker() as broker:
        where = ("-b", broker.bootstrap)
        pk("topics", "create", "t", *where)
        pk("produce", "t", "before", *where)
        here = Kafka("pk", broker.bootstrap, Path())
        with reading(here, "t", "--from-beginning") as process:
            assert line(process) == "before"
            broker.kill()
            assert process.stderr is not None
            assert "No broker of" in process.stderr.readline()
            broker.start()
            pk("produce", "t", "after", *where)
            assert line(process) == "after"
            assert process.stderr.readline() == "The brokers answer again.\n"
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == -signal.SIGINT


@pytest.mark.slow
def test_ranges_reach_over_the_holes_of_compaction(pk: Run) -> None:
    """Compaction leaves ten of 600 records, and the newest may have any offset. Offsets therefore
    do not tell how many records there are."""
    quick = {"log.cleaner.backoff.ms": "50"}
    with PkBroker(config=quick) as broker:
        where = ("-b", broker.bootstrap)
        configs = ("cleanup.policy=compact", "min.cleanable.dirty.ratio=0.01", "segment.ms=50")
        options = [word for config in configs for word in ("-c", config)]
        pk("topics", "create", "t", *options, *where)
        lines = [json.dumps({"key": f"k{i % 10}", "value": str(i)}) for i in range(600)]
        pk("produce", "t", "-f", "jsonl", *where, stdin="\n".join(lines).encode())
        below = ("-o", "..600", "-f", r"%o %v\n")
        # An append later than segment.ms rolls the segment, because the cleaner compacts only
        # closed segments.
        for n in range(200):
            pk("produce", "t", "-k", "last", str(n), *where)
            if len(pk("consume", "t", *below, *where).lines) == 10:
                break
        left = [f"{n} {n}" for n in range(590, 600)]
        assert pk("consume", "t", *below, *where).lines == left
        assert pk("consume", "t", *below, "--merge", *where).lines == left
        words = ("-f", r"%o %v\n", "--where", "offset < 600", *where)
        assert pk("consume", "t", "--tail", "3", *words).lines == left[-3:]
        assert pk("consume", "t", "--tail", "99", *words).lines == left
        assert pk("consume", "t", "-o", "5..593", *words).lines == left[:3]
        assert pk("consume", "t", "-o", "5..590", *words).lines == []
        copied = pk("cp", "t", "copy", "-o", "..600", "--create", "-y", "-f", "json", *where).json
        assert (copied[0]["offsets"], copied[0]["copied"]) == (600, 10)
