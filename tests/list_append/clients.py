"""Clients of a run, each a thread of its own: writers in transactions, workers that read, process
and write, and readers.

All are librdkafka's, which retries on its own. A client whose producer is finished makes another
one with the same transactional id, as a service does that starts again.
"""

from __future__ import annotations

import logging
import threading
import time
from random import Random
from typing import Any, Final

import confluent_kafka
from clients.topics import commit
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from list_append.history import History, Outcome, Place, Read, Transaction

INPUTS: Final = "in"
OUTPUTS: Final = "out"
PARTITIONS: Final = 4
EVERYWHERE: Final = [(t, p) for t in (INPUTS, OUTPUTS) for p in range(PARTITIONS)]
ABORTS: Final = 0.15
COMMIT_S: Final = 15.0
STUCK_S: Final = 75.0
"""A round that takes longer is librdkafka's to blame: its calls end after COMMIT_S, three of them
in a row at most."""
TRANSACTION_MS: Final = 20_000
TRIES_S: Final = 0.5

_LIBRARY: Final = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 500,
    "retry.backoff.ms": 50,
    "socket.timeout.ms": 10_000,
    "log_level": 0,
}


_SILENT: Final = logging.getLogger("list_append.librdkafka")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False


class Over(Exception):
    """The transaction cannot commit any more; whether it was aborted, or the producer must be made
    again."""


class Client(threading.Thread):
    """A client with a transactional producer."""

    def __init__(self, name: str, bootstrap: str, history: History, *, debug: bool = False) -> None:
        super().__init__(name=name, daemon=True)
        self.random = Random(name)
        self.bootstrap = bootstrap
        self.history = history
        self.stopping = threading.Event()
        self.failed: BaseException | None = None
        self.count = 0
        self.began_s = time.monotonic()
        """When the current round began."""
        self._debug = debug
        self._producer: Any = None

    def run(self) -> None:
        """Work until `stopping`; `failed` has an error that a client does not expect."""
        try:
            while not self.stopping.is_set():
                self.began_s = time.monotonic()
                try:
                    self.work()
                except KafkaException:
                    time.sleep(TRIES_S)
        except BaseException as e:  # noqa: BLE001 - told by the main thread
            self.failed = e

    def work(self) -> None:
        """One round."""
        raise NotImplementedError

    @property
    def stuck(self) -> bool:
        """Whether a call to librdkafka does not return. (2.16 waits for ever for a coordinator that
        was away from the metadata for a while, on Apache Kafka too: its handle of that broker "is
        terminating".)"""
        return self.is_alive() and time.monotonic() - self.began_s > STUCK_S

    def again(self) -> Client:
        """Another client of the same name, as if the service had been killed and started again."""
        self.stopping.set()
        made = self.made()
        made.count = self.count + 1_000  # names of transactions are unique
        return made

    def made(self) -> Client:
        """One like this."""
        return type(self)(self.name, self.bootstrap, self.history, debug=self._debug)

    def producer(self) -> Any:
        """The producer; a new one if the last is finished. Raises KafkaException."""
        if self._producer is None:
            config: dict[str, Any] = _LIBRARY | {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": self.name,
                "transaction.timeout.ms": TRANSACTION_MS,
                "message.timeout.ms": TRANSACTION_MS,
                "linger.ms": 2,
            }
            if self._debug:
                config |= {"debug": "eos,msg,broker", "log_level": 7, "client.id": self.name}
            # Without a logger librdkafka writes to standard error, also that it was fenced.
            more: dict[str, Any] = {} if self._debug else {"logger": _SILENT}
            made: Any = confluent_kafka.Producer(config, **more)
            made.init_transactions(COMMIT_S)
            self._producer = made
        return self._producer

    def transact(self, transaction: Transaction, appends: list[tuple[str, int, str]]) -> Any:
        """Begin, and append (topic, partition, value) each; the producer. Raises Over."""
        producer = self.producer()
        try:
            producer.begin_transaction()
        except KafkaException:
            self._producer = None
            raise
        self.history.transactions.append(transaction)
        for topic, partition, value in appends:
            where = f"{topic}/{partition}"
            transaction.appends[value] = Place(where, -1)

            def reported(error: Any, message: Any, value: str = value, where: str = where) -> None:
                if error is None:
                    transaction.appends[value] = Place(where, message.offset())

            try:
                producer.produce(topic, value.encode(), partition=partition, on_delivery=reported)
            except (KafkaException, BufferError) as e:
                self.abort(transaction)
                raise Over from e
        return producer

    def abort(self, transaction: Transaction) -> None:
        """Abort; what cannot be aborted is by the next producer of the id, since no commit was
        asked for."""
        transaction.outcome = Outcome.ABORTED
        try:
            self._producer.abort_transaction(COMMIT_S)
        except KafkaException:
            self._producer = None
        if any(place.offset < 0 for place in transaction.appends.values()):
            # 2.16 gives the sequence of a record that it dropped here to the next one, in the same
            # epoch. If the record is in the log, the next one is a duplicate to the broker, Apache
            # Kafka's too (tests/txn/conversation.py), and is lost. A new producer has a new epoch.
            self._producer = None

    def commit(self, transaction: Transaction) -> None:
        """Commit. Raises Over if the commit failed or its outcome is unknown."""
        until = time.monotonic() + 3 * COMMIT_S
        transaction.outcome = Outcome.UNKNOWN
        while True:
            try:
                self._producer.commit_transaction(COMMIT_S)
            except KafkaException as e:
                error = e.args[0]
                if error.txn_requires_abort():
                    # librdkafka says this only if the coordinator has not begun to commit.
                    self.abort(transaction)
                    raise Over from e
                if error.retriable() and time.monotonic() < until:
                    continue
                self._producer = None
                raise Over from e
            transaction.outcome = Outcome.COMMITTED
            return


