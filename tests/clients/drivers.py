"""Five Kafka clients behind one small interface: write these records, read those topics.

Everything a client cannot express is said here, not in the tests: `can_write` (a console tool has
no syntax for binary keys) and `view` (kcat prints a null header as NULL).
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import aiokafka
import confluent_kafka
import kafka as kafka_python
from kafka.structs import TopicPartition

from clients import apache_kafka

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
READ_TIMEOUT_S = 90.0

Headers = tuple[tuple[str, bytes | None], ...]


class Rec(NamedTuple):
    """The parts of a record that every client must carry."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()


RECORDS = (
    Rec(b"k1", b"a long value, so that compression pays. " * 50),
    Rec(None, b"no key"),
    Rec(b"tombstone", None),
    Rec(b"", b""),
    Rec("schlüssel".encode(), "wörld ✓".encode()),
    Rec(b"h", b"v", (("one", b"1"), ("one", b"again"), ("empty", b""))),
    Rec(b"h0", b"v0", (("null", None),)),
    Rec(bytes(range(256)), bytes(range(256)) * 8, (("binary", b"\xff\x80\x01\x00\xfe"),)),
    *(Rec(b"k%d" % (n % 7), b"bulk %05d " % n * 20) for n in range(200)),
)


class Driver(Protocol):
    """One client library or tool."""

    name: str

    def missing(self) -> str | None:
        """Why it cannot run here, if it cannot."""
        ...

    def can_write(self, record: Rec) -> bool: ...

    def view(self, record: Rec) -> Rec:
        """The record as this client shows it to its reader."""
        ...

    def write(self, bootstrap: str, topic: str, records: Sequence[Rec], codec: str) -> None:
        """Writes to partition 0, in order, every record acknowledged on return."""
        ...

    def read(self, bootstrap: str, topics: dict[str, int]) -> dict[str, list[Rec]]:
        """Read this many records of each topic's partition 0 from its beginning."""
        ...


class _Library:
    """The base of the libraries' drivers, which can write and show everything."""

    def missing(self) -> str | None:
        return None

    def can_write(self, record: Rec) -> bool:
        return True

    def view(self, record: Rec) -> Rec:
        return record


class Confluent(_Library):
    """confluent-kafka, on librdkafka."""

    name = "confluent-kafka"

    def write(self, bootstrap: str, topic: str, records: Sequence[Rec], codec: str) -> None:
        failed: list[object] = []
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "linger.ms": 50,
                "enable.idempotence": True,
            }
        )
        for record in records:
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                headers=list(record.headers),
                partition=0,
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
        assert producer.flush(READ_TIMEOUT_S) == 0
        assert not failed, failed

    def read(self, bootstrap: str, topics: dict[str, int]) -> dict[str, list[Rec]]:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "check.crcs": True,
            }
        )
        found: dict[str, list[Rec]] = {topic: [] for topic in topics}
        try:
            consumer.assign([confluent_kafka.TopicPartition(t, 0, 0) for t in topics])
            deadline = time.monotonic() + READ_TIMEOUT_S
            while any(len(found[t]) < topics[t] for t in topics) and time.monotonic() < deadline:
                for message in consumer.consume(500, 0.5):
                    error = message.error()
                    assert not error, error
                    found[message.topic() or ""].append(
                        Rec(message.key(), message.value(), tuple(message.headers() or ()))  # type: ignore[arg-type]
                    )
        finally:
            consumer.close()
        return found


class KafkaPython(_Library):
    """kafka-python 3, pure Python."""

    name = "kafka-python"

    def can_write(self, record: Rec) -> bool:
        return all(value is not None for _, value in record.headers)

    def write(self, bootstrap: str, topic: str, records: Sequence[Rec], codec: str) -> None:
        compression: Any = None if codec == "none" else codec

        def headers(record: Rec) -> Any:
            return list(record.headers)

        producer = kafka_python.KafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=compression,
            linger_ms=50,
            acks="all",
        )
        try:
            sent = [
                producer.send(topic, each.value, each.key, headers=headers(each), partition=0)
                for each in records
            ]
            for future in sent:
                future.get(READ_TIMEOUT_S)
        finally:
            producer.close()

    def read(self, bootstrap: str, topics: dict[str, int]) -> dict[str, list[Rec]]:
        consumer = kafka_python.KafkaConsumer(
            bootstrap_servers=bootstrap, enable_auto_commit=False, check_crcs=True
        )
        found: dict[str, list[Rec]] = {topic: [] for topic in topics}
        try:
            partitions = [TopicPartition(topic, 0) for topic in topics]
            consumer.assign(partitions)
            consumer.seek_to_beginning(*partitions)
            deadline = time.monotonic() + READ_TIMEOUT_S
            while any(len(found[t]) < topics[t] for t in topics) and time.monotonic() < deadline:
                for partition, records in consumer.poll(500).items():
                    found[partition.topic] += [
                        Rec(r.key, r.value, tuple((k, v) for k, v in r.headers)) for r in records
                    ]
        finally:
            consumer.close()
        return found


