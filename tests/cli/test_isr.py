"""How `pk isr` interprets the brokers' answers: the replicas that are behind, those that left the
ISR, and for how long."""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

import pytest
import trio
from clients.fixtures import Kafka
from shapes import check_json
from trio.testing import MockClock

from pk.cli.cluster.isr_changes import History, isr_changes
from pk.cli.cluster.out_of_sync_since import Witness
from pk.cli.cluster.partition_selection import filtered
from pk.cli.cluster.replica_lag import show_lag
from pk.cli.command_line.parse import parse
from pk.cli.nouns.isr.isr import isr_row
from pk.cli.nouns.isr.options import InSyncReplicas
from pk.cli.nouns.isr.rows import show_since
from pk.cli.nouns.isr.watch import watch
from pk.cli.nouns.partitions.partitions import partition_row, state_of
from pk.cli.options.option_sets import PartitionFilters
from pk.cli.output.formats import Column
from pk.cli.runtime.context import Context
from pk.cli.runtime.event_table import Cell, EventTable
from pk.cli.terminal.streams import Streams
from pk.core.values import ZERO_UUID, TopicPartition
from pk.net.client.answers import Answers
from pk.net.client.errors import ConnectFailed
from pk.net.client.results import PartitionDescription, TopicDescription

Run = Callable[..., Any]
Fresh = Callable[[str], str]
A, B, C = (TopicPartition("t", n) for n in range(3))


def test_what_must_be_whole_moves_what_stands_behind_it() -> None:
    out = io.BytesIO()
    parsed = parse(("isr", "-w"))
    cells = (
        Cell("TOPIC", 5, lambda row: row["topic"]),
        Cell("ISR", 3, lambda row: row["isr"], cut=False),
        Cell("OUT", 3, lambda row: row["out"], right=True),
    )
    columns = [Column(name) for name in ("topic", "isr", "out")]
    context = Context(parsed.values, parsed.path, Streams(out=out))
    table = EventTable(context, columns, cells, lambda row: None)
    table.add([{"topic": "payments", "isr": "1001,1002", "out": "7"}])
    assert out.getvalue().decode() == "TOPIC  ISR  OUT\npaym…  1001,1002    7\n"


@pytest.mark.parametrize(
    ("form", "written"),
    [
        ("yaml", b"- topic: a\n- topic: b\n"),
        ("csv", b"topic\na\nb\n"),
        ("table", b"TOPIC\na\nb\n"),
        ("json", b'{"topic": "a"}\n{"topic": "b"}\n'),
        ("cbor", b"\x81\xa1\x65topic\x61a\x81\xa1\x65topic\x61b"),
    ],
)
def test_a_table_that_grows_begins_with_a_head_only_where_there_is_one(
    form: str, written: bytes
) -> None:
    out = io.BytesIO()
    parsed = parse(("isr", "-w", "-f", form, "--columns", "topic"))
    context = Context(parsed.values, parsed.path, Streams(out=out))
    table = EventTable(context, [Column("topic")], (), lambda row: None)
    table.add([{"topic": "a"}])
    table.add([{"topic": "b"}])
    assert out.getvalue() == written


def partition(
    leader: int, replicas: tuple[int, ...], isr: tuple[int, ...], **more: Any
) -> PartitionDescription:
    return PartitionDescription(0, leader, 5, replicas, isr, **more)


def test_what_a_watch_of_the_isr_tells() -> None:
    before = {A: (1, (1, 2, 3)), B: (1, (1, 2))}
    now = {A: (2, (2, 3, 4)), C: (-1, (1,))}
    reported = [
        (r["partition"], r["event"], r["brokers"]) for r in isr_changes(before, now, "then")
    ]
    assert reported == [
        (0, "shrink", [1]),
        (0, "expand", [4]),
        (0, "leader", [2]),
        (1, "deleted", [1, 2]),
        (2, "made", [1]),
    ]
    assert isr_changes(now, now, "then") == []
    assert isr_changes({A: (1, (1,))}, {A: (-1, (1,))}, "then")[0]["event"] == "offline"


class SeenEnough(Exception):
    pass


class Fading:
    """A cluster that does not answer the second request for configs."""

    def __init__(self) -> None:
        self.configs = self.topics = 0

    async def describe_topics(self, names: object) -> Answers[str, TopicDescription]:
        self.topics += 1
        if self.topics > 3:
            raise SeenEnough
        described = PartitionDescription(0, 1, 0, (1, 2), (1, 2))
        return Answers({"t": TopicDescription("t", ZERO_UUID, False, (described,))}.items())

    async def describe_configs(self, *_: object, **more: object) -> Answers[str, object]:
        self.configs += 1
        if self.configs == 2:
            raise ConnectFailed("h:1", "refused")
        return Answers()


