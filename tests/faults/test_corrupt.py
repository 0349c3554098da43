"""Files that are damaged below a broker at work: a flipped bit in the middle of a segment, indexes
that are deleted."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from clients.fixtures import Kafka
from clients.pk_broker import PkBroker, pk_environment, run_pk
from clients.readers import consumer_of, read_all
from clients.segments import batches, segments
from clients.topics import TIMEOUT_S, create_topic, wait_until
from faults.load import Load

DAMAGED, OTHER = "damaged", "other"
BATCHES, RECORDS = 40, 20
BAD = 17
SMALL_SEGMENTS = {"segment.bytes": str(1 << 20), "index.interval.bytes": "500"}


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory on a disk: the pages of a tmpfs cannot be dropped."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("PK_TEST_DISK", "/var/tmp")) as path:
        yield Path(path, "data")


def _produce(bootstrap: str) -> None:
    """Batches of twenty records, one after another."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 60_000, "log_level": 0}
    )
    producer.list_topics(DAMAGED, TIMEOUT_S)  # or the first flush may split a batch
    for first in range(0, BATCHES * RECORDS, RECORDS):
        for number in range(first, first + RECORDS):
            producer.produce(DAMAGED, b"%06d" % number + bytes(2000), partition=0)
        assert producer.flush(TIMEOUT_S) == 0


def _flip(directory: Path) -> tuple[Path, int]:
    """Flip a bit inside the values of a batch, and take the file out of the page cache; the file,
    the batch's position."""
    for segment in segments(directory, DAMAGED):
        for batch in batches(segment):
            if batch.base_offset == BAD * RECORDS:
                with segment.open("r+b") as file:
                    file.seek(batch.position + batch.size // 2)
                    byte = file.read(1)[0]
                    file.seek(-1, os.SEEK_CUR)
                    file.write(bytes([byte ^ 0x10]))
                    file.flush()
                    os.fsync(file.fileno())
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                assert segment != segments(directory, DAMAGED)[-1], "it is not the active one"
                return segment, batch.position
    raise AssertionError("no such batch")


def _read_from(bootstrap: str, offset: int) -> tuple[list[int], list[int]]:
    """The numbers read from `offset` on until the end or an error; the errors."""
    end = BATCHES * RECORDS
    with consumer_of(bootstrap, "unused") as consumer:
        consumer.assign([confluent_kafka.TopicPartition(DAMAGED, 0, offset)])
        numbers: list[int] = []
        errors: list[int] = []

        def read() -> bool:
            while (message := consumer.poll(0.1)) is not None and not errors:
                if (error := message.error()) is not None:
                    errors.append(error.code())
                else:
                    numbers.append(int((message.value() or b"")[:6]))
            return bool(errors) or numbers[-1:] == [end - 1]

        wait_until("the end or an error", read)
    return numbers, errors


def _check_damage(bootstrap: str) -> None:
    """The records before and after the damaged batch are read; reading the batch itself fails every
    time."""
    before, behind = BAD * RECORDS, (BAD + 1) * RECORDS
    for _ in range(2):
        numbers, errors = _read_from(bootstrap, 0)
        assert numbers == list(range(before))
        assert set(errors) == {confluent_kafka.KafkaError.INVALID_MSG}, "CORRUPT_MESSAGE"
    assert _read_from(bootstrap, before + 5) == ([], [confluent_kafka.KafkaError.INVALID_MSG])
    assert _read_from(bootstrap, behind) == (list(range(behind, BATCHES * RECORDS)), [])


def _verify(path: Path) -> tuple[int, str]:
    ran = run_pk("log", "verify", str(path), env=pk_environment(), text=True)
    return ran.returncode, ran.stdout + ran.stderr


@pytest.mark.thorough
def test_a_flipped_bit_is_reported_and_the_broker_goes_on(directory: Path) -> None:
    with PkBroker(directory=directory) as broker:
        kafka = Kafka("pk", broker.bootstrap, directory)
        create_topic(kafka, DAMAGED, 1, SMALL_SEGMENTS)
        create_topic(kafka, OTHER, 3)
        _produce(broker.bootstrap)
        with Load(broker.bootstrap, OTHER, 3) as load:
            load.wait_for(100)
            segment, position = _flip(directory)
            _check_damage(broker.bootstrap)
            load.wait_for(100)
            code, words = _verify(directory / f"{DAMAGED}-0")
            assert code == 1 and "1 finding" in words, words
            assert segment.name in words and f" {position} " in words, words
            load.finish()
        reported = f"{segment} at position {position}"
        wait_until("a line of the log", lambda: reported in broker.log_text)
        # The broker has not checked the data that the page cache holds when it starts.
        assert broker.stop() == 0
        segment.read_bytes()
        broker.start()
        _check_damage(broker.bootstrap)
        for partition in range(3):
            found = read_all(broker.bootstrap, OTHER, partition)
            assert [int(value) for _, value in found] == list(range(partition, load.sent, 3))
        assert broker.stop() == 0, broker.log_text[-5000:]
        assert "Traceback" not in broker.log_text, broker.log_text[-5000:]


@pytest.mark.thorough
def test_the_loss_of_index_files_under_load_goes_unnoticed(directory: Path) -> None:
    with PkBroker(directory=directory) as broker:
        kafka = Kafka("pk", broker.bootstrap, directory)
        create_topic(kafka, OTHER, 2, SMALL_SEGMENTS)
        with Load(broker.bootstrap, OTHER, 2, value_bytes=4000) as load:
            for _ in range(3):
                load.wait_for(500)
                found = [
                    file
                    for suffix in ("index", "timeindex")
                    for file in directory.rglob(f"{OTHER}-*/*.{suffix}")
                ]
                for file in found:
                    file.unlink()
                assert found
                _check_times(broker.bootstrap)
            load.finish()
        for round_ in range(2):
            for partition in range(2):
                values = [int(v) for _, v in read_all(broker.bootstrap, OTHER, partition)]
                assert values == list(range(partition, load.sent, 2))
            if round_ == 0:
                assert broker.stop() == 0, broker.log_text[-5000:]
                broker.start()
        _check_times(broker.bootstrap)
        assert broker.stop() == 0, broker.log_text[-5000:]
        assert "Traceback" not in broker.log_text, broker.log_text[-5000:]
    code, words = _verify(directory)
    assert code == 0, words


def _check_times(bootstrap: str) -> None:
    """Records are found by their own time, all over the log."""
    with consumer_of(bootstrap, "unused") as consumer:
        _, end = consumer.get_watermark_offsets(
            confluent_kafka.TopicPartition(OTHER, 0), timeout=TIMEOUT_S
        )
    for offset in range(0, end, max(end // 7, 1)):
        # A consumer of its own: one that is given another offset again and again may lose its way
        # among its own answers.
        with consumer_of(bootstrap, "unused") as consumer:
            consumer.assign([confluent_kafka.TopicPartition(OTHER, 0, offset)])
            message = wait_until(f"record {offset}", lambda: consumer.poll(0.2))
            assert not message.error() and message.offset() == offset
            time_ms = message.timestamp()[1]
            wanted = confluent_kafka.TopicPartition(OTHER, 0, time_ms)
            [found] = consumer.offsets_for_times([wanted], timeout=TIMEOUT_S)
            # Several have that time; the first of them is not behind this one.
            assert 0 <= found.offset <= offset
