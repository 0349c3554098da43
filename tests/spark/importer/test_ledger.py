"""The markers of an import without Spark: rows are published once, regardless of which driver asks
and of earlier crashes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from clients import topics
from clients.fixtures import Kafka

from pk.net.client.errors import TransactionOutcomeUnknown
from pk.net.client.transaction import Transactions
from pk.spark.connections import connections
from pk.spark.importer.ledger import ImportOvertaken, Ledger, Mark, Piece
from pk.spark.importer.options import ImportOptions
from pk.spark.importer.task import SealedRows, SealPortions
from pk.spark.sink.messages import SealedMessage
from pk.spark.sink.options import SinkOptions
from pk.spark.sink.seal import seal

Fresh = Callable[[str], str]
WAIT_S = 60


def read(kafka: Kafka, topic: str) -> list[Any]:
    topics.wait_until_none_is_open(kafka, topic)
    return [message.value() for message in topics.committed_messages(kafka, topic)]


def piece(options: SinkOptions, name: str, begin: int, end: int, *, done: bool = False) -> Piece:
    values = [b"%s-%d" % (name.encode(), n) for n in range(begin, end)]
    rows = pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary())})
    topic = options.topic
    [sealed] = seal([rows], topic=topic, config=options.config, partitions_of=lambda _: 1)
    return Piece(name, Mark(end, end, done, "stamp"), SealedMessage.of(sealed))


def values(name: str, end: int) -> list[bytes]:
    return [b"%s-%d" % (name.encode(), n) for n in range(end)]


@pytest.fixture
def sink(kafka: Kafka, fresh: Fresh) -> SinkOptions:
    return SinkOptions(kafka.bootstrap, topic=topics.create_topic(kafka, fresh("import"), 1))


def opened(sink: SinkOptions, name: str) -> Ledger:
    ledger = connections().run(Ledger.of, sink, name)
    connections().run(ledger.take_over)
    return ledger


def test_a_later_run_knows_what_was_published(kafka: Kafka, sink: SinkOptions) -> None:
    kept, topic = connections(), sink.topic
    assert topic is not None
    about = {"meaning": {"key": "id"}, "facts": {}}
    first = opened(sink, topic)
    assert (first.about, first.marks) == (None, {})
    kept.run(first.publish, [piece(sink, "a", 0, 5), piece(sink, "b", 0, 3, done=True)], about)
    kept.run(first.publish, [piece(sink, "a", 5, 9)], about)
    looker = kept.run(Ledger.of, sink, topic)

    def seen() -> bool:
        kept.run(looker.look)
        return looker.marks == {"a": Mark(9, 9, False, "stamp"), "b": Mark(3, 3, True, "stamp")}

    # Apache's coordinator answers that a transaction has ended before others see its records.
    topics.wait_until("the marks of both", seen)
    kept.run(first.publish, [piece(sink, "a", 9, 10, done=True)], about)
    again = opened(sink, topic)
    assert again.about == about and again.marks["a"] == Mark(10, 10, True, "stamp")
    kept.run(again.publish, [piece(sink, "a", 9, 10, done=True)], about)
    assert sorted(read(kafka, topic)) == sorted(values("a", 10) + values("b", 3))
    with pytest.raises(ImportOvertaken, match="another run of the import"):
        kept.run(first.publish, [piece(sink, "c", 0, 1)], about)
    assert opened(sink, f"{topic}-other").marks == {}, "another import"


@pytest.mark.parametrize("took_place", [True, False])
def test_a_commit_whose_outcome_is_unknown_is_decided_by_the_marks(
    kafka: Kafka, sink: SinkOptions, monkeypatch: pytest.MonkeyPatch, took_place: bool
) -> None:
    end = Transactions.end
    lost: list[bool] = []

    async def unanswered(self: Transactions, *, commit: bool) -> None:
        if lost:
            await end(self, commit=commit)
            return
        lost.append(True)
        if took_place:
            await end(self, commit=commit)
        raise TransactionOutcomeUnknown("id", commit=True, cause=TimeoutError("lost"))

    topic = sink.topic
    assert topic is not None
    ledger = opened(sink, topic)
    monkeypatch.setattr(Transactions, "end", unanswered)
    connections().run(ledger.publish, [piece(sink, "a", 0, 5, done=True)], {"x": 1})
    assert lost and read(kafka, topic) == values("a", 5)
    assert opened(sink, topic).marks == {"a": Mark(5, 5, True, "stamp")}


@pytest.mark.thorough
def test_a_task_skips_rows_that_are_published_and_seals_the_rest_in_order() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, 100, 10):
            found = [b"%d" % n + b"x" * 1_000_000 for n in range(start, start + 10)]
            yield pa.RecordBatch.from_pydict({"value": pa.array(found, pa.binary())})

    options = SinkOptions("nowhere:1", topic="t")
    task = SealPortions(options, "id", {3: 25}, False, False, 1)
    pieces: list[SealedRows] = list(task.seal(3, batches(), 1 << 30, lambda _: 1))
    assert [p.last for p in pieces] == [False] * (len(pieces) - 1) + [True]
    assert pieces[0].begin == 25 and pieces[-1].end == 100 and len(pieces) > 2
    assert [p.end for p in pieces[:-1]] == [p.begin for p in pieces[1:]]
    assert sum(p.message.records for p in pieces) == 75
    whole = SealPortions(options, "id", {}, True, False, 1)
    [one] = whole.seal(0, batches(), 1 << 30, lambda _: 1)
    assert (one.begin, one.end, one.last, one.message.records) == (0, 100, True, 100)


def test_the_same_command_is_the_same_import(tmp_path: Any) -> None:
    given = ImportOptions(bootstrap="x:1", topic="t", source=str(tmp_path / "a.csv"))
    assert given.id("T") == given.id("T") != given.id("U")
    assert given.kind == "csv" and json.dumps(given.meaning())
    secret = ImportOptions(
        bootstrap="x:1",
        topic="t",
        source="jdbc:x",
        table="t",
        order_by="id",
        read={"password": "p"},
    )
    assert "password" not in json.dumps(secret.meaning())
    (tmp_path / "d" / "_delta_log").mkdir(parents=True)
    assert ImportOptions(bootstrap="x:1", topic="t", source=str(tmp_path / "d")).kind == "delta"