class Writer(Client):
    """Appends values of its own, to inputs and outputs alike."""

    def work(self) -> None:
        """One transaction."""
        self.count += 1
        made = Transaction(f"{self.name}.{self.count}", self.name)
        appends = [
            (
                INPUTS if self.random.random() < 0.7 else OUTPUTS,
                self.random.randrange(PARTITIONS),
                f"{made.name}.{i}",
            )
            for i in range(self.random.randint(1, 5))
        ]
        try:
            producer = self.transact(made, appends)
            if self.random.random() < 0.2:
                producer.flush(1)
                time.sleep(self.random.random())
            if self.random.random() < ABORTS:
                self.abort(made)
            else:
                self.commit(made)
        except Over:
            time.sleep(TRIES_S)
        time.sleep(self.random.random() * 0.05)


class Worker(Client):
    """Reads committed inputs as a member of a group, and appends an output for each, in the
    transaction that commits the offsets (KIP-447)."""

    def __init__(self, *args: Any, protocol: str, group: str = "workers", **more: Any) -> None:
        super().__init__(*args, **more)
        self.protocol = protocol
        self.group = group
        self._consumer: Any = None

    def made(self) -> Worker:
        """See `Client`."""
        return Worker(
            self.name, self.bootstrap, self.history,
            debug=self._debug, protocol=self.protocol, group=self.group,
        )  # fmt: skip

    def consumer(self) -> Any:
        """The consumer, subscribed."""
        if self._consumer is None:
            config: dict[str, Any] = _LIBRARY | {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group,
                "group.protocol": self.protocol,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                # librdkafka 2.16 applies this policy if the assignment changes during its wait for
                # offsets of an open transaction, on Apache Kafka too. The group has offsets, so it
                # must not start at 0.
                "auto.offset.reset": "error",
            }
            if self.protocol == "classic":
                config["session.timeout.ms"] = 10_000
            config["max.poll.interval.ms"] = 30_000
            made: Any = confluent_kafka.Consumer(config)
            made.subscribe([INPUTS])
            self._consumer = made
        return self._consumer

    def work(self) -> None:
        """One transaction, if there is something to process."""
        consumer = self.consumer()
        messages = consumer.consume(200, timeout=0.5)
        if any(m.error() and m.error().code() == KafkaError._AUTO_OFFSET_RESET for m in messages):
            self.close()
            return
        found = [m for m in messages if m.error() is None]
        if not found:
            return
        self.count += 1
        made = Transaction(f"{self.name}.{self.count}", self.name)
        positions: dict[int, int] = {}
        for message in found:
            value = message.value().decode()
            made.reads[value] = Place(f"{INPUTS}/{message.partition()}", message.offset())
            positions[message.partition()] = message.offset() + 1
        appends = [
            (OUTPUTS, message.partition(), f"{made.name}:{message.value().decode()}")
            for message in found
        ]
        try:
            producer = self.transact(made, appends)
            if self.random.random() < 0.03:
                time.sleep(self.random.random() * 15)  # a zombie: its partitions may be another's
            try:
                producer.send_offsets_to_transaction(
                    [TopicPartition(INPUTS, p, offset) for p, offset in positions.items()],
                    consumer.consumer_group_metadata(),
                    COMMIT_S,
                )
            except KafkaException as e:
                self.abort(made)
                raise Over from e
            if self.random.random() < ABORTS:
                self.abort(made)
                raise Over
            self.commit(made)
        except (Over, KafkaException):
            # The next owner reads the uncommitted records again.
            self.close()

    def close(self) -> None:
        """Leave the group."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None


def commit_the_beginning(group: str, bootstrap: str) -> None:
    """Commit an offset of each input for the group of workers."""
    config = {"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0}
    consumer: Any = confluent_kafka.Consumer(config)
    try:
        commit(consumer, [TopicPartition(INPUTS, partition, 0) for partition in range(PARTITIONS)])
    finally:
        consumer.close()


class Reader(threading.Thread):
    """Reads committed records of every partition from the beginning, repeatedly, until the end."""

    def __init__(self, name: str, bootstrap: str, history: History) -> None:
        super().__init__(name=name, daemon=True)
        self.bootstrap = bootstrap
        self.history = history
        self.stopping = threading.Event()
        self.rounds = 0
        self._known: dict[Place, str] = {}

    def run(self) -> None:
        """Read until `stopping`. Reads that repeat those of an earlier round are not recorded,
        because the history would grow with the square of the run's length."""
        while not self.stopping.is_set():
            self.rounds += 1
            name = f"{self.name}.{self.rounds}"
            found, _ = read_committed(name, self.bootstrap, EVERYWHERE, 20, self.stopping)
            for (topic, partition), seen in found.items():
                where = f"{topic}/{partition}"
                fresh = [one for one in seen if self._known.get(Place(where, one[0])) != one[1]]
                self._known.update((Place(where, offset), value) for offset, value in fresh)
                if fresh:
                    self.history.reads.append(Read(name, where, fresh))


