"""Producing and consuming against a live broker: positions, ranges that end, the round trip, groups
only when asked."""

import base64
import json
import os
from collections.abc import Callable
from typing import Any

import confluent_kafka
import jsonschema
import pytest
from clients.fixtures import Kafka
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pk.cli.positions.grammar import parse_positions

Run = Callable[..., Any]
Fresh = Callable[[str], str]
OF_GROUPS = {"FindCoordinator", "JoinGroup", "ConsumerGroupHeartbeat", "OffsetCommit"}
"""Requests that every client in a group makes."""


@pytest.fixture
def numbers(at: Run, fresh: Fresh) -> str:
    """A topic of one partition whose records are 0 to 99, a second apart from 1,000,000,000."""
    topic = fresh("numbers")
    # The records are dated 2001, so a broker that checks retention would delete them.
    at("topics", "create", topic, "-c", "retention.ms=-1")
    lines = [
        json.dumps({"key": f"k{i % 3}", "value": str(i), "timestamp": 1_000_000_000_000 + i * 1000})
        for i in range(100)
    ]
    assert at("produce", topic, "-f", "jsonl", stdin="\n".join(lines).encode()).code == 0
    return topic


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        ("start..end", range(100)),
        ("-3..end", range(97, 100)),
        ("+98..end", range(98, 100)),
        ("10..13", range(10, 13)),
        (":2", range(2)),
        ("0=95..97", range(95, 97)),
        ("@1000000090..end", range(90, 100)),
        ("@1000000090..@1000000092", range(90, 92)),
        ("@1000000090..-8", range(90, 92)),
        ("99..5000", range(99, 100)),
        ("5000..end", range(0)),
        ("@now..end", range(0)),
        ("@1970-01-01..+2", range(2)),
    ],
)
def test_a_range_is_read_and_ends(at: Run, numbers: str, position: str, expected: range) -> None:
    read = at("consume", numbers, "-o", position)
    assert (read.code, [int(line) for line in read.lines]) == (0, list(expected))


def test_apache_s_flags(at: Run, numbers: str) -> None:
    read = at(
        "console-consumer",
        "--topic",
        numbers,
        "--from-beginning",
        "--max-messages",
        "2",
        "--property",
        "print.key=true",
    )
    assert read.text == "k0\t0\nk1\t1\n"
    read = at(
        "console-consumer",
        "--topic",
        numbers,
        "--partition",
        "0",
        "--offset",
        "98",
        "--timeout-ms",
        "10000",
        "--formatter-property",
        "print.offset=true",
    )
    assert read.text == "Offset:98\t98\nOffset:99\t99\n"
    assert read.code == 0


def test_fewer_than_asked_for_in_time_is_a_time_out(at: Run, numbers: str) -> None:
    read = at("consume", numbers, "-o", "98", "-n", "5", "--timeout-ms", "10000")
    assert (read.code, read.text) == (124, "98\n99\n")


def test_filters_count_after_filtering(at: Run, numbers: str) -> None:
    assert at("consume", numbers, "-e", "-k", "k1", "-n", "3").text == "1\n4\n7\n"
    assert at("consume", numbers, "-e", "--where", "value > 97 or offset = 3").text == "3\n98\n99\n"
    assert at("consume", numbers, "-e", "-H", "a=b").text == ""


def test_tail_and_merge_go_by_time_over_partitions(at: Run, fresh: Fresh) -> None:
    topic = fresh("times")
    at("topics", "create", topic, "-p", "3", "-c", "retention.ms=-1")
    lines = [
        json.dumps({"value": str(i), "timestamp": 1_000_000 + i, "partition": i * 7 % 3})
        for i in range(30)
    ]
    at("produce", topic, "-f", "jsonl", "--keep-partition", stdin="\n".join(lines).encode())
    assert at("consume", topic, "--tail", "4").text == "26\n27\n28\n29\n"
    assert at("consume", topic, "-e", "--merge").lines == [str(i) for i in range(30)]
    assert sorted(at("consume", topic, "-e", "-p", "1").lines, key=int) == [
        str(i) for i in range(30) if i * 7 % 3 == 1
    ]


