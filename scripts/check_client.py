"""Checks pk-client in an environment that has nothing else: its dependencies, how long its import
takes, and a record produced and consumed on trio, on asyncio and without an event loop.

    python -I scripts/check_client.py BOOTSTRAP
"""

import asyncio
import importlib.util
import subprocess
import sys
import time
from importlib.metadata import distributions

import trio

import pk.client
import pk.client.aio
import pk.client.blocking

ABSENT = ("cbor2", "pk.cli", "prompt_toolkit", "re2", "rich", "tomlkit", "typer")
ROUNDS = 10
EARLIEST = {"auto.offset.reset": "earliest"}


def start_ms(program: str) -> float:
    """Return the shortest time that Python takes for a program, in milliseconds: other load only
    adds to it."""
    times: list[float] = []
    for _ in range(ROUNDS):
        before = time.perf_counter()
        subprocess.run([sys.executable, "-I", "-c", program], check=True)
        times.append((time.perf_counter() - before) * 1000)
    return min(times)


async def on_trio(servers: str, topic: str) -> bytes | None:
    """Produce a record and consume it."""
    async with pk.client.open_producer(servers) as producer:
        await (await producer.send(topic, b"trio"))
    async with pk.client.open_consumer(servers, EARLIEST) as consumer:
        consumer.assign(await consumer.partitions(topic))
        return (await consumer.poll())[0].value


async def on_asyncio(servers: str, topic: str) -> bytes | None:
    """Produce a record and consume it."""
    async with pk.client.aio.open_producer(servers) as producer:
        await (await producer.send(topic, b"asyncio"))
    async with pk.client.aio.open_consumer(servers, EARLIEST) as consumer:
        consumer.assign(await consumer.partitions(topic))
        return (await consumer.poll())[0].value


def without_a_loop(servers: str, topic: str) -> bytes | None:
    """Produce a record and consume it."""
    with pk.client.blocking.open_producer(servers) as producer:
        producer.send(topic, b"blocking").result()
    with pk.client.blocking.open_consumer(servers, EARLIEST) as consumer:
        consumer.assign(consumer.partitions(topic))
        return consumer.poll()[0].value


def main(servers: str) -> None:
    """Run the checks. Raises AssertionError if one fails."""
    found = [name for name in ABSENT if importlib.util.find_spec(name) is not None]
    assert not found, found
    assert trio.run(on_trio, servers, "on-trio") == b"trio"
    assert asyncio.run(on_asyncio(servers, "on-asyncio")) == b"asyncio"
    assert without_a_loop(servers, "without-a-loop") == b"blocking"
    bare = start_ms("")
    alone = start_ms("import pk.client")
    used = start_ms("from pk.client import open_consumer, open_producer")
    names = sorted({each.name for each in distributions()} - {"pip", "setuptools"})
    print(
        f"pk-client alone: {', '.join(names)}. `import pk.client` takes {alone - bare:.0f} ms, "
        f"with a producer and a consumer {used - bare:.0f} ms; Python starts in {bare:.0f} ms."
    )


if __name__ == "__main__":
    main(sys.argv[1])