def test_a_silence_at_any_question_does_not_end_the_watch() -> None:
    parsed, said, admin = parse(("isr", "-w", "--at-min-isr")), io.StringIO(), Fading()
    context = Context(parsed.values, parsed.path, Streams(io.BytesIO(), said))
    with pytest.RaisesGroup(SeenEnough):
        options = InSyncReplicas(at_min_isr=True)
        trio.run(
            watch, context, cast("Any", admin), options, 0.5, clock=MockClock(autojump_threshold=0)
        )
    assert said.getvalue().count("No broker answers; still watching.") == 1
    assert (admin.topics, admin.configs) == (4, 3)


def check_rows(words: tuple[str, ...], rows: Sequence[Mapping[str, Any]]) -> None:
    """Checks rows against `-f schema`."""
    check_json((*words, "-f", "json"), json.dumps(rows))


def test_a_watch_remembers_since_when_a_replica_is_gone() -> None:
    history = History()
    begun = history.begin({A: partition(1, (1, 2), (1,)), B: partition(1, (1, 2), (1, 2))})
    assert [(r["partition"], r["event"], r["brokers"], r["time"]) for r in begun] == [
        (0, "out", [2], None)
    ]
    left = isr_changes({B: (1, (1, 2))}, {B: (1, (1,))}, "t1")
    history.see(left, 1000)
    back = isr_changes({A: (1, (1,)), B: (1, (1,))}, {A: (1, (1, 2)), B: (1, (1, 2))}, "t2")
    history.see(back, 4500)
    # Broker 2 was out of the ISR of A before the first observation, so for how long is unknown.
    assert [(r["partition"], r["event"], r["out_for_ms"]) for r in back] == [
        (0, "expand", None),
        (1, "expand", 3500),
    ]
    again = isr_changes({B: (1, (1,))}, {B: (1, (1, 2))}, "t3")
    history.see(again, 9000)
    assert again[0]["out_for_ms"] is None
    check_rows(("isr", "-w"), [*begun, *left, *back, *again])


def test_a_row_knows_how_far_each_replica_is_behind() -> None:
    p = partition(1, (1, 2, 3), (1, 2), elr=(3,), offline_replicas=(3,))
    row = isr_row(A, p, 90, {1: 100, 2: 85})
    assert row["behind"] == {"2": 15, "3": None}
    check_rows(("isr",), [row])
    assert (row["lag_max"], row["log_end_offset"], row["high_watermark"]) == (15, 100, 90)
    assert row["log_end_offsets"] == {"1": 100, "2": 85, "3": None}
    assert (row["out_of_sync"], row["in_sync"], row["elr"]) == ([3], 2, [3])
    assert show_lag(row["behind"]) == "2:15,3:?"
    assert show_lag({"2": 0}) == "0"


def test_without_the_leader_s_end_nothing_is_said_of_lag() -> None:
    row = isr_row(A, partition(1, (1, 2), (1,)), None, {2: 85})
    assert row["behind"] is None and row["lag_max"] is None
    assert show_lag(row["behind"]) == "-"
    gone = isr_row(A, partition(-1, (1, 2), ()), None, {2: 85})
    assert gone["leader"] is None and gone["log_end_offsets"] == {"1": None, "2": 85}


def test_a_row_says_since_when_a_replica_is_out_and_about_what_it_missed() -> None:
    p = partition(1, (1, 2, 3), (1,))
    seen = {(A, 2): Witness(5_000, 40), (A, 3): Witness(9_000, None)}
    row = isr_row(A, p, 90, {1: 100, 3: 60}, seen)
    assert (row["behind"], row["estimated"], row["lag_max"]) == ({"2": 40, "3": 40}, [2], 40)
    assert show_lag(row["behind"]) == "2:~40,3:40"
    assert row["since"] and datetime.fromisoformat(row["since"]).timestamp() == 5.0
    assert json.loads(json.dumps(row["behind"])) == {"2": 40, "3": 40}
    unknown = isr_row(A, p, 90, {1: 100}, {(A, 2): Witness(None, None)})
    assert (unknown["since"], show_lag(unknown["behind"])) == (None, "2:?,3:?")
    nothing = isr_row(A, p, 90, {1: 100}, {(A, 2): Witness(5_000, 0)})
    assert show_lag(nothing["behind"]) == "2:~0,3:?"  # it is out, though nothing was written


def test_a_time_of_today_is_shown_without_its_day() -> None:
    now, shown = datetime.min, ""
    while now.date() != datetime.now().date():  # not across midnight
        now = datetime.now().astimezone().replace(microsecond=0)
        shown = show_since(now.isoformat())
    assert shown == now.isoformat()[11:19]
    assert show_since("2020-02-03T04:05:06.789+00:00") == "2020-02-03 04:05"
    assert show_since(None) == "-"


