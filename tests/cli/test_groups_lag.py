"""`pk groups lag`: lag in records and in time, summed up, over time, and as an exit code."""

import io
import shlex
from collections.abc import Callable
from typing import Any, cast

import pytest
import trio
from group_parts import FIRST_MS, Fresh, Reader, Run
from hypothesis import given
from hypothesis import strategies as st
from shapes import check_json

from pk.cli.cluster.groups import longest_lag, offset_rows
from pk.cli.command_line.parse import parse
from pk.cli.exits import Exit
from pk.cli.nouns.groups.lag import lag, outlook
from pk.cli.nouns.groups.options import GroupsLag
from pk.cli.positions.resolve import now_ms
from pk.cli.runtime.context import Context
from pk.cli.runtime.session import open_session
from pk.cli.terminal.streams import Streams
from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicPartition
from pk.net.client.admin import Admin
from pk.net.client.answers import Answers
from pk.net.client.results import GroupDescription, ListedOffset, Node, OffsetAndMetadata


@pytest.mark.parametrize(
    ("records", "read", "write", "trend", "zero_in_ms"),
    [
        (100, 20.0, 10.0, "shrinking", 10_000),
        (100, 10.0, 20.0, "growing", None),
        (100, 10.0, 10.0, "steady", None),
        (100, 1000.0, 999.0, "steady", None),
        (0, 10.0, 10.0, "steady", 0),
        (100, 0.0, 0.0, "steady", None),
        (100, None, 3.0, None, None),
        (None, 1.0, 3.0, None, None),
    ],
)
def test_where_it_leads(
    records: int | None,
    read: float | None,
    write: float | None,
    trend: str | None,
    zero_in_ms: int | None,
) -> None:
    found = outlook(records, read, write)
    assert (found["trend"], found["zero_in_ms"]) == (trend, zero_in_ms)
    assert (found["read_rate"], found["write_rate"]) == (read, write)


@given(st.integers(1, 10**12), st.floats(0, 1e9), st.floats(0, 1e9))
def test_nothing_is_left_only_where_more_is_read_than_written(
    records: int, read: float, write: float
) -> None:
    found = outlook(records, read, write)
    assert (found["zero_in_ms"] is not None) == (found["trend"] == "shrinking")
    if found["zero_in_ms"] is not None:
        assert read > write and found["zero_in_ms"] >= 0


@pytest.mark.parametrize(
    ("lags", "longest"),
    [
        ([(0, 0), (0, 0)], 0),
        ([(0, 0), (5, 300), (2, 900)], 900),
        ([(0, 0), (5, None)], None),
        ([(5, None), (2, 900)], 900),
        ([(None, None), (0, 0)], 0),
        ([(None, None)], None),
        ([], None),
    ],
)
def test_a_group_is_as_late_as_its_oldest_unread_record(
    lags: list[tuple[int | None, int | None]], longest: int | None
) -> None:
    rows = [{"lag": lag, "time_lag_ms": ms} for lag, ms in lags]
    assert longest_lag(rows) == longest


class Refusing:
    """A cluster that denies everybody the offsets of `secret`."""

    async def list_groups_offsets(self, names: list[str]) -> Answers[str, Any]:
        topics = ("open", "secret")
        commits = Answers((TopicPartition(topic, 0), OffsetAndMetadata(3)) for topic in topics)
        return Answers(dict.fromkeys(names, commits).items())

    async def list_offsets(self, wanted: dict[TopicPartition, int], **_: Any) -> Answers[Any, Any]:
        no = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "not for you")
        return Answers(
            {tp: no if tp.topic == "secret" else ListedOffset(3, -1, 0) for tp in wanted}.items()
        )


def test_why_a_row_lacks_its_lag_is_a_code() -> None:
    parsed = parse(("groups", "lag", "g"))
    context = Context(parsed.values, parsed.path, Streams(out=io.BytesIO(), err=io.StringIO()))
    group = GroupDescription("g", "Classic", "Empty", "consumer", "", (), Node(1, "h", 1))

    async def look() -> Any:
        return await offset_rows(context, cast(Admin, Refusing()), [group], (), times=True)

    rows = trio.run(look)["g"]
    assert [(row["topic"], row["lag"], row["error"]) for row in rows] == [
        ("open", 0, None),
        ("secret", None, "TOPIC_AUTHORIZATION_FAILED"),
    ]
    assert context.exit == Exit.NOT_AUTHORISED


