"""Groups against a live broker: lag, members, and resetting offsets with a preview, a guard and an
undo."""

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from clients.fixtures import Kafka
from clients.pk_broker import running
from group_parts import Fresh, Reader, Run, committed
from shapes import check_json

from pk.core.values import TopicPartition
from pk.net.client.admin import open_admin
from pk.net.client.results import OffsetAndMetadata

Readers = Callable[..., Reader]


def test_lag_and_state(at: Run, fresh: Fresh, timed_topic: str) -> None:
    group = fresh("lag")
    assert at("groups", "reset-offsets", group, "-t", timed_topic, "--to", "start", "-y").code == 0
    read = at("consume", timed_topic, "-g", group, "-n", "3", "--timeout-ms", "60000")
    assert (read.code, len(read.lines)) == (0, 3)
    (found,) = at("groups", "describe", group, "-f", "json").json
    assert (found["group"], found["state"], found["members"], found["lag"]) == (
        group,
        "Empty",
        [],
        11,
    )
    rows = at(
        "groups", "describe", group, "--where", "lag > 0", "--sort", "-lag", "-f", "json"
    ).json
    assert [r["lag"] for r in rows] == sorted((r["lag"] for r in rows), reverse=True)
    (state,) = at("groups", "describe", group, "--state", "-f", "json").json
    assert (state["members"], state["partitions"], state["lag"]) == (0, 2, 11)
    assert group in at("groups", "list", "--state", "Empty", "-f", "name").text.split()


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (("--to", "start"), (0, 0)),
        (("--to-earliest",), (0, 0)),
        (("--to", "end"), (10, 4)),
        (("--to-latest",), (10, 4)),
        (("--to", "3"), (3, 3)),
        (("--to-offset", "3"), (3, 3)),
        (("--to", "7"), (7, 4)),
        (("--to", "-2"), (8, 2)),
        (("--to", "+1"), (1, 1)),
        (("--to", "committed-2"), (3, 0)),
        (("--shift-by", "-2"), (3, 0)),
        (("--shift-by", "100"), (10, 4)),
        (("--to-current",), (5, 2)),
        (("--to", "@1000000004"), (4, 0)),
        (("--to-datetime", "2001-09-09T01:46:44.000"), (4, 0)),
        (("--to-datetime", "2001-09-09T03:46:44.000+02:00"), (4, 0)),
        (("--to", "@tomorrow"), (10, 4)),
        (("--by-duration", "PT1H"), (10, 0)),
        (("--to", "0=9"), (9, 2)),
    ],
)
def test_where_offsets_go(
    at: Run, fresh: Fresh, timed_topic: str, target: tuple[str, ...], expected: tuple[int, int]
) -> None:
    group = fresh("where")
    assert (
        at("groups", "reset-offsets", group, "-t", timed_topic, "--to", "0=5,1=2", "-y").code == 0
    )
    moved = at("groups", "reset-offsets", group, *target, "-y", "-f", "json")
    assert moved.code == 0, moved.err
    assert committed(at, group) == {(timed_topic, 0): expected[0], (timed_topic, 1): expected[1]}
    assert all(row["target"] >= 0 for row in moved.json)


@pytest.mark.parametrize("target", [("--shift-by", "-2"), ("--to", "committed-2")])
def test_nothing_is_shifted_where_a_partition_has_no_commit(
    at: Run, fresh: Fresh, timed_topic: str, target: tuple[str, ...]
) -> None:
    group = fresh("shift")
    at("groups", "reset-offsets", group, "-t", f"{timed_topic}:0", "--to", "5", "-y")
    refused = at("groups", "reset-offsets", group, "-t", timed_topic, *target, "-y")
    said = f"Cannot shift offset for partition {timed_topic}-1 since there is no current committed"
    assert (refused.code, said in refused.err) == (1, True), refused.err
    assert committed(at, group) == {(timed_topic, 0): 5}


def test_a_preview_says_what_would_happen_and_does_nothing(
    at: Run, fresh: Fresh, timed_topic: str
) -> None:
    group = fresh("preview")
    at("groups", "reset-offsets", group, "-t", f"{timed_topic}:0", "--to", "5", "-y")
    plan = at(
        "groups", "reset-offsets", group, "-t", timed_topic, "--to", "7", "--dry-run", "-f", "json"
    )
    assert plan.code == 0
    first, second = plan.json
    assert {k: first[k] for k in ("committed", "target", "delta", "effect", "note")} == {
        "committed": 5,
        "target": 7,
        "delta": 2,
        "effect": "skip",
        "note": None,
    }
    assert first["target_time"].startswith("2001-09-09")
    assert (second["committed"], second["target"], second["note"]) == (
        None,
        4,
        "7 is past the end: clamped",
    )
    assert "skips 2 records" in plan.err and "nothing was changed" in plan.err
    late = at("groups", "reset-offsets", group, "--to", "@tomorrow", "--dry-run", "-f", "json").json
    assert [(r["target"], r["note"]) for r in late] == [(10, "nothing after that time: end")]
    assert committed(at, group) == {(timed_topic, 0): 5}


