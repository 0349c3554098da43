"""`pk consume --share`, and what `pk groups` says of share groups, against a live broker."""

from __future__ import annotations

import json
import signal
import time

import pytest
from clients.fixtures import Kafka
from clients.pk_broker import running
from group_parts import Fresh, Run

SHARE = ("consume", "--share")
WAIT = ("--timeout-ms", "60000")
DAY_MS = 86_400_000
NOW_MS = time.time_ns() // 1_000_000


@pytest.fixture
def jobs(at: Run, fresh: Fresh) -> str:
    """A topic of one partition with six records. A group of the same name starts at the first."""
    name = fresh("jobs")
    assert at("topics", "create", name, "-p", "1").code == 0
    key = "share.auto.offset.reset=earliest"
    assert at("configs", "alter", "group", name, "-c", key, "-y").code == 0
    at("produce", name, stdin=b"a\nb\nc\nd\ne\nf\n")
    return name


@pytest.mark.thorough
def test_what_is_shown_is_accepted(at: Run, jobs: str) -> None:
    assert at(*SHARE, jobs, "-g", jobs, "-n", "4", *WAIT).lines == list("abcd")
    assert at(*SHARE, jobs, "-g", jobs, "-n", "1", *WAIT, "-f", "%p %o %v\n").lines == ["0 4 e"]
    (found,) = at("groups", "describe", jobs, "-f", "json").json
    assert (found["type"], found["state"], found["lag"]) == ("Share", "Empty", 1)
    assert jobs in at("groups", "list", "--type", "Share", "-f", "name").text.split()
    (row,) = at("groups", "lag", jobs, "-f", "json").json
    assert (row["topic"], row["lag"]) == (jobs, 1)
    timed_out = at(*SHARE, jobs, "-g", jobs, "-n", "2", "--timeout-ms", "15000")
    assert timed_out.lines == ["f"]
    assert "with 1 of 2 records" in timed_out.err


def test_the_state_of_share_partitions_is_decoded(at: Run, jobs: str) -> None:
    assert len(at(*SHARE, jobs, "-g", jobs, "-n", "4", *WAIT).lines) == 4
    mine = ("__share_group_state", "-e", "--where", f"key.group_id = {jobs}")
    found = [json.loads(line) for line in at("consume", *mine).lines]
    assert {pair["key"]["type"] for pair in found} <= {"share_snapshot", "share_update"}
    assert found[0]["key"]["type"] == "share_snapshot"
    assert {pair["key"]["partition"] for pair in found} == {0}
    done = [
        (b["last_offset"], b["delivery_state"]) for p in found for b in p["value"]["state_batches"]
    ]
    assert max(p["value"]["start_offset"] for p in found) == 4 or (3, 2) in done
    name = "org.apache.kafka.tools.consumer.group.share.ShareGroupStateMessageFormatter"
    by_formatter = at("console-consumer", "--topic", *mine, "--formatter", name)
    assert [json.loads(line) for line in by_formatter.lines] == found


def test_what_is_released_comes_again_and_what_is_rejected_does_not(at: Run, jobs: str) -> None:
    assert at(*SHARE, jobs, "-g", jobs, "-n", "3", "--release", *WAIT).lines == list("abc")
    assert at(*SHARE, jobs, "-g", jobs, "-n", "2", "--reject", *WAIT).lines == list("ab")
    assert at(*SHARE, jobs, "-g", jobs, "-n", "4", *WAIT).lines == list("cdef")


