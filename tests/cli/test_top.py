"""`pk top` without a terminal: what it computes from several samples of offsets and in-sync sets,
the effects of keys, and its layout."""

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from each import for_each
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from pk.cli.cluster.pipelines import PipelineCommit, pipeline_of
from pk.cli.cluster.reassignment_progress import Seen
from pk.cli.exits import Unusable
from pk.cli.output.formats import OutputOptions
from pk.cli.records.json_text import indented
from pk.cli.records.range_reader import Pair
from pk.cli.records.source import Source
from pk.cli.terminal.text import cut_middle, printable
from pk.cli.top.meter import Meter, TimesMeter, trend
from pk.cli.top.model import Model
from pk.cli.top.record import record_lines
from pk.cli.top.records import Found, Wanted, filter_of
from pk.cli.top.rows import spark
from pk.cli.top.state import Screen, filtered, ordered
from pk.cli.top.tables import BY_NAME, TABS, snapshot_columns
from pk.cli.top.view import Painter, Status, timeline, together
from pk.core.record.batch import Record
from pk.core.values import ZERO_UUID, TopicPartition
from pk.net.client.metadata import PartitionInfo, TopicInfo
from pk.net.client.results import (
    GroupListing,
    LogDirDescription,
    Node,
    PartitionDescription,
    Reassignment,
    ReplicaSize,
)

TP = TopicPartition
Rows = list[dict[str, Any]]


def topic(
    name: str, *isrs: tuple[int, ...], leader: int | None = None, internal: bool = False
) -> TopicInfo:
    """A topic with replicas on 1, 2 and 3, and these in-sync sets."""
    partitions = tuple(
        PartitionInfo(isr[0] if leader is None else leader, 1, (1, 2, 3), isr, (), 0)
        for isr in isrs
    )
    return TopicInfo(name, ZERO_UUID, internal, partitions, 0, 0.0)


def model_of(*topics: TopicInfo, now_ms: int = 0) -> Model:
    model = Model()
    model.see_nodes({n: Node(n, "h", 9000 + n) for n in (1, 2, 3)}, 1, "id")
    model.see_topics({t.name: t for t in topics}, now_ms)
    return model


def group(name: str, state: str = "Stable") -> GroupListing:
    return GroupListing(name, "consumer", state, "Classic", 1)


def rows(model: Model, tab: str, subject: str | None = None, now_ms: float = 0) -> Rows:
    return BY_NAME[tab].rows(model, subject, now_ms)


# Speeds


def test_a_speed_takes_two_samples_and_is_that_of_the_last_seconds() -> None:
    meter: Meter[str] = Meter(window_s=10)
    meter.see("a", 100, 0.0)
    assert meter.rate("a") is None and meter.value("a") == 100
    for second in range(1, 31):
        meter.see("a", 100 + (10 * second if second <= 20 else 200), float(second))
    assert meter.rate("a") == 0.0  # nothing came in the last ten seconds
    meter.see("a", 400, 31.0)
    assert meter.rate("a") == pytest.approx(10.0)


def test_a_counter_that_falls_has_started_again() -> None:
    meter: Meter[str] = Meter()
    meter.see("a", 1000, 0.0)
    meter.see("a", 10, 1.0)
    assert meter.rate("a") is None
    meter.see("a", 30, 2.0)
    assert meter.rate("a") == 20.0


@given(st.lists(st.tuples(st.floats(0.01, 20), st.integers(0, 10**6)), min_size=1, max_size=60))
def test_no_speed_is_negative_or_above_the_fastest_step(steps: list[tuple[float, int]]) -> None:
    meter: Meter[str] = Meter()
    now, value = 0.0, 0
    meter.see("a", value, now)
    for pause, more in steps:
        now, value = now + pause, value + more
        meter.see("a", value, now)
    rate = meter.rate("a")
    assert rate is not None and 0 <= rate <= max(more / pause for pause, more in steps) * 1.001


def buckets(*counts: int) -> list[tuple[str, int]]:
    """Cumulative buckets up to 1 ms, 10 ms and above."""
    return list(zip(("1.0", "10.0", "+Inf"), counts, strict=True))