def read_finally(name: str, bootstrap: str, history: History, within_s: float) -> bool:
    """Read every partition from the beginning to its last stable offset; whether it came to all of
    them in time."""
    found, whole = read_committed(name, bootstrap, EVERYWHERE, within_s)
    for (topic, partition), seen in found.items():
        history.reads.append(Read(name, f"{topic}/{partition}", seen, final=True))
    return whole


def read_committed(
    name: str,
    bootstrap: str,
    partitions: list[tuple[str, int]],
    within_s: float,
    stopping: threading.Event | None = None,
) -> tuple[dict[tuple[str, int], list[tuple[int, str]]], bool]:
    """(offset, value) of every committed record of these partitions, and whether each was read to
    its last stable offset."""
    consumer: Any = confluent_kafka.Consumer(
        _LIBRARY
        | {
            "bootstrap.servers": bootstrap,
            "group.id": name,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(t, p, 0) for t, p in partitions])
    found: dict[tuple[str, int], list[tuple[int, str]]] = {at: [] for at in partitions}
    ended: set[tuple[str, int]] = set()
    until = time.monotonic() + within_s
    while len(ended) < len(partitions) and time.monotonic() < until:
        if stopping is not None and stopping.is_set():
            break
        for message in consumer.consume(500, timeout=0.5):
            at = (message.topic(), message.partition())
            if message.error() is None:
                found[at].append((message.offset(), message.value().decode()))
            elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
                ended.add(at)
    consumer.close()
    return found, len(ended) == len(partitions)


def committed_offsets(bootstrap: str, group: str) -> dict[int, int]:
    """A group's committed offsets of the inputs, by partition. Raises KafkaException."""
    consumer: Any = confluent_kafka.Consumer(
        _LIBRARY | {"bootstrap.servers": bootstrap, "group.id": group}
    )
    try:
        asked = [TopicPartition(INPUTS, p) for p in range(PARTITIONS)]
        return {tp.partition: tp.offset for tp in consumer.committed(asked, 10)}
    finally:
        consumer.close()