def test_the_jsonl_of_one_topic_written_to_another_is_the_same(at: Run, fresh: Fresh) -> None:
    source, copy = fresh("source"), fresh("copy")
    at("topics", "create", source, copy)
    lines = [
        {"key": None, "value": None},
        {"key": "", "value": ""},
        {
            "key_b64": "//4=",
            "value_b64": "gA==",
            "headers": [["a", "1"], ["a", None], ["a", ""], ["b", {"b64": "/w=="}]],
        },
        {"key": "ключ", "value": "line\nbreak\ttab \u2028", "timestamp": 12345},
        {"key": "from a client of 0.9, which knew no times", "timestamp": -1},
        {"value": "x" * 5000},
    ]
    assert (
        at("produce", source, "-f", "jsonl", stdin="\n".join(map(json.dumps, lines)).encode()).code
        == 0
    )
    first = at("consume", source, "-e", "-f", "jsonl")
    assert at("produce", copy, "-f", "jsonl", stdin=first.out).code == 0
    second = at("consume", copy, "-e", "-f", "jsonl")
    assert len(second.lines) == len(lines)
    assert second.text.replace(copy, source) == first.text


blobs = st.one_of(st.none(), st.binary(max_size=20))


@settings(
    max_examples=examples(15),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.tuples(blobs, blobs), min_size=1, max_size=20))
def test_any_keys_and_values_come_back(
    at: Run, fresh: Fresh, pairs: list[tuple[bytes | None, bytes | None]]
) -> None:
    import base64

    def field(name: str, data: bytes | None) -> dict[str, Any]:
        return {name: None} if data is None else {f"{name}_b64": base64.b64encode(data).decode()}

    topic = fresh("any")
    at("topics", "create", topic)
    lines = [json.dumps(field("key", k) | field("value", v)) for k, v in pairs]
    at("produce", topic, "-f", "jsonl", stdin="\n".join(lines).encode())
    import cbor2

    read = at("consume", topic, "-e", "-f", "json")
    assert len(read.json) == len(pairs)
    raw = at("consume", topic, "-e", "-f", "cbor").out
    found = []
    import io

    stream = io.BytesIO(raw)
    decoder = cbor2.CBORDecoder(stream)
    for _ in pairs:
        record = decoder.decode()
        found.append((record["key"], record["value"]))
    assert found == pairs


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_in_bulk_with_every_compression(at: Run, fresh: Fresh, codec: str) -> None:
    topic = fresh("bulk")
    at("topics", "create", topic, "-p", "2")
    lines = [f"{i:06d}" for i in range(20_000)]
    assert (
        at(
            "produce",
            topic,
            *(("-z", codec) if codec == "gzip" else (f"--compression={codec}",)),
            stdin="\n".join(lines).encode(),
        ).code
        == 0
    )
    assert sorted(at("consume", topic, "-e").lines) == lines


def test_what_the_options_of_produce_say(at: Run, fresh: Fresh) -> None:
    topic = fresh("options")
    at("topics", "create", topic, "-p", "4", "-c", "retention.ms=-1")
    said = at(
        "produce",
        topic,
        "-k",
        "key",
        "-H",
        "h=1",
        "-p",
        "2",
        "--timestamp",
        "@2026-01-01T00:00Z",
        "--print-offsets",
        "one",
        "two",
    )
    assert f"{topic}/2 @ 0" in said.err
    read = at("consume", topic, "-e", "-f", "json").json
    assert [(r["partition"], r["key"], r["value"], r["headers"], r["timestamp"]) for r in read] == [
        (2, "key", "one", [["h", "1"]], 1767225600000),
        (2, "key", "two", [["h", "1"]], 1767225600000),
    ]
    at("produce", topic, "-Z", "-p", "0", "--sync", stdin=b"a\n\n")
    assert [r["value"] for r in at("consume", topic, "-e", "-p", "0", "-f", "json").json] == [
        "a",
        None,
    ]
    at(
        "console-producer",
        "--topic",
        topic,
        "--property",
        "parse.key=true",
        "--property",
        "key.separator=:",
        "--partition",
        "1",
        stdin=b"k:v\n",
    )
    assert at("consume", topic, "-e", "-p", "1", "-f", r"%k=%v\n").text == "k=v\n"


