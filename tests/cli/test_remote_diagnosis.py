"""`pk doctor` and `pk why partition` while the store of remote segments fails, and afterwards."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from clients.pk_broker import PkBroker, pk_environment, run_pk
from commands import Ran
from confluent_kafka import Producer

from pk.testing import broker

Run = Callable[..., Ran]
TOPIC = {"remote.storage.enable": "true", "segment.bytes": "1048576"}


def produce(url: str, megabytes: int) -> None:
    producer = Producer({"bootstrap.servers": url, "batch.size": 65536})
    for _ in range(64 * megabytes):
        producer.produce("t", bytes(1 << 14), partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0


def until(ask: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if found := ask():
            return found
    pytest.fail(what)


def test_what_is_not_copied_and_why(pk: Run, tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    config = {
        "remote.log.storage.system.enable": "true",
        "remote.log.manager.task.interval.ms": "100",
        "pk.remote.url": f"file://{store}",
        "pk.remote.metadata.partitions": "1",
        "pk.remote.metadata.replication.factor": "1",
    }
    with broker(config) as kafka:
        kafka.create_topic("t", 1, TOPIC)
        shutil.rmtree(store)
        store.write_bytes(b"a file where the store should be")
        produce(kafka.url, 4)
        at = ("-b", kafka.url, "-f", "json")

        def ails() -> Any:
            done = pk("doctor", "--check", "remote-storage", *at)
            return [row for row in done.json if row["check"] == "remote-storage"]

        (finding,) = until(ails, "the doctor does not see that the store fails")
        assert finding["what"].startswith("Remote storage fails for 1 partition (t/0): ")

        def begun() -> str | None:
            # The first failure may be that of the list of the partition's objects.
            (found,) = evidence(pk("why", "partition", "t/0", *at))
            return found if "1 segment not finished" in found and ".segment" in found else None

        found = until(begun, "no copy that failed is shown")
        assert found.startswith("0 segments copied, 0 B; 4 closed segments not, 4.1 MB; ")
        store.unlink()
        store.mkdir()

        def is_copied() -> bool:
            return evidence(pk("why", "partition", "t/0", *at))[0].startswith("4 segments copied")

        until(is_copied, "the segments are not copied")
        (replica,) = pk("brokers", "logdirs", "-t", "t", *at).json
        assert 4 << 20 > replica["remote_bytes"] > 3 << 20 and replica["bytes"] > 4 << 20
        until(lambda: not ails(), "the doctor still sees a store that fails")


def evidence(done: Ran) -> list[str]:
    assert done.json, done.err
    (explained,) = done.json
    return [one["what"] for one in explained["evidence"] if one["about"] == "remote storage"]


def test_a_broker_does_not_start_without_the_store_of_its_topics(tmp_path: Path, pk: Run) -> None:
    stored = {
        "remote.log.storage.system.enable": "true",
        "pk.remote.url": f"file://{tmp_path}/store",
        "pk.remote.metadata.replication.factor": "1",
    }
    directory = tmp_path / "data"
    with PkBroker(config=stored, directory=directory) as first:
        words = ("-c", "remote.storage.enable=true", "-b", first.bootstrap)
        assert pk("topics", "create", "t", *words).code == 0
    refused = run_pk(
        "up", "--data", str(directory), "--port", "0", env=pk_environment(), text=True, timeout=60
    )
    assert refused.returncode != 0
    # Apache Kafka's words, and the names.
    assert "delete all topics with the property remote.storage.enable=true" in refused.stderr
    assert "cluster-wide: t. Or start" in refused.stderr
    with PkBroker(config=stored, directory=directory) as again:
        gone = pk("topics", "delete", "t", "-y", "-b", again.bootstrap)
        assert gone.code == 0, gone.err
    with PkBroker(directory=directory):
        pass
