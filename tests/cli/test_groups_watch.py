"""`pk groups watch`: the partitions that a rebalance moved, how long it took, and how both are
reported."""

import io
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import pytest
import trio
from clients.fixtures import Kafka
from clients.pk_broker import running
from group_parts import Fresh, Reader, Run
from shapes import check_json
from trio.testing import MockClock

from pk.cli.command_line.parse import parse
from pk.cli.nouns.groups.options import WatchGroup
from pk.cli.nouns.groups.watch import Recorder, watch
from pk.cli.runtime.context import Context
from pk.cli.terminal.streams import Streams
from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicPartition
from pk.net.client.answers import Answers
from pk.net.client.errors import ConnectFailed
from pk.net.client.results import GroupDescription, MemberDescription, Node

NODE = Node(1, "h", 1)


def group(state: str, members: Mapping[str, Iterable[int]] = {}, **static: str) -> GroupDescription:
    """A group whose members own these partitions of `t`; `static` gives members an instance id."""
    described = tuple(
        MemberDescription(
            name,
            static.get(name),
            name,
            "/1.2.3.4",
            tuple(TopicPartition("t", p) for p in partitions),
        )
        for name, partitions in members.items()
    )
    return GroupDescription("g", "Classic", state, "consumer", "range", described, NODE)


class Restless:
    """A session with a cluster whose coordinator moves while the group rebalances."""

    def __init__(self) -> None:
        moved = KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        self._answers: list[Any] = [
            group("Stable", {"a": [0, 1]}),
            moved,
            ConnectFailed("h:1", "refused"),
            moved,
            group("PreparingRebalance", {"a": [], "b": []}),
            group("Stable", {"a": [0], "b": [1]}),
        ]

    async def admin(self, *_: object) -> "Restless":
        return self

    async def describe_groups(self, names: list[str]) -> Answers[str, Any]:
        return Answers({name: self._answers.pop(0) for name in names}.items())


def test_a_coordinator_that_moves_does_not_end_the_watch() -> None:
    out, said, session = io.BytesIO(), io.StringIO(), Restless()
    parsed = parse(("groups", "watch", "g", "-n", "1", "-f", "jsonl"))
    context = Context(parsed.values, parsed.path, Streams(out, said), cast("Any", session))
    options = WatchGroup(group=("g",), num=1)
    assert trio.run(watch, context, options, clock=MockClock(autojump_threshold=0)) == 0
    rows = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [row["event"] for row in rows][-3:] == ["assigned", "assigned", "stable"]
    assert said.getvalue().count("; still watching.") == 1
    assert "COORDINATOR_LOAD_IN_PROGRESS" in said.getvalue()


def events(rows: Iterable[Mapping[str, object]]) -> list[tuple[object, ...]]:
    """(event, client, gained, lost) as partition numbers."""

    def numbers(places: object) -> list[int] | None:
        return [p["partition"] for p in places] if isinstance(places, list) else None

    return [(r["event"], r["client_id"], numbers(r["gained"]), numbers(r["lost"])) for r in rows]


def test_a_second_member_takes_its_share() -> None:
    recorder = Recorder("g")
    assert events(recorder.see(group("Stable", {"a": [0, 1, 2]}), 0)) == [
        ("now", "a", [0, 1, 2], None)
    ]
    assert recorder.see(group("Stable", {"a": [0, 1, 2]}), 100) == []
    # During a rebalance, a coordinator reports members without their partitions.
    joining = recorder.see(group("PreparingRebalance", {"a": [], "b": []}), 200)
    assert events(joining) == [("joined", "b", None, None), ("unsettled", None, None, None)]
    assert recorder.see(group("CompletingRebalance", {"a": [], "b": []}), 900) == []
    settled = recorder.see(group("Stable", {"a": [0, 1], "b": [2]}), 1500)
    assert events(settled) == [
        ("assigned", "a", [], [2]),
        ("assigned", "b", [2], []),
        ("stable", None, None, None),
    ]
    assert (settled[-1]["pause_ms"], settled[-1]["moved"], settled[-1]["partitions"]) == (
        1300,
        1,
        3,
    )
    assert recorder.see(group("Stable", {"a": [0, 1], "b": [2]}), 1600) == []
    assert recorder.summary == "1 rebalance, not stable for 1.3 s in total, 1 partition moved."


