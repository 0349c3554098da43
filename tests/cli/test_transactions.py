"""`pk transactions` lists, describes and aborts open transactions. It finds and ends one that no
coordinator knows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import confluent_kafka
import pytest
import trio
from clients.fixtures import Kafka
from clients.hanging_transaction import hang
from clients.topics import wait_for_marks, wait_until
from group_parts import Fresh, Run
from shapes import check_json

from pk.core.values import TopicPartition
from pk.net.client.admin import Admin
from pk.net.client.admin_operations.transactions import OpenTransaction, TransactionOperations


@pytest.fixture
def topic(at: Run, fresh: Fresh) -> str:
    name = fresh("paid")
    assert at("topics", "create", name).code == 0
    return name


@pytest.fixture
def open_producer(kafka: Kafka, topic: str) -> confluent_kafka.Producer:
    """A producer named like the topic, with a transaction that holds one record open."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka.bootstrap, "transactional.id": topic, "log_level": 0}
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"1")
    assert producer.flush(60) == 0
    return producer


def test_an_open_transaction_is_listed_described_and_aborted(
    at: Run, kafka: Kafka, topic: str, open_producer: confluent_kafka.Producer
) -> None:
    words = ("transactions", "list", "--state", "ongoing", "-f", "json")
    listed = {row["transactional_id"]: row for row in check_json(words, at(*words).out)}
    assert listed[topic]["state"] == "Ongoing"
    only = at("transactions", "list", topic, "--producer", str(listed[topic]["producer_id"]))
    assert topic in only.text
    assert at("transactions", "list", topic, "--open-for", "1h", "-f", "json").json == []

    words = ("transactions", "describe", topic, "-f", "json")
    (row,) = check_json(words, at(*words).out)
    assert (row["state"], row["partitions"]) == ("Ongoing", [f"{topic}/0"])
    assert row["producer_id"] == listed[topic]["producer_id"]
    assert 0 <= row["open_ms"] < 600_000 and row["timeout_ms"] == 60_000

    tried = at("transactions", "abort", topic, "--dry-run")
    assert tried.code == 0 and "would be aborted" in tried.text and f"{topic}/0" in tried.err
    assert at("transactions", "abort", topic).code == 5  # no terminal for the question
    assert at("profile", "add", "ro", "-b", kafka.bootstrap, "--guard", "readonly").code == 0
    guarded = at("transactions", "abort", topic, "-y", "--profile", "ro")
    assert (guarded.code, "read-only" in guarded.err) == (5, True)
    assert at(*words).json[0]["state"] == "Ongoing"
    done = at("transactions", "abort", topic, "-y", "-f", "json")
    assert (done.code, done.json[0]["result"]) == (0, "aborted")
    wait_for_marks(kafka, topic, 2)
    # The coordinator of Apache Kafka records the end after the markers are written.
    wait_until("its end", lambda: at(*words).json[0]["state"] in ("CompleteAbort", "Empty"))
    assert at(*words).json[0]["partitions"] == []
    tried = at("transactions", "abort", topic, "-d", "-f", "json")
    assert tried.json[0]["result"] == "would be fenced"
    again = at("transactions", "abort", topic, "-y", "-f", "json")
    assert (again.code, again.json[0]["result"]) == (0, "fenced")
    none = at("transactions", "producers", f"{topic}:0", "--open")
    assert f"No open transaction is known for {topic}/0." in none.err
    with pytest.raises(confluent_kafka.KafkaException) as failed:
        open_producer.commit_transaction(60)
    assert failed.value.args[0].code() in (
        confluent_kafka.KafkaError._FENCED,
        confluent_kafka.KafkaError._STATE,
    )
    read = at("consume", topic, "-o", "start..end", "--isolation-level", "read_committed")
    assert (read.code, read.out) == (0, b"")


