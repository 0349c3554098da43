"""Streams groups (KIP-1071) on the command line."""

from __future__ import annotations

import pytest
from clients.fixtures import Kafka
from clients.streams.thread import Thread
from group_parts import Fresh, Run, committed


@pytest.fixture
def thread(kafka: Kafka, fresh: Fresh, timed_topic: str) -> tuple[Thread, str]:
    """A member of a streams group with all of its tasks, and the group."""
    group = fresh("streams")
    thread = Thread(kafka, group, timed_topic, "m1")
    thread.until_it_has_tasks()
    return thread, group


def test_what_a_streams_group_shows(at: Run, timed_topic: str, thread: tuple[Thread, str]) -> None:
    group = thread[1]
    named = f"group = {group}"
    (listed,) = at("groups", "list", "--type", "streams", "--where", named, "-f", "json").json
    assert (listed["type"], listed["state"], listed["protocol"]) == ("Streams", "Stable", "streams")
    assert not at("groups", "list", "--type", "share", "--where", named, "-f", "json").json
    (member,) = at("groups", "members", group, "-f", "json").json
    tasks = [
        {"subtopology": subtopology, "partition": partition, "role": "active"}
        for subtopology in "01"
        for partition in (0, 1)
    ]
    assert member["tasks"] == member["target_tasks"] == tasks
    topics = (timed_topic, f"{group}-words-repartition")
    partitions = sorted((topic, partition) for topic in topics for partition in (0, 1))
    assert [(p["topic"], p["partition"]) for p in member["assignment"]] == partitions
    assert (member["process"], member["endpoint"], member["topology_epoch"]) == ("p1", "h:8080", 7)
    (found,) = at("groups", "describe", group, "-f", "json").json
    assert (found["type"], found["state"], found["assignor"]) == ("Streams", "Stable", "sticky")
    assert found["group_epoch"] == found["assignment_epoch"] == member["member_epoch"]
    assert found["topology"] == {
        "epoch": 7,
        "subtopologies": [
            {
                "subtopology": "0",
                "source_topics": [timed_topic],
                "repartition_sources": [],
                "repartition_sinks": [f"{group}-words-repartition"],
                "changelogs": [],
            },
            {
                "subtopology": "1",
                "source_topics": [],
                "repartition_sources": [f"{group}-words-repartition"],
                "repartition_sinks": [],
                "changelogs": [f"{group}-words-changelog"],
            },
        ],
    }
    shown = at("groups", "members", group).text
    assert "TASKS" in shown and "0:0,1 1:0,1" in shown
    described = at("groups", "describe", group).text
    assert f"{group}: topology of epoch 7" in described and "CHANGELOGS" in described


def test_a_streams_group_is_reset_and_deleted_when_its_application_is_gone(
    at: Run, timed_topic: str, thread: tuple[Thread, str]
) -> None:
    application, group = thread
    refused = at("groups", "delete", group, "-y")
    assert refused.code == 5 and "is Stable" in refused.err
    application.leave()
    to_end = ("groups", "reset-offsets", group, "-t", timed_topic, "--to", "end", "-y")
    assert at(*to_end).code == 0
    assert committed(at, group) == {(timed_topic, 0): 10, (timed_topic, 1): 4}
    assert (
        at("groups", "list", "--where", f"group = {group}", "-f", "json").json[0]["type"]
        == "Streams"
    )
    assert at("groups", "delete", group, "-y").code == 0
    assert not at("groups", "list", "--where", f"group = {group}", "-f", "json").json