def test_a_share_group_begins_elsewhere(at: Run, jobs: str) -> None:
    assert len(at(*SHARE, jobs, "-g", jobs, "-n", "6", *WAIT).lines) == 6
    reset = at("groups", "reset-offsets", jobs, "-t", jobs, "--to", "4", "-y")
    assert reset.code == 0, reset.err
    (found,) = at("groups", "describe", jobs, "-f", "json").json
    assert [(o["start_offset"], o["lag"]) for o in found["offsets"]] == [(4, 2)]
    read = at("consume", jobs, "-g", jobs, "-o", "committed..end")
    assert read.lines == ["e", "f"], read.err
    assert at(*SHARE, jobs, "-g", jobs, "-n", "2", *WAIT).lines == ["e", "f"]
    deleted = at("groups", "delete-offsets", jobs, "-t", jobs, "-y")
    assert deleted.code == 0, deleted.err
    (found,) = at("groups", "describe", jobs, "-f", "json").json
    assert found["offsets"] == []
    by_partition = at("groups", "delete-offsets", jobs, "-t", f"{jobs}:0", "-y")
    assert by_partition.code == 2 and "topic by topic" in by_partition.err
    assert at("groups", "delete", jobs, "-y").code == 0
    assert at("groups", "describe", jobs).code == 1


def test_a_reset_of_a_share_group_is_undone(at: Run, jobs: str) -> None:
    assert len(at(*SHARE, jobs, "-g", jobs, "-n", "3", *WAIT).lines) == 3
    before = at("groups", "describe", jobs, "-f", "json").json[0]["offsets"][0]["committed"]
    assert at("groups", "reset-offsets", jobs, "-t", jobs, "--to", "end", "-y").code == 0
    undone = at("groups", "undo", "2", "-y")
    assert undone.code == 0, undone.err
    (found,) = at("groups", "describe", jobs, "-f", "json").json
    assert [o["committed"] for o in found["offsets"]] == [before]


def test_an_undo_leaves_partitions_of_the_topic_that_it_does_not_name(at: Run, jobs: str) -> None:
    assert len(at(*SHARE, jobs, "-g", jobs, "-n", "3", *WAIT).lines) == 3
    assert at("topics", "alter", jobs, "-p", "2", "-y").code == 0
    before = at("groups", "describe", jobs, "-f", "json").json[0]["offsets"]
    reset = at("groups", "reset-offsets", jobs, "-t", f"{jobs}:1", "--to", "start", "-y")
    assert reset.code == 0, reset.err
    undone = at("groups", "undo", "last", "-y")
    assert undone.code == 0, undone.err
    after = at("groups", "describe", jobs, "-f", "json").json[0]["offsets"]
    assert [(o["partition"], o["committed"]) for o in after] == [
        (o["partition"], o["committed"]) for o in before
    ]


def test_options_that_contradict_each_other_are_refused(at: Run, jobs: str) -> None:
    for words in (("-o", "start"), ("-p", "0"), ("--where", "key = 1"), ("--tail", "3")):
        unfit = at(*SHARE, jobs, *words)
        assert (unfit.code, "cannot be combined with --share" in unfit.err) == (2, True)
    alone = at("consume", jobs, "--release")
    assert (alone.code, "add --share" in alone.err) == (2, True)
    both = at(*SHARE, jobs, "--release", "--reject")
    assert both.code == 2 and "cannot be combined" in both.err
    assert at(*SHARE).code == 2
    assert f"Topic '{jobs}-nowhere' does not exist" in at(*SHARE, f"{jobs}-nowhere").err


def test_a_group_of_another_type_is_named(at: Run, fresh: Fresh, jobs: str) -> None:
    """The coordinator reports only that the group does not exist, or that the protocols are
    inconsistent."""
    group = fresh("readers")
    assert at("consume", jobs, "-g", group, "-n", "1", "--from-beginning", *WAIT).lines == ["a"]
    shared = at(*SHARE, jobs, "-g", group, "-n", "1", *WAIT)
    assert shared.code == 1
    assert f"Group '{group}' is not a share group (its type is Classic)" in shared.err, shared.err
    assert at(*SHARE, jobs, "-g", jobs, "-n", "1", *WAIT).lines == ["a"]
    for protocol in ("classic", "consumer"):
        joined = at("consume", jobs, "-g", jobs, "-X", f"group.protocol={protocol}", *WAIT)
        assert joined.code == 1
        assert f"Group '{jobs}' is a share group; add --share" in joined.err, joined.err


