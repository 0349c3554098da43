"""A broker under three thousand hostile connections: small, without a traceback, and at others'
service."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import confluent_kafka
import pytest
from clients.fixtures import Kafka
from clients.pk_broker import PkBroker
from clients.readers import read_all
from clients.topics import create_topic

from hostile.attack import BAD, SILENT, STALLED

RSS_BYTES_MAX = 200_000_000
ATTACK_TIMEOUT_S = 300


def round_trips(bootstrap: str, topic: str, until: threading.Event) -> list[float]:
    """Sends numbered records one by one until told to stop; the seconds each took to be
    acknowledged."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0, "log_level": 0}
    )
    failed: list[object] = []
    times = []
    while not until.is_set():
        start = time.perf_counter()
        producer.produce(
            topic,
            b"%d" % len(times),
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
        while len(producer):
            producer.poll(1)
        times.append(time.perf_counter() - start)
        assert not failed, failed
    return times


@pytest.mark.slow
def test_three_thousand_hostile_connections(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with PkBroker(directory=tmp_path / "data") as broker:
        host, _, port = broker.bootstrap.rpartition(":")
        topic = create_topic(Kafka("pk", broker.bootstrap, tmp_path), "bystander")
        over = threading.Event()
        times: list[float] = []
        client = threading.Thread(
            target=lambda: times.extend(round_trips(broker.bootstrap, topic, over))
        )
        client.start()
        most = broker.rss_bytes()
        with subprocess.Popen(
            [sys.executable, "-m", "hostile.attack", host, port],
            cwd=Path(__file__).parents[1],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as attack:
            assert attack.stdin is not None and attack.stdout is not None
            answer: list[str] = []
            reader = threading.Thread(target=lambda: answer.append(attack.stdout.readline()))  # type: ignore[union-attr]
            reader.start()
            deadline = time.monotonic() + ATTACK_TIMEOUT_S
            while reader.is_alive() and time.monotonic() < deadline:
                reader.join(0.05)
                most = max(most, broker.rss_bytes())
            attack.stdin.close()
        over.set()
        client.join(60)
        seen = json.loads(answer[0])
        assert (seen["silent"], seen["stalled"]) == (SILENT, STALLED)
        # All but the sixth part that left by itself, and noise whose size is one to wait for.
        assert seen["closed by the broker"] > BAD // 2, seen
        assert most < RSS_BYTES_MAX
        found = read_all(broker.bootstrap, topic)
        assert [int(value) for _, value in found] == list(range(len(times))) and times
        assert broker.stop() == 0, broker.log_text[-5000:]
        assert "Traceback" not in broker.log_text, broker.log_text[-5000:]
    times.sort()
    p50, p99 = (times[int(len(times) * part)] * 1000 for part in (0.5, 0.99))
    with capsys.disabled():
        print(
            f"\nunder attack: {len(times)} round trips of another client, p50 {p50:.2f} ms, "
            f"p99 {p99:.2f} ms; broker's memory at most {most / 1e6:.0f} MB; {seen}"
        )
