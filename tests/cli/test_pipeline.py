"""`pk spark pipeline` without Spark: files, status and stop. tests/spark/test_pipelines.py has the
tests with Spark."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pk.cli.exits import Exit
from pk.cli.nouns.pipeline.rows import PartitionRow, QueryRow
from pk.spark.pipeline.definition import parse_pipeline
from pk.spark.pipeline.places import Places
from pk.spark.pipeline.status import Lock, StatusFile

Run = Callable[..., Any]
Fresh = Callable[[str], str]

FILE = """\
name = "p"
checkpoint = "cp"

[[source]]
name = "orders"
topic = "orders"

[[sink]]
from = "orders"
topic = "out"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "p.toml"
    path.write_text(FILE)
    return path


def status_of(file: Path) -> StatusFile:
    places = Places(parse_pipeline(file.read_text(), str(file)))
    status = StatusFile(places, "p")
    status.queries["orders"] = {
        "name": "orders",
        "batch": 3,
        "rows": 1200,
        "rows_a_second": 0.0,
        "batch_ms": 1500,
        "ended_ms": 1_700_000_000_000,
        "lag": 7,
        "partitions": [
            {"topic": "orders", "partition": 0, "offset": 93, "end": 100, "lag": 7},
            {"topic": "orders", "partition": 1, "offset": 5, "end": 5, "lag": 0},
        ],
        "small_files": None,
    }
    status.small_files["orders"] = 12
    status.dead_letters = 2
    return status


def test_init_writes_a_file_for_the_topic(at: Run, fresh: Fresh, tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    topic, path = fresh("orders"), tmp_path / "new.toml"
    at("topics", "create", topic, "-p", "2")
    at("produce", topic, '{"id": 1, "at": "2026-01-01T00:00:00Z"}', '{"id": 2, "note": "x"}')
    made = at("spark", "pipeline", "init", str(path), "--topic", topic)
    assert (made.code, made.text) == (0, ""), made.err
    pipeline = parse_pipeline(path.read_text(), str(path))
    fields = pipeline.topics[0].fields
    assert fields is not None
    assert [line.strip(" ,") for line in fields.strip().splitlines()] == [
        "id BIGINT",
        "at TIMESTAMP",
        "note STRING",
    ]
    again = at("spark", "pipeline", "init", str(path), "--topic", topic)
    assert (again.code, "exists; --overwrite replaces it" in again.err) == (5, True)
    assert at("spark", "pipeline", "init", str(path), "--topic", topic, "--overwrite").code == 0
    unknown = at("spark", "pipeline", "init", str(tmp_path / "other.toml"), "--topic", f"{topic}x")
    assert (unknown.code, f"{topic}x" in unknown.err) == (1, True)
    assert at("spark", "pipeline", "init", str(tmp_path / "other.toml")).code == 2


@pytest.mark.parametrize("verb", ["check", "run", "status", "stop"])
def test_problems_of_the_file_have_places(pk: Run, file: Path, verb: str) -> None:
    file.write_text(FILE.replace("topic =", "topc =").replace('from = "orders"', 'from = "order"'))
    wrong = pk("spark", "pipeline", verb, str(file))
    assert wrong.code == (Exit.LASTING if verb == "run" else Exit.FAILED)
    said = wrong.err.replace("\n", " ")
    assert f"{file}:4:1: a [[source]] needs one of topic, files or jdbc; none is given" in said
    assert f"{file}:9:1: no source, table or step before this is named 'order'" in said
    assert f"{file} has 3 problems." in said, said


def test_status_of_a_pipeline_that_runs_that_has_died_and_that_never_ran(
    pk: Run, file: Path, tmp_path: Path
) -> None:
    never = pk("spark", "pipeline", "status", str(file))
    assert (never.code, "it has never run on this machine" in never.err) == (1, True), never.err
    status = status_of(file)
    with Lock(Places(parse_pipeline(FILE, str(file)))):
        status.write("running")
        found = pk("spark", "pipeline", "status", str(file), "-f", "json")
        assert found.code == 0
        [row] = found.json
        assert row.keys() == QueryRow.__annotations__.keys()
        assert (row["pipeline"], row["sink"], row["state"]) == ("p", "orders", "running")
        assert (row["batch"], row["rows"], row["rows_per_second"]) == (3, 1200, 0.0)
        assert (row["lag"], row["batch_ms"], row["dead_letters"]) == (7, 1500, 2)
        assert (row["small_files"], row["last_error"], row["restarts"]) == (12, None, 0)
        found = pk("spark", "pipeline", "status", str(file), "--partitions", "-f", "json")
        assert found.json[0].keys() == PartitionRow.__annotations__.keys()
        assert [(row["partition"], row["lag"]) for row in found.json] == [(0, 7), (1, 0)]
    died = pk("spark", "pipeline", "status", str(file))
    assert (died.code, "died" in died.text) == (0, True), died.text
    status.write("failed", "a record does not parse: orders, partition 0, offset 4")
    failed = pk("spark", "pipeline", "status", str(file))
    assert "p: a record does not parse: orders, partition 0, offset 4" in failed.err
    with Lock(Places(parse_pipeline(FILE, str(file)))):
        status_of(file).write("running")
        again = pk("spark", "pipeline", "status", str(file))
        said = again.err.replace("\n", " ")
        assert "p: the last failure, " in said and "a record does not parse" in said


def test_a_pipeline_is_asked_to_stop_and_waited_for(pk: Run, file: Path) -> None:
    places = Places(parse_pipeline(FILE, str(file)))
    stopped = pk("spark", "pipeline", "stop", str(file))
    assert (stopped.code, stopped.err) == (0, "p is not running.\n")
    running, done = threading.Event(), threading.Event()

    def pipeline() -> None:
        with Lock(places):
            running.set()
            while not places.stop.exists():
                done.wait(0.01)

    thread = threading.Thread(target=pipeline)
    thread.start()
    assert running.wait(60)
    stopped = pk("spark", "pipeline", "stop", str(file))
    thread.join()
    assert (stopped.code, stopped.err) == (0, "p has stopped.\n")


def test_a_pipeline_that_goes_on_is_said(pk: Run, file: Path) -> None:
    with Lock(Places(parse_pipeline(FILE, str(file)))):
        waited = pk("spark", "pipeline", "stop", str(file), "--timeout", "0")
        assert (waited.code, "has not stopped within 0 ms" in waited.err) == (124, True)
        second = pk("spark", "pipeline", "run", str(file))
        assert second.code == 5 and "Another process runs this pipeline" in second.err
        assert "`pk spark pipeline stop FILE` stops it." in second.err


def test_a_read_only_profile_runs_no_pipeline(pk: Run, file: Path) -> None:
    pk("profile", "add", "safe", "-b", "127.0.0.1:1", "--guard", "readonly")
    refused = pk("spark", "pipeline", "run", str(file), "--profile", "safe")
    assert (refused.code, "read-only by its profile" in refused.err) == (5, True)
    assert not (file.parent / "cp").exists()


def test_a_file_that_is_no_text(pk: Run, tmp_path: Path) -> None:
    assert (
        "cannot be read: No such file"
        in pk("spark", "pipeline", "check", str(tmp_path / "none")).err
    )
    (tmp_path / "latin").write_bytes(b"name = '\xff'")
    assert "is not UTF-8 text" in pk("spark", "pipeline", "check", str(tmp_path / "latin")).err
    assert json.loads(pk("spark", "pipeline", "status", str(tmp_path / "x"), "-f", "schema").text)
