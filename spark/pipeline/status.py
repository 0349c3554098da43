"""The files of a running pipeline next to its checkpoint: a status file, a lock, and a file that
tells it to stop.

`pk spark pipeline status` and `stop` read and write these files, so they need neither Spark nor the
process.
"""

import fcntl
import json
import os
import time
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Literal, Self, TypedDict, cast

from pk.spark.errors import SparkError
from pk.spark.files.object_path import ObjectPath, write_json
from pk.spark.pipeline.lease import Lease, LeaseTaken, is_held
from pk.spark.pipeline.places import Places

READ: Final = "read_"
"""The prefix of the names of the metrics that count a source's records."""

State = Literal["starting", "running", "restarting", "finished", "stopped", "failed", "died"]


_JVM_END_S: Final = 60
_POLL_S: Final = 0.1


_RATE_MS: Final = 60_000


class PartitionStatus(TypedDict):
    """How far a query had read a partition when its last batch ended."""

    topic: str
    partition: int
    offset: int
    end: int
    lag: int


class LastError(TypedDict):
    """The last failure of a pipeline, in this run or an earlier one."""

    message: str
    at_ms: int


class QueryStatus(TypedDict):
    """The state of one sink's query."""

    name: str
    batch: int | None
    rows: int
    """The number of rows read in this run."""

    rows_a_second: float
    """The rate over the last minute, or since the first batch of a run that is younger than
    that."""

    batch_ms: int | None
    ended_ms: int | None
    """The time at which the last batch ended."""

    lag: int | None
    """The number of records that were in the topics but not yet read when the last batch ended."""

    partitions: list[PartitionStatus]
    small_files: int | None
    """The number of small files in the sink's table (`pk.spark.tables.small_files`). None if it is
    unknown or the sink is not a Delta or Iceberg table."""


class Status(TypedDict):
    """The state of a pipeline."""

    pipeline: str
    state: State
    error: str | None
    last_error: LastError | None
    restarts: int
    """The number of times that this run restarted Spark after a failure."""

    pid: int
    started_ms: int
    updated_ms: int
    dead_letters: int
    """The number of records that failed in this run, including those that on_error = "skip"
    skipped."""

    queries: list[QueryStatus]


class AlreadyRunning(SparkError):
    """Another process is running this pipeline."""


def hold(places: Places) -> "Lock | Held":
    """The lock or lease that a process holds while it runs a pipeline."""
    return Held(places) if isinstance(places.lock, ObjectPath) else Lock(places)


class Held(Lease):
    """The lease on a checkpoint in object storage."""

    def __init__(self, places: Places) -> None:
        assert isinstance(places.lock, ObjectPath)
        super().__init__(places.lock)
        self._checkpoint = places.checkpoint

    def __enter__(self) -> Self:
        """Acquire the lease. Raises AlreadyRunning, OSError."""
        try:
            return super().__enter__()
        except LeaseTaken as e:
            raise AlreadyRunning(
                f"{e} runs this pipeline (its checkpoint is {self._checkpoint})"
            ) from None


class Lock:
    """A file lock that is held while a pipeline runs. The system releases it when the process and
    its JVM end, regardless of how they end."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._file: IO[str] | None = None

    def __enter__(self) -> Self:
        """Acquire the lock. Raises AlreadyRunning, OSError."""
        lock = self._places.lock
        assert isinstance(lock, Path)
        lock.parent.mkdir(parents=True, exist_ok=True)
        self._file = lock.open("a+")
        deadline = time.monotonic() + _JVM_END_S
        while not _locked(self._file):
            # The JVM of a killed process ends a moment after it.
            if self._owner_lives() or time.monotonic() > deadline:
                self._file.close()
                raise AlreadyRunning(
                    "another process runs this pipeline (its checkpoint is "
                    f"{self._places.checkpoint})"
                )
            time.sleep(_POLL_S)
        return self

    lost: Final = False
    """Always false: no other process can take over a file lock."""

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The file descriptor, for the JVM to inherit."""
        assert self._file is not None
        return (self._file.fileno(),)

    def _owner_lives(self) -> bool:
        """Whether the process that wrote the last status still exists."""
        try:
            os.kill(int(json.loads(self._places.status.read_text())["pid"]), 0)
        except ProcessLookupError:
            return False
        except (OSError, ValueError):
            return True
        return True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._file is not None
        self._file.close()


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_running(places: Places) -> bool:
    """Whether a process holds the lock. Raises OSError."""
    if isinstance(places.lock, ObjectPath):
        return is_held(places.lock)
    try:
        with places.lock.open("a+") as file:
            return not _locked(file)
    except FileNotFoundError:
        return False


def read_status(places: Places) -> Status | None:
    """The last status; None before the first run. A run that ended without writing a final status
    has died."""
    # Check this first: a run that ends in between has written its last status by then.
    running = is_running(places)
    try:
        status = cast(Status, json.loads(places.status.read_text()))
    except FileNotFoundError:
        return None
    status.setdefault("last_error", None)  # in case an earlier version wrote the file
    status.setdefault("restarts", 0)
    for query in status["queries"]:
        query.setdefault("ended_ms", None)
        query.setdefault("partitions", [])
        query.setdefault("small_files", None)
    if not running and status["state"] in ("starting", "running", "restarting"):
        status["state"] = "died"
    return status


