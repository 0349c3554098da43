"""Status, lock and the reading of Spark's checkpoints."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from pk.core.values import TopicPartition
from pk.spark.pipeline.checkpoints import committed, last_batch, planned
from pk.spark.pipeline.definition import parse_pipeline
from pk.spark.pipeline.places import Places
from pk.spark.pipeline.status import (
    AlreadyRunning,
    Lock,
    StatusFile,
    is_running,
    partitions_of,
    read_status,
    rows_of,
)

FILE = """
name = "p"
checkpoint = "cp"
[[source]]
name = "orders"
topic = "orders"
[[sink]]
from = "orders"
topic = "out"
"""
IDS = {"orders": "4S-K2a9bTDeJy7Pg-rvZcw"}


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(parse_pipeline(FILE, str(tmp_path / "p.toml")))


def progress(
    batch: int, begin: dict[str, int], end: dict[str, int], latest: dict[str, int]
) -> dict[str, object]:
    def offset(positions: dict[str, int], **more: object) -> str:
        return json.dumps({"orders": positions, "@ids": IDS, **more})

    start = None if not begin else offset(begin)
    return {
        "batchId": batch,
        "durationMs": {"triggerExecution": 500},
        "observedMetrics": {
            "dead_letters_orders": {"records": 2},
            "read_orders": {"records": batch + 7},
        },
        "sources": [
            {
                "startOffset": start,
                "endOffset": offset(end, **({"@start": {"orders": {"0": 5}}} if not begin else {})),
                "latestOffset": offset(latest),
                "numInputRows": 999,
            }
        ],
    }


def lags_of(progress: dict[str, object]) -> dict[int, int]:
    return {each["partition"]: each["lag"] for each in partitions_of(progress) or []}


def test_rows_are_counted_and_lag_is_that_of_the_offsets() -> None:
    first = progress(0, {}, {"0": 15}, {"0": 20, "1": 3})
    assert (rows_of(first), lags_of(first)) == (7, {0: 5, 1: 3})
    second = progress(1, {"0": 15}, {"0": 20, "1": 3}, {"0": 20, "1": 3})
    assert (rows_of(second), lags_of(second)) == (8, {0: 0, 1: 0})
    files: dict[str, object] = {
        "sources": [
            {"startOffset": {"logOffset": 0}, "endOffset": {"logOffset": 1}, "numInputRows": 7}
        ]
    }
    assert (rows_of(files), partitions_of(files)) == (7, None)


def test_a_status_is_that_of_the_run_or_of_its_death(places: Places) -> None:
    assert read_status(places) is None
    with Lock(places):
        status = StatusFile(places, "p")
        status.see("orders", progress(0, {}, {"0": 15}, {"0": 20}), 10)
        status.see("orders", progress(1, {"0": 15}, {"0": 20}, {"0": 20}), 5)
        status.small_files["orders"] = 3
        status.write("running")
        found = read_status(places)
        assert found is not None and found["state"] == "running"
        [query] = found["queries"]
        assert query["rows_a_second"] > 10 and query.pop("ended_ms")
        query.pop("rows_a_second")
        assert found["dead_letters"] == 4
        assert found["queries"] == [
            {
                "name": "orders",
                "batch": 1,
                "rows": 15,
                "batch_ms": 500,
                "lag": 0,
                "partitions": [
                    {"topic": "orders", "partition": 0, "offset": 20, "end": 20, "lag": 0}
                ],
                "small_files": 3,
            }
        ]
    found = read_status(places)
    assert found is not None and found["state"] == "died"


def test_one_process_runs_a_pipeline(places: Places) -> None:
    code = (
        "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.flock(f, 2); print('held', "
        "flush=True); input()"
    )
    assert isinstance(places.own, Path)
    places.own.mkdir(parents=True)
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(places.lock)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert other.stdin is not None and other.stdout is not None
    assert other.stdout.readline() == b"held\n"
    assert is_running(places)
    StatusFile(places, "p").write("running")  # by this process, which lives
    with pytest.raises(AlreadyRunning, match="another process runs this pipeline"), Lock(places):
        pass
    other.communicate(b"\n")
    assert not is_running(places)
    with Lock(places):
        assert is_running(places)


def test_what_a_checkpoint_says_of_a_topic(tmp_path: Path) -> None:
    assert committed(tmp_path, "orders") == {} and planned(tmp_path, "orders") == []

    def batch(number: int, *ends: dict[str, object]) -> None:
        lines = ["v1", '{"batchWatermarkMs":0,"conf":{}}', *(json.dumps(end) for end in ends)]
        (tmp_path / "offsets").mkdir(exist_ok=True)
        (tmp_path / "offsets" / str(number)).write_text("\n".join(lines))

    def done(number: int) -> None:
        (tmp_path / "commits").mkdir(exist_ok=True)
        (tmp_path / "commits" / str(number)).write_text("v1\n{}")

    start = {"@start": {"orders": {"0": 5}}}
    batch(
        0,
        {"orders": {"0": 10}, "@ids": IDS, **start},
        {"other": {"0": 3}, "@ids": {"other": IDS["orders"]}},
    )
    assert [(r.partition, r.begin, r.end) for r in planned(tmp_path, "orders")] == [(0, 5, 10)]
    assert last_batch(tmp_path) is None
    done(0)
    batch(1, {"orders": {"0": 15, "1": 2}, "@ids": IDS}, {"orders": {"0": 12}, "@ids": IDS})
    assert committed(tmp_path, "orders") == {TopicPartition("orders", 0): 10}
    assert [(r.partition, r.begin, r.end) for r in planned(tmp_path, "orders")] == [
        (0, 10, 15),
        (1, 0, 2),
        (0, 0, 12),
    ]
    done(1)
    # A query that reads the topic twice is as far as the slower of the two.
    assert committed(tmp_path, "orders") == {
        TopicPartition("orders", 0): 12,
        TopicPartition("orders", 1): 2,
    }
    assert last_batch(tmp_path) == 1


class _Interrupted:
    """A Spark that is used when a second Ctrl-C comes."""

    def __getattr__(self, name: str) -> object:
        raise KeyboardInterrupt


def test_who_stops_a_pipeline_at_once_has_stopped_it(places: Places) -> None:
    pytest.importorskip("pyspark")
    assert isinstance(places.own, Path)
    from pk.spark.pipeline.run import RunOptions, run_pipeline

    options = RunOptions({"kafka.bootstrap.servers": "127.0.0.1:1"})
    pipeline = parse_pipeline(FILE, str(places.own.parent.parent / "p.toml"))
    with pytest.raises(KeyboardInterrupt):
        run_pipeline(pipeline, options, cast(Any, _Interrupted()))
    status = read_status(places)
    assert status is not None
    assert (status["state"], status["error"]) == ("stopped", None)


def test_the_rate_is_that_of_the_last_minute(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pk.spark.pipeline import status as module

    now_ms = 1_000_000
    monkeypatch.setattr(module, "_now_ms", lambda: now_ms)
    assert isinstance(places.own, Path)
    places.own.mkdir(parents=True)
    status = StatusFile(places, "p")

    def rate() -> float:
        status.write("running")
        found = read_status(places)
        assert found is not None
        return found["queries"][0]["rows_a_second"]

    status.see("orders", progress(0, {}, {"0": 15}, {"0": 20}), 1_000)  # a batch of 500 ms
    assert rate() == 2_000.0
    now_ms += 9_500
    status.see("orders", progress(1, {"0": 15}, {"0": 20}, {"0": 20}), 2_000)
    assert rate() == 300.0
    now_ms += 55_000
    assert rate() == round(2_000 / 60, 1)
    now_ms += 55_000
    assert rate() == 0.0


def test_the_last_error_outlives_its_run(places: Places) -> None:
    with Lock(places):
        status = StatusFile(places, "p")
        status.write("restarting", "no broker")
        status.write("restarting", "no disk")
        assert status.value["restarts"] == 2
    with Lock(places):
        again = StatusFile(places, "p")
        again.write("running")
        assert again.value["error"] is None and again.value["restarts"] == 0
        last = again.value["last_error"]
        assert last is not None and last["message"] == "no disk"