def test_how_long_requests_took_lately() -> None:
    meter: TimesMeter[str] = TimesMeter(window_s=10)
    meter.see("a", buckets(1000, 1000, 1000), 0.0)
    assert meter.rate("a") is None and meter.quantile("a", 0.5) is None
    meter.see("a", buckets(1000, 1100, 1100), 10.0)
    assert meter.rate("a") == 10.0
    assert meter.quantile("a", 0.5) == pytest.approx(5.5)  # the thousand before do not count
    meter.see("b", buckets(0, 0, 0), 0.0)
    meter.see("b", buckets(100, 100, 100), 10.0)
    assert meter.together(("a", "b"), 0.5) == pytest.approx(1.0)
    meter.see("a", buckets(5, 5, 5), 20.0)  # the broker has restarted
    assert meter.rate("a") is None and meter.quantile("a", 0.5) is None
    meter.keep({"b"})
    assert meter.sampled() == ["b"]


@for_each(
    ("lag", "drain", "incoming", "word", "zero_s"),
    [
        (None, 5.0, 5.0, None, None),
        (0, None, None, "none", 0.0),
        (1000, None, 3.0, None, None),
        (1000, 0.0, 0.0, "stuck", None),
        (1000, 100.0, 0.0, "shrinking", 10.0),
        (1000, 150.0, 50.0, "shrinking", 10.0),
        (1000, 50.0, 150.0, "growing", None),
        (100_000, 100.0, 101.0, "even", None),
        (400, 90.0, 100.0, "even", None),  # four seconds' worth: it only commits now and then
        (400, 40.0, 100.0, "growing", None),
    ],
)
def test_where_a_lag_is_going(
    lag: int | None,
    drain: float | None,
    incoming: float | None,
    word: str | None,
    zero_s: float | None,
) -> None:
    assert trend(lag, drain, incoming) == (word, zero_s)


# The model


def test_rates_lag_and_time_to_zero_come_from_offsets_and_commits() -> None:
    model = model_of(topic("orders", (1,), (1,)), topic("quiet", (1,)))
    a, b = TP("orders", 0), TP("orders", 1)
    model.see_groups([group("billing"), group("idle", "Empty")])
    model.see_ends({a: 1000, b: 500}, 0.0)
    model.see_commits({"billing": {a: 0, b: 500}, "idle": {}}, 0.0)
    model.see_ends({a: 1100, b: 600}, 10.0)
    model.see_commits({"billing": {a: 600, b: 600}}, 10.0)
    model.see_members({"billing": 2})
    model.see_record_times({(a, 600): 4_000})
    assert model.topic_rate("orders") == 20.0 and model.topic_rate("quiet") is None
    found = {row["group"]: row for row in rows(model, "groups", now_ms=9_000)}
    billing = found["billing"]
    assert (billing["lag"], billing["in_rate"], billing["drain_rate"]) == (500, 20.0, 70.0)
    assert (billing["trend"], billing["zero_s"], billing["time_lag_ms"]) == (
        "shrinking",
        10.0,
        5000,
    )
    assert billing["members"] == 2 and billing["topics"] == 1
    assert (found["idle"]["lag"], found["idle"]["drain_rate"]) == (0, None)
    by_topic = {row["topic"]: row for row in rows(model, "topics")}
    assert (by_topic["orders"]["in_rate"], by_topic["orders"]["out_rate"]) == (20.0, 70.0)
    inside = rows(model, "group", "billing", 9_000)
    assert [(r["partition"], r["lag"], r["trend"]) for r in inside] == [
        (0, 500, "shrinking"),
        (1, 0, "none"),
    ]
    assert [(r["end"], r["in_rate"], r["out_rate"]) for r in rows(model, "topic", "orders")] == [
        (1100, 10.0, 60.0),
        (600, 10.0, 10.0),
    ]


