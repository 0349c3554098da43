"""Apache's `kafka-streams-groups` on pk and on Apache Kafka: it prints the same, and ends the
same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, TopicPartition

from clients import apache_kafka
from clients.fixtures import Kafka, clients_of_others
from clients.streams.thread import Thread
from clients.topics import create_topic, produce

pytestmark = pytest.mark.peer

TOOL = "org.apache.kafka.tools.streams.StreamsGroupCommand"
Fresh = Callable[[str], str]


def run(kafka: Kafka, *words: str) -> tuple[int, list[list[str]], str]:
    """The tool's exit code, the words of each line that it printed, and its errors."""
    ran = apache_kafka.run_tool(TOOL, "--bootstrap-server", kafka.bootstrap, *words)
    rows = [line.split() for line in ran.stdout.splitlines() if line.strip()]
    return ran.returncode, rows, ran.stdout + ran.stderr


def check_an_application_that_runs(kafka: Kafka, topic: str, group: str) -> None:
    repartition = f"{group}-words-repartition"
    code, rows, _ = run(kafka, "--list", "--state")
    assert code == 0 and [group, "Stable"] in rows
    code, rows, _ = run(kafka, "--describe", "--group", group)
    assert code == 0
    assert sorted(rows[1:]) == sorted(
        [
            [group, repartition, "0", "0"],
            [group, repartition, "1", "0"],
            [group, topic, "0", "10"],
            [group, topic, "1", "10"],
        ]
    )
    code, rows, _ = run(kafka, "--describe", "--group", group, "--members", "--verbose")
    epoch = rows[1][1]
    assert code == 0
    assert rows[1][1:8] == [epoch, "7", "m1", "streams", epoch, "p1", "application"]
    assert rows[1][8:] == [
        "ACTIVE:",
        "0:[0,1];",
        "1:[0,1];",
        "TARGET-ACTIVE:",
        "0:[0,1];",
        "1:[0,1];",
    ]
    code, rows, _ = run(kafka, "--describe", "--group", group, "--state", "--verbose")
    assert code == 0 and rows[1][3:] == ["Stable", epoch, epoch, "1"]
    code, _, text = run(kafka, "--delete", "--group", group)
    assert code == 0 and f"Streams group '{group}' is not EMPTY." in text


@clients_of_others
def test_the_tool_lists_describes_resets_and_deletes(kafka: Kafka, fresh: Fresh) -> None:
    topic, group = create_topic(kafka, fresh("words"), 2), fresh("shop")
    produce(kafka, topic, 2, 10)
    thread = Thread(kafka, group, topic, "m1")
    thread.until_it_has_tasks()
    with thread.staying():
        check_an_application_that_runs(kafka, topic, group)
    thread.leave()
    committer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group})
    committer.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
    committer.close()
    reset = ("--reset-offsets", "--group", group, "--input-topic", f"{topic}:0", "--to-latest")
    for option in ("--dry-run", "--execute"):
        code, rows, _ = run(kafka, *reset, option)
        assert code == 0 and rows[1:] == [[group, topic, "0", "10"]]
    code, rows, _ = run(kafka, "--delete-offsets", "--group", group, "--input-topic", topic)
    assert code == 0 and rows[-2:] == [[topic, "0", "Successful"], [topic, "1", "Successful"]]
    code, _, text = run(kafka, "--delete", "--group", group)
    assert code == 0
    assert f"Deletion of requested streams groups ('{group}') was successful." in text
    code, _, text = run(kafka, "--describe", "--group", group)
    assert code == 1 and f"Group {group} not found." in text