def test_a_line_that_is_no_record_ends_it_after_those_before(at: Run, fresh: Fresh) -> None:
    topic = fresh("bad")
    at("topics", "create", topic)
    bad = at(
        "produce", topic, "-f", "jsonl", stdin=b'{"value": "a"}\n{"valu": "b"}\n{"value": "c"}\n'
    )
    assert (bad.code, "Line 2" in bad.err, "1 record written" in bad.err) == (1, True, True)
    assert at("consume", topic, "-e").text == "a\n"


def test_a_dry_run_of_produce_writes_nothing_and_makes_no_topic(at: Run, fresh: Fresh) -> None:
    topic = fresh("nothing")
    dry = at("produce", topic, "-d", stdin=b"a\nb\n")
    assert (dry.code, "does not exist" in dry.err) == (1, True)
    assert at("topics", "list", topic, "-f", "name").text == ""


def test_reading_joins_no_group_and_makes_no_topic(at: Run, fresh: Fresh, numbers: str) -> None:
    missing = fresh("missing")
    for words, code in (
        ((missing, "--from-beginning", "--timeout-ms", "10000"), 1),
        ((numbers, "-e"), 0),
        ((numbers, "--tail", "2"), 0),
    ):
        ran = at("consume", *words, "--trace-json")
        assert ran.code == code, ran.err
        asked = {json.loads(line)["api"] for line in ran.err.splitlines() if line[:1] == "{"}
        assert "Metadata" in asked and not asked & OF_GROUPS
    assert at("topics", "list", missing, "-f", "name").text == ""


def test_topics_by_regular_expression(at: Run, fresh: Fresh) -> None:
    stem = fresh("many")
    at("topics", "create", f"{stem}-a", f"{stem}-b")
    at("produce", f"{stem}-a", "1")
    at("produce", f"{stem}-b", "2")
    assert sorted(at("consume", "--include", f"{stem}-[ab]", "-e").lines) == ["1", "2"]
    assert sorted(at("consume", f"{stem}-a", f"{stem}-b", "-e", "-f", r"%t:%v\n").lines) == [
        f"{stem}-a:1",
        f"{stem}-b:2",
    ]


def test_internal_topics_are_decoded(at: Run, kafka: Kafka, fresh: Fresh, numbers: str) -> None:
    group = fresh("decoded")
    at("groups", "reset-offsets", group, "-t", numbers, "--to", "7", "-y")
    read = at(
        "consume",
        "__consumer_offsets",
        "-e",
        "--where",
        f"key.type = offset_commit and key.group = {group}",
        "-f",
        "jsonl",
    )
    (line,) = read.lines
    value = json.loads(json.loads(line)["value"])
    assert (value["version"] >= 3, value["offset"]) == (True, 7)
    # Without -f whose commit it is stands beside it.
    mine = ("consume", "__consumer_offsets", "--where", f"key.group = {group}")
    for words in (("-e",), ("--tail", "1"), ("-e", "--merge")):
        (line,) = at(*mine, *words).lines
        pair = json.loads(line)
        assert (pair["key"]["topic"], pair["key"]["partition"]) == (numbers, 0), words
        assert pair["value"]["offset"] == 7
    assert at(*mine, "-e", "-f", "value").json["offset"] == 7
    assert at("consume", "__consumer_offsets", "--tail", "1").text.startswith('{"key": {"type"')
    raw = at("consume", "__consumer_offsets", "-e", "--raw", "-f", r"%k{hex}\n")
    assert any(line.startswith("0001") for line in raw.lines)
    assert kafka.bootstrap


def test_a_position_outside_the_partition_is_reported(at: Run, fresh: Fresh, numbers: str) -> None:
    beyond = at("consume", numbers, "-o", "5000..end")
    assert (beyond.code, beyond.err) == (0, f"{numbers}/0: 5000 is past the end: clamped.\n")
    assert at("consume", numbers, "-o", "0..2").err == ""
    assert at("consume", numbers, "-o", "@tomorrow..end").err == ""
    unread = at("consume", numbers, "-g", fresh("unread"), "-o", "committed..end")
    assert (unread.code, unread.text) == (1, "")
    assert "has no committed offsets" in unread.err