def test_a_reset_is_refused_without_an_answer_and_can_be_undone(
    at: Run, fresh: Fresh, timed_topic: str
) -> None:
    group = fresh("undo")
    at("groups", "reset-offsets", group, "-t", timed_topic, "--to", "0=5,1=2", "-y")
    refused = at("groups", "reset-offsets", group, "--to", "start")
    assert (refused.code, "re-reads 7 records" in refused.err) == (5, True)
    assert committed(at, group) == {(timed_topic, 0): 5, (timed_topic, 1): 2}
    done = at("groups", "reset-offsets", group, "--to", "start", "-y")
    undo = re.search(r"pk (undo \d+)", done.err)
    assert undo is not None
    assert committed(at, group) == {(timed_topic, 0): 0, (timed_topic, 1): 0}
    assert at(*undo[1].split(), "-y").code == 0
    assert committed(at, group) == {(timed_topic, 0): 5, (timed_topic, 1): 2}


def test_export_is_apache_s_csv_and_comes_back(
    at: Run, fresh: Fresh, timed_topic: str, tmp_path: Path
) -> None:
    group = fresh("export")
    plan = at("groups", "reset-offsets", group, "-t", timed_topic, "--to", "-1", "--export")
    assert plan.text == f"{timed_topic},0,9\n{timed_topic},1,3\n"
    assert at("groups", "list", group, "-f", "name").text == ""
    file = tmp_path / "plan.csv"
    file.write_bytes(plan.out)
    assert at("groups", "reset-offsets", group, "--from-file", str(file), "-y").code == 0
    assert committed(at, group) == {(timed_topic, 0): 9, (timed_topic, 1): 3}
    file.write_bytes(b"\xef\xbb\xbf" + plan.out.replace(b",9", b",8").replace(b"\n", b"\r\n"))
    assert at("groups", "reset-offsets", group, "--from-file", str(file), "-y").code == 0
    assert committed(at, group) == {(timed_topic, 0): 8, (timed_topic, 1): 3}  # from a spreadsheet
    file.write_text("a,b\n")
    wrong = at("groups", "reset-offsets", group, "--from-file", str(file), "-y")
    assert (wrong.code, "line 1" in wrong.err) == (2, True)
    file.write_bytes(plan.out.replace(b"\n", b"\r"))
    wrong = at("groups", "reset-offsets", group, "--from-file", str(file), "-y")
    assert (wrong.code, "is not CSV" in wrong.err) == (2, True), wrong.err


def test_an_active_group_is_not_reset_and_its_members_are_named(
    at: Run, fresh: Fresh, timed_topic: str, readers: Readers
) -> None:
    group = fresh("active")
    reader = readers(group)
    reader.read(13)  # of both partitions, so all
    (shown,) = at("groups", "describe", group, "-m", "-f", "json").json
    assert shown["partitions"] == 2
    assert {a["topic"] for a in shown["assignment"]} == {timed_topic}
    refused = at("groups", "reset-offsets", group, "-t", timed_topic, "--to", "start", "-y")
    assert (refused.code, shown["member_id"] in refused.err) == (5, True)
    assert "--wait-empty" in refused.err
    preview = at("groups", "reset-offsets", group, "-t", timed_topic, "--to", "start", "-d")
    assert (preview.code, shown["member_id"] in preview.err) == (0, True)
    assert at("groups", "delete", group, "-y").code == 5
    assert reader.leave() == -signal.SIGINT
    (found,) = at("groups", "describe", group, "-f", "json").json
    assert (found["state"], found["lag"]) == ("Empty", 0)  # shown records are committed


def test_a_reset_waits_for_the_group_to_be_empty(
    at: Run, fresh: Fresh, timed_topic: str, readers: Readers
) -> None:
    group = fresh("waits")
    reader = readers(group)
    words = ("groups", "reset-offsets", group, "-t", timed_topic, "--to", "start", "-y")
    late = at(*words, "--wait-empty", "10ms")
    assert (late.code, "still members" in late.err) == (124, True), late.err
    with running(*words, "--wait-empty", "1m") as waiting:
        assert waiting.stderr is not None
        assert f"Waiting for {group} to be empty; members left: " in waiting.stderr.readline()
        reader.leave()
        _, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 0, err
    assert committed(at, group) == {(timed_topic, 0): 0, (timed_topic, 1): 0}


