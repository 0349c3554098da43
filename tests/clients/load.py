"""Clients that run through faults as a user's services do, and note the answers they get.

`Load` produces by librdkafka, idempotent and acks=all; `JavaLoad` does by Apache's producer;
`GroupReader` reads in a group and commits. `check_log` compares their notes with the final log.
"""

from __future__ import annotations

import itertools
import json
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import confluent_kafka

from clients.apache_kafka import start_tool
from clients.readers import read_records

FLUSH_S = 120.0
UNKNOWN = -1
KEYS = 50
TIMEOUT_MS = 1000
"""How long a producer waits for an answer. Clients' own default is 30 s and more, and nothing tells
a client sooner that a broker was stopped: its connections stay."""


class Acknowledged(NamedTuple):
    """A record that a producer was told to be safe."""

    partition: int
    offset: int
    """UNKNOWN where the producer learned that an earlier attempt had succeeded, and no more."""
    key: str
    value: int
    time_s: float


class Load:
    """Produces numbered records, each to one of fifty keys in turn, until told to stop. A key's
    numbers only rise."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        rate: int = 2_000,
        keys: int = KEYS,
        timeout_ms: int = TIMEOUT_MS,
    ) -> None:
        """`rate`: records a second at most; `timeout_ms`: how long an answer is waited for."""
        self.topic = topic
        self.sent = 0
        self.acknowledged: list[Acknowledged] = []
        self.failed: list[str] = []
        self.waited_s = 0.0
        """The longest time between two acknowledgements."""
        self._rate = rate
        self._keys = keys
        self._last: float | None = None
        self._more = threading.Condition()
        self._stop = threading.Event()
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 5,
                "message.timeout.ms": 300_000,
                "queue.buffering.max.messages": 20_000,
                "request.timeout.ms": timeout_ms,
                "socket.timeout.ms": timeout_ms,
                "log_level": 0,
            },
            error_cb=self._broke,
        )
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join(FLUSH_S)

    def wait_for(self, count: int, timeout: float = FLUSH_S) -> None:
        """Wait until this many more records are acknowledged."""
        with self._more:
            goal = len(self.acknowledged) + count
            self._more.wait_for(lambda: len(self.acknowledged) >= goal or self.failed, timeout)
        assert not self.failed, self.failed[:5]
        assert len(self.acknowledged) >= goal, f"{len(self.acknowledged)} of {goal} acknowledged"

    def finish(self) -> None:
        """Stop, and wait until everything that was sent is acknowledged."""
        self._stop.set()
        self._thread.join(FLUSH_S)
        left = self._producer.flush(FLUSH_S)
        assert not self.failed, self.failed[:5]
        assert left == 0 and len(self.acknowledged) == self.sent

    def _run(self) -> None:
        started = time.monotonic()
        while not self._stop.is_set():
            key = f"key-{self.sent % self._keys}"
            try:
                self._producer.produce(
                    self.topic, b"%d" % self.sent, key, on_delivery=self._delivered
                )
                self.sent += 1
                ahead = self.sent / self._rate - (time.monotonic() - started)
            except BufferError:
                ahead = 0.05
            self._producer.poll(max(0.0, ahead))

    def _delivered(self, error: object, message: confluent_kafka.Message) -> None:
        with self._more:
            if error is not None:
                self.failed.append(str(error))
            else:
                now = time.monotonic()
                if self._last is not None:
                    self.waited_s = max(self.waited_s, now - self._last)
                self._last = now
                key, value, offset = message.key(), message.value(), message.offset()
                assert key is not None and value is not None
                self.acknowledged.append(
                    Acknowledged(
                        message.partition() or 0,
                        UNKNOWN if offset is None else offset,
                        key.decode(),
                        int(value),
                        now,
                    )
                )
            self._more.notify_all()

    def _broke(self, error: confluent_kafka.KafkaError) -> None:
        # librdkafka recovers from brokers that are away; the errors it cannot recover from are
        # fatal.
        if error.fatal():
            with self._more:
                self.failed.append(f"fatal: {error}")
                self._more.notify_all()


class JavaLoad:
    """Apache's own producer (kafka-verifiable-producer), idempotent and acks=all, one key."""

    def __init__(self, bootstrap: str, topic: str, *, rate: int = 500) -> None:
        self.topic = topic
        self.acknowledged: list[Acknowledged] = []
        self.failed: list[str] = []
        with tempfile.NamedTemporaryFile("w", suffix=".properties", delete=False) as file:
            file.write("enable.idempotence=true\nacks=all\ndelivery.timeout.ms=300000\n")
            file.write(f"request.timeout.ms={TIMEOUT_MS}\nmax.block.ms=300000\n")
            file.write("retries=2147483647\n")  # the tool's own default is none
        self._settings = Path(file.name)
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        self._process = start_tool(
            "org.apache.kafka.tools.VerifiableProducer",
            *("--bootstrap-server", bootstrap, "--topic", topic, "--throughput", str(rate)),
            *("--acks", "-1", "--command-config", file.name, "--max-messages", "-1"),
            *("--repeating-keys", "10"),
            stderr=self._said,
        )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._thread.join()
        self._settings.unlink()
        self._said.close()

    def wait_for(self, count: int, timeout: float = FLUSH_S) -> None:
        """Wait until this many more records are acknowledged."""
        goal, deadline = len(self.acknowledged) + count, time.monotonic() + timeout
        while len(self.acknowledged) < goal:
            assert not self.failed, self.failed[:5]
            assert self._process.poll() is None, self._end_of_log()
            assert time.monotonic() < deadline, f"{len(self.acknowledged)} of {goal} acknowledged"
            time.sleep(0.05)

    @property
    def waited_s(self) -> float:
        """The longest time between two acknowledgements."""
        times = [each.time_s for each in self.acknowledged]
        return max((b - a for a, b in itertools.pairwise(times)), default=0.0)

    def _end_of_log(self) -> str:
        self._said.seek(0)
        return self._said.read().decode(errors="replace")[-2000:]

    def finish(self) -> None:
        """Stop after the records in flight are acknowledged."""
        self._process.terminate()
        self._process.wait(FLUSH_S)
        self._thread.join()
        assert not self.failed, self.failed[:5]
        assert self.acknowledged

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                reported = json.loads(line)
            except ValueError:
                self.failed.append(line)
                continue
            if reported["name"] == "producer_send_success":
                self.acknowledged.append(
                    Acknowledged(
                        reported["partition"],
                        reported["offset"],
                        reported["key"],
                        int(reported["value"]),
                        time.monotonic(),
                    )
                )
            elif reported["name"] == "producer_send_error":
                self.failed.append(line)