def test_what_members_of_a_group_said_and_were_told_is_decoded(
    at: Run, fresh: Fresh, numbers: str
) -> None:
    group = fresh("members")
    assert at("consume", numbers, "-g", group, "-e").code == 0
    words = ("--where", f"key.type = group_metadata and key.group = {group}")
    lines = at("consume", "__consumer_offsets", "-e", *words).lines
    reported = [member for line in lines for member in json.loads(line)["value"]["members"]]
    assert reported and all(member["subscription"]["topics"] == [numbers] for member in reported)
    assert {"topic": numbers, "partitions": [0]} in [
        partition
        for member in reported
        for partition in member["assignment"]["assigned_partitions"]
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("consume",), "Name topics"),
        (("consume", "T", "-o", "x"), "not a position"),
        (("consume", "T", "-o", "1", "--from-beginning"), "cannot be combined"),
        (("consume", "T", "--tail", "1", "-o", "1"), "--tail"),
        (("consume", "T", "--merge"), "needs a range"),
        (("consume", "T", "-g", "g", "-o", "5"), "from its commits"),
        (("consume", "ord.*"), "--include"),
        (("consume", "T", "-g", "g", "-p", "1"), "-p cannot be combined"),
        (("consume", "T", "-o", "committed"), "needs a group"),
        (("consume", "T", "-e", "--where", "val = 1"), "did you mean value"),
        (("consume", "T", "-e", "-f", "%q"), "unknown token"),
        (("consume", "T", "-e", "-f", "jsnl"), "did you mean"),
        (("consume", "T", "-e", "--include", "("), "Name topics"),
        (("consume", "T", "-e", "-X", "fetch.max.byte=1"), "fetch.max.bytes"),
        (("produce",), "Name the topic"),
        (("consume", "T", "-e", "--schema-registry", "http://h"), "no effect without --decode"),
        (("produce", "T", "v", "-F", "lines"), "use only one"),
        (("produce", "T", "v", "--schema-registry", "http://h"), "no effect without --schema"),
        (("produce", "T", "-f", "cvs"), "-f must be value"),
        (("produce", "T", "-p", "-1"), "partition number"),
        (("produce", "T", "--timestamp", "soon", "x"), "not a time"),
    ],
)
def test_what_makes_no_sense_is_said(
    at: Run, fresh: Fresh, words: tuple[str, ...], said: str
) -> None:
    topic = fresh("sense")
    at("topics", "create", topic)
    wrong = at(*(topic if word == "T" else word for word in words))
    assert (wrong.code, said in wrong.err) == (2, True), wrong.err


def test_the_schema_of_records_describes_them(at: Run, fresh: Fresh) -> None:
    topic = fresh("schema")
    at("topics", "create", topic)
    words = ("-k", "k", "-H", "h=1", "-H", os.fsdecode(b"b=\xff"))
    at("produce", topic, *words, "text", os.fsdecode(b"\xff"))
    at("produce", topic, "-Z", stdin=b"\n")
    for options in ((), ("--tail", "3")):
        schema = at("consume", topic, *options, "-f", "schema")
        assert schema.code == 0, schema.err
        records = at("consume", topic, *(options or ("-e",)), "-f", "json").json
        assert len(records) == 3
        jsonschema.validate(records, schema.json)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate([{"topic": topic}], schema.json)


def test_a_range_without_an_end_goes_on(pk: Run) -> None:
    """Checks the statement of `pk help positions` that a range without an end is endless."""
    page = " ".join(pk("help", "positions").text.split())
    assert "..100 A.. from A on, without end; same as A" in page
    assert not parse_positions("100..", 0).bounded
    assert parse_positions("..100", 0).bounded