def test_the_lag_of_a_share_group_is_what_its_coordinator_counts() -> None:
    """Acknowledged records beyond the start offset are not lag."""
    model = model_of(topic("orders", (1,)))
    a = TP("orders", 0)
    model.see_groups([group("jobs")])
    for start, lag, now in ((100, 800, 0.0), (200, 500, 10.0)):
        model.see_ends({a: 1000}, now)
        model.see_commits({"jobs": {a: start}}, now, {"jobs": {a: lag}})
    (row,) = rows(model, "groups")
    assert (row["lag"], row["drain_rate"], row["trend"]) == (500, 30.0, "shrinking")
    assert model.next_offset("jobs", a) == 500
    (inside,) = rows(model, "group", "jobs")
    assert (inside["offset"], inside["end"], inside["lag"]) == (200, 1000, 500)
    model.see_groups([])
    assert model.reported_lags == {}


def test_a_group_with_the_offsets_of_a_pipeline_is_one() -> None:
    model = model_of(topic("orders", (1,)))
    model.see_groups([group("nightly"), group("billing")])
    said = '{"pk.pipeline": "nightly", "batch": 7, "at_ms": 5}'
    model.see_pipelines({"nightly": pipeline_of(["", said]), "billing": pipeline_of(["x"])})
    found = {row["group"]: row["type"] for row in rows(model, "groups")}
    assert found["nightly"] == "Pipeline" and found["billing"] != "Pipeline"
    model.see_pipelines({"nightly": None})
    assert rows(model, "groups")[0]["type"] != "Pipeline"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "pk.pipeline",
        '{"pk.pipeline": "x"}',
        '["pk.pipeline"]',
        '{"pk.pipeline": 1, "batch": "x", "at_ms": 1}',
    ],
)
def test_other_metadata_is_no_pipelines(text: str) -> None:
    assert pipeline_of([text]) is None
    known = '{"pk.pipeline": "p", "batch": 2, "at_ms": 9}'
    assert pipeline_of([text, known, known.replace("9", "8")]) == PipelineCommit("p", 2, 9)


def test_what_was_never_reported_is_unknown_and_not_nothing() -> None:
    model = model_of(topic("orders", (1,)))
    row = rows(model, "topics")[0]
    assert (row["in_rate"], row["out_rate"], row["bytes"]) == (None, None, None)
    assert rows(model, "groups") == [] and rows(model, "topic", "gone") == []
    model.see_groups([group("g")])
    row = rows(model, "groups")[0]
    assert (row["lag"], row["trend"], row["time_lag_ms"], row["members"]) == (None,) * 4


def test_what_is_gone_is_forgotten() -> None:
    model = model_of(topic("a", (1,)), topic("b", (1,)))
    model.see_ends({TP("a", 0): 1, TP("b", 0): 1}, 0.0)
    model.see_groups([group("g")])
    model.see_commits({"g": {TP("b", 0): 0}}, 0.0)
    model.see_topics({"a": topic("a", (1,))}, 1)
    model.see_groups([])
    assert model.ends.value(TP("b", 0)) is None and model.ends.value(TP("a", 0)) == 1
    assert model.commits == {} and model.drains.value(("g", TP("b", 0))) is None


def test_who_left_the_in_sync_replicas_and_since_when() -> None:
    model = model_of(topic("t", (1, 2, 3), (1, 2)), now_ms=1_000)
    assert [r["out_for_ms"] for r in rows(model, "isr", now_ms=5_000)] == [None]
    model.see_topics({"t": topic("t", (1, 3), (1, 2))}, 3_000)
    model.see_behind({TP("t", 0): {"2": 7}, TP("t", 1): {"3": None}})
    model.min_isr = {"t": 2}
    first, second = rows(model, "isr", now_ms=5_000)
    assert (first["out_of_sync"], first["out_for_ms"], first["behind"]) == ([2], 2_000, {"2": 7})
    assert (first["state"], second["out_for_ms"], second["behind"]) == ("at min", None, {"3": None})
    model.history.learn(TP("t", 1), 3, 500)
    model.history.learn(TP("t", 0), 2, 500)  # that one was seen; no better value is known
    assert [r["out_for_ms"] for r in rows(model, "isr", now_ms=5_000)] == [2_000, 4_500]
    model.see_topics({"t": topic("t", (1, 2, 3), (1, 2, 3))}, 6_000)
    assert rows(model, "isr") == []
    assert [(e.row["event"], e.row["brokers"], e.row["out_for_ms"]) for e in model.events] == [
        ("shrink", [2], None),
        ("expand", [2], 3_000),
        ("expand", [3], 5_500),
    ]


