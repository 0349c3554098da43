"""The parts of `pk reassign` other than the plan: words and files, progress, throttles, and the
refusals of the command line."""

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
import trio
from clients.fixtures import Kafka
from clients.pk_broker import PkBroker
from shapes import check_json
from terminal import on_terminal
from trio.testing import MockClock

from pk.cli.cluster import reassignment_json, rollback_files
from pk.cli.cluster.reassignment_progress import STALL_S, Seen, Tracker, first_lines, sentence
from pk.cli.cluster.throttles import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    Present,
    Throttled,
    describe,
    everything,
    remove_throttles,
    throttles_for,
)
from pk.cli.command_line.parse import parse
from pk.cli.exits import Refused, Unusable
from pk.cli.main import main
from pk.cli.nouns.partitions.elect_leaders import elect_leaders
from pk.cli.nouns.partitions.options import ElectLeaders
from pk.cli.nouns.reassign.cautions import cautions
from pk.cli.nouns.reassign.cluster_state import Live
from pk.cli.nouns.reassign.option_values import parse_rate, parse_sets
from pk.cli.nouns.reassign.plan import Change, State
from pk.cli.nouns.reassign.reassign import show_unfinished
from pk.cli.nouns.reassign.run import restore_order, resume
from pk.cli.nouns.reassign.view import LiveView
from pk.cli.output.amounts import show_bytes
from pk.cli.runtime.context import Context
from pk.cli.terminal.streams import Streams
from pk.core.values import ZERO_UUID, TopicPartition
from pk.net.client.answers import Answers
from pk.net.client.errors import ConnectFailed
from pk.net.client.results import (
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    PartitionDescription,
    Reassignment,
    ResourceType,
    TopicDescription,
)

if TYPE_CHECKING:
    from pk.net.client.admin import Admin

Run = Callable[..., Any]
Fresh = Callable[[str], str]
A, B = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("50MB/s", 50_000_000),
        ("50M", 50_000_000),
        ("64MiB/s", 64 << 20),
        ("1.5G", 1_500_000_000),
        ("800 kB/s", 800_000),
        ("50mb/s", 50_000_000),
        ("50MBps", 50_000_000),
        ("12345", 12_345),
    ],
)
def test_a_rate_in_the_words_of_people(text: str, rate: int) -> None:
    assert parse_rate(text, "--throttle") == rate


