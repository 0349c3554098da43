"""A client that is not the bottleneck: librdkafka's own C functions, through ctypes.

confluent-kafka's Python loop creates an object for each record and reaches about half a million
records a second, which is less than either broker can handle. Therefore this module calls the
library that confluent-kafka contains. `rd_kafka_produce_batch` takes ten thousand records per call.
To consume, it calls `rd_kafka_consume_callback_queue` with a C function of the library as the
callback (`rd_kafka_message_timestamp` reads a field and returns), so that no record becomes a
Python object. Delivery reports are passed to another such function (`rd_kafka_name`), on the thread
that sends, as in rdkafka_performance. Without a callback, librdkafka's own thread frees each
record, and waits for the lock with which the sending thread counts them.

Each measurement runs in a separate process, which prints one JSON object:

    python -m benchmark.rdkafka produce '{"bootstrap": ..., "topic": ..., ...}'
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from enum import Enum, auto
from pathlib import Path
from typing import Any, Self

import confluent_kafka

ERROR_TEXT_BYTES = 512
FLAG_BLOCK, FLAG_PARTITION = 0x4, 0x8
UNASSIGNED = -1
OFFSET_BEGINNING = -2
PRODUCER, CONSUMER = 0, 1
RECORDS_A_CALL = 10_000
KEY_BYTES = 12
FLUSH_TIMEOUT_MS = 120_000
EVENT_DELIVERY = 0x1
LEADER_ON_ITS_WAY = (3, 5, 6)  # unknown topic or partition, no leader, not the leader
WAIT_MS = 30_000


class Reports(Enum):
    """How a producer handles its delivery reports."""

    NONE = auto()
    QUEUED = auto()
    """`wait_for_report` reads them."""
    DROPPED = auto()
    """`rd_kafka_poll` passes them to a function that does nothing."""


class Message(ctypes.Structure):
    """librdkafka's rd_kafka_message_t."""

    _fields_ = (
        ("err", ctypes.c_int),
        ("topic", ctypes.c_void_p),
        ("partition", ctypes.c_int32),
        ("payload", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("key", ctypes.c_void_p),
        ("key_size", ctypes.c_size_t),
        ("offset", ctypes.c_int64),
        ("private", ctypes.c_void_p),
    )


def _load() -> ctypes.CDLL:
    package = Path(confluent_kafka.__file__).parent
    found = [
        *package.parent.glob("confluent_kafka.libs/librdkafka*"),
        *package.glob(".dylibs/librdkafka*"),
    ]
    # A confluent-kafka that was built from source uses the system's library.
    library = ctypes.CDLL(str(found[0]) if found else "librdkafka.so.1")
    pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
    i32, i64 = ctypes.c_int32, ctypes.c_int64
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "conf_new": (pointer, []),
        "conf_set": (ctypes.c_int, [pointer, text, text, text, size]),
        "new": (pointer, [ctypes.c_int, pointer, text, size]),
        "destroy": (None, [pointer]),
        "topic_new": (pointer, [pointer, text, pointer]),
        "topic_destroy": (None, [pointer]),
        "produce": (
            ctypes.c_int,
            [pointer, i32, ctypes.c_int, pointer, size, pointer, size, pointer],
        ),
        "produce_batch": (ctypes.c_int, [pointer, i32, ctypes.c_int, pointer, ctypes.c_int]),
        "flush": (ctypes.c_int, [pointer, ctypes.c_int]),
        "poll": (ctypes.c_int, [pointer, ctypes.c_int]),
        "outq_len": (ctypes.c_int, [pointer]),
        "query_watermark_offsets": (
            ctypes.c_int,
            [pointer, text, i32, ctypes.POINTER(i64), ctypes.POINTER(i64), ctypes.c_int],
        ),
        "queue_new": (pointer, [pointer]),
        "queue_destroy": (None, [pointer]),
        "consume_start": (ctypes.c_int, [pointer, i32, i64]),
        "consume_start_queue": (ctypes.c_int, [pointer, i32, i64, pointer]),
        "consume_stop": (ctypes.c_int, [pointer, i32]),
        "consume": (ctypes.POINTER(Message), [pointer, i32, ctypes.c_int]),
        "consume_callback_queue": (ctypes.c_int, [pointer, ctypes.c_int, pointer, pointer]),
        "message_destroy": (None, [ctypes.POINTER(Message)]),
        "err2str": (text, [ctypes.c_int]),
        "conf_set_events": (None, [pointer, ctypes.c_int]),
        "conf_set_dr_msg_cb": (None, [pointer, pointer]),
        "queue_get_main": (pointer, [pointer]),
        "queue_poll": (pointer, [pointer, ctypes.c_int]),
        "event_type": (ctypes.c_int, [pointer]),
        "event_message_next": (ctypes.POINTER(Message), [pointer]),
        "event_destroy": (None, [pointer]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, f"rd_kafka_{name}")
        function.restype, function.argtypes = result, arguments
    return library


class RdKafka:
    """A client handle and a topic handle. Both are closed at the end of the `with` block."""

    def __init__(
        self,
        kind: int,
        topic: str,
        config: Mapping[str, object],
        reports: Reports = Reports.NONE,
    ) -> None:
        self.library = _load()
        error = ctypes.create_string_buffer(ERROR_TEXT_BYTES)
        conf = self.library.rd_kafka_conf_new()
        for key, value in config.items():
            words = str(value).lower() if isinstance(value, bool) else str(value)
            code = self.library.rd_kafka_conf_set(
                conf, key.encode(), words.encode(), error, ERROR_TEXT_BYTES
            )
            if code:
                raise ValueError(error.value.decode())
        if reports is Reports.QUEUED:
            self.library.rd_kafka_conf_set_events(conf, EVENT_DELIVERY)
        elif reports is Reports.DROPPED:
            sink = ctypes.cast(self.library.rd_kafka_name, ctypes.c_void_p)
            self.library.rd_kafka_conf_set_dr_msg_cb(conf, sink)
        self.handle = self.library.rd_kafka_new(kind, conf, error, ERROR_TEXT_BYTES)
        if not self.handle:
            raise RuntimeError(error.value.decode())
        self.name = topic
        self.topic = self.library.rd_kafka_topic_new(self.handle, topic.encode(), None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.library.rd_kafka_topic_destroy(self.topic)
        self.library.rd_kafka_destroy(self.handle)

    def check(self, code: int) -> None:
        """Raise RuntimeError for an error code of the library."""
        if code:
            raise RuntimeError(self.library.rd_kafka_err2str(code).decode())

    def wait_for_report(self) -> None:
        """Wait for the delivery report of one record, sent by a client whose `reports` are QUEUED.
        This does not use rd_kafka_flush, which checks only every ten milliseconds.
        """
        library = self.library
        queue = library.rd_kafka_queue_get_main(self.handle)
        try:
            while event := library.rd_kafka_queue_poll(queue, FLUSH_TIMEOUT_MS):
                delivered = library.rd_kafka_event_type(event) == EVENT_DELIVERY
                code = delivered and library.rd_kafka_event_message_next(event).contents.err
                library.rd_kafka_event_destroy(event)
                if delivered:
                    return self.check(code)
        finally:
            library.rd_kafka_queue_destroy(queue)
        raise RuntimeError("no delivery report came")

    def end_offset(self, partition: int) -> int:
        """Return the high watermark, requested from the broker."""
        low, high = ctypes.c_int64(), ctypes.c_int64()
        ask, name = self.library.rd_kafka_query_watermark_offsets, self.name.encode()
        deadline = time.monotonic() + WAIT_MS / 1000
        # Metadata may name a new topic's leader before that broker knows that it leads.
        while (code := ask(self.handle, name, partition, low, high, WAIT_MS)) in LEADER_ON_ITS_WAY:
            if time.monotonic() > deadline:
                break
            time.sleep(0.02)
        self.check(code)
        return high.value


def _batch(
    size: int, partitions: int, *, keyed: bool = False
) -> tuple[ctypes.Array[Message], object]:
    """Return records that can be sent repeatedly, and the objects that they need. With keys, each
    record has a different key."""
    payload = ctypes.create_string_buffer(os.urandom(size), size)
    keys = [ctypes.create_string_buffer(b"key-%08d" % n, KEY_BYTES) for n in range(RECORDS_A_CALL)]
    messages = (Message * RECORDS_A_CALL)()
    for n, message in enumerate(messages):
        message.payload = ctypes.addressof(payload)
        message.size = size
        message.partition = n % partitions
        if keyed:
            message.key, message.key_size = ctypes.addressof(keys[n]), KEY_BYTES
    return messages, (payload, keys)


def produce(options: Mapping[str, Any]) -> dict[str, float]:
    """Send `count` records of `size` bytes to `partitions`, and wait until all are acknowledged.
    Returns the seconds that this took. The end offsets are checked instead of the single reports.
    """
    count, partitions = options["count"], options["partitions"]
    queued_max = options["config"]["queue.buffering.max.messages"]
    with RdKafka(PRODUCER, options["topic"], options["config"], Reports.DROPPED) as client:
        before = sum(client.end_offset(p) for p in range(partitions))
        keyed = options.get("keyed", False)
        messages, _payload = _batch(options["size"], partitions, keyed=keyed)
        library, handle = client.library, client.handle
        start = time.perf_counter()
        left = count
        while left:
            several = min(RECORDS_A_CALL, left)
            while library.rd_kafka_outq_len(handle) + several > queued_max:
                library.rd_kafka_poll(handle, FLUSH_TIMEOUT_MS)
            send = library.rd_kafka_produce_batch
            if send(client.topic, UNASSIGNED, FLAG_PARTITION, messages, several) != several:
                raise RuntimeError("a record was not queued")
            library.rd_kafka_poll(handle, 0)
            left -= several
        client.check(library.rd_kafka_flush(handle, FLUSH_TIMEOUT_MS))
        seconds = time.perf_counter() - start
        arrived = sum(client.end_offset(p) for p in range(partitions)) - before
        if arrived != count:
            raise RuntimeError(f"{count} records sent, {arrived} arrived")
    return {"seconds": seconds}


def round_trip(options: Mapping[str, Any]) -> dict[str, list[float]]:
    """Send one record and wait until it is acknowledged, `count` times. Returns the milliseconds of
    each."""
    times = []
    with RdKafka(PRODUCER, options["topic"], options["config"], Reports.QUEUED) as client:
        messages, _payload = _batch(options["size"], 1)
        for n in range(options["count"] + options["warm"]):
            start = time.perf_counter()
            _send_one(client, messages[0])
            client.wait_for_report()
            if n >= options["warm"]:
                times.append((time.perf_counter() - start) * 1000)
    return {"times_ms": times}


def _send_one(client: RdKafka, message: Message) -> None:
    code = client.library.rd_kafka_produce(
        client.topic, 0, FLAG_BLOCK, message.payload, message.size, None, 0, None
    )
    if code:
        raise RuntimeError("a record was not queued")


def end_to_end(options: Mapping[str, Any]) -> dict[str, list[float]]:
    """Send one record and wait until a consumer has received it, `count` times. Returns the
    milliseconds of each."""
    times = []
    base = {"bootstrap.servers": options["config"]["bootstrap.servers"], "log_level": 0}
    with (
        RdKafka(PRODUCER, options["topic"], options["config"]) as sender,
        RdKafka(CONSUMER, options["topic"], base) as reader,
    ):
        messages, _payload = _batch(options["size"], 1)
        library = reader.library
        library.rd_kafka_consume_start(reader.topic, 0, reader.end_offset(0))
        for n in range(options["count"] + options["warm"]):
            start = time.perf_counter()
            _send_one(sender, messages[0])
            while True:
                message = library.rd_kafka_consume(reader.topic, 0, WAIT_MS)
                if not message:
                    raise RuntimeError("no record arrived")
                arrived = message.contents.err == 0  # otherwise it reports the partition's end
                library.rd_kafka_message_destroy(message)
                if arrived:
                    break
            if n >= options["warm"]:
                times.append((time.perf_counter() - start) * 1000)
        library.rd_kafka_consume_stop(reader.topic, 0)
    return {"times_ms": times}


def consume(options: Mapping[str, Any]) -> dict[str, float]:
    """Read `count` records of all partitions from their start. Returns the seconds that this
    took."""
    count, partitions = options["count"], options["partitions"]
    with RdKafka(CONSUMER, options["topic"], options["config"]) as client:
        library = client.library
        queue = library.rd_kafka_queue_new(client.handle)
        sink = ctypes.cast(library.rd_kafka_message_timestamp, ctypes.c_void_p)
        start = time.perf_counter()
        for partition in range(partitions):
            library.rd_kafka_consume_start_queue(client.topic, partition, OFFSET_BEGINNING, queue)
        seen = 0
        idle_since = start
        while seen < count:
            several = library.rd_kafka_consume_callback_queue(queue, 100, sink, None)
            now = time.perf_counter()
            if several > 0:
                seen, idle_since = seen + several, now
            elif now - idle_since > WAIT_MS / 1000:
                raise RuntimeError(f"{seen} of {count} records arrived")
        seconds = time.perf_counter() - start
        for partition in range(partitions):
            library.rd_kafka_consume_stop(client.topic, partition)
        library.rd_kafka_queue_destroy(queue)
    return {"seconds": seconds}


def first_acknowledged(options: Mapping[str, Any]) -> dict[str, float]:
    """Wait for the acknowledgement of one record. Returns the time (time.time) at which it
    arrived."""
    with RdKafka(PRODUCER, options["topic"], options["config"], Reports.QUEUED) as client:
        messages, _payload = _batch(options["size"], 1)
        print("ready", flush=True)
        _send_one(client, messages[0])
        client.wait_for_report()
        return {"at": time.time()}


WORK: dict[str, Callable[[Mapping[str, Any]], Mapping[str, object]]] = {
    each.__name__: each for each in (produce, round_trip, end_to_end, consume, first_acknowledged)
}

if __name__ == "__main__":
    print(json.dumps(WORK[sys.argv[1]](json.loads(sys.argv[2]))))