def test_the_timeline_counts_shrinks_and_expands_by_ten_seconds() -> None:
    model = model_of(topic("t", (1, 2, 3), (1, 2, 3)), now_ms=100_000)
    model.see_topics({"t": topic("t", (1, 2), (1, 2))}, 105_000)
    model.see_topics({"t": topic("t", (1, 2, 3), (1, 2))}, 125_000)
    lines = ["".join(text for text, _ in line) for line in timeline(model, 80)]
    shrink, expand = lines[1], lines[2]
    assert shrink.startswith("shrink") and "  2 in " in shrink
    assert expand.startswith("expand") and "  1 in " in expand
    assert re.findall(r"[▁-█]+", shrink)[0][-3:] == "█▁▁"
    assert re.findall(r"[▁-█]+", expand)[0][-3:] == "▁▁█"
    assert [len(events) for events in together(model.events)] == [2, 1]


def test_sizes_are_the_leaders_and_disks_the_brokers() -> None:
    model = model_of(topic("t", (1, 2)))
    replica = ReplicaSize(TP("t", 0), 100, 0, False)
    smaller = ReplicaSize(TP("t", 0), 70, 0, False)
    model.see_dirs({2: (LogDirDescription("/d", 0, (smaller,), 1000, 250),)}, 0.0)
    model.see_dirs({1: (LogDirDescription("/d", 0, (replica,), 1000, 750),)}, 0.0)
    assert rows(model, "topics")[0]["bytes"] == 100
    found = {row["broker"]: row for row in rows(model, "cluster")}
    assert (found[1]["log_bytes"], found[1]["disk_used_percent"]) == (100, 25.0)
    assert (found[2]["log_bytes"], found[2]["disk_used_percent"]) == (70, 75.0)
    model.see_dirs({2: (LogDirDescription("/d", 56, (), 1000, 250),)}, 20.0)
    assert {row["broker"]: row["state"] for row in rows(model, "cluster")}[2] == "disk failed"


def test_a_broker_that_holds_replicas_and_is_missing_is_down() -> None:
    model = model_of(topic("t", (1,)))
    model.see_nodes({1: Node(1, "h", 1), 3: Node(3, "h", 3, fenced=True)}, 1, "id")
    assert [(r["broker"], r["state"]) for r in rows(model, "cluster")] == [
        (1, "up"),
        (2, "down"),
        (3, "fenced"),
    ]


def test_moves_that_are_done_make_room_for_new_ones() -> None:
    model = model_of(topic("t", (1, 2, 3)))
    move = Reassignment((1, 2, 4), (4,), ())
    p = PartitionDescription(0, 1, 1, (1, 2, 4), (1, 2))
    model.see_moves(Seen({TP("t", 0): move}, {TP("t", 0): p}, {(TP("t", 0), 1): 100}), None, 0.0)
    assert [(r["percent"], r["note"]) for r in rows(model, "reassign")] == [(0.0, None)]
    model.see_moves(Seen({}, {}, {}), None, 1.0)
    assert [(r["percent"], r["note"]) for r in rows(model, "reassign")] == [(100.0, "done")]
    model.see_moves(Seen({TP("u", 0): move}, {TP("u", 0): p}, {}), None, 2.0)
    assert [r["topic"] for r in rows(model, "reassign")] == ["u"]


def test_a_replica_that_is_being_added_ails_nothing() -> None:
    model = model_of(topic("t", (1, 2), (1, 2)))
    model.see_adding({TP("t", 0): (3,)})
    assert model.under_replicated == [TP("t", 1)] == model.unhealthy
    assert rows(model, "topics")[0]["under_replicated"] == 1
    assert [r["partition"] for r in rows(model, "isr")] == [1]
    model.see_adding({})
    assert len(model.unhealthy) == 2


# Keys


def test_the_function_keys_of_htop() -> None:
    screen, painter, model = screen_with("orders", "payments")
    assert "Press any key" in press(screen, painter, model, "f1")
    shown = press(screen, painter, model, "x", "f4", "f6", "f10", "o", "r", "enter")
    assert screen.filter == "or" and "payments" not in shown
    before = screen.position.sort
    press(screen, painter, model, "f6")
    assert screen.position.sort != before
    assert screen.press("f10", ()) == "quit"