def test_what_others_know_of_before_the_watch_began_is_taken_for_as_long_as_nobody_saw() -> None:
    history = History()
    history.begin({A: partition(1, (1, 2, 3), (1,))})
    assert history.since(A, [2, 3]) is None
    history.learn(A, 2, 700)
    assert history.since(A, [2, 3]) is None and history.since(A, [2]) == 700
    history.learn(A, 3, 400)
    history.learn(A, 3, 999)  # known already
    assert history.since(A, [2, 3]) == 400
    history.learn(B, 1, 5)  # in sync: nothing to know
    assert history.since(B, [1]) is None
    back = isr_changes({A: (1, (1,))}, {A: (1, (1, 2))}, "t")
    history.see(back, 1000)
    assert back[0]["out_for_ms"] == 300


@pytest.mark.parametrize(
    ("p", "min_isr", "state"),
    [
        (partition(-1, (1, 2), ()), 1, "offline"),
        (partition(1, (1, 2, 3), (1,)), 2, "under min ISR"),
        (partition(1, (1, 2, 3), (1, 2)), 2, "at min ISR"),
        (partition(1, (1, 2, 3), (1, 2)), 1, "under-replicated"),
        (partition(1, (1, 2, 3), (1, 2)), None, "under-replicated"),
        (partition(2, (1, 2), (1, 2)), 1, "not preferred"),
        (partition(1, (1, 2), (1, 2)), 2, "healthy"),
    ],
)
def test_the_state_of_a_partition_is_the_worst_of_it(
    p: PartitionDescription, min_isr: int | None, state: str
) -> None:
    assert state_of(p, min_isr) == partition_row(A, p, min_isr)["state"] == state


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        ((), [A, B, C]),
        (("under_replicated",), [A, C]),
        (("offline",), [C]),
        (("under_min_isr",), [C]),
        (("at_min_isr",), [A]),
        (("offline", "at_min_isr"), [A, C]),
    ],
)
def test_filters_leave_what_ails(filters: tuple[str, ...], left: list[TopicPartition]) -> None:
    names = ("under_replicated", "offline", "under_min_isr", "at_min_isr")
    wanted = PartitionFilters(**{name: name in filters for name in names})
    partitions = {
        A: partition(1, (1, 2, 3), (1, 2)),
        B: partition(1, (1, 2, 3), (1, 2, 3)),
        C: partition(-1, (1, 2, 3), ()),
    }
    assert list(filtered(partitions, wanted, {"t": 2})) == left


def test_topics_by_pattern_and_filters_on_a_live_broker(at: Run, fresh: Fresh) -> None:
    one, two = fresh("isr-a"), fresh("isr-b")
    assert at("topics", "create", one, two, "-p", "2").code == 0
    prefix = one.partition("-a")[0]
    # Apache Kafka confirms new topics before their leaders can answer requests for log ends.
    assert at("topics", "offsets", one, two).code == 0
    rows = [r for r in at("isr", f"{prefix}-[ab].*", "-f", "json").json if r["topic"] in (one, two)]
    assert {r["topic"] for r in rows} == {one, two}
    assert {(str(r["behind"]), r["since"]) for r in rows} == {("{}", None)}, rows
    none = at("isr", "no-such-.*")
    assert (none.code, "No topic's whole name matches" in none.err) == (1, True)
    watched = at("isr", "-w", one, f"{two}x")
    assert (watched.code, watched.out) == (1, b"")
    assert f"Topic '{two}x' does not exist; did you mean {two}" in watched.err
    listed = at("partitions", "list", one, "-f", "json").json
    assert [(p["partition"], p["state"], p["leader"]) for p in listed] == [
        (0, "healthy", listed[0]["preferred_leader"]),
        (1, "healthy", listed[1]["preferred_leader"]),
    ]
    broker = str(listed[0]["leader"])
    assert len(at("partitions", "list", one, "--leader", broker, "-f", "json").json) == 2
    assert at("partitions", "list", one, "--not-preferred", "-f", "json").json == []
    assert at("partitions", "list", one, "--broker", "99", "-f", "json").json == []
    assert at("partitions", "list", one, "--leader", "x").code == 2


def test_on_a_terminal_it_is_said_that_nothing_ails(
    terminal: Run, at: Run, kafka: Kafka, fresh: Fresh
) -> None:
    name = fresh("healthy")
    at("topics", "create", name, "-p", "2")
    # Apache Kafka confirms new topics before their leaders can answer requests for log ends.
    assert at("topics", "offsets", name).code == 0
    for words in (("isr", name), ("partitions", "list", name)):
        screen = terminal(*words, "--under-replicated", PK_BOOTSTRAP_SERVER=kafka.bootstrap)
        assert screen.end() == 0
        assert "None of 2 partitions is under-replicated." in screen.screen()
        assert at(*words, "--under-replicated", "--offline").err == ""