def test_members_are_listed_and_removed(
    at: Run, fresh: Fresh, timed_topic: str, readers: Readers
) -> None:
    group, static = fresh("members"), fresh("static")
    readers(group, "-X", f"group.instance.id={static}", "-X", "client.id=reader-7")
    listing = ("groups", "members", group, "-f", "json")
    (shown,) = check_json(listing, at(*listing).out)
    assert (shown["instance_id"], shown["client_id"], shown["partitions"]) == (
        static,
        "reader-7",
        2,
    )
    unknown = at("groups", "remove-members", group, "--instance", static[:-1], "-y")
    assert (unknown.code, f"did you mean {static}?" in unknown.err) == (1, True)
    assert at("groups", "remove-members", group, "--instance", static).code == 5
    which = at("groups", "remove-members", group, "-y")
    assert (which.code, "-m MEMBER-ID, --instance INSTANCE-ID, or --all" in which.err) == (2, True)
    assert [m["member_id"] for m in at(*listing).json] == [shown["member_id"]]
    removal = ("groups", "remove-members", group, "--instance", static, "-y", "-f", "json")
    (gone,) = check_json(removal, at(*removal).out)
    assert (gone["member_id"], gone["result"]) == (shown["member_id"], "removed")
    # It still runs and may join again, but never as the member that was removed.
    assert shown["member_id"] not in [m["member_id"] for m in at(*listing).json]


def test_groups_and_their_offsets_are_deleted(at: Run, fresh: Fresh, timed_topic: str) -> None:
    group = fresh("gone")
    at("groups", "reset-offsets", group, "-t", timed_topic, "--to", "end", "-y")
    assert at("groups", "delete-offsets", group, "-t", f"{timed_topic}:1").code == 5
    assert at("groups", "delete-offsets", group, "-t", f"{timed_topic}:1", "-y").code == 0
    assert committed(at, group) == {(timed_topic, 0): 10}
    assert at("groups", "delete", group, "-d").code == 0
    assert at("groups", "delete", group, "-y", "-f", "json").json == [
        {"group": group, "offsets": 1, "result": "deleted", "error": None}
    ]
    missing = at("groups", "describe", group)
    assert (missing.code, missing.out, "does not exist" in missing.err) == (1, b"", True)


def test_offsets_that_are_not_deleted_are_said_once(
    at: Run, fresh: Fresh, timed_topic: str, readers: Readers
) -> None:
    group = fresh("reading")
    at("groups", "reset-offsets", group, "-t", timed_topic, "--to", "start", "-y")
    readers(group)
    one = at("groups", "delete-offsets", group, "-t", f"{timed_topic}:1", "-y", "-f", "table")
    assert (one.code, one.out) == (1, b""), one.err
    said = one.err.splitlines()[-1]
    assert said.startswith(f"{timed_topic}/1: ") and "stop its members first" in said
    both = at("groups", "delete-offsets", group, "-t", timed_topic, "-y", "-f", "table")
    assert (both.code, both.err.splitlines()[-1]) == (1, "2 of 2 partitions failed.")
    assert both.text.count("GROUP_SUBSCRIBED_TO_TOPIC") == 2
    programs = at("groups", "delete-offsets", group, "-t", timed_topic, "-y", "-f", "json")
    assert [row["error"] for row in programs.json] == ["GROUP_SUBSCRIBED_TO_TOPIC"] * 2


def test_commits_are_read_from_without_joining(at: Run, fresh: Fresh, timed_topic: str) -> None:
    group = fresh("peek")
    at("groups", "reset-offsets", group, "-t", timed_topic, "--to", "0=8,1=4", "-y")
    assert at("consume", timed_topic, "-g", group, "-o", "committed..end").text == "8\n9\n"
    before = at("consume", timed_topic, "-g", group, "-o", "committed-1..committed")
    assert sorted(before.lines) == ["7", "d"]
    assert committed(at, group) == {(timed_topic, 0): 8, (timed_topic, 1): 4}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Give exactly one target"),
        (("--to", "start", "--to-latest"), "not --to and --to-latest"),
        (("--to", "1..2"), "not the range"),
        (("--to-datetime", "yesterday"), "--to-datetime"),
        (("--by-duration", "1h"), "--by-duration"),
        (("--to-offset", "-5"), "of 0 or more"),
        (("--to", "start", "--all-topics", "-t", "x"), "not both"),
    ],
)
def test_a_target_is_said_once_and_right(at: Run, words: tuple[str, ...], said: str) -> None:
    wrong = at("groups", "reset-offsets", "g", *words)
    assert (wrong.code, said in wrong.err) == (2, True), wrong.err