# Effects of the keys


def screen_with(*names: str) -> tuple[Screen, Painter, Model]:
    model = model_of(*(topic(name, (1, 2, 3)) for name in names))
    return Screen(tab="topics"), Painter(), model


def draw(screen: Screen, painter: Painter, model: Model, size: tuple[int, int] = (80, 24)) -> str:
    status = Status("here", 0, 0)
    lines = painter.lines(model, screen, status, *size)
    assert len(lines) == size[1]
    assert all(sum(cell_len(text) for text, _ in line) <= size[0] for line in lines)
    return "\n".join("".join(text for text, _ in line) for line in lines)


def press(screen: Screen, painter: Painter, model: Model, *keys: str) -> str:
    draw(screen, painter, model)
    for key in keys:
        screen.press(key, painter.rows(screen))
        draw(screen, painter, model)
    return draw(screen, painter, model)


def test_the_keys_of_the_tabs() -> None:
    screen, painter, model = screen_with("a")
    seen = []
    for key in ("1", "2", "3", "4", "5", "6", "tab", "back-tab", "left", "right"):
        press(screen, painter, model, key)
        seen.append(screen.tab)
    names = [tab.name for tab in TABS]
    assert seen == [*names, names[0], names[5], names[4], names[5]]


def test_a_selected_row_stays_selected_when_the_order_changes() -> None:
    screen, painter, model = screen_with(*(f"t{i}" for i in range(9)))
    press(screen, painter, model, "s", "s", "s", "s", "s", "s", "S", "j", "j", "j")
    chosen = screen.position.selected
    press(screen, painter, model, "enter")
    assert screen.subject == chosen and screen.shown.name == "topic"
    press(screen, painter, model, "escape")
    assert screen.shown.name == "topics" and screen.position.selected == chosen
    model.see_topics({n: t for n, t in model.topics.items() if n != chosen}, 1)
    press(screen, painter, model)
    assert screen.position.selected != chosen and screen.position.index == 2


def test_a_filter_is_typed_kept_and_forgotten() -> None:
    screen, painter, model = screen_with("orders", "orders-dlq", "payments")
    shown = press(screen, painter, model, "/", "O", "r", "x", "backspace")
    assert "orders-dlq" in shown and "payments" not in shown and "/Or" in shown
    shown = press(screen, painter, model, "q", "backspace", "enter")
    assert screen.filter == "Or" and "payments" not in shown  # q was a letter
    assert "payments" in press(screen, painter, model, "escape")
    assert "Nothing matches" in press(screen, painter, model, "/", "(", "[", "enter")


def test_sorting_goes_through_the_columns_that_are_shown() -> None:
    screen, painter, model = screen_with("a", "b")
    seen = set()
    for _ in range(20):
        shown = press(screen, painter, model, "s")
        head = shown.splitlines()[3]
        seen.add(screen.position.sort)
        assert ("▼" in head) != ("▲" in head)
        assert ("▼" in head) == screen.position.reverse
    assert {"topic", "partitions", "in_rate", "bytes"} <= seen
    before = screen.position.reverse
    press(screen, painter, model, "r")
    assert screen.position.reverse is not before


def test_pause_help_interval_and_the_end() -> None:
    screen, painter, model = screen_with("a")
    assert "PAUSED" in press(screen, painter, model, "p")
    assert "PAUSED" not in press(screen, painter, model, " ")
    assert "Press any key" in press(screen, painter, model, "?")
    assert "Press any key" not in press(screen, painter, model, "j")
    assert "every 1 s" in press(screen, painter, model, "+")
    assert "every 5 s" in press(screen, painter, model, "-", "-")
    assert screen.press("q", ()) == "quit"
    screen.help = True
    assert screen.press("q", ()) == "quit"
    assert screen.press("2", ()) == "refresh" and screen.press("redraw", ()) == "redraw"


def test_internal_topics_are_shown_when_they_are_asked_for() -> None:
    model = model_of(topic("mine", (1,)), topic("__consumer_offsets", (1,), internal=True))
    screen, painter = Screen(tab="topics"), Painter()
    assert "__consumer" not in press(screen, painter, model)
    assert "__consumer" in press(screen, painter, model, "i")