def test_a_rebalance_between_two_looks_is_seen_by_what_it_moved() -> None:
    recorder = Recorder("g")
    recorder.see(group("Stable", {"a": [0, 1]}), 0)
    rows = recorder.see(group("Stable", {"a": [0], "b": [1]}), 100)
    assert [r["event"] for r in rows] == ["joined", "assigned", "assigned", "stable"]
    assert (rows[-1]["pause_ms"], rows[-1]["moved"]) == (None, 1)


def test_a_member_that_leaves_says_what_it_owned() -> None:
    recorder = Recorder("g")
    recorder.see(group("Stable", {"a": [0], "b": [1, 2]}), 0)
    rows = recorder.see(group("PreparingRebalance", {"a": []}), 100)
    assert events(rows)[0] == ("left", "b", None, [1, 2])
    rows = recorder.see(group("Empty"), 200)
    assert [r["event"] for r in rows] == ["left", "empty"]
    assert rows[-1]["pause_ms"] == 100


def test_a_static_member_that_returns_is_the_same_member() -> None:
    recorder = Recorder("g")
    recorder.see(group("Stable", {"m1": [0, 1]}, m1="one"), 0)
    rows = recorder.see(group("Stable", {"m2": [0, 1]}, m2="one"), 100)
    assert events(rows) == [("returned", "m2", None, None)]
    assert recorder.rebalances == 0


def test_a_group_that_is_rebalancing_when_the_watch_begins() -> None:
    recorder = Recorder("g")
    rows = recorder.see(group("PreparingRebalance", {"a": []}), 0)
    assert [r["event"] for r in rows] == ["now", "unsettled"]
    rows = recorder.see(group("Stable", {"a": [0]}), 300)
    assert [r["event"] for r in rows] == ["assigned", "stable"]
    assert (rows[-1]["pause_ms"], rows[-1]["moved"]) == (300, 0)


def test_a_group_that_goes_away() -> None:
    recorder = Recorder("g")
    assert [r["event"] for r in recorder.see(group("Empty"), 0)] == ["empty"]
    assert recorder.see(None, 100) == []
    assert [r["event"] for r in recorder.see(group("Stable", {"a": [0]}), 200)] == [
        "joined",
        "assigned",
        "stable",
    ]


@pytest.mark.parametrize("form", ["table", "json"])
def test_a_live_group_is_watched(
    kafka: Kafka,
    at: Run,
    fresh: Fresh,
    timed_topic: str,
    readers: Callable[..., Reader],
    form: str,
) -> None:
    name = fresh("watched")
    at("groups", "reset-offsets", name, "-t", timed_topic, "--to", "start", "-y")
    words = ("groups", "watch", name, "-n", "1", "--interval", "0.05", "-f", form)
    with running(*words, "-b", kafka.bootstrap) as watching:
        assert watching.stderr is not None
        assert watching.stderr.readline() == f"Watching group {name}; Ctrl-C ends.\n"
        readers(name, "-X", "client.id=reader-7")
        out, err = watching.communicate(timeout=60)
    assert watching.returncode == 0, err
    assert f"{name}: 1 rebalance, " in err
    if form == "table":
        head = out.splitlines()[0].split()
        assert head == ["TIME", "EVENT", "CLIENT", "PARTS", "PAUSE", "CHANGE"]
        assert f"+{timed_topic}:0,1" in out
        return
    rows = check_json((*words[:-1], "jsonl"), out)  # an unbounded list is JSON lines
    assert rows[0]["event"] == "empty"
    assert [(r["event"], r["client_id"], r["partitions"]) for r in rows][-2:] == [
        ("assigned", "reader-7", 2),
        ("stable", None, 2),
    ]


def test_only_one_group_that_exists_is_watched(at: Run, fresh: Fresh) -> None:
    assert at("groups", "watch").code == 2
    assert at("groups", "watch", "a", "b").code == 2
    name = fresh("nobody")
    gone = at("groups", "watch", name)
    assert (gone.code, "does not exist" in gone.err) == (1, True)