class AioKafka(_Library):
    """aiokafka, on asyncio."""

    name = "aiokafka"

    def write(self, bootstrap: str, topic: str, records: Sequence[Rec], codec: str) -> None:
        compression: Any = None if codec == "none" else codec

        def headers(record: Rec) -> Any:  # a null value is sent despite its annotation
            return list(record.headers)

        async def run() -> None:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                compression_type=compression,
                linger_ms=50,
                enable_idempotence=True,
            )
            await producer.start()
            try:
                sent = [
                    await producer.send(
                        topic, each.value, each.key, headers=headers(each), partition=0
                    )
                    for each in records
                ]
                await asyncio.wait_for(asyncio.gather(*sent), READ_TIMEOUT_S)
            finally:
                await producer.stop()

        asyncio.run(run())

    def read(self, bootstrap: str, topics: dict[str, int]) -> dict[str, list[Rec]]:
        found: dict[str, list[Rec]] = {topic: [] for topic in topics}

        async def run() -> None:
            consumer = aiokafka.AIOKafkaConsumer(
                bootstrap_servers=bootstrap, enable_auto_commit=False, check_crcs=True
            )
            await consumer.start()
            try:
                partitions = [aiokafka.TopicPartition(topic, 0) for topic in topics]
                consumer.assign(partitions)
                await consumer.seek_to_beginning(*partitions)
                while any(len(found[topic]) < topics[topic] for topic in topics):
                    for partition, records in (await consumer.getmany(timeout_ms=500)).items():
                        found[partition.topic] += [
                            Rec(r.key, r.value, tuple(r.headers)) for r in records
                        ]
            finally:
                await consumer.stop()

        with contextlib.suppress(TimeoutError):  # the caller compares what came
            asyncio.run(asyncio.wait_for(run(), READ_TIMEOUT_S))
        return found


class Kcat:
    """kcat, the command-line tool on librdkafka."""

    name = "kcat"

    def missing(self) -> str | None:
        return None if shutil.which("kcat") else "kcat is not installed"

    def can_write(self, record: Rec) -> bool:
        # Headers travel in argv, messages between delimiters, and -Z makes every empty thing null.
        pieces = [record.key or b"", record.value or b""]
        pieces += [value or b"" for _, value in record.headers]
        return not any(byte < 32 for piece in pieces for byte in piece)

    def view(self, record: Rec) -> Rec:
        def shown(value: bytes | None) -> bytes:
            return b"NULL" if value is None else value.partition(b"\0")[0]

        return record._replace(headers=tuple((k, shown(v)) for k, v in record.headers))

    def write(self, bootstrap: str, topic: str, records: Sequence[Rec], codec: str) -> None:
        batches: list[list[Rec]] = []
        for record in records:
            same = batches and _kcat_flags(batches[-1][0]) == _kcat_flags(record)
            if same:
                batches[-1].append(record)
            else:
                batches.append([record])
        for batch in batches:
            lines = [
                (b"" if each.key is None else each.key + b"\x1f") + (each.value or b"")
                for each in batch
            ]
            command = ["kcat", "-P", "-b", bootstrap, "-t", topic, "-p", "0", "-z", codec]
            command += ["-D", "\x1e", "-K", "\x1f", "-X", "enable.idempotence=true"]
            command += ["-X", "linger.ms=50", *_kcat_flags(batch[0])]
            # A message ends with its delimiter, or an empty one at the end would not be one.
            text = b"".join(line + b"\x1e" for line in lines)
            ran = subprocess.run(
                command, check=False, input=text, capture_output=True, timeout=READ_TIMEOUT_S
            )
            assert ran.returncode == 0, ran.stderr.decode()

    def read(self, bootstrap: str, topics: dict[str, int]) -> dict[str, list[Rec]]:
        command = ["kcat", "-C", "-q", "-e", "-b", bootstrap, "-p", "0", "-o", "beginning"]
        command += ["-X", "check.crcs=true", "-f", "%K %S\n%k%s%h\x1e\x1d\n"]
        found = {}
        for topic in topics:
            ran = subprocess.run(
                [*command, "-t", topic], capture_output=True, check=False, timeout=120
            )
            assert ran.returncode == 0, ran.stderr.decode()
            found[topic] = _parse_kcat(ran.stdout)
        return found


