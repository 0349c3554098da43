"""`--trace`: the requests of a command, for users and for programs, however the command ended."""

import json
import signal
from collections.abc import Callable
from typing import Any

import pytest
from clients.fixtures import Kafka
from clients.pk_broker import running

from pk.cli.runtime.trace import KEPT_FIRST, KEPT_LAST, Recorder, as_row, waterfall
from pk.net.client.connection import CONNECT, RequestTrace

Run = Callable[..., Any]
Fresh = Callable[[str], str]


def test_the_requests_are_shown_when_it_ends(at: Run, fresh: Fresh) -> None:
    topic = fresh("trace")
    at("topics", "create", topic, "-p", "2")
    plain, traced = at("topics", "offsets", topic), at("topics", "offsets", topic, "--trace")
    assert traced.out == plain.out
    lines = traced.err.splitlines()
    assert lines[0].split() == ["START", "MS", "BROKER", "REQUEST", "OUT", "IN"]
    shown = traced.err
    assert "(connect)" in shown and "ApiVersions v" in shown and "ListOffsets v" in shown
    assert "█" in shown
    assert " requests, " in lines[-2] and " out, " in lines[-2]
    assert lines[-1].startswith("Brokers: ")
    assert max(map(len, lines)) <= 120


def test_programs_get_an_object_a_line(at: Run, fresh: Fresh) -> None:
    topic = fresh("trace")
    at("topics", "create", topic)
    ran = at("topics", "describe", topic, "--trace-json")
    rows = [json.loads(line) for line in ran.err.splitlines()]
    assert [row["api"] for row in rows][:2] == ["connect", "ApiVersions"]
    first = rows[1]
    assert first["api_key"] == 18 and first["bytes_out"] > 0 and first["bytes_in"] > 0
    assert first["error"] is None and first["throttle_ms"] == 0
    assert all(row["start_ms"] >= 0 and row["duration_ms"] >= 0 for row in rows)


def test_errors_inside_answers_are_shown(at: Run, fresh: Fresh) -> None:
    topic = fresh("trace")
    at("topics", "create", topic)
    ran = at("topics", "create", topic, "--trace-json")
    rows = [json.loads(line) for line in ran.err.splitlines() if line.startswith("{")]
    assert [r["error"] for r in rows if r["api"] == "CreateTopics"] == ["TOPIC_ALREADY_EXISTS"]


def test_a_failed_connection_is_shown(pk: Run) -> None:
    ran = pk("topics", "list", "-b", "127.0.0.1:1", "--trace")
    assert ran.code == 3
    assert "connection refused" in ran.err.partition("No broker answers")[0]
    assert "1 failed" in ran.err


def test_other_clients_of_the_command_are_traced_too(at: Run, fresh: Fresh) -> None:
    topic = fresh("trace")
    at("topics", "create", topic)
    produced = at("produce", topic, "--trace-json", stdin=b"a\nb\n")
    assert '"api": "Produce"' in produced.err
    consumed = at("consume", topic, "-o", "start..end", "--trace-json")
    assert consumed.lines == ["a", "b"]
    assert '"api": "Fetch"' in consumed.err


def test_what_goes_on_until_ctrl_c_is_traced(kafka: Kafka, at: Run, fresh: Fresh) -> None:
    topic = fresh("trace")
    at("topics", "create", topic)
    at("produce", topic, stdin=b"a\n")
    words = ("consume", topic, "-o", "start", "--trace", "-b", kafka.bootstrap)
    with running(*words) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "a\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert "Fetch v" in err and " requests, " in err
    assert "Traceback" not in err


def _request(number: int, **other: Any) -> RequestTrace:
    fields: dict[str, Any] = {
        "api_key": 1,
        "api_name": "Fetch",
        "api_version": 13,
        "node_id": 2,
        "address": "h:1",
        "correlation_id": number,
        "started": 100 + number / 1000,
        "elapsed_ms": 2.0,
        "bytes_out": 10,
        "bytes_in": 1000,
        "throttle_ms": 0,
        "error": None,
    }
    return RequestTrace(**{**fields, **other})


def test_of_many_requests_some_are_kept_and_all_are_counted() -> None:
    recorder = Recorder(100.0)
    for number in range(10_000):
        recorder.add(_request(number))
    assert len(recorder.first) + len(recorder.last) == KEPT_FIRST + KEPT_LAST
    lines = waterfall(recorder, 10_002, 100)
    assert "… 9,500 requests more …" in lines
    assert (
        lines[-2]
        == "10,000 requests, 0 connections, 10,001.0 of 10,002.0 ms, 100 kB out, 10.0 MB in."
    )
    assert len(lines) == KEPT_FIRST + KEPT_LAST + 4


def test_throttles_and_errors_stand_below_their_request() -> None:
    recorder = Recorder(100.0)
    recorder.add(_request(0, throttle_ms=250, error="NOT_LEADER_OR_FOLLOWER ×2"))
    recorder.add(_request(1, api_name=CONNECT, api_key=-1, node_id=-1, address="g:1", bytes_out=0))
    lines = waterfall(recorder, 10, 80)
    assert lines[2].strip() == "throttled for 250 ms  NOT_LEADER_OR_FOLLOWER ×2"
    assert lines[-1] == "Brokers: - = g:1, 2 = h:1."
    assert "throttled for 250 ms, 1 failed." in lines[-2]
    assert as_row(_request(5), 100.0)["start_ms"] == 5.0


@pytest.mark.parametrize("width", [20, 80, 200])
def test_bars_stay_inside(width: int) -> None:
    recorder = Recorder(100.0)
    for number in range(50):
        recorder.add(_request(number))
    lines = waterfall(recorder, 52, width)
    assert max(map(len, lines[:-2])) <= max(width, 60)
