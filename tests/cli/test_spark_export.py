"""`pk spark-export`: its plan and refusals, and (slow: it starts Spark) an export with its
summary."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pk.spark.export.manifest import Manifest, open_directory

Run = Callable[..., Any]
Fresh = Callable[[str], str]


@pytest.fixture
def topic(at: Run, fresh: Fresh) -> str:
    name = fresh("export")
    at("topics", "create", name, "-p", "2")
    for partition in ("0", "1"):
        lines = [json.dumps({"key": str(i), "value": json.dumps({"n": i})}) for i in range(10)]
        at("produce", name, "-p", partition, "-f", "jsonl", stdin="\n".join(lines).encode())
    return name


def test_a_dry_run_is_the_plan(at: Run, topic: str, tmp_path: Path) -> None:
    plan = at("spark-export", topic, "--to", str(tmp_path / "out"), "-o", "-3", "-d", "-f", "json")
    assert plan.code == 0
    assert [(r["partition"], r["begin"], r["end"]) for r in plan.json] == [(0, 7, 10), (1, 7, 10)]
    assert not (tmp_path / "out").exists()
    at("groups", "reset-offsets", f"{topic}-g", "-t", f"{topic}:0", "--to", "4", "-y")
    words = ("-o", "committed", "-g", f"{topic}-g", "-d", "-f", "json")
    plan = at("spark-export", topic, "--to", str(tmp_path / "out"), *words)
    assert [(r["partition"], r["begin"], r["end"]) for r in plan.json] == [(0, 4, 10), (1, 10, 10)]
    assert f"has no commit in {topic}/1: using the end there" in plan.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--to DIR"),
        (("--to", "x", "--resume", "--overwrite"), "give only one"),
        (("--to", "x", "-o", "committed"), "needs a group: -g GROUP"),
        (("--to", "x", "-g", "billing"), "-o committed"),
        (("--to", "x", "-o", "end..start"), "ends before it begins"),
        (("--to", "x", "--value", "xml"), "bytes, string, json"),
        (("--to", "x", "-o", "1..x"), "not a position"),
        (("--to", "x", "-t", "t"), "given twice"),
        (("--to", "x", "-t", "u", "--table", "c.n.t"), "only one"),
        (("--to", "x", "--follow", "-o", "1..9"), "--follow does not end"),
        (("--to", "x", "--follow", "-o", "0=1..5"), "--follow does not end"),
        (("--to", "x", "--interval", "5"), "no effect without --follow"),
        (("--to", "x", "--compact", "1h"), "--compact has no effect without --follow"),
        (("--to", "x", "--follow", "--overwrite"), "--overwrite without it"),
        (("--to", "x", "--master", "yarn", "--remote", "sc://h"), "give only one"),
        (("--to", "x", "--remote", "spark://h:1"), "--remote must be sc://HOST:PORT"),
        (("--to", "x", "--partition-by", "offset"), "cannot name a column offset"),
        (("--to", "x", "--partition-by", "hour"), "give date,hour"),
        (("--to", "x", "--to-format", "delta", "--table", "c.n.t"), "--to-format iceberg"),
        (("--to", "s3://b/x", "--to-format", "iceberg"), "needs a catalog: --table"),
        (("--to", "file://host/x"), "File://host/x is not on this machine"),
        (("--to", "x", "--max-file-size", "0"), "needs a size above 0, such as 64MB"),
        (("--to", "x", "--schema", "evolve"), "no effect without --resume or --follow"),
        (("--to", "x", "--max-file-rows", "0"), "needs a number above 0"),
    ],
)
def test_what_makes_no_sense_is_said(at: Run, words: tuple[str, ...], said: str) -> None:
    wrong = at("spark-export", "t", *words)
    assert (wrong.code, said in wrong.err) == (2, True), wrong.err


def test_a_place_that_cannot_be_reached_is_named(at: Run, topic: str) -> None:
    pytest.importorskip("pyspark")
    nowhere = at("spark-export", topic, "--to", "nowhere://x/y")
    assert (nowhere.code, nowhere.err.partition(":")[0]) == (2, "Nowhere"), nowhere.err
    assert "nowhere://x/y is not a location for files" in nowhere.err.lower()


def test_a_dry_run_of_several_topics_names_each(at: Run, topic: str, fresh: Fresh) -> None:
    other = fresh("export")
    at("topics", "create", other, "-p", "1")
    plan = at("spark-export", topic, other, "--to", "out", "-d", "-f", "json")
    assert [(r["topic"], r["partition"]) for r in plan.json] == [(topic, 0), (topic, 1), (other, 0)]


def test_replacing_files_wants_an_answer(at: Run, topic: str, tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    refused = at("spark-export", topic, "--to", str(tmp_path), "--overwrite")
    assert (refused.code, "-y makes the change" in refused.err) == (5, True)
    assert (tmp_path / "mine").exists()
    words = ("--to", str(tmp_path), "--overwrite", "--partition-by", "offset")
    wrong = at("spark-export", topic, *words)
    assert (wrong.code, "cannot name a column offset" in wrong.err) == (2, True), wrong.err


def test_a_directory_that_holds_an_export_is_named_as_it_is(
    pk: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.chdir(tmp_path)
    with open_directory(tmp_path / "out") as directory:
        directory.commit(
            Manifest("orders", "4S-K2a9bTDeJy7Pg-rvZcw", "bytes", "json", {}, {}, ()), {}
        )
    refused = pk("spark-export", "orders", "--to", "out")
    said = "The directory out holds an export of orders with 0 records; resume it, or overwrite it "
    assert (refused.code, refused.err) == (5, f"{said}(--resume, --overwrite).\n")
    other = pk("spark-export", "payments", "--to", "out", "--resume")
    assert (other.code, other.err) == (
        5,
        "The directory out holds an export of orders, not of payments.\n",
    )
    other = pk("spark-export", "orders", "--to", "out", "--resume", "--value", "string")
    assert (other.code, other.err) == (2, "The export in out has values as json, not string.\n")


@pytest.mark.slow
def test_an_export(at: Run, topic: str, tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    import pyarrow.parquet as pq

    out = tmp_path / "out"
    done = at(
        "spark-export", topic, "--to", str(out), "--value", "json", "-o", "2..end", "-f", "json"
    )
    assert done.code == 0, done.err
    (summary,) = done.json
    assert (summary["records"], summary["records_before"]) == (16, 0)
    rows = pq.read_table(out).to_pylist()
    assert sorted((r["partition"], r["offset"], r["value"]["n"]) for r in rows) == [
        (p, i, i) for p in range(2) for i in range(2, 10)
    ]
    at("produce", topic, "-p", "0", json.dumps({"n": 10, "gained": 1}))
    resumed = at("spark-export", topic, "--to", str(out), "--resume", "-f", "json")
    assert (resumed.code, resumed.json[0]["records"]) == (0, 1), resumed.err
    assert resumed.err == (
        "1 record of this run had JSON fields in the value for which the export has no column; "
        "these fields were dropped: gained. To keep them, export to another directory or use "
        "--overwrite.\n"
    )
    assert 10 in [r["value"]["n"] for r in pq.read_table(out).to_pylist()]
    bad = (b'{"n": "x"}', b'{"n": 1, "n": 2}', b'{"_corrupt_record": 1}')
    for value in (*bad, b'{"n": 11, "N": 12}'):
        at("produce", topic, "-p", "0", "-f", "%v", stdin=value)
    counted = at("spark-export", topic, "--to", str(out), "--resume", "-f", "json")
    assert (counted.json[0]["records"], counted.json[0]["unparsed"]) == (4, 3), counted.err
    assert (
        "3 records of this run had a value that is not a JSON object with the fields' types: the "
        "text is in value._corrupt_record.\n"
    ) in counted.err
    texts = [row["value"]["_corrupt_record"] for row in pq.read_table(out).to_pylist()]
    assert sorted(filter(None.__ne__, texts)) == sorted(value.decode() for value in bad)
    fresh = at(
        "spark-export", topic, "--to", str(tmp_path / "all"), "--value", "json", "-f", "json"
    )
    assert (fresh.code, fresh.json[0]["records"]) == (0, 25), fresh.err
    again = at("spark-export", topic, "--to", str(out))
    assert (again.code, "resume" in again.err) == (5, True)
    unknown = at("spark-export", f"{topic}x", "--to", str(tmp_path / "other"))
    assert (unknown.code, topic in unknown.err) == (1, True)


_INTERRUPTED = r"""
import os, signal, sys