def test_where_a_new_share_group_begins_is_said(at: Run, jobs: str) -> None:
    refused = at(*SHARE, jobs, "--from-beginning")
    assert (refused.code, "share.auto.offset.reset=earliest" in refused.err) == (2, True)


def test_an_interrupt_gives_back_what_was_not_shown(at: Run, kafka: Kafka, jobs: str) -> None:
    with running(*SHARE, jobs, "-g", jobs, "-b", kafka.bootstrap) as process:
        assert process.stdout is not None
        assert [process.stdout.readline().strip() for _ in range(6)] == list("abcdef")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == -signal.SIGINT
    at("produce", jobs, stdin=b"g\n")
    assert at(*SHARE, jobs, "-g", jobs, "-n", "1", *WAIT).lines == ["g"]


def old_jobs(at: Run, jobs: str) -> None:
    """Takes all records of a group, the last ones with an acknowledgement of their own, so that the
    stored start offset stays before records that are done with. They are a day old."""
    lines = "\n".join(f'{{"value": "{i}", "timestamp": {NOW_MS - DAY_MS}}}' for i in range(4))
    assert at("configs", "alter", "topic", jobs, "-c", "retention.ms=-1", "-y").code == 0
    assert at("produce", jobs, "-f", "jsonl", stdin=lines.encode()).code == 0
    for number in ("6", "4"):
        assert at(*SHARE, jobs, "-g", jobs, "-n", number, *WAIT).code == 0


def test_a_start_offset_is_no_commit_and_what_is_done_with_beyond_it_no_lag(
    at: Run, jobs: str
) -> None:
    old_jobs(at, jobs)
    (row,) = at("groups", "lag", jobs, "-f", "json").json
    start = row["start_offset"]
    assert start < row["end"] == 10, "else this test shows nothing"
    assert (row["committed"], row["lag"], row["time_lag_ms"]) == (None, 0, 0)
    shown = at("groups", "describe", jobs)
    assert "START-OFFSET" in shown.text and "COMMITTED" not in shown.text
    (plan,) = at("groups", "reset-offsets", jobs, "--to", "end", "-d", "-f", "json").json
    assert (plan["start_offset"], plan["committed"], plan["delta"]) == (start, None, 0)
    (plan,) = at("groups", "reset-offsets", jobs, "--to", "0", "-d", "-f", "json").json
    assert plan["delta"] == -10
    at("produce", jobs, "new")
    (row,) = at("groups", "lag", jobs, "-f", "json").json
    assert (row["start_offset"], row["lag"]) == (start, 1)
    assert row["time_lag_ms"] < DAY_MS // 2, "counted from a record that is done with"
    (why,) = at("why", "lag", jobs, "-f", "json").json
    assert not any(" h old" in e["what"] or " d old" in e["what"] for e in why["evidence"])
    (plan,) = at("groups", "reset-offsets", jobs, "--to", "end", "-d", "-f", "json").json
    assert (plan["delta"], plan["effect"]) == (1, "skip")
    gone = at("groups", "delete-offsets", jobs, "-t", jobs, "-y", "-f", "json")
    assert "This deletes the start offsets of group" in gone.err
    assert (gone.json[0]["start_offset"], gone.json[0]["committed"]) == (start, None)


def test_the_doctor_sees_no_loss_where_a_share_group_has_read_all(at: Run, jobs: str) -> None:
    old_jobs(at, jobs)
    assert at("topics", "trim", jobs, "-o", "10", "-y").code == 0
    at("produce", jobs, "new")
    found = at("doctor", "-f", "json").json
    assert not [f for f in found if f["check"] == "offset-out-of-range" and jobs in f["what"]]
    (why,) = at("why", "lag", jobs, "-f", "json").json
    assert why["state"] == "no-members" and "deleted" not in why["verdict"]
