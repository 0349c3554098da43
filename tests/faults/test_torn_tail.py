"""The last segment is cut or zeroed inside its last two batches, as after a crash that lost pages.

kill -9 keeps the page cache, so the test damages a copy of a killed broker's directory: the file
ends, or is zeroed, from a byte of the last two batches on. The broker must keep the whole batches
before that byte, remove the rest, and append behind them. tests/log/test_crash.py does this at
every byte without a broker; here brokers start with damage at some bytes, among them the first and
the last byte of fields of a header.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from clients.fixtures import Kafka
from clients.pk_broker import PkBroker
from clients.readers import read_all
from clients.segments import BatchOnDisk, batches, segments
from clients.topics import TIMEOUT_S, create_topic

TOPIC = "torn"
BATCHES = 6
RECORDS = 20


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory of a killed broker, which has one partition with six batches of twenty
    records."""
    directory = tmp_path_factory.mktemp("torn") / "data"
    with PkBroker(directory=directory) as broker:
        create_topic(Kafka("pk", broker.bootstrap, directory), TOPIC)
        for number in range(BATCHES):
            _produce(broker.bootstrap, number * RECORDS, RECORDS)
        broker.kill()
    [segment] = segments(directory, TOPIC)
    assert [batch.records for batch in batches(segment)] == [RECORDS] * BATCHES
    yield directory
    shutil.rmtree(directory)


def _produce(bootstrap: str, first: int, count: int) -> None:
    """Produce one batch of numbered records."""
    failed: list[object] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 60_000,  # until the flush
            "log_level": 0,
        }
    )
    producer.list_topics(TOPIC, TIMEOUT_S)  # without metadata, the flush might split them
    for number in range(first, first + count):
        producer.produce(
            TOPIC,
            b"%06d" % number,
            partition=0,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(TIMEOUT_S) == 0 and not failed, failed


def _positions(last: list[BatchOnDisk], count: int) -> list[int]:
    """The offsets to cut at: the boundaries of both batches and of their headers, and random bytes
    between."""
    seams = [
        batch.position + byte
        for batch in last
        for byte in (0, 1, 8, 12, 16, 17, 21, 60, 61, batch.size - 1)
    ]
    chance = random.Random(count)
    anywhere = [chance.randrange(last[0].position, last[-1].end) for _ in range(count)]
    chance.shuffle(seams)
    return (seams + anywhere)[:count]


@pytest.mark.parametrize("damage", ["cut", "zeroed"])
@pytest.mark.parametrize("count", [1, pytest.param(30, marks=pytest.mark.slow)])
def test_a_torn_tail_is_cut_and_nothing_else(
    killed: Path, tmp_path: Path, count: int, damage: str
) -> None:
    [whole] = segments(killed, TOPIC)
    for position in _positions(batches(whole)[-2:], count):
        directory = tmp_path / "data"
        shutil.copytree(killed, directory)
        [segment] = segments(directory, TOPIC)
        before = segment.read_bytes()
        with segment.open("r+b") as file:
            file.truncate(position)
            if damage == "zeroed":
                file.truncate(len(before))  # the file grows by zeros
        after = segment.read_bytes()
        # A batch stays whole if all of its bytes after the position were zeros before.
        left = [b for b in batches(whole) if after[: b.end] == before[: b.end]]
        expected = [(n, b"%06d" % n) for n in range(sum(batch.records for batch in left))]
        with PkBroker(directory=directory) as broker:
            assert read_all(broker.bootstrap, TOPIC) == expected, (damage, position)
            _produce(broker.bootstrap, 900_000, 3)
            more = [(len(expected) + n, b"%06d" % (900_000 + n)) for n in range(3)]
            broker.kill()
            broker.start()
            assert read_all(broker.bootstrap, TOPIC) == expected + more, (damage, position)
            assert broker.stop() == 0, broker.log_text[-5000:]
            assert "Traceback" not in broker.log_text, broker.log_text[-5000:]
        shutil.rmtree(directory)