class StatusFile:
    """The status file of a run. Raises OSError if an earlier file cannot be read."""

    def __init__(self, places: Places, name: str) -> None:
        self._places = places
        self.queries: dict[str, QueryStatus] = {}
        self.small_files: dict[str, int] = {}
        """Query → the number of small files in its sink's table."""

        self.dead_letters = 0
        self.batches = 0
        """The number of batches that succeeded in this run."""

        self._ended: dict[str, deque[tuple[int, int]]] = {}
        """Query → the end times and the numbers of rows of the batches in the last minute."""

        self._began_ms: int | None = None
        before = read_status(places)
        now_ms = _now_ms()
        self.value: Status = {
            "pipeline": name,
            "state": "starting",
            "error": None,
            "last_error": None if before is None else before["last_error"],
            "restarts": 0,
            "pid": os.getpid(),
            "started_ms": now_ms,
            "updated_ms": now_ms,
            "dead_letters": 0,
            "queries": [],
        }

    def write(self, state: State, error: str | None = None) -> None:
        """Replace the status file. Raises OSError."""
        now_ms = _now_ms()
        if state == "restarting":
            self.value["restarts"] += 1
        if error is not None:
            self.value["last_error"] = {"message": error, "at_ms": now_ms}
        self.value["state"] = state
        self.value["error"] = error
        self.value["updated_ms"] = now_ms
        self.value["dead_letters"] = self.dead_letters
        for name, query in self.queries.items():
            query["rows_a_second"] = self._rate(name, now_ms)
            query["small_files"] = self.small_files.get(name)
        self.value["queries"] = list(self.queries.values())
        write_json(self._places.status, self.value)

    def see(self, name: str, progress: dict[str, Any], rows: int) -> None:
        """Add one of Spark's progress reports to the status."""
        self.batches += 1
        before = self.queries.get(name)
        metrics: dict[str, Any] = progress.get("observedMetrics") or {}
        for metric, value in metrics.items():
            if metric.startswith(("dead_letters_", "skipped_")):
                self.dead_letters += int(value["records"])
        duration_ms = int((progress.get("durationMs") or {}).get("triggerExecution", 0))
        now_ms = _now_ms()
        if self._began_ms is None:
            self._began_ms = now_ms - duration_ms
        self._ended.setdefault(name, deque()).append((now_ms, rows))
        partitions = partitions_of(progress)
        self.queries[name] = {
            "name": name,
            "batch": int(progress["batchId"]),
            "rows": rows + (before["rows"] if before is not None else 0),
            "rows_a_second": 0.0,
            "batch_ms": duration_ms,
            "ended_ms": now_ms,
            "lag": None if partitions is None else sum(each["lag"] for each in partitions),
            "partitions": partitions or [],
            "small_files": None,
        }

    def _rate(self, name: str, now_ms: int) -> float:
        ended = self._ended.get(name)
        if not ended or self._began_ms is None:
            return 0.0
        while ended and ended[0][0] < now_ms - _RATE_MS:
            ended.popleft()
        span_ms = max(min(now_ms - self._began_ms, _RATE_MS), 1)
        return round(sum(rows for _, rows in ended) * 1000 / span_ms, 1)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def partitions_of(progress: dict[str, Any]) -> list[PartitionStatus] | None:
    """How far a query had read each partition when its batch ended; None if it reads no topics. For
    a topic that is read twice, the position is that of the slower reader."""
    found: dict[tuple[str, int], PartitionStatus] = {}
    topics = False
    for source in progress["sources"]:
        read, latest = (_positions(source.get(name)) for name in ("endOffset", "latestOffset"))
        if read is None or latest is None:
            continue
        topics = True
        for (topic, partition), end in latest.items():
            offset, place = read.get((topic, partition), 0), (topic, int(partition))
            other = found.get(place)
            if other is None or offset < other["offset"]:
                found[place] = {
                    "topic": topic,
                    "partition": place[1],
                    "offset": offset,
                    "end": end,
                    "lag": max(end - offset, 0),
                }
    return [found[place] for place in sorted(found)] if topics else None


def rows_of(progress: dict[str, Any]) -> int:
    """The number of records that a batch read. A metric counts those of topics, since Spark
    may read a topic twice in a batch."""
    metrics: dict[str, Any] = progress.get("observedMetrics") or {}
    rows = sum(int(value["records"]) for name, value in metrics.items() if name.startswith(READ))
    for source in progress["sources"]:
        if _positions(source.get("endOffset")) is None:
            rows += int(source["numInputRows"])
    return rows


def _positions(value: Any) -> dict[tuple[str, str], int] | None:
    """The offsets of the source `pk`; None if they belong to another source."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if not isinstance(value, dict):
        return None
    given = cast(dict[str, Any], value)
    if "@ids" not in given and given:
        return None
    return {
        (topic, partition): offset
        for topic, partitions in given.items()
        if not topic.startswith("@")
        for partition, offset in partitions.items()
    }