@settings(
    max_examples=examples(10),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    records=st.lists(
        st.tuples(
            st.none()
            | st.binary(max_size=6)
            | st.sampled_from([b"", b'a,"b"', b"a\nb\r\n", b"\r"]),
            st.none() | st.binary(max_size=6) | st.sampled_from([b"", b'"', b"\n", b",", b'""']),
            st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_csv_that_consume_writes_produce_reads(
    at: Run, kafka: Kafka, fresh: Fresh, records: list[Any]
) -> None:
    source, copy = fresh("csv"), fresh("csv-copy")
    at("topics", "create", source, copy)
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap})
    for key, value, headers in records:
        producer.produce(source, key=key, value=value, headers=headers, timestamp=1_750_000_000_000)
    assert producer.flush(60) == 0
    written = at("consume", source, "-e", "-f", "csv").out
    ran = at("produce", copy, "-f", "csv", stdin=written)
    assert ran.code == 0, ran.err

    def read(topic: str) -> list[dict[str, Any]]:
        found = at("consume", topic, "-e", "-f", "json").json
        return [{k: v for k, v in row.items() if k != "topic"} for row in found]

    assert read(copy) == read(source)
    assert len(read(copy)) == len(records)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "kye,value\n",
            "Line 1: the first line names the columns, and 'kye' is not one; did you mean key",
        ),
        ("key,key\na,b\n", "Line 1: a column is named twice"),
        ("key,value\na\n", "Row 1: it has 1 fields, but the first line names 2"),
        ('key,value\na,"b\n', "Line 2: a quote is not closed"),
        ('key,value\na,b"c"\n', "Row 1: a quote is out of place"),
        ("timestamp,value\nsoon,b\n", "Row 1: timestamp must be a whole number, not 'soon'"),
        ("value,headers\nb,[\n", "Row 1: "),
        ("key_b64\n?\n", "Row 1: not base64"),
    ],
)
def test_what_is_no_csv_of_records_is_said(at: Run, fresh: Fresh, text: str, said: str) -> None:
    topic = fresh("csv")
    at("topics", "create", topic)
    for more in ((), ("--dry-run",)):
        ran = at("produce", topic, "-f", "csv", *more, stdin=text.encode())
        assert (ran.code, said in ran.err) == (1, True), ran.err
    assert at("consume", topic, "-e").out == b""


def test_csv_of_another_program(at: Run, fresh: Fresh) -> None:
    """A byte order mark, CRLF, columns in another order, a null."""
    topic = fresh("csv")
    at("topics", "create", topic)
    text = '\ufeffvalue,key\r\n"one, two",a\r\n,b\r\n"",c\r\n'
    assert at("produce", topic, "-f", "csv", stdin=text.encode()).code == 0
    found = {r["key"]: r["value"] for r in at("consume", topic, "-e", "-f", "json").json}
    assert found == {"a": "one, two", "b": None, "c": ""}


def test_json_documents_are_shown_as_such(at: Run, fresh: Fresh) -> None:
    """With --parse-json, jq needs no fromjson. Texts, numbers and null stay texts, and reading the
    output back gives the same records."""
    topic = fresh("documents")
    at("topics", "create", topic)
    values = [
        b'{"a": 1.10, "b": [1, 2], "t": "x\\ny"}',
        b' {"lines":\n [1,\r\n2]}\n',
        b"[]",
        b'"text"',
        b"null",
        b"5",
        b"{broken",
        b'{"n": NaN}',
        b"\xff",
    ]
    for value in values:
        line = json.dumps({"key": '{"id": 1}', "value_b64": base64.b64encode(value).decode()})
        assert at("produce", topic, "-f", "jsonl", stdin=line.encode()).code == 0
    parsed = at("consume", topic, "-e", "-f", "jsonl", "--parse-json")
    rows = [json.loads(line) for line in parsed.lines]
    assert [row.get("value", "b64") for row in rows] == [
        {"a": 1.1, "b": [1, 2], "t": "x\ny"},
        {"lines": [1, 2]},
        [],
        '"text"',
        "null",
        "5",
        "{broken",
        '{"n": NaN}',
        "b64",
    ]
    assert all(row["key"] == {"id": 1} for row in rows)
    assert '"a": 1.10,' in parsed.lines[0]
    whole = at("consume", topic, "-e", "-f", "json", "--parse-json")
    assert whole.json == rows
    schema = at("consume", topic, "-e", "-f", "schema", "--parse-json").json
    jsonschema.validate(rows, schema)
    as_yaml = at("consume", topic, "-o", "0..1", "-f", "yaml", "--parse-json")
    assert "lines" not in as_yaml.text and "a: 1.1" in as_yaml.text
    refused = at("consume", topic, "-e", "--parse-json")
    assert (refused.code, "--parse-json is for -f json, jsonl and yaml" in refused.err) == (2, True)
    copy = fresh("documents")
    at("topics", "create", copy)
    fewer = [json.dumps({**row, "topic": copy}) for row in rows]
    assert at("produce", copy, "-f", "jsonl", stdin="\n".join(fewer).encode()).code == 0
    back = at("consume", copy, "-e", "-f", "jsonl", "--parse-json")
    assert [json.loads(line).get("value") for line in back.lines] == [r.get("value") for r in rows]