def _kcat_flags(record: Rec) -> list[str]:
    flags = ["-Z"] if record.value is None else []
    for name, value in record.headers:
        flags += ["-H", name if value is None else f"{name}={value.decode()}"]
    return flags


def _parse_kcat(text: bytes) -> list[Rec]:
    found = []
    while text:
        lengths, _, text = text.partition(b"\n")
        key_size, value_size = map(int, lengths.split())
        key, text = text[: max(0, key_size)], text[max(0, key_size) :]
        value, text = text[: max(0, value_size)], text[max(0, value_size) :]
        headers, _, text = text.partition(b"\x1e\x1d\n")
        pairs = [each.partition(b"=") for each in headers.split(b",")] if headers else []
        found.append(
            Rec(
                None if key_size < 0 else key,
                None if value_size < 0 else value,
                tuple((name.decode(), content) for name, _, content in pairs),
            )
        )
    return found


class Console:
    """Apache's console producer and consumer, with the classic group protocol."""

    name = "apache-console"

    def missing(self) -> str | None:
        return apache_kafka.available()

    def can_write(self, record: Rec) -> bool:
        # A line cannot hold a newline or a tab; with headers on, "no headers" is an empty field.
        try:
            return not any(c < " " for c in ((record.key or b"") + (record.value or b"")).decode())
        except UnicodeDecodeError:
            return False

    def view(self, record: Rec) -> Rec:
        return record

    def write(self, bootstrap: str, topic: str, records: Sequence[Rec], codec: str) -> None:
        marker = "<null>"

        def text(value: bytes | None) -> str:
            return marker if value is None else value.decode()

        lines = []
        for each in records:
            headers = ",".join(f"{name}:{text(value)}" for name, value in each.headers) or marker
            lines.append(f"{headers}\t{text(each.key)}\t{text(each.value)}\n")
        options = ["--bootstrap-server", bootstrap, "--topic", topic]
        options += ["--compression-codec", codec, "--command-property", "linger.ms=50"]
        for item in ("parse.key=true", "parse.headers=true", f"null.marker={marker}"):
            options += ["--reader-property", item]
        ran = apache_kafka.run_tool(
            "org.apache.kafka.tools.ConsoleProducer", *options, input="".join(lines)
        )
        assert ran.returncode == 0 and "Error" not in ran.stderr, ran.stderr

    def read(self, bootstrap: str, topics: dict[str, int]) -> dict[str, list[Rec]]:
        found = {}
        for topic, count in topics.items():
            words = ["--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning"]
            words += ["--max-messages", str(count), "--timeout-ms", "60000"]
            words += ["--command-property", "group.protocol=classic"]
            words += _formatter("print.headers=true", "print.key=true", "key.separator=<|>")
            words += _formatter("headers.separator=<,>", "line.separator=<;>\n")
            words += _formatter("null.literal=<null>")
            ran = apache_kafka.run_tool("org.apache.kafka.tools.consumer.ConsoleConsumer", *words)
            assert ran.returncode == 0 and "ERROR" not in ran.stderr, ran.stderr
            lines = ran.stdout.encode(errors="surrogateescape").split(b"<;>\n")[:-1]
            found[topic] = [_parse_console(line) for line in lines]
        return found


def _formatter(*properties: str) -> list[str]:
    return [word for each in properties for word in ("--formatter-property", each)]


def _parse_console(line: bytes) -> Rec:
    def value(text: bytes) -> bytes | None:
        return None if text == b"<null>" else text

    headers, key, content = line.split(b"<|>")
    pairs = [] if headers == b"NO_HEADERS" else headers.split(b"<,>")
    split: list[Any] = [each.partition(b":") for each in pairs]
    return Rec(value(key), value(content), tuple((n.decode(), value(v)) for n, _, v in split))


DRIVERS: tuple[Driver, ...] = (Confluent(), KafkaPython(), AioKafka(), Kcat(), Console())
