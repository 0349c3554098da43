"""`pk transactions producers`: the producers that have written to a partition, and those with an
open transaction."""

import confluent_kafka
import pytest
from clients.fixtures import Kafka
from clients.topics import wait_for_marks
from group_parts import Fresh, Run
from shapes import check_json

from pk.cli.main import main


@pytest.fixture
def topic(at: Run, fresh: Fresh) -> str:
    """A topic of two partitions; an idempotent producer has written three records to the first."""
    name = fresh("written")
    at("topics", "create", name, "-p", "2")
    at("produce", name, "-p", "0", stdin=b"a\nb\nc\n")
    return name


def test_a_producer_its_epoch_and_last_sequence(at: Run, topic: str) -> None:
    words = ("transactions", "producers", topic, "-f", "json")
    (row,) = check_json(words, at(*words).out)
    assert (row["topic"], row["partition"], row["producer_epoch"], row["last_sequence"]) == (
        topic,
        0,
        0,
        2,
    )
    assert (row["open_since_offset"], row["open_ms"]) == (None, None)
    assert 0 <= row["idle_ms"] < 600_000
    one = ("--producer", str(row["producer_id"]))
    assert len(at("transactions", "producers", f"{topic}:0", *one, "-f", "json").json) == 1
    other = ("--producer", str(row["producer_id"] + 1))
    assert at("transactions", "producers", topic, *other, "-f", "json").json == []
    broker = at("brokers", "list", "--columns", "broker", "-f", "name").lines[0]
    asked = at("transactions", "producers", topic, "--broker", broker, "-f", "json").json
    assert [r["producer_id"] for r in asked] == [row["producer_id"]]


def test_an_unwritten_partition_is_reported(at: Run, topic: str) -> None:
    ran = at("transactions", "producers", f"{topic}:1")
    assert (
        ran.code,
        f"No idempotent or transactional producer is known for {topic}" in ran.err,
    ) == (
        0,
        True,
    )
    ran = at("transactions", "producers", topic, "--open")
    assert "No open transaction is known" in ran.err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("{topic}x",), 1, "did you mean {topic}"),
        (("{topic}:7",), 1, "no partition 7"),
        (("{topic}", "--broker", "4711"), 1, "Broker 4711 does not exist"),
        (("{topic}", "--broker", "one"), 2, "a broker's id"),
    ],
)
def test_missing_topics_and_partitions(
    at: Run, topic: str, words: tuple[str, ...], code: int, said: str
) -> None:
    ran = at("transactions", "producers", *(word.format(topic=topic) for word in words))
    assert (ran.code, said.format(topic=topic) in ran.err) == (code, True), ran.err


@pytest.mark.peer
def test_since_where_and_when_a_transaction_is_open(
    apache: Kafka,
    fresh: Fresh,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PK_BOOTSTRAP_SERVER", apache.bootstrap)
    name = fresh("open")
    assert main(["topics", "create", name]) == 0
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": apache.bootstrap, "transactional.id": name, "log_level": 0}
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(name, b"1")
    producer.commit_transaction()
    producer.begin_transaction()
    producer.produce(name, b"2")
    assert producer.flush(60) == 0
    words = ["transactions", "producers", name, "--open", "-f", "json"]
    capsys.readouterr()
    assert main(words) == 0
    (row,) = check_json(words, capsys.readouterr().out)
    assert row["open_since_offset"] == 2  # after a record and its marker
    assert 0 <= row["open_ms"] < 600_000 and row["open_since"]
    producer.abort_transaction()
    wait_for_marks(apache, name, 4)
    capsys.readouterr()
    assert main(words) == 0
    assert check_json(words, capsys.readouterr().out) == []
