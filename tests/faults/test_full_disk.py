"""A disk that fills up, and one of two that fails, below a broker under load."""

from __future__ import annotations

import subprocess
from pathlib import Path

import confluent_kafka
import pytest
from clients.fixtures import Kafka
from clients.pk_broker import pk_command, pk_environment
from clients.readers import read_all
from clients.topics import TIMEOUT_S, admin, create_topic, wait_until
from faults.load import Load
from faults.small_disk import BrokerInside, SmallDisk, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=f"no small disk: {why_not()}")

TOPIC = "t"
NO_CHECKPOINTS = dict.fromkeys(
    (
        "replica.high.watermark.checkpoint.interval.ms",
        "log.flush.offset.checkpoint.interval.ms",
        "log.flush.start.offset.checkpoint.interval.ms",
    ),
    "3600000",
)
"""Otherwise it may be one of those that finds the directory gone, and a new producer finds no
leader to ask."""

STORAGE_ERROR = confluent_kafka.KafkaError.KAFKA_STORAGE_ERROR


def _try(bootstrap: str, topic: str, value: bytes, partition: int = 0) -> int:
    """Produce one record, once; the error code."""
    codes: list[int] = []
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "retries": 0, "linger.ms": 0, "log_level": 0}
    )
    producer.produce(
        topic,
        value,
        partition=partition,
        on_delivery=lambda error, _: codes.append(error.code() if error else 0),
    )
    assert producer.flush(TIMEOUT_S) == 0
    return codes[0]


def _verify(disk: SmallDisk, path: Path) -> None:
    ran = subprocess.run(
        disk.inside(*pk_command("log", "verify", str(path))),
        env=pk_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.thorough
def test_a_full_disk_refuses_produces_and_the_broker_goes_on_when_there_is_room(
    tmp_path: Path,
) -> None:
    data = tmp_path / "disk" / "data"
    with (
        SmallDisk(tmp_path / "disk", 48) as disk,
        BrokerInside(disk, data, {"offsets.topic.num.partitions": "1"}) as broker,
    ):
        kafka = Kafka("pk", broker.bootstrap, data)
        create_topic(kafka, TOPIC, 2, {"segment.bytes": str(1 << 20), "flush.ms": "20"})
        disk.fill(leave_bytes=20_000_000)  # however fast the load, there is something to take away
        with Load(broker.bootstrap, TOPIC, 2, value_bytes=2000) as load:
            load.wait_for(2_000)
            disk.fill(leave_bytes=300_000)
            wait_until(
                "KAFKA_STORAGE_ERROR",
                lambda: _try(broker.bootstrap, TOPIC, b"-1".ljust(20_000)) == STORAGE_ERROR,
            )
            known = load.total()
            # Every record is still read; other writes are refused, and nothing breaks.
            for partition in range(2):
                found = {int(v) for _, v in read_all(broker.bootstrap, TOPIC, partition)}
                assert {n for _, n in load.acknowledged[partition][: known // 3]} <= found
            disk.fill(leave_bytes=0)  # what came free, of a file that was written and removed
            assert _try(broker.bootstrap, TOPIC, b"-1".ljust(20_000)) == STORAGE_ERROR
            disk.make_room()
            load.wait_for(1_000)
            load.finish()
        assert _try(broker.bootstrap, TOPIC, b"-2") == 0
        _check(broker.bootstrap, load)
        assert broker.stop() == 0, broker.log_text[-5000:]
        _verify(disk, data)
        broker.start()
        _check(broker.bootstrap, load)
        assert _try(broker.bootstrap, TOPIC, b"-2") == 0
        assert broker.stop() == 0, broker.log_text[-5000:]
        assert "Traceback" not in broker.log_text, broker.log_text[-5000:]


def _check(bootstrap: str, load: Load) -> None:
    """The log has everything the load sent, once and in order, and otherwise only the records of
    `_try`."""
    for partition in range(2):
        numbers = [int(value) for _, value in read_all(bootstrap, TOPIC, partition)]
        assert [n for n in numbers if n >= 0] == list(range(partition, load.sent, 2))


@pytest.mark.thorough
def test_a_directory_that_goes_away_takes_its_partitions_and_no_others(tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "disk" / "bad"
    with (
        SmallDisk(tmp_path / "disk", 64) as disk,
        BrokerInside(disk, good, {"log.dirs": f"{good},{bad}"} | NO_CHECKPOINTS) as broker,
    ):
        kafka = Kafka("pk", broker.bootstrap, good)
        # No flush.ms: a flush that came late, of the first record, would find the directory gone.
        create_topic(kafka, TOPIC, 2, {"segment.bytes": str(1 << 20)})
        here = next(p for p in range(2) if (good / f"{TOPIC}-{p}").exists())
        there = disk.outside / "bad" / f"{TOPIC}-{1 - here}"
        assert there.exists()
        for partition in range(2):
            assert _try(broker.bootstrap, TOPIC, b"1", partition) == 0
        there.parent.rename(disk.outside / "away")
        written = 1
        # While a segment has room, its open file is used; the next file cannot be created.
        while (code := _try(broker.bootstrap, TOPIC, bytes(100_000), 1 - here)) == 0:
            written += 1
        assert code == STORAGE_ERROR and written > 5
        _check_others(broker, here, range(2, 50))
        reported = f"log directory {bad} is offline"
        wait_until("a line of the log", lambda: reported in broker.log_text)
        # Read-only when the broker starts: the same. And all is there when it is back.
        assert broker.stop() == 0
        (disk.outside / "away").rename(there.parent)
        disk.remount("ro")
        broker.start()
        asked = admin(kafka).list_topics(TOPIC, TIMEOUT_S).topics[TOPIC].partitions
        assert asked[1 - here].leader == -1 and asked[here].leader == 1
        _check_others(broker, here, range(50, 60))
        assert broker.stop() == 0
        disk.remount("rw")
        broker.start()
        assert _try(broker.bootstrap, TOPIC, b"2", 1 - here) == 0
        values = [v for _, v in read_all(broker.bootstrap, TOPIC, 1 - here)]
        assert values == [b"1", *[bytes(100_000)] * (written - 1), b"2"]
        assert broker.stop() == 0, broker.log_text[-5000:]
        assert "Traceback" not in broker.log_text, broker.log_text[-5000:]


def _check_others(broker: BrokerInside, partition: int, numbers: range) -> None:
    """The partition in the other directory is written and read."""
    for n in numbers:
        assert _try(broker.bootstrap, TOPIC, b"%d" % n, partition) == 0
    found = [int(value) for _, value in read_all(broker.bootstrap, TOPIC, partition)]
    assert found == list(range(1, numbers.stop))