where, sys.argv[1:] = sys.argv[1], sys.argv[2:]
kafka = int(os.environ["PK_BOOTSTRAP_SERVER"].rpartition(":")[2])
connections = 0

def meets(event, args):
    global connections
    if where == "import":
        return event == "import" and args[0] == "pyspark.sql.functions"
    if where == "writing":
        return event == "open" and "/states/" in str(args[0])
    if event == "socket.connect" and args[1][1] != kafka:
        connections += 1
        return where == f"connection {connections}"
    return False

def audit(event, args):
    global where
    if where and meets(event, args):
        where = ""
        os.kill(os.getpid(), signal.SIGINT)

sys.addaudithook(audit)
import pk
from pk.cli.main import main
sys.exit(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("where", ["import", "connection 1", "connection 2", "writing"])
def test_ctrl_c_ends_an_export_without_a_traceback(
    at: Run, topic: str, tmp_path: Path, where: str
) -> None:
    pytest.importorskip("pyspark")
    out, tmp = tmp_path / "out", tmp_path / "tmp"
    tmp.mkdir()
    ran = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED, where, "spark-export", topic, "--to", str(out)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (-signal.SIGINT, ""), ran.stderr
    assert ran.stderr.count("\n") <= 1 and "Traceback" not in ran.stderr, ran.stderr
    assert not out.exists() and not os.listdir(tmp)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_followed_export_ends_in_order_and_says_what_it_has(
    at: Run, topic: str, tmp_path: Path, number: signal.Signals
) -> None:
    pytest.importorskip("pyspark")
    from deltalake import DeltaTable

    out = tmp_path / "out"
    words = ["spark-export", topic, "--to", str(out), "--to-format", "delta", "--resume"]
    following = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "pk.cli.main",
            *words,
            "--follow",
            "--interval",
            "0.1",
            "--compact",
            "1ms",
            "-f",
            "json",
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert following.stderr is not None
        assert "20 records more, 20 in all" in following.stderr.readline()
        assert "2 files of the table were compacted to 1" in following.stderr.readline()
        at("produce", topic, "-p", "0", "one more")
        assert "1 record more, 21 in all" in following.stderr.readline()
        assert "2 files of the table were compacted to 1" in following.stderr.readline()
        following.send_signal(number)
        shown, said = following.communicate(timeout=120)
    finally:
        following.kill()
        following.wait()
    assert (following.returncode, said) == (0, "")
    [row] = json.loads(shown)
    assert (row["records"], row["records_before"]) == (21, 0)
    assert DeltaTable(out).to_pyarrow_table().num_rows == 21
    at("produce", topic, "-p", "1", "later")
    resumed = at(*words, "-f", "json")
    assert resumed.json[0]["records"] == 1, resumed.err
    assert DeltaTable(out).to_pyarrow_table().num_rows == 22
