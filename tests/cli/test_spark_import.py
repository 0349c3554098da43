"""`pk spark-import`: its refusals, and (slow: it starts Spark) an import with its plan and its
summary."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from clients.fixtures import Kafka

Run = Callable[..., Any]
Fresh = Callable[[str], str]


@pytest.fixture
def topic(at: Run, fresh: Fresh) -> str:
    name = fresh("import")
    at("topics", "create", name, "-p", "2")
    return name


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "--from FILE"),
        (("--from", "x.csv", "-y", "--source-format", "xml"), 2, "parquet, csv, json"),
        (("--from", "rows", "-y"), 2, "The format of rows cannot be seen from its name"),
        (("--from", "x.csv", "-y", "--table", "t"), 2, "only for jdbc"),
        (("--from", "jdbc:sqlite:x", "-y", "--table", "t"), 2, "the unique column"),
        (("--from", "x.csv", "-y", "--jars", "nowhere.jar"), 2, "There is no jar nowhere.jar"),
        (("--from", "x.csv", "-y", "--remote", "sc://h"), 2, "does not run on a Spark Connect"),
        (("--from", "x.parquet", "-y", "--schema", "a INT"), 2, "have their own"),
        (("--from", "x.csv", "-y", "--option-file", "nowhere"), 2, "nowhere cannot be read"),
        (("--from", "x.csv", "-y", "-X", "compression.type=nope"), 2, "compression.type"),
        (("--from", "x.csv"), 5, "-y does it"),
    ],
)
def test_what_makes_no_sense_is_said(
    at: Run, topic: str, words: tuple[str, ...], code: int, said: str
) -> None:
    wrong = at("spark-import", topic, *words)
    assert (wrong.code, said in wrong.err) == (code, True), wrong.err


def test_options_in_another_encoding_are_refused(at: Run, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "options"
    file.write_bytes("delimiter = \u00a7\n".encode("latin-1"))
    wrong = at("spark-import", topic, "--from", "x.csv", "-y", "--option-file", str(file))
    assert (wrong.code, wrong.err) == (2, f"{file} is not UTF-8 text.\n")


def test_a_cluster_that_is_read_only_stays_as_it_is(at: Run, topic: str, kafka: Kafka) -> None:
    at("profile", "add", "kept", "--guard", "readonly", "-b", kafka.bootstrap)
    refused = at("spark-import", topic, "--from", "x.csv", "-y", "--profile", "kept")
    assert (refused.code, "read-only by its profile" in refused.err) == (5, True), refused.err
    unknown = at("spark-import", f"{topic}x", "--from", "x.csv", "-d")
    assert (unknown.code, topic in unknown.err) == (1, True)


@pytest.mark.slow
def test_an_import(at: Run, topic: str, tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    rows = tmp_path / "rows"
    rows.mkdir()
    (rows / "a.csv").write_text("id;name\n1;one\n2;two\n")
    (tmp_path / "options").write_text("# how it is written\ndelimiter = ;\n")
    words = ("--from", str(rows), "-k", "id", "-H", "by=upper(name)")
    words = (*words, "--option-file", str(tmp_path / "options"), "-f", "json")
    plan = at("spark-import", topic, *words, "-d")
    assert plan.code == 0, plan.err
    assert plan.json == [
        {"file": str(rows / "a.csv"), "bytes": 20, "state": "new", "records_before": 0}
    ]
    done = at("spark-import", topic, *words, "-y")
    assert (done.code, done.json[0]["records"]) == (0, 2), done.err
    (rows / "b.csv").write_text("id;name\n3;three\n")
    plan = at("spark-import", topic, *words, "-d")
    assert [(r["state"], r["records_before"]) for r in plan.json] == [("done", 2), ("new", 0)]
    done = at("spark-import", topic, *words, "-y")
    assert (done.json[0]["records"], done.json[0]["records_before"]) == (1, 2)
    read = at("consume", topic, "-o", "start..end", "-f", "jsonl")
    found = [json.loads(line) for line in read.out.splitlines()]
    assert sorted((r["key"], json.loads(r["value"])["name"], r["headers"]) for r in found) == [
        ("1", "one", [["by", "ONE"]]),
        ("2", "two", [["by", "TWO"]]),
        ("3", "three", [["by", "THREE"]]),
    ]
    refused = at("spark-import", topic, *words, "-y", "--value", "name")
    assert (refused.code, "give another id" in refused.err) == (5, True), refused.err