def test_what_is_unknown_comes_last_whichever_way_round() -> None:
    given_rows: Rows = [{"n": 2}, {"n": None}, {"n": 3}, {"n": 1}]
    assert [r["n"] for r in ordered(given_rows, "n", reverse=True)] == [3, 2, 1, None]
    assert [r["n"] for r in ordered(given_rows, "n", reverse=False)] == [1, 2, 3, None]
    mixed: Rows = [{"n": [1, 2]}, {"n": "b"}, {"n": (1,)}, {"n": True}, {"n": "A"}]
    assert len(ordered(mixed, "n", reverse=False)) == 5


def test_the_options_of_a_list_narrow_the_tab_it_begins_with() -> None:
    screen, painter, model = screen_with("a", "b", "c")
    screen.narrow_to(
        OutputOptions(columns=("bytes", "topic"), sort=("-topic",), where="topic != b", limit=1)
    )
    shown = press(screen, painter, model).splitlines()
    assert shown[3].split() == ["SIZE", "TOPIC▼"] and shown[4].split() == ["-", "c"]
    assert shown[5].strip() == ""
    with pytest.raises(Unusable, match="unknown column 'nope'"):
        Screen(tab="topics").narrow_to(OutputOptions(columns=("nope",)))
    groups = Screen(tab="groups")
    groups.narrow_to(OutputOptions(columns=("group", "zero_s")))
    assert [c.key for c in groups.columns()] == ["group", "to_zero"]


def test_the_filter_is_a_pattern_or_else_the_text_itself() -> None:
    given_rows: Rows = [{"topic": "a.b"}, {"topic": "axb"}, {"topic": "a[b"}]
    tab = BY_NAME["topics"]
    assert len(filtered(given_rows, tab, "a.b")) == 3
    assert [r["topic"] for r in filtered(given_rows, tab, "a[")] == ["a[b"]
    assert len(filtered(given_rows, tab, "")) == 3