@pytest.mark.parametrize("text", ["", "fast", "0", "-5", "5 parsecs", "0.1", "50i", "50iB/s"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(Unusable, match="--throttle needs bytes a second"):
        parse_rate(text, "--throttle")


@pytest.mark.parametrize("text", ["50Mb/s", "50Mb", "50mbps", "1Gibps", "1Gbit/s", "100 Mbits/s"])
def test_a_rate_that_may_be_of_bits_is_refused(text: str) -> None:
    with pytest.raises(Unusable, match="may mean bits; 50MB/s and 50M are bytes"):
        parse_rate(text, "--throttle")


def test_bytes_for_people() -> None:
    shown = [show_bytes(n) for n in (None, 0, 999, 1000, 999_400, 999_600, 3.14e9, 5e15)]
    assert shown == ["-", "0 B", "999 B", "1.0 kB", "999 kB", "1.0 MB", "3.1 GB", "5000 TB"]


def test_assignments_on_the_command_line() -> None:
    found = parse_sets(["t/0=1,2"])
    assert found == {A: (1, 2)}
    for wrong in ("t=1", "t/0", "t/0=", "t/0=1,x", "t/x=1", "/0=1"):
        with pytest.raises(Unusable):
            parse_sets([wrong])
    with pytest.raises(Unusable, match="twice"):
        parse_sets(["t/0=1", "t/0=2"])


def test_apache_s_json_goes_both_ways() -> None:
    data = reassignment_json.apache_json({A: (1, 2), B: (3,)})
    assert data == {
        "version": 1,
        "partitions": [
            {"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "any"]},
            {"topic": "t", "partition": 1, "replicas": [3], "log_dirs": ["any"]},
        ],
    }
    assert reassignment_json.assignments_of(data, "f") == reassignment_json.Assignments(
        {A: (1, 2), B: (3,)}, {}
    )
    without = {"partitions": [{"topic": "t", "partition": 0, "replicas": [2, 1]}]}
    assert reassignment_json.assignments_of(without, "f").replicas == {A: (2, 1)}
    data["partitions"][0]["log_dirs"] = ["any", "/d"]
    assert reassignment_json.assignments_of(data, "f").log_dirs == {(A, 2): "/d"}


@pytest.mark.parametrize(
    "partitions",
    [
        None,
        [{"topic": "t", "partition": 0}],
        [{"topic": "t", "partition": "0", "replicas": [1]}],
        [{"topic": "t", "partition": 0, "replicas": [True]}],
        [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": ["any", "any"]}],
        [{"topic": "t", "partition": 0, "replicas": [1]}] * 2,
        ["t"],
    ],
)
def test_what_is_no_assignment_is_refused(partitions: Any) -> None:
    with pytest.raises(Unusable, match="f"):
        reassignment_json.assignments_of({"version": 1, "partitions": partitions}, "f")


def test_a_rollback_file_keeps_what_was_and_what_was_set() -> None:
    path = rollback_files.new_path(1)
    throttled = Throttled(
        5, {1: {LEADER_RATE: None, FOLLOWER_RATE: "7"}}, {"t": {LEADER_REPLICAS: ("0:1", "0:2")}}
    )
    rollback = rollback_files.Rollback(path, "c", 1, {A: (1, 2)}, {A: (3, 2)}, throttled)
    rollback_files.write(rollback)
    assert rollback_files.read(path) == rollback
    # Apache's tool reads the same file as the assignment to go back to.
    data = json.loads(Path(path).read_text())
    assert reassignment_json.assignments_of(data, path).replicas == {A: (1, 2)}
    assert rollback_files.find(rollback.name, "c") == rollback
    assert rollback_files.rollbacks("c") == [rollback] and rollback_files.rollbacks("d") == []
    with pytest.raises(Unusable, match="another cluster"):
        rollback_files.find(path, "d")


def test_rollback_files_are_tidied_but_never_one_whose_end_is_unknown() -> None:
    for stamp in range(60):
        finished = None if stamp == 3 else "done"
        path = rollback_files.new_path(1000 + stamp)
        rollback_files.write(
            rollback_files.Rollback(path, "c", stamp, {A: (1,)}, {A: (2,)}, finished=finished)
        )
    rollback_files.delete_oldest("c")
    left = [r.created_ms for r in rollback_files.rollbacks("c")]
    assert left == [*range(59, 9, -1), 3]


def seen(
    sizes: Mapping[tuple[TopicPartition, int], int],
    running: Mapping[TopicPartition, Reassignment],
    isr: tuple[int, ...] = (1, 2),
) -> Seen:
    partitions = {
        tp: PartitionDescription(tp.partition, 1, 0, move.replicas, isr)
        for tp, move in running.items()
    }
    return Seen(running, partitions, sizes)


MOVE = Reassignment((1, 2, 3), (3,), (2,))


def test_progress_from_sizes_and_the_rate_of_late() -> None:
    tracker = Tracker()
    both = {A: MOVE, B: MOVE}
    tracker.see(seen({(A, 1): 1000, (A, 3): 100, (B, 1): 1000}, both), 0.0)
    assert [row.part for row in tracker.rows] == [0.1, 0.0]
    assert tracker.whole.rate == 0 and tracker.whole.eta_s is None
    tracker.see(seen({(A, 1): 1000, (A, 3): 500, (B, 1): 1000}, both), 2.0)
    whole = tracker.whole
    assert (whole.copied, whole.total, whole.rate, whole.eta_s) == (500, 2000, 200.0, 7.5)
    assert sentence(whole, 300) == (
        "0 of 2 partitions · 500 B of 2.0 kB · 25% · 200 B/s · 7.5 s left · throttle 300 B/s"
    )
    # A move that is no longer listed has ended, even if its last sizes were incomplete.
    tracker.see(seen({(B, 1): 1000, (B, 3): 1000}, {B: MOVE}), 4.0)
    assert [(row.done, row.part) for row in tracker.rows] == [(True, 1.0), (False, 1.0)]
    tracker.see(seen({}, {}), 5.0)
    assert (tracker.whole.done, tracker.whole.part, tracker.whole.eta_s) == (2, 1.0, 0.0)


def test_a_move_that_was_cancelled_is_not_counted_as_copied() -> None:
    tracker = Tracker()
    tracker.see(seen({(A, 1): 1000, (A, 3): 100, (B, 1): 1000}, {A: MOVE, B: MOVE}), 0.0)
    assert tracker.unfinished == [A, B]
    over = {
        A: PartitionDescription(A.partition, 1, 0, (1, 2), (1, 2)),  # as before the move
        B: PartitionDescription(B.partition, 1, 0, (1, 3), (1, 3)),
    }
    tracker.see(Seen({}, over, {}), 5.0)
    assert [(row.done, row.cancelled, row.part) for row in tracker.rows] == [
        (True, True, 0.0),
        (True, False, 1.0),
    ]
    whole = tracker.whole
    assert (whole.done, whole.cancelled, whole.left) == (1, 1, 0)
    assert (whole.copied, whole.total) == (1000, 1000)
    assert sentence(whole).startswith("1 of 2 partitions · 1.0 kB of 1.0 kB · 100%")
    assert sentence(whole).endswith(" · 1 cancelled")


def test_a_replica_in_sync_counts_as_copied_though_compaction_left_it_smaller() -> None:
    tracker = Tracker()
    tracker.see(seen({(A, 1): 1000, (A, 3): 400}, {A: MOVE}, isr=(1, 2, 3)), 0.0)
    assert tracker.rows[0].part == 1.0


def test_what_does_not_grow_is_stalled_until_it_does() -> None:
    tracker = Tracker()
    sizes = {(A, 1): 1000, (A, 3): 100, (B, 1): 1000, (B, 3): 0}
    tracker.see(seen(sizes, {A: MOVE, B: MOVE}), 0.0)
    tracker.see(seen(sizes | {(B, 3): 10}, {A: MOVE, B: MOVE}), STALL_S)
    assert [row.stalled_s for row in tracker.rows] == [STALL_S, 0.0]
    assert tracker.whole.stalled == 1
    assert [row.tp for row in first_lines(tracker.rows, 1)] == [A]
    tracker.see(seen(sizes | {(A, 3): 101}, {A: MOVE, B: MOVE}), STALL_S + 1)
    assert tracker.whole.stalled == 0


class Tty(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stderr", [io.StringIO, Tty])
def test_a_cluster_silent_from_the_start_of_the_watch_is_reported(
    stderr: type[io.StringIO],
) -> None:
    said = stderr()
    parsed = parse(("reassign", "status"))
    with LiveView(Context(parsed.values, parsed.path, Streams(io.BytesIO(), said)), None) as view:
        view.note = "(no answer for 3 s: refused)"
        view.update(Tracker())
    assert "(no answer for 3 s: refused)" in said.getvalue()


def test_without_colors_progress_stays_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    said = Tty()
    tracker = Tracker()
    tracker.see(seen({(A, 1): 1000, (A, 3): 100}, {A: MOVE}), 0.0)
    parsed = parse(("reassign", "status"))
    with LiveView(Context(parsed.values, parsed.path, Streams(io.BytesIO(), said)), None) as view:
        view.update(tracker)
        assert "t/0" in said.getvalue() and "\x1b[3" not in said.getvalue()
        assert said.getvalue().startswith("\x1b[?25l")  # the cursor is hidden while it is drawn


def test_sizes_that_no_broker_reports_are_unknown_and_not_zero() -> None:
    tracker = Tracker()
    tracker.see(seen({}, {A: MOVE}), 0.0)
    assert tracker.rows[0].part is None
    assert tracker.whole.part == 0.0


NOTHING = Present({}, {}, {})


def test_a_throttle_is_for_the_brokers_and_replicas_that_move() -> None:
    moves = [(A, (1, 2), (3,)), (B, (1, 2), ())]
    throttled = throttles_for(moves, 5, [1, 2, 3, 4], NOTHING)
    assert throttled.brokers == {b: {LEADER_RATE: None, FOLLOWER_RATE: None} for b in (1, 2, 3)}
    assert throttled.topics == {"t": {LEADER_REPLICAS: ("0:1", "0:2"), FOLLOWER_REPLICAS: ("0:3",)}}
    assert describe(throttled) == "brokers 1, 2, 3 and topic t"
    assert not throttles_for([(B, (1, 2), ())], 5, [1, 2], NOTHING).any


def test_a_dead_broker_is_not_asked_and_what_stands_there_is_kept() -> None:
    present = Present(
        {1: {LEADER_RATE: "99"}}, {"t": {LEADER_REPLICAS: ("*",), FOLLOWER_REPLICAS: ("0:3",)}}, {}
    )
    throttled = throttles_for([(A, (1, 2), (3,))], 5, [1, 3], present)
    assert throttled.brokers == {
        1: {LEADER_RATE: "99", FOLLOWER_RATE: None},
        3: {LEADER_RATE: None, FOLLOWER_RATE: None},
    }
    assert throttled.topics == {}


def test_removing_everything_brings_back_what_a_rollback_file_remembers() -> None:
    present = Present(
        {1: {LEADER_RATE: "5"}, 2: {LEADER_RATE: "5"}}, {"t": {LEADER_REPLICAS: ("0:1",)}}, {}
    )
    ours = [Throttled(5, {1: {LEADER_RATE: "99"}}, {})]
    undo = everything(present, ours)
    assert undo.brokers == {1: {LEADER_RATE: "99"}, 2: {LEADER_RATE: None}}
    assert undo.topics == {"t": {LEADER_REPLICAS: ("0:1",)}}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "A goal is missing"),
        (("--to", "2"), "Topics are missing"),
        (("--rf", "2"), "Topics are missing"),
        (("-t", "x", "--to", "2", "--drain", "1"), "cannot be combined with it"),
        (("-t", "x", "--set", "t/0=1"), "lists its partitions and their replicas; -t"),
        (("--no-rack-aware", "--set", "t/0=1"), "replicas; --no-rack-aware cannot be combined"),
        (("--set", "t/0=1", "--drain", "3"), "cannot be combined"),
        (("-t", "x", "--all", "--rf", "2"), "not both"),
        (("--drain", "three"), "broker ids"),
        (("--from-json", "/no/such/file"), "cannot be read"),
        (("--drain", "1", "--throttle", "slow"), "bytes a second"),
        (("--balance-by=sideways",), "must be one of replicas, leaders"),
    ],
)
def test_an_intent_that_makes_no_sense_is_refused_before_anybody_is_asked(
    pk: Run, words: tuple[str, ...], said: str
) -> None:
    refused = pk("reassign", "plan", *words, "-b", "127.0.0.1:1")
    assert (refused.code, said in refused.err) == (2, True), refused.err


@pytest.mark.parametrize(
    "words", [("-t", "orders"), ("--all",), ("--no-rack-aware",), ("--drain", "3")]
)
def test_a_plan_s_file_is_applied_as_a_whole(
    pk: Run, tmp_path: Path, words: tuple[str, ...]
) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(reassignment_json.apache_json({A: (1,)})))
    refused = pk("reassign", "apply", str(file), *words, "-b", "127.0.0.1:1")
    assert refused.code == 2, refused.err
    assert f"contains the whole plan; {words[0]} cannot be combined with it." in refused.err


@pytest.mark.parametrize(
    "words",
    [
        ("--drain", "3"),
        ("--detach",),
        ("--max-moves", "5"),
        ("--batch", "5"),
        ("-t", "orders"),
        ("--all",),
        ("--no-rack-aware",),
    ],
)
def test_what_was_started_before_is_resumed_as_it_is(pk: Run, words: tuple[str, ...]) -> None:
    refused = pk("reassign", "apply", "--resume", *words, "-b", "127.0.0.1:1")
    said = f"--resume continues what was started before; {words[0]} cannot be combined with it."
    assert (refused.code, said in refused.err) == (2, True), refused.err


@pytest.mark.parametrize("words", [("--throttle", "5MB/s"), ("--detach",)])
def test_a_rollback_that_is_only_printed_is_not_started(pk: Run, words: tuple[str, ...]) -> None:
    refused = pk("reassign", "rollback", "--json", *words, "-b", "127.0.0.1:1")
    said = f"--json only prints the plan; {words[0]} cannot be combined with it."
    assert (refused.code, said in refused.err) == (2, True), refused.err


def test_what_does_not_go_together_elsewhere(pk: Run) -> None:
    for words in (
        ("reassign", "throttle", "5MB/s", "--remove"),
        ("reassign", "cancel"),
        ("reassign", "cancel", "t/0", "--all"),
        ("partitions", "elect-leaders", "t", "--all"),
        ("partitions", "elect-leaders", "--unclean"),
        ("partitions", "elect-leaders", "--unclean", "--election-type", "preferred", "--all"),
    ):
        assert pk(*words, "-b", "127.0.0.1:1").code == 2, words


@pytest.mark.parametrize(
    ("after", "racks", "facts", "said"),
    [
        ((1, 3), (None, None, None), {}, ""),
        ((1,), (None, None, None), {}, "fewer replicas than min.insync.replicas"),
        ((1, 3), (None, None, None), {"leader": -1}, "no leader to copy from"),
        ((1, 3), (None, None, None), {"moving": (3,)}, "already being moved"),
        ((1, 3), ("a", "b", "a"), {}, "all replicas in one rack"),
        ((1, 3), (None, None, None), {"usable": 400}, "Broker 3 has too little disk space"),
        ((1, 3), (None, None, None), {"usable": 550}, "Broker 3's disks will be 95% full"),
        (
            (1, 3),
            (None, None, None),
            {"silent": (1, 2)},
            "free space of brokers 1 and 2 are unknown",
        ),
    ],
)
def test_what_somebody_may_not_want_is_said_before_it_is_asked(
    after: tuple[int, ...], racks: tuple[str | None, ...], facts: dict[str, Any], said: str
) -> None:
    leader, moving, usable = (
        facts.get(k, v) for k, v in (("leader", 1), ("moving", ()), ("usable", 1000))
    )
    live = Live(
        None,
        {},
        State(dict(zip((1, 2, 3), racks, strict=True)), {A: (1, 2)}),
        {A: PartitionDescription(0, leader, 0, (1, 2), (1, 2))},
        {A: Reassignment((1, 2, *moving), moving, ())} if moving else {},
        {3: (1000, usable)},
        facts.get("silent", ()),
    )
    found = cautions(live, [Change(A, (1, 2), after, 500)], {"t": 2})
    assert len(found) == bool(said) and all(said in one for one in found), found


def test_throttles_that_nothing_needs_are_reported_where_one_would_look(
    at: Run, kafka: Kafka
) -> None:
    rate = "leader.replication.throttled.rate"
    at("configs", "alter", "broker", "1", "-c", f"{rate}=12345678", "-y")
    nothing = at("reassign", "cancel", "--all", "-y")
    assert (nothing.code, "pk reassign throttle --remove" in nothing.err) == (0, True)
    words = ("reassign", "throttle", "--remove", "-b", kafka.bootstrap)
    asked = on_terminal(main, words, (36, 24), "n\n")
    assert asked.code == 5
    assert "Remove the throttles of broker 1 on" in " ".join(asked.screen.split()), "a word parted"
    narrow = on_terminal(main, ("reassign", "throttle", "-b", kafka.bootstrap), (52, 24)).screen
    assert rate in narrow.split(), "the name is whole"
    assert at("reassign", "throttle", "--remove", "-y").code == 0
    none = at("reassign", "throttle")
    assert (none.code, none.text, none.err) == (0, "", "No throttle is set.\n")
    assert at("reassign", "throttle", "-f", "json").json == []


def test_a_throttle_s_changes_are_shown_to_programs(pk: Run) -> None:
    keys = [f"{side}.replication.throttled.rate" for side in ("follower", "leader")]

    def rates(*words: str) -> list[str]:
        ran = pk("reassign", "throttle", *words, "-b", broker.bootstrap, "-f", "json")
        assert ran.code == 0, ran.err
        rows = check_json(("reassign", "throttle", "-f", "json"), ran.out)
        assert sorted(row["name"] for row in rows) in ([], keys)
        return [row["value"] for row in rows]

    with PkBroker() as broker:
        words = [word for key in keys for word in ("-c", f"{key}=1000")]
        assert pk("configs", "alter", "broker", "1", *words, "-y", "-b", broker.bootstrap).code == 0
        assert rates("80MB/s", "--dry-run") == ["80000000"] * 2
        assert rates() == ["1000"] * 2
        assert rates("80MB/s", "-y") == rates("--remove", "-d") == ["80000000"] * 2
        assert rates("--remove", "-y") == rates() == []


class ManyToElect:
    """A session with a cluster in which broker 2 leads a partition that 1 should lead."""

    async def admin(self, *_: object) -> "ManyToElect":
        return self

    def thorough(self, admin: "ManyToElect") -> "ManyToElect":
        return admin

    async def describe_topics(self, names: list[str]) -> Answers[str, TopicDescription]:
        partitions = tuple(PartitionDescription(n, 2, 5, (1, 2), (1, 2)) for n in range(50))
        return Answers(
            {name: TopicDescription(name, ZERO_UUID, False, partitions) for name in names}.items()
        )


def test_a_question_about_many_elections_says_what_shows_the_rest(tmp_path: Path) -> None:
    parsed = parse(("partitions", "elect-leaders", "t"))
    said = io.StringIO()
    with (tmp_path / "stdin").open("w+b") as nobody:
        session: Any = ManyToElect()
        streams = Streams(io.BytesIO(), said, nobody)
        with pytest.raises(Refused):
            context = Context(parsed.values, parsed.path, streams, session)
            trio.run(elect_leaders, context, ElectLeaders(partition=("t",)))
    lines = said.getvalue().splitlines()
    assert lines[0].split() == ["TOPIC", "PARTITION", "FROM", "TO", "ISR"]
    assert lines[40].split() == ["t", "39", "2", "1", "1,2"]
    assert lines[41] == "… and 10 more (`--dry-run` shows all)."


def test_a_plan_of_one_broker(at: Run, fresh: Fresh, tmp_path: Path) -> None:
    topic = fresh("plan")
    at("topics", "create", topic, "-p", "2")
    broker = at("brokers", "list", "-f", "json").json[0]["broker"]
    nothing = at("reassign", "plan", "-t", topic, "--to", str(broker))
    assert (nothing.code, "nothing to do" in nothing.err) == (0, True)
    cannot = at("reassign", "plan", "-t", topic, "--rf", "3")
    assert (cannot.code, f"{topic}/0 needs 3 replicas" in cannot.err) == (1, True)
    unknown = at("reassign", "plan", "-t", topic, "--to", "99")
    assert (unknown.code, "Broker 99 is missing" in unknown.err) == (1, True)
    file = tmp_path / "plan.json"
    assert at("reassign", "plan", "-t", topic, "--balance", "--save", str(file)).code == 0
    assert json.loads(file.read_text()) == {"version": 1, "partitions": []}


def test_a_rollback_is_of_the_last_reassignment_that_moved_something(at: Run, fresh: Fresh) -> None:
    topic = fresh("rollback")
    assert at("topics", "create", topic, "-p", "3").code == 0
    cluster_id = at("cluster", "describe", "-f", "json").json[0]["cluster_id"]
    broker = at("brokers", "list", "-f", "json").json[0]["broker"]
    for n, ending in enumerate(("done", "refused", "not started")):
        here = {TopicPartition(topic, n): (broker,)}
        path = rollback_files.new_path(1000 + n)
        rollback_files.write(
            rollback_files.Rollback(path, cluster_id, n, here, here, finished=ending)
        )
    ran = at("reassign", "rollback", "--dry-run")
    assert (ran.code, "Restoring the replicas in reassign-1000-" in ran.err) == (0, True), ran.err


def test_a_dry_run_of_resume_leaves_the_throttle_and_the_rollback_file(pk: Run) -> None:
    def ran(*words: str) -> Any:
        done = pk(*words, "-b", broker.bootstrap)
        assert done.code == 0, done.err
        return done

    with PkBroker() as broker:
        ran("topics", "create", "t")
        ran("configs", "alter", "broker", "1", "-c", f"{LEADER_RATE}=5", "-y")
        cluster_id = ran("cluster", "describe", "-f", "json").json[0]["cluster_id"]
        throttled = Throttled(5, {1: {LEADER_RATE: None}})
        path = rollback_files.new_path(1)
        rollback = rollback_files.Rollback(path, cluster_id, 1, {A: (1,)}, {A: (1,)}, throttled)
        rollback_files.write(rollback)
        dry = ran("reassign", "apply", "--resume", "--dry-run")
        assert "the throttle of broker 1 would be removed" in dry.err
        assert dry.err.endswith("Nothing was changed.\n")
        assert rollback_files.read(path) == rollback
        words = ("reassign", "apply", "--resume", "--dry-run", "-f", "json")
        assert check_json(words, ran(*words).out)[0]["partitions"] == []
        assert [row["value"] for row in ran("reassign", "throttle", "-f", "json").json] == ["5"]
        ran("reassign", "apply", "--resume")
        assert ran("reassign", "throttle", "-f", "json").json == []
        assert rollback_files.read(path).finished == "done"


def test_a_dry_run_of_resume_shows_what_still_moves() -> None:
    words = ("reassign", "apply", "--resume", "--dry-run", "-f", "json")
    parsed = parse(words)
    out, said = io.BytesIO(), io.StringIO()
    context = Context(parsed.values, parsed.path, Streams(out, said))
    state = State({1: None, 2: None, 3: None}, {A: (2, 3), B: (2, 3)}, {A: 500})
    partition = PartitionDescription(0, 2, 0, (1, 2, 3), (1, 2))
    live = Live("c", {}, state, {A: partition}, {A: Reassignment((2, 3, 1), (3,), (1,))}, {})
    rollback = rollback_files.Rollback(
        "r.json", "c", 1, dict.fromkeys((A, B), (1, 2)), dict.fromkeys((A, B), (2, 3))
    )
    show_unfinished(context, live, rollback)
    (plan,) = check_json(words, out.getvalue())
    (row,) = plan["partitions"]
    assert (row["partition"], row["before"], row["after"]) == (0, [1, 2], [2, 3])
    brokers = [(b["replicas_before"], b["replicas_after"]) for b in plan["brokers"]]
    assert brokers == [(1, 0), (2, 2), (1, 2)]
    assert "1 of 2 partitions of r is still moving." in said.getvalue()


def test_a_saved_plan_keeps_its_throttle(at: Run, fresh: Fresh, tmp_path: Path) -> None:
    topic = fresh("plan")
    at("topics", "create", topic)
    file = str(tmp_path / "plan.json")
    for throttle, rate in (("2MB/s", 2_000_000), ("auto", 10_000_000)):
        words = ("reassign", "plan", "-t", topic, "--balance", "--throttle", throttle)
        assert at(*words, "--save", file).code == 0
        applied = at("reassign", "apply", file, "--dry-run", "-f", "json")
        assert (applied.code, applied.json[0]["throttle"]) == (0, rate)
        assert f"The plan was saved with --throttle {throttle}." in applied.err
        planned = at("reassign", "plan", "--from-json", file, "-f", "json")
        assert planned.json[0]["throttle"] == rate
        other = at("reassign", "apply", file, "--throttle", "5MB/s", "--dry-run", "-f", "json")
        assert (other.json[0]["throttle"], "was saved with" in other.err) == (5_000_000, False)
    (tmp_path / "plan.json").write_text('{"partitions": [], "pk": {"plan": {"throttle": 5}}}')
    wrong = at("reassign", "apply", file, "--dry-run")
    assert (wrong.code, "the throttle of a plan must be a string" in wrong.err) == (2, True)


class LateBrokers:
    """An administrator of a cluster whose controller sorts the replicas that a move removes, and
    whose brokers report its decisions only at the third request."""

    def __init__(self, reported: dict[TopicPartition, tuple[int, ...]]) -> None:
        self.reported = reported
        self.decided = dict(reported)
        self.changes: list[dict[TopicPartition, tuple[int, ...]]] = []
        self._asked = 0

    def decide(self, replicas: Mapping[TopicPartition, tuple[int, ...]]) -> None:
        self.decided |= replicas
        self._asked = 0

    async def describe_topics(self, topics: set[str]) -> Answers[str, TopicDescription]:
        self._asked += 1
        if self._asked > 2:
            self.reported = dict(self.decided)
        parts = tuple(
            PartitionDescription(tp.partition, replicas[0], 0, replicas, replicas)
            for tp, replicas in sorted(self.reported.items())
        )
        return Answers(
            {topic: TopicDescription(topic, ZERO_UUID, False, parts) for topic in topics}.items()
        )

    async def alter_reassignments(
        self, changes: dict[TopicPartition, tuple[int, ...]]
    ) -> Answers[TopicPartition, None]:
        self.changes.append(changes)
        self.decide(changes)
        return Answers(dict.fromkeys(changes).items())


def restore(
    admin: LateBrokers, before: dict[TopicPartition, tuple[int, ...]], moves: Mapping[Any, Any]
) -> float:
    """Restores the order. Returns the seconds that it took on a clock that jumps."""

    async def run() -> float:
        began = trio.current_time()
        await restore_order(cast("Admin", admin), before, moves)
        return trio.current_time() - began

    return trio.run(run, clock=MockClock(autojump_threshold=0))


def test_the_old_order_comes_back_though_brokers_hear_late_of_the_end_of_a_move() -> None:
    moves = {tp: Reassignment((3, 4, 1, 2), (3, 4), (1, 2)) for tp in (A, B)}
    admin = LateBrokers({tp: move.replicas for tp, move in moves.items()})
    admin.decide(dict.fromkeys(moves, (1, 2)))  # cancelled
    restore(admin, {A: (1, 2), B: (2, 1)}, moves)
    assert admin.changes == [{B: (2, 1)}]
    assert admin.reported == {A: (1, 2), B: (2, 1)}, "the next command may be told the order before"


def test_replicas_that_were_others_before_are_left_alone_and_not_waited_for() -> None:
    moves = {A: Reassignment((3, 4, 1, 2), (3, 4), (1, 2))}
    admin = LateBrokers({A: (3, 4, 1, 2)})
    admin.decide({A: (1, 2)})
    assert restore(admin, {A: (5, 1)}, moves) == 0
    assert admin.changes == []


class OneIsCancelled(LateBrokers):
    """An administrator of a cluster that moves A and B; another command cancels A while the moves
    are watched."""

    def __init__(self) -> None:
        super().__init__({A: (1, 2, 3), B: (1, 2, 3)})
        self._looks = 0

    async def list_reassignments(self, _: Any) -> dict[TopicPartition, Reassignment]:
        self._looks += 1
        if self._looks == 1:
            return {A: MOVE, B: MOVE}
        self.decide({A: (1, 2), B: (1, 3)})
        self._asked = 2
        return {}

    async def describe_log_dirs(self, *_: Any) -> Answers[int, Any]:
        return Answers()


def test_the_log_of_a_detached_reassignment_ends_with_what_moved_and_what_did_not() -> None:
    path = rollback_files.new_path(1)
    rollback = rollback_files.Rollback(path, "c", 1, {A: (1, 2), B: (1, 2)}, {A: (1, 3), B: (1, 3)})
    log = io.StringIO()
    parsed = parse(("reassign", "apply", path, "--resume", "-y"))
    context = Context(parsed.values, parsed.path, Streams(io.BytesIO(), log))
    live = Live("c", {}, State({}, {}), {}, {}, {})

    async def run() -> int:
        admin = cast("Admin", OneIsCancelled())
        return await resume(context, admin, live, rollback, auto=False)

    trio.run(run, clock=MockClock(autojump_threshold=0))
    lines = log.getvalue().splitlines()
    assert "1 of 2 partitions reassigned." in lines
    assert "t/0: not moved: its replicas are 1,2" in log.getvalue()
    assert lines[-1] == f"To undo it: pk reassign rollback {rollback.name}"
    assert context.failures, "its exit code says so too"


class AbsentBrokers:
    """An administrator of a cluster that answers only after a few requests."""

    def __init__(self, *silent: str) -> None:
        self.silent = list(silent)
        """Calls that fail because no broker answers, in this order."""
        self.altered: list[dict[ConfigResource, list[ConfigChange]]] = []

    def _answer(self, call: str, found: Any) -> Any:
        if self.silent and self.silent[0] == call:
            return ConnectFailed(self.silent.pop(0), "connection refused")
        return found

    async def describe_configs(
        self, resources: list[ConfigResource], **_: Any
    ) -> Answers[ConfigResource, Any]:
        entry = ConfigEntry(LEADER_REPLICAS, "0:1", ConfigSource.TOPIC, False, False)
        found = [] if any(self.altered) else [entry]
        return Answers(
            {resource: self._answer("describe", found) for resource in resources}.items()
        )

    async def alter_configs(
        self, changes: dict[ConfigResource, list[ConfigChange]]
    ) -> Answers[ConfigResource, Any]:
        answers = {resource: self._answer("alter", None) for resource in changes}
        self.altered.append({r: c for r, c in changes.items() if answers[r] is None})
        return Answers(answers.items())


def test_throttles_go_though_the_brokers_are_away_when_the_moves_end() -> None:
    throttled = Throttled(5, {}, {"t": {LEADER_REPLICAS: ("0:1",)}})
    topic = ConfigResource(ResourceType.TOPIC, "t")
    gone = {topic: [ConfigChange(LEADER_REPLICAS, None, ConfigOperation.DELETE)]}

    def remove(admin: AbsentBrokers, within_s: float) -> dict[str, Exception]:
        async def run() -> dict[str, Exception]:
            return await remove_throttles(cast("Admin", admin), throttled, within_s)

        return trio.run(run, clock=MockClock(autojump_threshold=0))

    admin = AbsentBrokers("describe", "alter", "describe")
    assert remove(admin, 10) == {} and admin.altered[-1] == gone
    for silent in ("describe", "alter"):
        admin = AbsentBrokers(*[silent] * 100)
        assert list(remove(admin, 10)) == ["topic t"], "what could not be read is not removed"
        assert 0 < len(admin.silent) < 100 and not any(admin.altered)
        assert list(remove(AbsentBrokers(silent), 0)) == ["topic t"]


class SlowToShow:
    """An administrator of brokers that show a change at the third request."""

    def __init__(self, found: dict[ConfigResource, list[ConfigEntry]]) -> None:
        self.found = found
        self.asked_since: int | None = None

    async def describe_configs(
        self, resources: list[ConfigResource], **_: Any
    ) -> Answers[ConfigResource, Any]:
        if self.asked_since is not None:
            self.asked_since += 1
            if self.asked_since == 3:
                self.found = {}
        return Answers({resource: self.found.get(resource, []) for resource in resources}.items())

    async def alter_configs(
        self, changes: dict[ConfigResource, list[ConfigChange]]
    ) -> Answers[ConfigResource, None]:
        self.asked_since = 0
        return Answers(dict.fromkeys(changes).items())


def test_throttles_are_removed_when_brokers_show_none() -> None:
    rate = ConfigEntry(LEADER_RATE, "5", ConfigSource.DYNAMIC_BROKER, False, False)
    entries = ConfigEntry(LEADER_REPLICAS, "0:1", ConfigSource.TOPIC, False, False)
    throttled = Throttled(5, {1: {LEADER_RATE: None}}, {"t": {LEADER_REPLICAS: ("0:1",)}})
    broker = ConfigResource(ResourceType.BROKER, "1")
    topic = ConfigResource(ResourceType.TOPIC, "t")

    async def remove(admin: SlowToShow) -> dict[str, Exception]:
        return await remove_throttles(cast("Admin", admin), throttled)

    for found in ({broker: [rate]}, {topic: [entries]}, {broker: [rate], topic: [entries]}):
        admin = SlowToShow(found)
        assert trio.run(remove, admin, clock=MockClock(autojump_threshold=0)) == {}
        assert admin.asked_since == 3
