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
        (("--from", "x.csv", "--source-format", "xml"), 2, "parquet, csv, json"),
        (("--from", "rows"), 2, "The name of rows does not show its format"),
        (("--from", "x.csv", "--table", "t"), 2, "only for jdbc"),
        (("--from", "jdbc:sqlite:x", "--table", "t"), 2, "the unique column"),
        (
            ("--from", "x.csv", "--jars", "nowhere.jar"),
            2,
            "The jar nowhere.jar does not exist",
        ),
        (("--from", "x.csv", "--remote", "sc://h"), 2, "cannot run on a Spark Connect"),
        (("--from", "x.parquet", "--schema", "a INT"), 2, "have their own"),
        (("--from", "x.csv", "--option-file", "nowhere"), 2, "nowhere cannot be read"),
        (("--from", "x.csv", "-X", "compression.type=nope"), 2, "compression.type"),
        (("--from", "x.csv"), 5, "-y makes the change"),
        (("--from", "x.csv", "--delimiter", ";;"), 2, "must be one ASCII character"),
        (("--from", "x.csv", "--option", "escape=\\"), 2, "Csv has no option escape="),
        (("--from", "x.csv", "--option", "encoding=utf-16"), 2, "convert it to UTF-8"),
        (("--from", "x.jsonl", "--delimiter", ";"), 2, "Json has no option delimiter"),
        (("--from", "x.parquet", "--delimiter", ";"), 2, "only for csv"),
    ],
)
def test_what_makes_no_sense_is_said_before_the_question(
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
    (tmp_path / "options").write_text("# how it is written\nencoding = utf-8\n")
    words = ("--from", str(rows), "-k", "id", "-H", "by=upper(name)", "--delimiter", ";")
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
    (rows / "c.csv").write_text("id;name\n4\n")
    torn = at("spark-import", topic, *words, "-y")
    said = "c.csv, line 2: the row has 1 field, and the table 2.\n"
    assert (torn.code, torn.err.endswith(said), torn.err.count("\n")) == (1, True, 1), torn.err
    refused = at("spark-import", topic, *words, "-y", "--value", "name")
    assert (refused.code, "give another id" in refused.err) == (5, True), refused.err


@pytest.mark.slow
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_what_consume_wrote_comes_back(at: Run, fresh: Fresh, tmp_path: Path, form: str) -> None:
    pytest.importorskip("pyspark")
    topic, copy = fresh("import"), fresh("import")
    for name in (topic, copy):
        at("topics", "create", name, "-p", "1")
    cells = ('said "hi", twice', "a\nb\r\n", "", None, "ä😀\u2028\\", "null", '{"a": 1.10}')
    pairs = [(key, value) for key in cells for value in cells]
    lines = "".join(json.dumps({"key": k, "value": v}) + "\n" for k, v in pairs)
    file = tmp_path / "given.jsonl"
    file.write_text(lines)
    given = at("produce", topic, "-f", "jsonl", "-F", str(file))
    assert given.code == 0, given.err
    kept = tmp_path / f"kept.{form}"
    kept.write_bytes(at("consume", topic, "-o", "start..end", "-f", form).out)
    words = ("--from", str(kept), "--key", "key", "--value", "value", "-y")
    done = at("spark-import", copy, *words)
    assert done.code == 0, done.err
    read = at("consume", copy, "-o", "start..end", "-f", "jsonl")
    found = [json.loads(line) for line in read.out.splitlines()]
    assert [(r["key"], r["value"]) for r in found] == pairs