@pytest.fixture
def group(at: Run, fresh: Fresh, timed_topic: str) -> str:
    """A group that is 7 records behind in partition 0 of `timed_topic`, and 1 in partition 1."""
    name = fresh("lag")
    at("groups", "reset-offsets", name, "-t", timed_topic, "--to", "0=3,1=3", "-y")
    return name


def test_lag_in_records_and_in_time(at: Run, group: str, timed_topic: str) -> None:
    words = ("groups", "lag", group, "-f", "json")
    before = now_ms()
    rows = check_json(words, at(*words).out)
    after = now_ms()
    assert [(r["topic"], r["partition"], r["committed"], r["end"], r["lag"]) for r in rows] == [
        (timed_topic, 0, 3, 10, 7),
        (timed_topic, 1, 3, 4, 1),
    ]
    # The next record that the group has not read in partition 0 is the one at offset 3.
    produced = FIRST_MS + 3000
    assert before - produced <= rows[0]["time_lag_ms"] <= after - produced
    assert 0 <= rows[1]["time_lag_ms"] < 600_000
    assert rows[0]["trend"] is None and rows[0]["client_id"] is None
    at("groups", "reset-offsets", group, "--to", "end", "-y")
    assert [r["time_lag_ms"] for r in at(*words).json] == [0, 0]


def test_lag_is_summed_up_by_topic_group_and_member(
    at: Run, fresh: Fresh, group: str, timed_topic: str
) -> None:
    other = fresh("other")
    at("groups", "reset-offsets", other, "-t", timed_topic, "--to", "end", "-y")
    words = ("groups", "lag", group, other, "--by", "topic", "-f", "json")
    rows = check_json(words, at(*words).out)
    assert [(r["group"], r["partitions"], r["lag"], r["lag_max"], r["worst"]) for r in rows] == [
        (group, 2, 8, 7, f"{timed_topic}/0"),
        (other, 2, 0, 0, None),
    ]
    # Without a group, all groups of a topic, one row each.
    words = ("groups", "lag", "-t", timed_topic, "-f", "json")
    rows = check_json(words, at(*words).out)
    assert [(r["group"], r["state"], r["members"], r["lag"]) for r in rows] == sorted(
        [(group, "Empty", 0, 8), (other, "Empty", 0, 0)]
    )
    one = at("groups", "lag", "-t", f"{timed_topic}:1", "-f", "json").json
    assert {r["group"]: r["lag"] for r in one} == {group: 1, other: 0}
    assert group in at("groups", "list", "-t", timed_topic, "-f", "name").lines
    assert group not in at("groups", "list", "-t", fresh("no-topic"), "-f", "name").lines


def test_which_member_lags(
    at: Run, fresh: Fresh, timed_topic: str, readers: Callable[..., Reader]
) -> None:
    group = fresh("owners")
    readers(group, "-X", "client.id=reader-7")
    words = ("groups", "lag", group, "--by", "member", "-f", "json")
    (row,) = check_json(words, at(*words).out)
    assert (row["client_id"], row["partitions"]) == ("reader-7", 2)
    (first, _) = at("groups", "lag", group, "-f", "json").json
    assert (first["client_id"], first["member_id"]) == ("reader-7", row["member_id"])


@pytest.mark.parametrize(
    ("condition", "by", "code"),
    [
        ("lag > 100", "partition", 0),
        ("lag > 6", "partition", 1),
        ("lag > 7", "group", 1),
        ("lag > 100 or time_lag_ms > 300000", "topic", 1),
        ("partition = 1 and lag > 5", "partition", 0),
        ("lga > 6", "partition", 2),
        ("lag >", "partition", 2),
    ],
)
def test_lag_as_an_exit_code(
    at: Run, group: str, timed_topic: str, condition: str, by: str, code: int
) -> None:
    ran = at("groups", "lag", group, "--by", by, "--fail-if", condition)
    assert ran.code == code, ran.err
    if code == 1:
        assert group in ran.err and condition in ran.err
        assert timed_topic in ran.text  # what fails is still shown
    if code == 2:
        assert "--fail-if" in ran.err and "--where" not in ran.err


def test_where_narrows_what_may_fail(at: Run, group: str) -> None:
    words = ("groups", "lag", group, "--fail-if", "lag > 5")
    assert at(*words, "--where", "partition = 1").code == 0
    assert at(*words, "--where", "partition = 0").code == 1


def test_a_group_that_does_not_exist_fails(at: Run, group: str) -> None:
    gone = at("groups", "lag", f"{group}x")
    assert (gone.code, f"did you mean {group}" in gone.err) == (1, True), gone.err