class GroupReader:
    """Reads a topic in a group of several members, commits what it has read, and remembers both."""

    def __init__(self, bootstrap: str, topic: str, group: str, *, members: int = 2) -> None:
        self.topic = topic
        self.group = group
        self.seen: dict[int, set[int]] = defaultdict(set)
        """Partition → offsets that some member was given."""
        self.committed: dict[int, int] = {}
        """Partition → the last offset whose commit was confirmed."""
        self.failed: list[str] = []
        self.errors: Counter[str] = Counter()
        """The errors that the members recovered from, with their counts."""
        self._bootstrap = bootstrap
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(members)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(FLUSH_S)

    def wait_for(self, ends: dict[int, int], timeout: float = FLUSH_S) -> None:
        """Wait until every offset below `ends` was seen."""
        deadline = time.monotonic() + timeout
        while missing := {p: end - len(self.seen[p]) for p, end in ends.items()}:
            if all(count <= 0 for count in missing.values()):
                break
            assert not self.failed, self.failed[:5]
            assert time.monotonic() < deadline, f"not seen by the group: {missing}; {self.errors}"
            time.sleep(0.1)
        for partition, end in ends.items():
            gone = set(range(end)) - self.seen[partition]
            assert not gone, f"{self.topic}-{partition}: never seen {sorted(gone)[:10]}"

    def _run(self) -> None:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": self.group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 10_000,
                "check.crcs": True,
                "log_level": 0,
                "error_cb": self._broke,
            }
        )
        consumer.subscribe([self.topic])
        try:
            while not self._stop.is_set():
                messages = consumer.consume(500, 0.2)
                with self._lock:
                    for message in messages:
                        error = message.error()
                        if error is None:
                            self.seen[message.partition() or 0].add(message.offset() or 0)
                        else:
                            self._broke(error)
                if messages:
                    self._commit(consumer)
        finally:
            consumer.close()

    def _broke(self, error: confluent_kafka.KafkaError) -> None:
        self.errors[str(error)] += 1
        if error.fatal():
            self.failed.append(str(error))

    def _commit(self, consumer: confluent_kafka.Consumer) -> None:
        try:
            done = consumer.commit(asynchronous=False) or []
        except confluent_kafka.KafkaException as e:
            # A rebalance, or a coordinator on its way: the next one says the same and more.
            self._broke(e.args[0])
            return
        with self._lock:
            for each in done:
                if each.error is None and each.offset >= 0:
                    self.committed[each.partition] = each.offset


class Found(NamedTuple):
    """A record in the log."""

    offset: int
    key: str
    value: int


def check_log(bootstrap: str, load: Load | JavaLoad, partitions: int) -> dict[int, int]:
    """What was acknowledged is where the producer was told, every key's numbers rise, and nothing
    is there twice.

    Returns how many records each partition has.
    """
    ends = dict.fromkeys(range(partitions), 0)
    for reported in load.acknowledged:
        ends[reported.partition] = max(ends[reported.partition], reported.offset + 1)
    log = {p: list(_read(bootstrap, load.topic, p, end)) for p, end in ends.items()}
    for partition, records in log.items():
        assert [r.offset for r in records] == list(range(len(records))), "a gap in the offsets"
        last: dict[str, int] = {}
        for record in records:
            before = last.get(record.key, -1)
            assert record.value > before, (
                f"{load.topic}-{partition} offset {record.offset}: {record.key} has {record.value} "
                f"after {before}"
            )
            last[record.key] = record.value
    unknown = [reported for reported in load.acknowledged if reported.offset < 0]
    for partition in {reported.partition for reported in unknown}:
        there = {(record.key, record.value) for record in log[partition]}
        gone = [t for t in unknown if t.partition == partition and (t.key, t.value) not in there]
        assert not gone, f"acknowledged and gone: {gone[:5]}"
    for reported in load.acknowledged:
        if reported.offset < 0:
            continue
        records = log[reported.partition]
        assert reported.offset < len(records), f"acknowledged and gone: {reported}"
        assert records[reported.offset][1:] == (reported.key, reported.value), (
            f"acknowledged {reported}, there is {records[reported.offset]}"
        )
    return {p: len(records) for p, records in log.items()}


def _read(bootstrap: str, topic: str, partition: int, end_min: int) -> Iterator[Found]:
    for message in read_records(bootstrap, topic, partition, end_min=end_min):
        key, value = message.key(), message.value()
        yield Found(message.offset() or 0, (key or b"").decode(), int(value or b""))
