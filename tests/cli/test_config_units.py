"""Values of configs with a unit: the values that are sent, shown in the plan, and refused."""

from collections.abc import Callable
from typing import Any

import pytest
from each import for_each
from hypothesis import given
from hypothesis import strategies as st
from terminal import on_terminal

from pk.cli.config_keys.units import both_ways, exact_span, plain_value
from pk.cli.main import main

Run = Callable[..., Any]
Fresh = Callable[[str], str]


@for_each(
    ("key", "value", "sent"),
    [
        ("retention.ms", "7d", "604800000"),
        ("retention.ms", "7 days", "604800000"),
        ("retention.ms", "1h30m", "5400000"),
        ("retention.ms", "1.5h", "5400000"),
        ("retention.ms", "2w", "1209600000"),
        ("retention.ms", "250ms", "250"),
        ("log.retention.hours", "7d", "168"),
        ("log.retention.minutes", "2h", "120"),
        ("quota.window.size.seconds", "2min", "120"),
        ("segment.bytes", "1GiB", "1073741824"),
        ("segment.bytes", "1 gib", "1073741824"),
        ("max.message.bytes", "2MB", "2000000"),
        ("max.message.bytes", "512KiB", "524288"),
        ("max.message.bytes", "0.5KiB", "512"),
        # The broker judges values that are not a number with a unit, or whose key has no unit.
        ("retention.ms", "-1", "-1"),
        ("retention.ms", "604800000", "604800000"),
        ("retention.ms", "", ""),
        ("retention.ms", "abc", "abc"),
        ("cleanup.policy", "7d", "7d"),
        ("compression.zstd.level", "3", "3"),
    ],
)
def test_what_is_sent(key: str, value: str, sent: str) -> None:
    assert plain_value(key, value) == sent


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("retention.ms", "1GiB", "retention.ms is a duration: give milliseconds, or a value such"),
        ("segment.bytes", "7d", "segment.bytes is a size: give bytes, or a value such as 512KiB"),
        ("segment.bytes", "1GiB5MiB", "is a size"),
        ("segment.bytes", "1G", "is a size"),  # 10^9 or 2^30?
        ("retention.ms", "7y", "is a duration"),
        ("retention.ms", "-7d", "cannot have a sign"),
        ("log.retention.hours", "90m", "takes whole hours, not 1.5"),
        ("segment.bytes", "0.3KiB", "takes whole bytes, not 307.2"),
    ],
)
def test_a_unit_that_makes_no_sense(key: str, value: str, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{key}={value}: .*{said}"):
        plain_value(key, value)


@for_each(
    ("key", "value", "shown"),
    [
        ("retention.ms", "604800000", "604800000 (7 days)"),
        ("retention.ms", "86400000", "86400000 (1 day)"),
        ("log.retention.ms", "100000", "100000 (1 min 40 s)"),
        ("log.retention.hours", "168", "168 (7 days)"),
        ("log.retention.hours", "5", "5"),
        ("retention.ms", "250", "250"),
        ("retention.ms", "-1", "-1"),
        ("retention.ms", None, "(none)"),
        ("segment.bytes", "1073741824", "1073741824 (1 GiB)"),
        ("segment.bytes", "1000012", "1000012"),
        ("cleanup.policy", "", "(empty)"),
    ],
)
def test_what_is_shown(key: str, value: str | None, shown: str) -> None:
    assert both_ways(key, value) == shown


@given(st.integers(1, 10**15))
def test_what_is_shown_may_be_typed(ms: int) -> None:
    assert plain_value("retention.ms", exact_span(ms)) == str(ms)


# On real clusters


def test_a_unit_is_converted_before_the_request_and_shown_both_ways(at: Run, fresh: Fresh) -> None:
    topic = fresh("units")
    tried = at("topics", "create", topic, "-c", "retention.ms=7d", "-d")
    assert (tried.code, tried.err) == (0, "retention.ms 604800000 (7 days)\n")
    made = at("topics", "create", topic, "-c", "retention.ms=7d", "-c", "segment.bytes=1GiB")
    assert made.code == 0, made.err
    set_on = {
        row["name"]: row["value"]
        for row in at("configs", "describe", "topic", topic, "-f", "json").json
        if row["source"] == "topic"
    }
    assert (set_on["retention.ms"], set_on["segment.bytes"]) == ("604800000", "1073741824")
    said = f"{topic}: retention.ms 604800000 (7 days) → 100000 (1 min 40 s)\n"
    for words in (
        ("configs", "alter", "topic", topic, "-c", "retention.ms=100s"),
        ("configs", "alter", "topic", topic, "--add-config", "retention.ms=100s"),
        ("configs", "alter", "topic", topic, "retention.ms=100s"),
        ("configs", "alter", "-t", topic, "retention.ms=100s"),
        ("topics", "alter", topic, "-c", "retention.ms=100s"),
    ):
        planned = at(*words)  # refused without a request
        assert (planned.code, said in planned.err) == (5, True), planned.err
        assert "records older than 1 min 40 s are deleted" in planned.err
    altered = at("configs", "alter", "topic", topic, "-c", "retention.ms=100s", "-y", "-f", "json")
    assert [(row["from"], row["to"]) for row in altered.json] == [("604800000", "100000")]
    of_group = at("configs", "alter", "group", topic, "-c", "consumer.session.timeout.ms=50s", "-d")
    assert (of_group.code, "50000" in of_group.text) == (0, True), of_group.err
    of_broker = ("configs", "alter", "broker", "default", "-c", "log.retention.ms=2d", "-d")
    assert "172800000" in at(*of_broker).text
    read = at("topics", "list", "-X", "request.timeout.ms=20s")
    assert read.code == 0, read.err


@pytest.mark.parametrize(
    "words",
    [
        ("topics", "create", "t", "-c", "retention.ms=1GiB"),
        ("configs", "alter", "topic", "t", "-c", "retention.ms=1GiB"),
        ("configs", "alter", "topic", "t", "--add-config", "retention.ms=1GiB"),
        ("topics", "list", "-X", "request.timeout.ms=1GiB"),
        ("node", "start", "-X", "log.retention.ms=1GiB"),
    ],
)
def test_a_unit_that_makes_no_sense_is_refused_before_anything(pk: Run, words: Any) -> None:
    wrong = pk(*words)
    assert wrong.code == 2
    assert "retention.ms is a duration" in wrong.err or "timeout.ms is a duration" in wrong.err


@pytest.mark.parametrize("noun", ["configs alter topic", "topics alter"])
def test_how_to_undo_a_change_follows_its_table(at: Run, fresh: Fresh, noun: str) -> None:
    topic = fresh("undoable")
    at("topics", "create", topic)
    words = (*noun.split(), topic, "-c", "retention.ms=86400000", "-y")
    screen = on_terminal(main, words).screen
    assert -1 < screen.find("RESULT") < screen.find("To undo it: pk undo"), screen


def test_a_header_is_no_config(at: Run, fresh: Fresh) -> None:
    topic = fresh("units")
    at("topics", "create", topic)
    assert at("produce", topic, "-H", "retry.ms=7d", "v").code == 0
    (record,) = at("consume", topic, "-o", "start..end", "-f", "json").json
    assert "7d" in str(record["headers"])
