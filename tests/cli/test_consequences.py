"""The warnings before a change: its effects on records and clients that are not obvious from the
new value."""

from collections.abc import Callable
from typing import Any

import pytest
from each import for_each

from pk.cli.config_keys.consequences import consequences

Run = Callable[..., Any]
Fresh = Callable[[str], str]
WEEK, DAY = "604800000", "86400000"


@for_each(
    ("name", "before", "after", "said"),
    [
        ("retention.ms", WEEK, DAY, "records older than 1 day are deleted"),
        ("retention.ms", "-1", DAY, "records older than 1 d"),
        ("retention.ms", DAY, WEEK, None),
        ("retention.ms", DAY, "-1", None),
        ("retention.ms", DAY, None, None),
        ("log.retention.hours", "168", "24", "records older than 1 d"),
        ("retention.bytes", "-1", "1048576", "above 1,048,576 bytes are deleted"),
        ("retention.bytes", "1048576", "-1", None),
        ("max.message.bytes", "1048588", "1000", "batches above 1,000 bytes are refused"),
        ("message.max.bytes", "1000", "1048588", None),
        ("min.insync.replicas", "1", "2", "producers with acks=all fail if fewer than 2 replicas"),
        ("min.insync.replicas", "2", "1", "by as few as 1"),
        ("unclean.leader.election.enable", "false", "true", "records are lost"),
        ("unclean.leader.election.enable", "true", "false", None),
        ("cleanup.policy", "delete", "compact", "records without a key are refused"),
        ("cleanup.policy", "compact", "compact,delete", "past retention.ms"),
        ("cleanup.policy", "compact,delete", "delete,compact", None),
        ("segment.ms", WEEK, DAY, None),
        ("retention.ms", WEEK, "nonsense", None),
    ],
)
def test_what_a_config_does(name: str, before: str, after: str | None, said: str | None) -> None:
    row = {"resource": "orders", "name": name, "from": before, "to": after}
    found = consequences([row], of_brokers=False)
    assert (len(found), said is None or said in found[0]) == (0 if said is None else 1, True), found
    assert all(one.startswith("orders: ") and one.endswith(".") for one in found)


def test_topics_alike_share_a_sentence_and_brokers_speak_of_theirs() -> None:
    rows = [
        {"resource": name, "name": "retention.ms", "from": WEEK, "to": DAY} for name in ("a", "b")
    ]
    assert consequences(rows, of_brokers=False) == [
        "a and b: records older than 1 day are deleted permanently."
    ]
    assert consequences(rows, of_brokers=True) == [
        "Topics without a value of their own: records older than 1 day are deleted permanently."
    ]


@pytest.mark.parametrize("asked", [(), ("-d",)], ids=["refused", "dry-run"])
def test_a_plan_and_a_preview_say_the_consequences(
    at: Run, fresh: Fresh, asked: tuple[str, ...]
) -> None:
    topic, other = fresh("plan"), fresh("plan")
    at("topics", "create", topic, other)
    at("produce", topic, "one-record")
    at("groups", "reset-offsets", f"{topic}-g", "-t", topic, "--to", "start", "-y")
    code = 0 if asked else 5
    for words, said in (
        (("topics", "delete", topic), "1 topic with 1 partition and up to 1 record"),
        (("topics", "delete", topic), f"Group {topic}-g has commits there"),
        (("topics", "trim", topic, "-o", "end"), "up to 1 record at the beginning of"),
        (("topics", "add-partitions", topic, "-n", "1"), "go to another partition than before"),
        (("topics", "alter", topic, "-c", "retention.ms=1000"), "records older than 1 s are del"),
        (("topics", "alter", topic, "-p", "3"), "go to another partition than before"),
        (("configs", "alter", "topic", topic, "-c", "retention.ms=1000"), "records older than 1 s"),
    ):
        ran = at(*words, *asked)
        assert (ran.code, said in ran.err) == (code, True), (words, ran.err)
    copied = at("cp", topic, other, "--once", *asked)
    shown = copied.text if asked else copied.err
    assert copied.code == code and "UP-TO" in shown and f"{topic}" in shown
    led = at("partitions", "elect-leaders", "--unclean", topic, "-d")
    assert (led.code, led.err) == (0, "")
