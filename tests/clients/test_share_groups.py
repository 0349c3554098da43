"""Share groups (KIP-932) as Apache's own tools see them, on pk and on Apache Kafka."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any, cast

import pytest

from clients import apache_kafka, tools
from clients.fixtures import Kafka, clients_of_others, fresh_name
from clients.pk_broker import pk_command, pk_environment
from clients.topics import configure_group, create_topic, produce

pytestmark = pytest.mark.peer


def jobs(kafka: Kafka) -> tuple[str, str]:
    """A topic with three records in each of two partitions, and a group that begins at the
    first."""
    topic, group = create_topic(kafka, fresh_name("jobs"), 2), fresh_name("workers")
    configure_group(kafka, group, {"share.auto.offset.reset": "earliest"})
    produce(kafka, topic, 2, 3)
    return topic, group


@clients_of_others
def test_the_tool_and_the_console_consumer(kafka: Kafka) -> None:
    topic, group = jobs(kafka)

    def share_groups(*args: str) -> tools.Ended:
        return tools.run(kafka, tools.SHARE_GROUPS, *args)

    shows = [
        word
        for each in ("print.delivery=true", "print.partition=true", "print.offset=true")
        for word in ("--formatter-property", each)
    ]
    words = ("--bootstrap-server", kafka.bootstrap, "--topic", topic, "--group", group)
    member = apache_kafka.start_tool(tools.PACKAGE + tools.CONSOLE_SHARE_CONSUMER, *words, *shows)
    try:
        assert member.stdout is not None
        shown = sorted(member.stdout.readline().split() for _ in range(6))
        assert shown == [
            [f"Partition:{p}", f"Offset:{o}", "Delivery:1", str(o * 2 + p)]
            for p in (0, 1)
            for o in (0, 1, 2)
        ]
        assert [group, "Stable"] in share_groups("--list", "--state", "Stable").rows
        [described] = share_groups("--describe", "--group", group, "--members", "--verbose").rows
        assert [described[0], *described[2:5]] == [
            group,
            "/127.0.0.1",
            "console-share-consumer",
            "2",
        ]
        assert int(described[5]) > 0 and described[6] == f"{topic}:0,1"

        to_start = ("--topic", topic, "--to-earliest", "--execute")
        reset = share_groups("--reset-offsets", "--group", group, *to_start)
        assert (reset.code, reset.out) == (1, "")
        assert reset.err.strip() == f"Share group '{group}' is not empty."
        kept = share_groups("--delete-offsets", "--group", group, "--topic", topic)
        refusal = "Error: The group is not empty."
        assert (kept.code, kept.rows) == (0, [["TOPIC", "STATUS"], [topic, *refusal.split()]])
        deleted = share_groups("--delete", "--group", group)
        assert f"GroupNotEmptyException: Share group '{group}' is not EMPTY." in deleted.out
    finally:
        member.send_signal(signal.SIGTERM)
        assert member.wait(60) == 128 + signal.SIGTERM
        member.communicate()

    produce(kafka, topic, 2, 1)
    offsets = ("--describe", "--group", group)
    # The start offset may stay behind the acknowledged records; the lag does not.
    lags = [[*row[:3], row[4]] for row in share_groups(*offsets).rows]
    assert lags == [[group, topic, str(p), "1"] for p in (0, 1)]
    verbose = share_groups(*offsets, "--offsets", "--verbose")
    assert verbose.lines[0] == [
        "GROUP",
        "TOPIC",
        "PARTITION",
        "LEADER-EPOCH",
        "START-OFFSET",
        "LAG",
    ]
    assert [row[:4] for row in verbose.rows] == [[group, topic, str(p), "0"] for p in (0, 1)]
    state = share_groups(*offsets, "--state", "--verbose")
    assert state.err.strip() == f"Share group '{group}' has no active members."
    assert [state.rows[0][0], *state.rows[0][2:4], state.rows[0][-1]] == [
        group,
        "(1)",
        "Empty",
        "0",
    ]

    def reset_to(*where: str) -> list[list[str]]:
        ended = share_groups("--reset-offsets", "--group", group, *where)
        assert ended.code == 0, ended
        return ended.rows

    planned = reset_to("--topic", topic, "--to-earliest", "--dry-run")
    assert planned == [[group, topic, str(p), "0"] for p in (0, 1)]
    latest = reset_to("--all-topics", "--to-latest", "--execute")
    assert latest == [[group, topic, str(p), "4"] for p in (0, 1)]
    then = "2020-01-01T00:00:00.000"
    assert reset_to("--topic", f"{topic}:0", "--to-datetime", then, "--execute") == [
        [group, topic, "0", "0"]
    ]
    assert share_groups(*offsets).rows == [
        [group, topic, "0", "0", "4"],
        [group, topic, "1", "4", "0"],
    ]

    forgotten = share_groups(
        "--delete-offsets", "--group", group, "--topic", topic, "--topic", "no"
    )
    missing = "Error: This server does not host this topic-partition."
    assert forgotten.rows == sorted([[topic, "Successful"], ["no", *missing.split()]])
    none = share_groups(*offsets)
    assert none.out.strip() == f"Share group '{group}' has no offset information."
    gone = share_groups("--delete", "--group", group)
    assert gone.out == f"Deletion of requested share groups ('{group}') was successful.\n"
    unknown = share_groups(*offsets)
    assert f"GroupIdNotFoundException: Group {group} not found." in unknown.out
    assert [group] not in share_groups("--list").lines


@clients_of_others
def test_the_verifiable_consumer_and_what_it_leaves_on_disk(kafka: Kafka, tmp_path: Path) -> None:
    for mode in ("auto", "sync"):
        topic, group = jobs(kafka)
        ended = tools.run(
            kafka,
            tools.VERIFIABLE_SHARE_CONSUMER,
            *("--topic", topic, "--group-id", group, "--max-messages", "6"),
            *("--acknowledgement-mode", mode, "--offset-reset-strategy", "earliest"),
        )
        assert ended.code == 0, ended
        events: list[dict[str, Any]] = [json.loads(line) for line in ended.out.splitlines()]
        assert (events[0]["name"], events[-1]["name"]) == ("startup_complete", "shutdown_complete")
        for name in ("records_consumed", "offsets_acknowledged"):
            found = [event for event in events if event["name"] == name]
            assert all(event.get("success", True) for event in found), found
            parts = [part for event in found for part in event["partitions"]]
            offsets = sorted((part["partition"], o) for part in parts for o in part["offsets"])
            assert offsets == [(p, o) for p in (0, 1) for o in (0, 1, 2)], name
        described = tools.run(kafka, tools.SHARE_GROUPS, "--describe", "--group", group)
        lags = [[*row[:3], row[4]] for row in described.rows]
        assert lags == [[group, topic, str(p), "0"] for p in (0, 1)]

    # Copy the files, because the broker still writes for groups that other tests left.
    files: list[str] = []
    for file in sorted(kafka.log_dir.glob("__share_group_state-*/*.log")):
        if file.stat().st_size:
            copy = tmp_path / file.parent.name / file.name
            copy.parent.mkdir()
            shutil.copy(file, copy)
            files.append(str(copy))
    theirs, ours = _dumped_by_apache(files), _dumped_by_pk(files)
    assert {key["group_id"] for key, _ in theirs} >= {group}
    assert theirs == ours


Pair = tuple[dict[str, Any], dict[str, Any] | None]


def _dumped_by_apache(files: list[str]) -> list[Pair]:
    """The records of `__share_group_state` as kafka-dump-log decodes them, its names in our
    spelling."""
    ran = apache_kafka.run_tool(
        "org.apache.kafka.tools.DumpLogSegments",
        *("--files", ",".join(files), "--share-group-state-decoder"),
    )
    assert ran.returncode == 0, ran.stderr
    found: list[Pair] = []
    for key_text, value_text in re.findall(r" key: (.*?) payload: (.*)$", ran.stdout, re.MULTILINE):
        key = json.loads(key_text)
        value = None if value_text == "<DELETE>" else json.loads(value_text)
        kinds = {"0": "share_snapshot", "1": "share_update"}
        found.append(
            (
                {"type": kinds[key["type"]], **_spelt(key["data"])},
                value and {"version": int(value["version"]), **_spelt(value["data"])},
            )
        )
    return found


def _dumped_by_pk(files: list[str]) -> list[Pair]:
    """The same as `pk log dump` decodes them."""
    ran = subprocess.run(
        pk_command("log", "dump", *files, "--records", "-f", "json"),
        env=pk_environment(),
        capture_output=True,
        check=True,
        timeout=120,
    )
    found: list[Pair] = []
    for row in json.loads(ran.stdout):
        value = row["value"]
        if value is not None and value["delivery_complete_count"] == -1:
            del value["delivery_complete_count"]  # a tagged field that is not written
        found.append((row["key"], value))
    return found


def _spelt(data: Any) -> Any:
    """`groupId` as `group_id`, at every depth."""
    if isinstance(data, dict):
        pairs = cast("dict[str, Any]", data).items()
        return {re.sub("[A-Z]", lambda c: f"_{c[0].lower()}", k): _spelt(v) for k, v in pairs}
    if isinstance(data, list):
        return [_spelt(one) for one in cast("list[Any]", data)]
    return data