def test_another_group_s_offsets_are_copied(at: Run, fresh: Fresh, timed_topic: str) -> None:
    source, target = fresh("source"), fresh("target")
    at("groups", "reset-offsets", source, "-t", timed_topic, "--to", "0=5,1=2", "-y")
    words = ("groups", "reset-offsets", target, "--to-group", source, "-y", "-f", "json")
    copied = at(*words)
    assert f"{target} does not exist yet and would be created" in copied.err
    assert [r["target"] for r in check_json(words, copied.out)] == [5, 2]
    assert committed(at, target) == committed(at, source)
    at("groups", "reset-offsets", target, "--to", "start", "-y")
    part = ("groups", "reset-offsets", target, "--to-group", source, "-t", f"{timed_topic}:1", "-y")
    assert at(*part).code == 0
    assert committed(at, target) == {(timed_topic, 0): 0, (timed_topic, 1): 2}
    gone = at("groups", "reset-offsets", target, "--to-group", f"{source}x", "-y")
    assert (gone.code, "did you mean" in gone.err) == (1, True)


def test_what_a_group_keeps_beside_an_offset_stays(
    kafka: Kafka, at: Run, fresh: Fresh, timed_topic: str
) -> None:
    group, copy = fresh("noted"), fresh("copy")
    tp = TopicPartition(timed_topic, 0)

    async def note() -> None:
        async with open_admin(kafka.bootstrap) as admin:
            commit = OffsetAndMetadata(5, metadata="shard=7")
            assert (await admin.alter_group_offsets(group, {tp: commit})).ok == {tp: None}

    def metadata(name: str) -> list[tuple[int, str | None]]:
        (found,) = at("groups", "describe", name, "-f", "json").json
        return [(o["committed"], o["metadata"]) for o in found["offsets"]]

    trio.run(note)
    assert metadata(group) == [(5, "shard=7")]
    at("groups", "reset-offsets", group, "--to", "start", "-y")
    assert metadata(group) == [(0, "shard=7")]
    at("groups", "reset-offsets", copy, "--to-group", group, "-y")
    assert metadata(copy) == [(0, "shard=7")]
    deleted = at("groups", "delete", group, "-y")
    number = re.search(r"pk undo (\d+)", deleted.err)
    assert number is not None
    at("undo", number[1], "-y")
    assert metadata(group) == [(0, "shard=7")]


def test_a_plan_says_what_is_read_again_and_how_much_that_is(
    at: Run, fresh: Fresh, timed_topic: str
) -> None:
    group = fresh("consequences")
    at("groups", "reset-offsets", group, "-t", timed_topic, "--to", "end", "-y")
    plan = at("groups", "reset-offsets", group, "--to", "0=3,1=4", "-d")
    said = re.search(r"re-reads 7 records \(about (\d+) B\), back to (\S+ \S+);", plan.err)
    assert said is not None, plan.err
    assert 100 < int(said[1]) < 2000
    assert said[2].startswith("2001-09-09 ")


def test_many_groups_are_asked_about_in_few_requests(
    at: Run, fresh: Fresh, timed_topic: str
) -> None:
    """One request for each coordinator and kind of question, not one for each group."""
    names = [fresh("many") for _ in range(30)]
    lines = "".join(f"{name},{timed_topic},0,{i % 10}\n" for i, name in enumerate(names))
    assert at("groups", "reset-offsets", "--from-file", "-", "-y", stdin=lines.encode()).code == 0
    lag = at("groups", "lag", *names, "--by", "group", "-f", "json", "--trace-json")
    assert [row["lag"] for row in lag.json] == [10 - i % 10 for i in range(30)]
    requests = [json.loads(line)["api"] for line in lag.err.splitlines() if line[:1] == "{"]
    assert 0 < len(requests) < 30, requests
    reset = at("groups", "reset-offsets", *names, "--to", "end", "-d", "-f", "json", "--trace-json")
    assert [row["delta"] for row in reset.json] == [10 - i % 10 for i in range(30)]
    requests = [json.loads(line)["api"] for line in reset.err.splitlines() if line[:1] == "{"]
    assert 0 < len(requests) < 30, requests
