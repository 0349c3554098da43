"""Kafka Connect's distributed workers, exactly once: a file becomes a topic and a file again, each
line once, whichever process dies.

Two workers run the connectors; the one with the source's task and the broker that leads the topic
are killed while lines are written. Slow: `scripts/test -m "slow and peer"
tests/clients/test_connect.py`.
"""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from clients.cluster_topics import create_replicated, leader_of, wait_in_sync
from clients.clusters import KINDS, cluster_of
from clients.connect import FILE_SINK, FILE_SOURCE, READY_S, Worker
from clients.readers import CommittedReader
from clients.topics import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.peer]

TOPIC = "lines"
STEP = 2_000
PAUSE_S = 0.002


class Lines:
    """Writes numbers to a file, a line each, until the block ends."""

    def __init__(self, path: Path) -> None:
        self.count = 0
        self._path = path
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        with self._path.open("w") as file:
            while not self._stop.wait(PAUSE_S):
                file.write(f"{self.count}\n")
                file.flush()
                self.count += 1

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
        """Write no more; `count` stays as it is."""
        self._stop.set()
        self._thread.join()


@pytest.mark.parametrize("kind", KINDS)
def test_each_line_comes_once_whoever_is_killed(kind: str, tmp_path: Path) -> None:
    source, sink = tmp_path / "source.txt", tmp_path / "sink.txt"
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(cluster_of(kind))
        bootstrap = cluster.bootstrap
        create_replicated(bootstrap, TOPIC, 1)
        workers = [
            stack.enter_context(Worker(bootstrap, tmp_path, name)) for name in ("one", "two")
        ]
        reader = stack.enter_context(CommittedReader(bootstrap, TOPIC))
        lines = stack.enter_context(Lines(source))
        files = {"connector.class": FILE_SOURCE, "tasks.max": "1", "file": str(source)}
        workers[0].configure(
            "source", {**files, "topic": TOPIC, "exactly.once.support": "required"}
        )
        reader.wait_for(STEP, READY_S)

        on = wait_until("its worker", lambda: workers[0].runs_on("source"), READY_S)
        (victim,) = [worker for worker in workers if worker.worker_id == on]
        victim.kill()
        reader.wait_for(len(reader.values) + STEP, READY_S)

        leader = leader_of(bootstrap, TOPIC)
        cluster.kill(leader)
        reader.wait_for(len(reader.values) + STEP, READY_S)
        cluster.start(leader)
        wait_in_sync(bootstrap, TOPIC, 1, 3)

        victim.start()
        files = {"connector.class": FILE_SINK, "tasks.max": "1", "file": str(sink)}
        override = {"consumer.override.isolation.level": "read_committed"}
        victim.configure("sink", {**files, **override, "topics": TOPIC})
        lines.stop()
        reader.wait_for(lines.count, READY_S)
        assert [int(value) for value in reader.values] == list(range(lines.count))

        def copied() -> list[int] | None:
            found = list(map(int, sink.read_text().split())) if sink.exists() else []
            return found if len(found) >= lines.count else None

        assert wait_until("the sink's file", copied, READY_S) == list(range(lines.count))