def test_an_unknown_transactional_id(
    at: Run, topic: str, open_producer: confluent_kafka.Producer
) -> None:
    for verb in ("describe", "abort"):
        ran = at("transactions", verb, f"{topic}x", "-f", "json")
        assert (ran.code, f"did you mean {topic}" in ran.err) == (1, True), ran.err
    open_producer.abort_transaction(60)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("abort",), "or a partition with -t TOPIC:0 and --start-offset."),
        (("abort", "x", "-t", "y:0"), "not both"),
        (("abort", "x", "--start-offset", "3"), "need -t"),
        (("abort", "-t", "{topic}", "--start-offset", "3"), "needs one partition"),
        (("abort", "-t", "{topic}:0"), "needs --start-offset"),
        (("list", "--state", "open"), "unknown value 'open'"),
        (("list", "--producer", "one"), "needs a producer id"),
        (("list", "--open-for", "long"), "--open-for"),
        (("find-hanging", "--max-transaction-timeout", "0"), "above 0"),
    ],
)
def test_what_is_asked_wrongly(at: Run, topic: str, words: tuple[str, ...], said: str) -> None:
    ran = at("transactions", *(word.format(topic=topic) for word in words))
    assert (ran.code, said in ran.err) == (2, True), ran.err


@pytest.mark.usefixtures("unverified")
def test_a_hanging_transaction_is_found_and_ended(at: Run, kafka: Kafka, topic: str) -> None:
    nothing = at("transactions", "find-hanging", topic)
    assert (nothing.code, "No hanging transactions." in nothing.err) == (0, True)
    trio.run(hang, kafka.bootstrap, topic)
    words = ("transactions", "find-hanging", topic, "-f", "json")
    (row,) = check_json(words, at(*words).out)
    assert (row["topic"], row["partition"], row["start_offset"]) == (topic, 0, 0)
    assert row["idle_ms"] >= 3_600_000
    said = at("transactions", "find-hanging", topic).err
    assert f"pk transactions abort -t {topic}:0 --start-offset 0" in said
    wrong = at("transactions", "abort", "-t", f"{topic}:0", "--start-offset", "7", "-y")
    assert wrong.code == 1
    assert wrong.err == f"No open transaction of {topic}/0 starts at offset 7; open from 0.\n"
    done = at("transactions", "abort", "-t", f"{topic}:0", "--start-offset", "0", "-y")
    assert done.code == 0, done.err
    wait_for_marks(kafka, topic, 2)
    assert at(*words).json == []


def test_hanging_transactions_are_looked_for_in_internal_topics_too(
    at: Run, fresh: Fresh, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = at("groups", "reset-offsets", fresh("g"), "-t", topic, "--to", "start", "-y")
    assert made.code == 0, made.err
    asked: set[str] = set()
    describe_producers = Admin.describe_producers

    async def noted(self: Admin, partitions: Iterable[TopicPartition], **more: Any) -> Any:
        partitions = list(partitions)
        asked.update(tp.topic for tp in partitions)
        return await describe_producers(self, partitions, **more)

    monkeypatch.setattr(Admin, "describe_producers", noted)
    assert at("transactions", "find-hanging").code == 0
    assert "__consumer_offsets" in asked


@pytest.mark.usefixtures("unverified")
def test_a_transaction_that_ends_between_the_questions_does_not_hang(
    at: Run, kafka: Kafka, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trio.run(hang, kafka.bootstrap, topic)
    list_transactions = TransactionOperations.list_transactions

    async def ended_meanwhile(self: Admin, **filters: Any) -> Any:
        answer = await list_transactions(self, **filters)
        partition = TopicPartition(topic, 0)
        producers = (await self.describe_producers([partition])).value(partition)
        (state,) = producers
        hanging = OpenTransaction(
            partition, state.producer_id, state.producer_epoch, state.coordinator_epoch
        )
        assert (await self.abort_transactions([hanging])).value(partition) is None
        return answer

    monkeypatch.setattr(TransactionOperations, "list_transactions", ended_meanwhile)
    found = at("transactions", "find-hanging", topic, "-f", "json")
    assert (found.code, found.json) == (0, []), found.err


@pytest.mark.usefixtures("unverified")
def test_doctor_names_a_hanging_transaction(at: Run, kafka: Kafka, topic: str) -> None:
    trio.run(hang, kafka.bootstrap, topic)
    ran = at("doctor", "--check", "hanging-transactions", "-f", "json")
    mine = [row for row in ran.json if f"{topic}/0" in row["subjects"]]
    assert (ran.code, len(mine)) == (1, 1), ran.err
    assert mine[0]["fix"].startswith(f"pk transactions find-hanging {topic}")
    assert at("transactions", "abort", "-t", f"{topic}:0", "--start-offset", "0", "-y").code == 0
