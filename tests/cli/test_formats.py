"""All formats have the same content: the output of one command, read back from every format, equals
its JSON."""

import csv
import io
import json
from collections.abc import Callable, Mapping
from typing import Any

import cbor2
import pytest
from clients.topics import wait_until

Run = Callable[..., Any]
Fresh = Callable[[str], str]

LISTS = (
    ("topics", "list", "{topic}"),
    ("topics", "describe", "{topic}"),
    ("topics", "offsets", "{topic}"),
    ("configs", "describe", "topic", "{topic}"),
    ("brokers", "list", "--columns", "broker,host,port,rack,controller"),
    ("brokers", "logdirs", "--replicas", "-t", "{topic}"),
    (
        "cluster",
        "features",
        "--columns",
        "feature,level,name,min_supported,max_supported,note",
    ),  # an epoch moves
    ("partitions", "list", "{topic}"),
    ("profile", "list"),
)


@pytest.fixture
def topic(at: Run, fresh: Fresh) -> str:
    name = fresh("formats")
    at("topics", "create", name, "-p", "2", "-c", "retention.ms=5")
    # Apache Kafka confirms new topics before their logs exist.
    words = ("brokers", "logdirs", "--replicas", "-t", name, "-f", "json")
    wait_until("its logs", lambda: len(at(*words).json) == 2)
    at("profile", "add", "p", "-b", "h:1", "-X", "client.id=a,b: c")
    return name


def _flat(value: Any) -> str:
    """A value as csv holds it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return json.dumps(value)
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


@pytest.mark.parametrize("words", LISTS, ids=" ".join)
def test_formats_agree(at: Run, topic: str, words: tuple[str, ...]) -> None:
    words = tuple(word.format(topic=topic) for word in words)

    def printed(form: str) -> Any:
        ran = at(*words, "-f", form)
        assert ran.code == 0 and not ran.err, ran.err
        return ran

    data = printed("json").json
    assert data
    assert [json.loads(line) for line in printed("jsonl").lines] == data
    assert cbor2.loads(printed("cbor").out) == data
    rows = list(csv.DictReader(io.StringIO(printed("csv").text)))
    names = printed("name").lines
    filled = printed("{" + next(iter(rows[0])) + "}\\n").lines
    assert names == filled == [next(iter(row.values())) or "-" for row in rows]
    if rows[0].keys() == data[0].keys():  # else JSON describes more than the rows
        assert rows == [{key: _flat(value) for key, value in item.items()} for item in data]
    table = printed("wide").lines
    assert len(table) >= len(rows) + 1
    assert printed("schema").json["type"] == "array"


def test_yaml_quotes_what_it_would_read_as_something_else(at: Run, topic: str) -> None:
    text = at("profile", "list", "-f", "yaml").text
    assert 'client.id: "a,b: c"' in text
    assert "chosen: false" in text and "cluster_id: null" in text
    text = at("topics", "list", topic, "-f", "yaml").text
    assert text.startswith(f"- topic: {topic}\n  partitions: 2\n")
    assert "  internal: false\n" in text


def test_columns_and_order_hold_in_every_format(at: Run, topic: str) -> None:
    words = ("topics", "offsets", topic, "--columns", "partition,end", "--sort", "-partition")
    assert at(*words, "-f", "csv").lines == ["partition,end", "1,0", "0,0"]
    assert at(*words, "-f", "json").json == [{"partition": n, "end": 0} for n in (1, 0)]
    assert at(*words, "-f", "name").lines == ["1", "0"]
    assert at(*words, "--limit", "1", "--where", "partition < 1").lines[-1].split() == ["0", "0"]


def test_an_upgrade_to_where_a_feature_is_changes_nothing(at: Run) -> None:
    words = ("cluster", "features", "upgrade", "eligible.leader.replicas.version")
    ran = at(*words, "-f", "json")
    assert ran.code == 0 and ran.json == []
    assert "Nothing to change: eligible.leader.replicas.version 1 already." in ran.err