@pytest.mark.parametrize(
    "words",
    [
        "groups lag G -t {}",
        "groups lag -t {} --fail-if 'lag > 0'",
        "groups describe G -t {}",
        "groups list -t {}",
        "why lag G --for 0 -t {}",
    ],
)
def test_a_topic_that_is_misspelt_is_no_group_without_lag(
    at: Run, group: str, timed_topic: str, words: str
) -> None:
    def run(topic: str) -> Any:
        return at(*(group if w == "G" else w.format(topic) for w in shlex.split(words)))

    right, wrong = run(timed_topic), run(f"{timed_topic}x")
    assert right.out and "does not exist" not in right.err
    assert (wrong.code, f"did you mean {timed_topic}" in wrong.err) == (1, True), wrong.err
    beyond = run(f"{timed_topic}:99")
    assert (beyond.code, "has no partition 99" in beyond.err) == (1, True), beyond.err


def test_a_topic_without_commits_is_said(at: Run, group: str, fresh: Fresh) -> None:
    other = fresh("unread")
    at("topics", "create", other)
    ran = at("groups", "lag", group, "-t", other)
    assert (ran.code, "no committed offsets for the topics of -t" in ran.err) == (0, True)
    ran = at("why", "lag", group, "-t", other)
    assert (ran.code, "no committed offsets for the topics of -t" in ran.err) == (1, True)


def test_states_and_types_are_kafka_s_words(at: Run, group: str) -> None:
    listed = ("groups", "list", group, "-f", "json")
    described = ("groups", "describe", group, "-s", "-f", "json")
    for words in (listed, (*listed, "--state", "empty", "--type", "CLASSIC"), described):
        assert [(r["state"], r["type"]) for r in at(*words).json] == [("Empty", "Classic")]
    for option, word, meant in (("--state", "empyt", "Empty"), ("--type", "klassic", "Classic")):
        ran = at("groups", "list", option, word)
        assert (ran.code, f"did you mean {meant}?" in ran.err) == (2, True), ran.err
    missed = at("groups", "list", "--where", f"group = {group.upper()}")
    assert (missed.code, f"did you mean {group}?" in missed.err) == (0, True), missed.err


def test_rates_come_from_two_looks_of_a_session(at: Run, group: str, timed_topic: str) -> None:
    words = ("groups", "lag", group, "-f", "json")

    async def look(session: Any) -> bytes:
        out = io.BytesIO()
        parsed = parse(words)
        await lag(
            Context(parsed.values, parsed.path, Streams(out=out), session),
            GroupsLag(group=(group,)),
        )
        return out.getvalue()

    async def twice() -> tuple[bytes, bytes]:
        async with open_session() as session:
            first = await look(session)
            await trio.to_thread.run_sync(
                lambda: at("produce", timed_topic, "-p", "0", stdin=b"x\n" * 90)
            )
            return first, await look(session)

    first, second = (check_json(words, out) for out in trio.run(twice))
    assert [r["trend"] for r in first] == [None, None]
    assert [r["trend"] for r in second] == ["growing", "steady"]
    assert second[0]["write_rate"] > 0 == second[0]["read_rate"]
    assert second[0]["zero_in_ms"] is None


def test_over_takes_both_looks(at: Run, group: str) -> None:
    ran = at("groups", "lag", group, "--over", "0.05")
    assert ran.code == 0
    assert "READ/S" in ran.lines[0] and "it stays" in ran.err
    assert "READ/S" not in at("groups", "lag", group).lines[0]


def test_all_unread_records_deleted_is_the_same_lag_everywhere(at: Run, fresh: Fresh) -> None:
    name = fresh("emptied")
    at("topics", "create", name, "-p", "1")
    at("produce", name, stdin=b"x\n" * 40)
    at("groups", "reset-offsets", name, "-t", name, "--to", "5", "-y")
    assert at("topics", "trim", name, "-o", "end", "-y").code == 0
    (row,) = at("groups", "lag", name, "-f", "json").json
    assert (row["lag"], row["time_lag_ms"]) == (35, 0)
    (why,) = at("why", "lag", name, "-f", "json").json
    assert (why["state"], why["lag"]) == ("all-deleted", 35)
    waited = at("wait", "lag", name, "--max", "0", "--timeout", "1s")
    assert waited.code == 124 and "35" in waited.err
    found = [f for f in at("doctor", "-f", "json").json if name in f["what"]]
    assert "dead-groups" not in {f["check"] for f in found}
    (lost,) = [f for f in found if f["check"] == "offset-out-of-range"]
    assert f"Group {name} has missed records: 35 were deleted" in lost["what"]
