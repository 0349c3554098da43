"""A driver without Spark: the same source and sink, called as Spark calls them, from a checkpoint
of the same form.

Spark takes many seconds to start, so a run of some minutes has few kills; this driver restarts
within a second. It plans a batch, writes it to `offsets`, reads it, gives its rows to tasks,
commits it and writes that to `commits`. After a death it repeats a batch with its rows in other
tasks, as adaptive execution, other cores and rand() do. Runs with spark_faults.driver_main test
Spark itself.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

from pk.spark.connections import connections
from pk.spark.files.store import LocalStore
from pk.spark.read.options import parse_options
from pk.spark.sink import commit
from pk.spark.sink.commit import publish_batch
from pk.spark.sink.large_batch import LargeBatch
from pk.spark.sink.messages import SealedMessage, collect, remove_staged
from pk.spark.sink.options import parse_sink_options
from pk.spark.sink.publish_files import publish_lane
from pk.spark.sink.seal import Sealed, seal
from pk.spark.sink.sealed_files import Part, SealedList, keep
from pk.spark.stream.reader import KafkaStreamReader
from spark_faults.faulty import TaskFails, no_marker, note
from spark_faults.large import LIMITS, FaultyBatch, task_faults
from spark_faults.work import BATCH_OFFSETS, BATCH_OFFSETS_LAST, PARTITIONS, Work

TASKS_MAX = 5
FAILURES_MAX = 8


class Query:
    """One query and its checkpoint."""

    def __init__(self, work: Work, number: int, *, last: bool) -> None:
        self._work = work
        self._last = last
        self._number = number
        self._folder = work.checkpoint(number)
        for name in ("offsets", "commits"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        metadata = self._folder / "metadata"
        if not metadata.exists():
            _write(metadata, json.dumps({"id": str(uuid.uuid4())}))
        self._id = json.loads(metadata.read_text())["id"]
        source = {
            "kafka.bootstrap.servers": work.bootstrap,
            "subscribe": work.source,
            "startingOffsets": work.start,
            "maxOffsetsPerTrigger": str(BATCH_OFFSETS_LAST if last else BATCH_OFFSETS),
        }
        self._reader = KafkaStreamReader(parse_options(source, stream=True))
        sink = {
            "kafka.bootstrap.servers": work.bootstrap,
            "topic": work.topic(number),
            "checkpointLocation": str(self._folder),
            "kafka.compression.type": random.choice(["none", "lz4", "zstd"]),
        }
        self._sink = parse_sink_options(sink)

    def run(self) -> None:
        """Run batch after batch; with `last`, only to the end of the input."""
        last = self._last
        if last:
            self._reader.prepareForTriggerAvailableNow()
        batch = 1 + max((int(p.name) for p in (self._folder / "commits").iterdir()), default=-1)
        while last or not self._work.stop.exists():
            start = self._logged(batch - 1) if batch else self._reader.initialOffset()
            log = self._folder / "offsets" / str(batch)
            if not log.exists():
                end = self._reader.latestOffset(start, self._reader.getDefaultReadLimit())
                if end == start:
                    if last:
                        return
                    continue
                _write(log, json.dumps(end))
            self._batch(batch, start, self._logged(batch))
            _write(self._folder / "commits" / str(batch), "{}")
            batch += 1

    def _logged(self, batch: int) -> dict[str, object]:
        return json.loads((self._folder / "offsets" / str(batch)).read_text())

    def _batch(self, batch: int, start: dict[str, object], end: dict[str, object]) -> None:
        chances = {} if self._last else self._work.chances
        name = self._work.label(self._number)
        values = [
            f"{name}:{row['partition']}:{row['offset']}:{random.random()}".encode()
            for planned in self._reader.partitions(start, end)
            for rows in self._reader.read(planned)
            for row in rows.select(["partition", "offset"]).to_pylist()
        ]
        random.shuffle(values)
        count = random.randint(1, TASKS_MAX)
        if self._work.publish:
            self._large(values, count, batch, chances)
            return
        messages = [self._task(values[task::count], task, batch, chances) for task in range(count)]
        if self._strikes(chances, "in_commit"):
            wait_s = random.random() * 0.2
            threading.Timer(wait_s, os.kill, (os.getpid(), signal.SIGKILL)).start()
        connections().run(publish_batch, self._sink, self._id, batch, messages)
        remove_staged(messages, f"{self._sink.staging}/{self._id}", batch)
        if self._strikes(chances, "after_commit"):
            os.kill(os.getpid(), signal.SIGKILL)

    def _large(
        self, values: list[bytes], count: int, batch: int, chances: dict[str, float]
    ) -> None:
        """Have executors publish the batch. Their tasks are threads."""
        kind = type("Faulty", (FaultyBatch,), {"chances": chances, "notes": self._work.notes})
        store = LocalStore(self._folder / "pk-sealed")
        large: LargeBatch = kind(self._sink, store, self._id, batch, random.choice(LIMITS))

        def seal_all() -> Iterator[Part]:
            for task in range(count):
                yield from keep(
                    self._sealed(values[task::count]),
                    store=store,
                    folder=large.folder,
                    task=task,
                    limit=random.choice([0, 10_000, 1 << 20]),
                )

        def publish(listed: SealedList) -> None:
            with ThreadPoolExecutor(len(listed.lanes)) as pool:
                for done in [pool.submit(self._lane, large, listed, n) for n in listed.lanes]:
                    done.result()

        large.write(seal_all, publish)

    def _lane(self, batch: LargeBatch, listed: SealedList, lane: int) -> None:
        for _ in range(FAILURES_MAX):
            try:
                connections().run(publish_lane, batch.options, batch.store, listed, lane)
                return
            except TaskFails:
                continue
        raise TaskFails

    def _task(
        self, values: list[bytes], task: int, batch: int, chances: dict[str, float]
    ) -> SealedMessage:
        for _ in range(FAILURES_MAX):
            try:
                if self._strikes(chances, "before"):
                    raise TaskFails
                message = collect(
                    self._sealed(values),
                    limit=random.choice([0, 10_000, 1 << 20]),
                    place=self._sink.staging,
                    name=f"{self._id}/{batch}/{task}-{uuid.uuid4()}",
                    query_id=self._id,
                )
                if self._strikes(chances, "after"):
                    raise TaskFails
                return message
            except TaskFails:
                continue
        raise TaskFails

    def _sealed(self, values: list[bytes]) -> Iterator[Sealed]:
        rows = pa.RecordBatch.from_pydict(
            {"key": pa.array([v[-5:] for v in values]), "value": pa.array(values)}
        )
        return seal(
            [rows],
            topic=self._work.topic(self._number),
            config=self._sink.config,
            partitions_of=lambda _: PARTITIONS,
        )

    def _strikes(self, chances: dict[str, float], fault: str) -> bool:
        if random.random() >= chances.get(fault, 0):
            return False
        note(self._work.notes, fault)
        return True


def _write(path: Path, text: str) -> None:
    """Write a file atomically."""
    temporary = path.parent.parent / f"{path.parent.name}-{path.name}.new"
    temporary.write_text(text)
    temporary.replace(path)


def run(work: Work, number: int, *, last: bool = False) -> None:
    """Run a query, which resumes from its checkpoint after each failure; with `last`, only to the
    end of the input."""
    always = last
    while True:
        last = always or work.stop.exists()
        try:
            Query(work, number, last=last).run()
            if last:
                return
        except Exception:  # noqa: BLE001 (the log has it; what counts is what comes of it)
            traceback.print_exc()
            time.sleep(0.1)


def main(work: Work) -> None:
    random.seed()
    if work.publish:
        task_faults(work.chances, work.notes)
    elif work.chances.get("blind"):
        commit.Markers.last = no_marker  # type: ignore[method-assign]
    if work.former:
        for query in range(work.queries):
            run(work.of(work.former), query, last=True)
    print("starting", flush=True)
    threads = [threading.Thread(target=run, args=(work, n)) for n in range(work.queries)]
    for thread in threads:
        thread.start()
    print("running", flush=True)
    for thread in threads:
        thread.join()
    print("done", flush=True)


if __name__ == "__main__":
    main(Work.parse(sys.argv[1]))
