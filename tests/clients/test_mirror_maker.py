"""MirrorMaker 2 between pk and Apache Kafka, both ways: each record comes once and in order,
although processes are killed.

Its node and the broker of pk that leads the copied topic are killed while records are written.
Slow: `scripts/test -m "slow and peer" tests/clients/test_mirror_maker.py`.
"""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import confluent_kafka
import pytest

from clients.apache_kafka import ApacheKafka
from clients.cluster_topics import create_replicated, leader_of, wait_in_sync
from clients.mirror import MirrorMaker
from clients.pk_cluster import PkCluster
from clients.readers import CommittedReader

pytestmark = [pytest.mark.slow, pytest.mark.peer]

TOPIC: Final = "orders"
STEP: Final = 500
PAUSE_S: Final = 0.005
READY_S: Final = 600.0


class Numbers:
    """Writes numbers to the topic, one at a time, until the block ends; none is lost, none comes
    twice."""

    def __init__(self, bootstrap: str) -> None:
        self.count = 0
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
        )
        self._stop = threading.Event()
        self._errors: list[object] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._stop.wait(PAUSE_S):
            self._producer.produce(
                TOPIC,
                b"%d" % self.count,
                on_delivery=lambda error, _: self._errors.append(error) if error else None,
            )
            self._producer.poll(0)
            self.count += 1
        assert self._producer.flush(READY_S) == 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Write no more; `count` stays as it is, and all is delivered."""
        self._stop.set()
        self._thread.join()
        assert not self._errors, self._errors


def test_each_record_reaches_the_other_cluster_once(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        pk = stack.enter_context(PkCluster(3))
        apache = stack.enter_context(ApacheKafka(1, heap="384m"))
        sides = {"pk": pk.bootstrap, "apache": apache.bootstrap}
        create_replicated(pk.bootstrap, TOPIC, 1)
        create_replicated(
            apache.bootstrap, TOPIC, 1, replicas=1, config={"min.insync.replicas": "1"}
        )
        mirror = stack.enter_context(MirrorMaker(sides, tmp_path))
        numbers = {name: stack.enter_context(Numbers(at)) for name, at in sides.items()}
        other = {"pk": "apache", "apache": "pk"}
        readers = {
            name: stack.enter_context(CommittedReader(sides[other[name]], f"{name}.{TOPIC}"))
            for name in sides
        }

        def both(more: int) -> None:
            for reader in readers.values():
                reader.wait_for(len(reader.values) + more, READY_S)

        both(STEP)
        mirror.kill()
        mirror.start()
        both(STEP)
        leader = leader_of(pk.bootstrap, TOPIC)
        pk.kill(leader)
        both(STEP)
        pk.start(leader)
        wait_in_sync(pk.bootstrap, TOPIC, 1, 3)
        for name, reader in readers.items():
            numbers[name].stop()
            reader.wait_for(numbers[name].count, READY_S)
            assert [int(value) for value in reader.values] == list(range(numbers[name].count))
