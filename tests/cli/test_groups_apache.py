"""Apache's own tool and pk on the same group: each reads the other's exports, and both move offsets
to the same positions."""

from pathlib import Path

import pytest
from clients import apache_kafka
from clients.fixtures import Kafka
from group_parts import Fresh, Run, committed

pytestmark = pytest.mark.peer


def tool(kafka: Kafka, *words: str) -> str:
    """The output of kafka-consumer-groups.sh."""
    command = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    ran = apache_kafka.run_tool(command, "--bootstrap-server", kafka.bootstrap, *words)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_what_we_export_of_one_group_and_of_many_apache_s_tool_takes(
    kafka: Kafka, at: Run, fresh: Fresh, timed_topic: str, tmp_path: Path
) -> None:
    one, two = fresh("one"), fresh("two")
    for name in (one, two):
        at("groups", "reset-offsets", name, "-t", timed_topic, "--to", "start", "-y")
    file = tmp_path / "one.csv"
    file.write_bytes(at("groups", "reset-offsets", one, "--to", "3", "--export").out)
    tool(kafka, "--reset-offsets", "--group", one, "--from-file", str(file), "--execute")
    assert committed(at, one) == {(timed_topic, 0): 3, (timed_topic, 1): 3}
    file.write_bytes(at("groups", "reset-offsets", one, two, "--to", "-1", "--export").out)
    assert file.read_text().splitlines()[0] == f"{one},{timed_topic},0,9"
    both = ("--group", one, "--group", two)
    tool(kafka, "--reset-offsets", *both, "--from-file", str(file), "--execute")
    for name in (one, two):
        assert committed(at, name) == {(timed_topic, 0): 9, (timed_topic, 1): 3}


def test_what_apache_s_tool_exports_we_take(
    kafka: Kafka, at: Run, fresh: Fresh, timed_topic: str, tmp_path: Path
) -> None:
    one, two = fresh("one"), fresh("two")
    for name in (one, two):
        at("groups", "reset-offsets", name, "-t", timed_topic, "--to", "start", "-y")
    words = ("--reset-offsets", "--to-offset", "2", "--export", "--dry-run", "--topic", timed_topic)
    file = tmp_path / "apache.csv"
    file.write_text(tool(kafka, *words, "--group", one))
    assert at("groups", "reset-offsets", one, "--from-file", str(file), "-y").code == 0
    assert committed(at, one) == {(timed_topic, 0): 2, (timed_topic, 1): 2}
    file.write_text(tool(kafka, *words, "--group", one, "--group", two))
    assert at("groups", "reset-offsets", "--from-file", str(file), "-y").code == 0
    assert committed(at, two) == {(timed_topic, 0): 2, (timed_topic, 1): 2}


@pytest.mark.parametrize(
    "words",
    [
        ("--shift-by", "-2"),
        ("--to-datetime", "2001-09-09T01:46:44.000"),
    ],
    ids=lambda words: words[0],
)
def test_apache_s_flags_mean_what_they_mean_there(
    kafka: Kafka, at: Run, fresh: Fresh, timed_topic: str, words: tuple[str, ...]
) -> None:
    ours, theirs = fresh("ours"), fresh("theirs")
    for name in (ours, theirs):
        at("groups", "reset-offsets", name, "-t", timed_topic, "--to", "0=5,1=2", "-y")
    tool(kafka, "--reset-offsets", "--group", theirs, "--all-topics", *words, "--execute")
    done = at("groups", "reset-offsets", "--group", ours, "--all-topics", *words, "--execute")
    assert done.code == 0, done.err
    assert committed(at, ours) == committed(at, theirs)