def test_requests_are_those_that_brokers_counted() -> None:
    model = model_of(topic("t", (1,)))
    screen, painter = Screen(tab="requests"), Painter()
    assert "Loading the brokers' metrics" in press(screen, painter, model)
    model.miss_metrics("No broker says so.")
    assert "No broker says so." in press(screen, painter, model)
    assert "requests/s" not in draw(Screen(), Painter(), model)  # as on Apache Kafka
    for number, broker in ((0, 1), (0, 2), (200, 1), (100, 2)):
        counts = {"Produce": (buckets(0, number, number), number // 100)}
        model.see_requests(broker, counts, number / 10)
    shown = press(screen, painter, model).splitlines()
    assert "20 requests/s · Produce p99 9.91 ms" in shown[2]
    assert [line.split()[:3] for line in shown[4:6]] == [
        ["Produce", "1", "10"],
        ["Produce", "2", "10"],
    ]
    assert "20 requests/s" in draw(Screen(), Painter(), model, (160, 24))
    model.forget_requests(2)
    assert [row["broker"] for row in rows(model, "requests")] == [1]
    (row,) = rows(model, "requests")
    assert (row["error_rate"], row["errors"]) == (0.1, 2)


# Layout


NAMES = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cs",))
    | st.sampled_from("\x1b\x07\n\udcff日"),
    min_size=1,
    max_size=60,
)


@given(st.lists(NAMES, max_size=6, unique=True), st.integers(1, 220), st.integers(1, 60))
def test_no_name_and_no_size_breaks_the_screen(names: list[str], width: int, height: int) -> None:
    model = model_of(*(topic(name, (1, 2)) for name in names))
    model.see_groups([group(name) for name in names])
    model.see_topics({name: topic(name, (1,)) for name in names}, 1)
    for tab in TABS:
        screen = Screen(tab=tab.name)
        text = draw(screen, Painter(), model, (width, height))
        assert all(c.isprintable() or c == "\n" for c in text)


@pytest.mark.parametrize("width", [80, 120, 200])
def test_on_every_tab_the_name_keeps_room(width: int) -> None:
    name = "a-topic-with-a-name-of-some-length"
    model = model_of(topic(name, (1, 2)))
    model.see_groups([group(name)])
    for tab in ("topics", "groups", "isr"):
        line = draw(Screen(tab=tab), Painter(), model, (width, 24)).splitlines()[4]
        assert line.startswith("a-topic-w"), tab


def test_a_table_does_not_tremble_when_a_number_shrinks() -> None:
    model = model_of(topic("t", (1,)))
    painter, screen = Painter(), Screen(tab="topics")
    model.see_ends({TP("t", 0): 0}, 0.0)
    model.see_ends({TP("t", 0): 12_345_678}, 10.0)
    wide = draw(screen, painter, model).splitlines()[3]
    model.see_ends({TP("t", 0): 12_345_679}, 30.0)
    assert draw(screen, painter, model).splitlines()[3] == wide


def test_names_are_cut_in_the_middle_and_controls_are_told() -> None:
    assert cut_middle("orders-of-the-eastern-region", 11) == "order…egion"
    assert cell_len(cut_middle("日本語のトピックの長い名前", 9)) == 9
    assert printable("a\x1b[31mb\udcffc\n") == "a\\x1b[31mb\\xffc\\n"


# Records


def a_record(value: bytes | None, key: bytes | None = b"k", **fields: Any) -> Pair:
    return Source("orders", 3), Record(9, 1_700_000_000_000, key, value, **fields)


def whole(pair: Pair, width: int = 80) -> list[str]:
    lines = record_lines(pair, width)
    assert all(sum(cell_len(text) for text, _ in line) <= width for line in lines)
    return ["".join(text for text, _ in line) for line in lines]


def test_json_is_indented_and_otherwise_stays_as_it_is() -> None:
    text = '{"b":1.10,"a":[1e400,{},[], "x, {\\\\"y\\\\": 1}"],"b":12345678901234567890}'
    lines = indented(text).split("\n")
    assert lines == [
        "{",
        '  "b": 1.10,',
        '  "a": [',
        "    1e400,",
        "    {},",
        "    [],",
        '    "x, {\\\\"y\\\\": 1}"',
        "  ],",
        '  "b": 12345678901234567890',
        "}",
    ]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_an_indented_document_is_the_same_document(document: Any) -> None:
    assert json.loads(indented(json.dumps(document))) == document


def test_a_whole_record() -> None:
    lines = whole(a_record(b'{"a":1}', headers=(("trace", b"abc"), ("none", None))))
    assert lines[0] == "record    orders/3 @ 9  (leader epoch -1)"
    assert lines[2:] == [
        "key       k",
        "headers   2",
        "  trace: abc",
        "  none: null",
        "value     7 B, JSON",
        "{",
        '  "a": 1',
        "}",
    ]
    assert whole(a_record(None))[-1] == "value     null"
    assert whole(a_record(b""))[-1] == "value     empty"
    assert whole(a_record(b"{a\tb\n\x1b"))[-2:] == ["{a  b", "\\x1b"]
    assert whole(a_record(b"A\xff\n"))[-2:] == [
        "value     3 B, not UTF-8",
        f"000000  {'41 ff 0a':<48} A..",
    ]
    assert "the first 262 kB of 1.0 MB" in whole(a_record(b"a" + "ä".encode() * 500_000))[-1]


@given(
    st.none() | st.binary(max_size=200),
    st.none() | st.binary(max_size=200),
    st.lists(st.tuples(st.text(max_size=50), st.none() | st.binary(max_size=50)), max_size=3),
    st.integers(40, 120),
)
def test_no_record_breaks_the_screen(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]], width: int
) -> None:
    whole(a_record(value, key, headers=tuple(headers)), width)


@for_each(
    ("text", "matches"),
    [
        ("", True),
        ("PAID", True),
        ("^k$", True),
        ("state.*open", False),
        ("(", False),
        ("a=1", True),
        ("value.state = paid", True),
        ("value.state=open", False),
        ("offset>8 and not key = x", True),
        ("value contains open", False),
        ("state in Berlin", False),
    ],
)
def test_a_test_of_records_is_a_pattern_or_a_condition(text: str, matches: bool) -> None:
    pair = a_record(b'{"state": "paid", "note": "a=1"}')
    test = filter_of(text)
    assert (test is None or test(*pair)) is matches


