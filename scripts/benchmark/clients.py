"""Compares Python clients with one broker of pk: records per second, and the client's CPU time for
a million records.

Each client produces records to a partition of its own and then reads them, one record at a time, as
programs do: it calls `send` for each, and loops over the records. The time is measured from the
second record on, which leaves out connecting and other work that a client does once. The clients
take turns, in processes of their own; a figure is the median of the rounds. The settings are the
same: acks=all, linger 5 ms, batches of 64 kB, and no idempotence for clients that do not have it.

    scripts/bench --client
    scripts/bench --client --quick
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, cast

from clients import apache_kafka
from rich.console import Console
from rich.table import Table

from benchmark.systems import Pk

CASES = (("100 B", 100, 200_000), ("10 kB", 10_000, 10_000))
CODECS = ("none", "lz4")
LINGER_MS = 5
BATCH_BYTES = 65_536
ROUNDS = 3

Figures = dict[str, float]
"""Name of a step → seconds, and with `-cpu` seconds of CPU time."""


class Clock:
    """Measures the time and the CPU time of one step."""

    def __init__(self, figures: Figures, name: str) -> None:
        self._figures = figures
        self._name = name

    def __enter__(self) -> None:
        self._began, self._cpu = time.perf_counter(), time.process_time()

    def __exit__(self, *_: object) -> None:
        self._figures[self._name] = time.perf_counter() - self._began
        self._figures[f"{self._name}-cpu"] = time.process_time() - self._cpu


def value_of(size: int) -> bytes:
    """Return a value that compresses to about half its size."""
    return os.urandom(size // 2).hex().encode()[:size]


def pk_config(codec: str) -> dict[str, object]:
    return {"linger.ms": LINGER_MS, "batch.size": BATCH_BYTES, "compression.type": codec}


def pk_trio(servers: str, topic: str, value: bytes, count: int, codec: str) -> Figures:
    import trio

    from pk.client import open_consumer, open_producer

    figures: Figures = {}

    async def main() -> None:
        async with open_producer(servers, pk_config(codec)) as producer:
            await (await producer.send(topic, value))
            with Clock(figures, "produce"):
                for _ in range(count):
                    await producer.send(topic, value)
                await producer.flush()
        async with open_consumer(servers, {"auto.offset.reset": "earliest"}) as consumer:
            consumer.assign(await consumer.partitions(topic))
            read, records = 0, aiter(consumer)
            await anext(records)
            with Clock(figures, "consume"):
                async for _ in records:
                    read += 1
                    if read == count:
                        break

    trio.run(main)
    return figures


def pk_asyncio(servers: str, topic: str, value: bytes, count: int, codec: str) -> Figures:
    from pk.client.aio import open_consumer, open_producer

    figures: Figures = {}

    async def main() -> None:
        async with open_producer(servers, pk_config(codec)) as producer:
            await (await producer.send(topic, value))
            with Clock(figures, "produce"):
                for _ in range(count):
                    await producer.send(topic, value)
                await producer.flush()
        async with open_consumer(servers, {"auto.offset.reset": "earliest"}) as consumer:
            consumer.assign(await consumer.partitions(topic))
            read, records = 0, aiter(consumer)
            await anext(records)
            with Clock(figures, "consume"):
                async for _ in records:
                    read += 1
                    if read == count:
                        break

    asyncio.run(main())
    return figures


def pk_blocking(servers: str, topic: str, value: bytes, count: int, codec: str) -> Figures:
    from pk.client.blocking import open_consumer, open_producer

    figures: Figures = {}
    with open_producer(servers, pk_config(codec)) as producer:
        producer.send(topic, value).result()
        with Clock(figures, "produce"):
            for _ in range(count):
                producer.send(topic, value)
            producer.flush()
    with open_consumer(servers, {"auto.offset.reset": "earliest"}) as consumer:
        consumer.assign(consumer.partitions(topic))
        read, records = 0, iter(consumer)
        next(records)
        with Clock(figures, "consume"):
            for _ in records:
                read += 1
                if read == count:
                    break
    return figures


def aiokafka_client(servers: str, topic: str, value: bytes, count: int, codec: str) -> Figures:
    import aiokafka

    figures: Figures = {}

    async def main() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=servers,
            acks="all",
            linger_ms=LINGER_MS,
            max_batch_size=BATCH_BYTES,
            compression_type=cast(Any, None if codec == "none" else codec),
        )
        await producer.start()
        try:
            await producer.send_and_wait(topic, value)
            with Clock(figures, "produce"):
                for _ in range(count):
                    await producer.send(topic, value)
                await producer.flush()
        finally:
            await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(
            topic, bootstrap_servers=servers, auto_offset_reset="earliest", group_id=None
        )
        await consumer.start()
        try:
            read, records = 0, aiter(consumer)
            await anext(records)
            with Clock(figures, "consume"):
                async for _ in records:
                    read += 1
                    if read == count:
                        break
        finally:
            await consumer.stop()

    asyncio.run(main())
    return figures


def kafka_python(servers: str, topic: str, value: bytes, count: int, codec: str) -> Figures:
    import kafka

    figures: Figures = {}
    producer: Any = kafka.KafkaProducer(
        bootstrap_servers=servers,
        acks="all",
        linger_ms=LINGER_MS,
        batch_size=BATCH_BYTES,
        compression_type=cast(Any, None if codec == "none" else codec),
    )
    with closing(producer):
        producer.send(topic, value).get(30)
        with Clock(figures, "produce"):
            for _ in range(count):
                producer.send(topic, value)
            producer.flush()
    consumer: Any = kafka.KafkaConsumer(
        topic, bootstrap_servers=servers, auto_offset_reset="earliest", group_id=None
    )
    with closing(consumer):
        read, records = 0, iter(consumer)
        next(records)
        with Clock(figures, "consume"):
            for _ in records:
                read += 1
                if read == count:
                    break
    return figures


def confluent(servers: str, topic: str, value: bytes, count: int, codec: str) -> Figures:
    import confluent_kafka

    figures: Figures = {}
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": servers,
            "acks": "all",
            "linger.ms": LINGER_MS,
            "batch.size": BATCH_BYTES,
            "compression.type": codec,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    producer.produce(topic, value)
    producer.flush()
    with Clock(figures, "produce"):
        for number in range(count):
            producer.produce(topic, value)
            if number % 1000 == 0:
                producer.poll(0)
        producer.flush()
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    read = 0
    while consumer.poll(30) is None:
        pass
    with Clock(figures, "consume"):
        while read < count:
            read += consumer.poll(30) is not None
    consumer.close()
    return figures


CLIENTS: dict[str, Callable[[str, str, bytes, int, str], Figures]] = {
    "pk, trio": pk_trio,
    "pk, asyncio": pk_asyncio,
    "aiokafka": aiokafka_client,
    "pk, blocking": pk_blocking,
    "kafka-python": kafka_python,
    "confluent-kafka": confluent,
}

BESIDE = {"pk, asyncio": "aiokafka", "pk, blocking": "kafka-python"}
"""A client of pk → the client that it is compared with."""


def measure(name: str, servers: str, topic: str, size: int, count: int, codec: str) -> Figures:
    """Measure a client in a process of its own."""
    words = [sys.executable, "-m", "benchmark.clients", "--measure", name, "--servers", servers]
    words += ["--topic", topic, "--size", str(size), "--count", str(count), "--codec", codec]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise SystemExit(f"{name} failed:\n{ran.stderr}")
    return json.loads(ran.stdout.splitlines()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/bench --client", description="Measures Python clients beside each other."
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the records, one round")
    parser.add_argument("--rounds", type=int, help=f"rounds (default {ROUNDS})")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--servers", help=argparse.SUPPRESS)
    parser.add_argument("--topic", help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--codec", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        value = value_of(options.size)
        run = CLIENTS[options.measure]
        figures = run(options.servers, options.topic, value, options.count, options.codec)
        print(json.dumps(figures))
        return 0
    rounds = options.rounds or (1 if options.quick else ROUNDS)
    found: dict[tuple[str, str, str, str], list[float]] = {}
    log = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="pk-bench-") as folder:
        broker = Pk(Path(folder) / "data", apache_kafka.free_ports(1)[0])
        broker.start()
        broker.wait_until_ready()
        try:
            for number in range(rounds):
                for label, size, full in CASES:
                    count = full // 10 if options.quick else full
                    for codec in CODECS:
                        names = list(CLIENTS) if number % 2 == 0 else list(CLIENTS)[::-1]
                        for name in names:
                            log.print(f"round {number + 1}: {name}, {label}, {codec}")
                            topic = f"{name.replace(', ', '-')}-{size}-{codec}-{number}"
                            figures = measure(name, broker.bootstrap, topic, size, count, codec)
                            for step in ("produce", "consume"):
                                key = (step, label, codec)
                                a_second = count / figures[step]
                                found.setdefault((*key, name), []).append(a_second)
                                cpu = figures[f"{step}-cpu"] / count * 1e6
                                found.setdefault((*key, f"{name} cpu"), []).append(cpu)
        finally:
            broker.close()
    show({key: statistics.median(values) for key, values in found.items()})
    return 0


def show(found: dict[tuple[str, str, str, str], float]) -> None:
    """Print the table: thousands of records a second, and seconds of CPU time for a million
    records. The last columns have the ratio of pk's client to the client that it is compared
    with."""
    table = Table(title="1,000 records a second (seconds of CPU time for a million records)")
    table.add_column("")
    for name in CLIENTS:
        table.add_column(name, justify="right")
    for ours, theirs in BESIDE.items():
        table.add_column(f"{ours.removeprefix('pk, ')} / {theirs}", justify="right")
    for step, label, codec in dict.fromkeys(key[:3] for key in found):
        key = (step, label, codec)
        cells = [
            f"{found[(*key, name)] / 1000:,.0f} ({found[(*key, f'{name} cpu')]:.1f})"
            for name in CLIENTS
        ]
        ratios = [
            f"{found[(*key, ours)] / found[(*key, theirs)]:.1f}" for ours, theirs in BESIDE.items()
        ]
        table.add_row(f"{step} {label} {codec}", *cells, *ratios)
    Console(width=None if sys.stdout.isatty() else 200).print(table)


if __name__ == "__main__":
    sys.exit(main())
