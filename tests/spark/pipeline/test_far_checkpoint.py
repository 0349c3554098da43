"""A checkpoint in object storage: who runs the pipeline, and what pk keeps there. Without Spark;
with it: test_pipeline_s3.py."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from s3_server import S3, s3_server

from pk.core.values import TopicPartition
from pk.spark.files.object_path import ObjectPath, spark_url, write_json
from pk.spark.pipeline.checkpoints import committed, last_batch, query_names
from pk.spark.pipeline.definition import parse_pipeline
from pk.spark.pipeline.failed_records import FailedRecord, FailedRecords
from pk.spark.pipeline.lease import Lease, LeaseTaken, is_held
from pk.spark.pipeline.places import Places
from pk.spark.pipeline.status import StatusFile, hold, is_running, read_status
from pk.spark.read.ranges import OffsetRange

pytest.importorskip("obstore")

FILE = """
name = "far"
checkpoint = "s3://checkpoints/{}"
[[source]]
name = "orders"
topic = "orders"
[[sink]]
from = "orders"
topic = "copied"
"""


@pytest.fixture(scope="module")
def server() -> Iterator[S3]:
    with s3_server() as found:
        found.bucket("checkpoints")
        yield found


@pytest.fixture
def places(server: S3, fresh: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    for name, value in server.environ.items():
        monkeypatch.setenv(name, value)
    return Places(parse_pipeline(FILE.format(fresh("far")), str(tmp_path / "p.toml")))


def lease(places: Places) -> Lease:
    assert isinstance(places.lock, ObjectPath)
    return Lease(places.lock, lease_s=2.0, renew_s=0.2)


def test_one_process_runs_it(places: Places) -> None:
    assert not is_running(places)
    with lease(places) as first:
        assert is_running(places)
        with pytest.raises(LeaseTaken), lease(places):
            pass
        assert not first.lost
    assert not is_running(places)
    with lease(places), hold_is_refused(places):
        pass


def hold_is_refused(places: Places) -> Any:
    from contextlib import contextmanager

    from pk.spark.pipeline.status import AlreadyRunning

    @contextmanager
    def refused() -> Iterator[None]:
        with pytest.raises(AlreadyRunning, match="runs this pipeline"), hold(places):
            pass
        yield

    return refused()


def test_a_process_that_died_is_followed_by_another(places: Places) -> None:
    assert isinstance(places.lock, ObjectPath)
    places.lock.write_text('{"owner": "x", "host": "gone", "pid": 1, "count": 1, "free": false}')
    with lease(places) as second:
        assert is_held(places.lock) and not second.lost


def test_a_process_that_was_overtaken_ends(places: Places) -> None:
    assert isinstance(places.lock, ObjectPath)
    noticed = threading.Event()
    with lease(places) as first:
        places.lock.write_text('{"owner": "x", "host": "h", "pid": 1, "count": 1, "free": false}')
        while not first.lost:
            noticed.wait(0.05)
    assert is_running(places), "the lease of the other is left alone"


def test_what_pk_keeps_there(places: Places) -> None:
    assert read_status(places) is None
    status = StatusFile(places, "far")
    status.write("running")
    found = read_status(places)
    assert found is not None and found["state"] == "died"
    assert not places.stop.exists()
    places.stop.touch()
    assert places.stop.exists()
    places.stop.unlink(missing_ok=True)
    places.stop.unlink(missing_ok=True)
    assert not places.stop.exists()
    failed = FailedRecords(places.failed_records)
    record = FailedRecord("orders", 0, 7, "bad")
    failed.add("copied", [OffsetRange("orders", 0, 0, 9)], [record])
    assert FailedRecords(places.failed_records).of("copied") == [record]


def test_sparks_own_files_are_read(places: Places) -> None:
    query = places.query("copied")
    assert last_batch(query) is None and query_names(places.checkpoint) == []
    assert committed(query, "orders") == {}
    for number, end in enumerate((5, 8, 11)):
        ends = f'"orders":{{"0":{end}}},"@ids":{{"orders":"4S-K2a9bTDeJy7Pg-rvZcw"}}'
        offsets = f"v1\n{{}}\n{{{ends}}}"
        (query / "offsets" / str(number)).write_text(offsets)
    for number in range(2):
        (query / "commits" / str(number)).write_text("v1\n{}")
    write_json(query / "metadata", {"id": "x"})
    assert last_batch(query) == 1 and query_names(places.checkpoint) == ["copied"]
    assert committed(query, "orders") == {TopicPartition("orders", 0): 8}
    assert spark_url(query).startswith("s3a://checkpoints/") and not str(query).endswith("/")