def test_a_condition_with_an_unknown_field_is_refused() -> None:
    with pytest.raises(Unusable, match="unknown field 'vlaue'"):
        filter_of("vlaue = 7")


def test_the_keys_of_records() -> None:
    screen, painter, model = screen_with("orders")
    press(screen, painter, model, "down", "v")
    wanted = screen.records
    assert wanted == Wanted("orders", None, "", 100)
    model.records = Found(Wanted("orders", None, "", 100))
    model.records.pairs = [a_record(b"one"), a_record(b"two")]
    model.records.complete = True
    model.version += 1
    assert "the newest 2 records" in press(screen, painter, model)
    assert "two" in press(screen, painter, model, "enter") and screen.record is not None
    assert "one" in press(screen, painter, model, "n", "n")
    press(screen, painter, model, "p", "q")
    assert screen.record is None
    press(screen, painter, model, "o", "/", "x", "enter")
    assert screen.records == Wanted("orders", None, "x", 200)
    press(screen, painter, model, "escape")
    assert screen.records == Wanted("orders", None, "", 200)
    press(screen, painter, model, "q")
    assert screen.records is None and screen.shown.name == "topics"
    press(screen, painter, model, "enter", "enter")
    assert screen.records == Wanted("orders", 0, "", 100)
    press(screen, painter, model, "escape", "v")
    assert screen.records == Wanted("orders", None, "", 100)
    press(screen, painter, model, "q", "q")
    assert screen.shown.name == "topics" and screen.press("q", ()) == "quit"


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_a_pause_is_shown_at_any_width(width: int) -> None:
    screen, painter, model = screen_with("a")
    press(screen, painter, model, "p")
    assert "PAUSED" in draw(screen, painter, model, (width, 24))


def test_the_heading_of_partitions_is_short_only_if_there_is_no_room() -> None:
    model = model_of(topic("t", (1,)))
    for width, heading in ((200, "PARTITIONS"), (60, "PARTS")):
        heads = draw(Screen(tab="topics"), Painter(), model, (width, 24)).splitlines()[3]
        assert heads.split()[1] == heading


@pytest.mark.parametrize("width", [60, 70])
def test_a_narrow_screen_drops_columns_and_cuts_none(width: int) -> None:
    name = "a-topic-with-a-name-of-some-length"
    model = model_of(topic(name, (1, 2)))
    model.see_groups([group(name)])
    model.see_ends({TP(name, 0): 0}, 0.0)
    model.see_ends({TP(name, 0): 123_456_789}, 10.0)
    last = {"cluster": "DISK", "topics": "IN/s▼", "groups": "TIME LAG", "isr": "BEHIND"}
    for tab, heading in last.items():
        heads = draw(Screen(tab=tab), Painter(), model, (width, 24)).splitlines()[3]
        assert heading in heads and "…" not in heads, heads


def test_an_aged_picture_says_so() -> None:
    screen, painter, model = screen_with("a")
    status = Status("here", 0, 0, "No broker answers; trying again.", stale=True)
    lines = painter.lines(model, screen, status, 80, 24)
    assert "No broker answers" in lines[-1][0][0] and lines[-1][0][1] == "bold reverse red"
    assert lines[4][0][1] == "dim"


def test_a_spark_is_as_high_as_its_highest() -> None:
    assert spark([0, 1, 2, 4, 8], 4) == "▂▃▅█"
    assert spark([0, 0]) == "▁▁" and spark([]) == ""


def test_a_snapshot_tells_the_trend_in_words_and_seconds() -> None:
    keys = [column.key for column in snapshot_columns(BY_NAME["groups"])]
    assert "to_zero" not in keys and {"trend", "zero_s", "time_lag_ms"} <= set(keys)
    model = model_of(topic("t", (1,)))
    model.see_groups([group("g")])
    every: Mapping[str, Any] = rows(model, "groups")[0]
    assert set(keys) <= every.keys()
    for tab in TABS:
        columns = {column.key for column in snapshot_columns(tab)}
        assert all(columns <= row.keys() for row in tab.rows(model, None, 0)), tab.name
