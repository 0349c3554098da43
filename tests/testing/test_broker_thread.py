"""`pk.testing.broker`: a broker in a thread, from every kind of code, that leaves nothing
behind."""

import asyncio
import socket
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path
from typing import ClassVar

import pytest
import trio
from clients.apache_kafka import free_ports
from clients.pk_broker import pk_environment
from confluent_kafka import Consumer, Producer

import pk.testing
from pk.core.config import ConfigError
from pk.core.errors import ErrorCode, KafkaError
from pk.net.endpoints import StartError
from pk.testing import Broker, KafkaTestCase


def produced(url: str, topic: str, *values: str, **config: object) -> list[object]:
    """librdkafka's delivery result for each record."""
    said: list[object] = []
    producer = Producer({"bootstrap.servers": url, "log_level": 0} | config)
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: said.append(error))
    assert producer.flush(60) == 0
    return said


def read(url: str, topic: str, count: int) -> list[str]:
    consumer = Consumer(
        {"bootstrap.servers": url, "group.id": "g", "auto.offset.reset": "earliest", "log_level": 0}
    )
    try:
        consumer.subscribe([topic])
        values: list[str] = []
        while len(values) < count:
            message = consumer.poll(60)
            assert message is not None and message.error() is None
            values.append((message.value() or b"").decode())
        return values
    finally:
        consumer.close()


def test_a_client_writes_and_reads(capsys: pytest.CaptureFixture[str]) -> None:
    started = time.perf_counter()
    with pk.testing.broker() as kafka:
        ready_ms = (time.perf_counter() - started) * 1000
        kafka.create_topic("orders", 2, {"retention.ms": "-1"})
        assert produced(kafka.url, "orders", "a", "b") == [None, None]
        assert sorted(read(kafka.url, "orders", 2)) == ["a", "b"]
    with capsys.disabled():
        print(f"\na broker in this process is ready after {ready_ms:.1f} ms")


ALONE = """
import logging, os, socket, sys, threading
from pk.testing import Broker

ports = sys.argv[1:]

def on(port):
    return Broker({"listeners": f"PLAINTEXT://127.0.0.1:{port}"})

with Broker():
    pass  # what is imported or made once is there from here on
threads, descriptors = threading.enumerate(), sorted(os.listdir("/proc/self/fd"))
level = logging.getLogger().level
for first, second in zip(ports[::2], ports[1::2]):
    with on(first) as one, on(second) as other:
        one.create_topic("t")
        other.create_topic("t")
        with socket.create_connection(("127.0.0.1", one.port)) as client:
            client.sendall(bytes(2))
assert threading.enumerate() == threads, threading.enumerate()
assert sorted(os.listdir("/proc/self/fd")) == descriptors
assert logging.getLogger().level == level
"""


def test_nothing_is_left(tmp_path: Path) -> None:
    """Runs in a separate process, because leftovers of other tests may end at any time, and on
    ports that no other test gets, so that a listener found afterwards is a leftover."""
    ports = free_ports(6)
    done = subprocess.run(
        [sys.executable, "-c", ALONE, *map(str, ports)],
        check=False,
        cwd=tmp_path,
        env=pk_environment() | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.iterdir())
    for port in ports:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))


def test_brokers_do_not_know_each_other() -> None:
    with Broker() as one, Broker() as other:
        one.create_topic("t")
        other.create_topic("t")
        produced(one.url, "t", "x")
        assert [r.api for r in other.requests()] == []


def test_config() -> None:
    with Broker({"num.partitions": "7", "auto.create.topics.enable": "true"}) as kafka:
        produced(kafka.url, "new", "x")
        consumer = Consumer({"bootstrap.servers": kafka.url, "group.id": "g"})
        try:
            assert len(consumer.list_topics("new", 60).topics["new"].partitions) == 7
        finally:
            consumer.close()
    with pytest.raises(ConfigError, match="num.partitions"):
        Broker({"num.partitions": "many"})


def test_errors_reach_the_test() -> None:
    with Broker() as kafka:
        kafka.create_topic("t")
        with pytest.raises(KafkaError) as caught:
            kafka.create_topic("t")
        assert caught.value.code == ErrorCode.TOPIC_ALREADY_EXISTS
        with pytest.raises(RuntimeError, match="is already running"):
            kafka.start()
        taken = Broker({"listeners": f"PLAINTEXT://127.0.0.1:{kafka.port}"})
        with pytest.raises(StartError, match="in use"):
            taken.start()
        taken.stop()
    kafka.stop()  # again, which is nothing
    for use in (lambda: kafka.url, kafka.clear_faults):
        with pytest.raises(RuntimeError, match="is not running"):
            use()
    with kafka:
        assert kafka.create_topic("t") == "t", "a broker starts again, with nothing of before"


def test_in_trio() -> None:
    async def main() -> None:
        async with pk.testing.broker() as kafka:
            kafka.create_topic("t")
            assert await trio.to_thread.run_sync(produced, kafka.url, "t", "x") == [None]

    trio.run(main)


def test_in_asyncio() -> None:
    from aiokafka import AIOKafkaProducer

    async def main() -> None:
        async with pk.testing.broker() as kafka:
            kafka.create_topic("t")
            async with AIOKafkaProducer(bootstrap_servers=kafka.url) as producer:
                assert (await producer.send_and_wait("t", b"x")).offset == 0
            assert await asyncio.to_thread(kafka.wait_for_requests, "Produce")

    asyncio.run(main())


def test_in_unittest() -> None:
    class Case(KafkaTestCase):
        kafka_config: ClassVar = {"num.partitions": "2"}

        def test_it(self) -> None:
            self.kafka.create_topic("t")
            self.assertEqual(produced(self.kafka.url, "t", "x"), [None])

    result = unittest.TestResult()
    Case("test_it").run(result)
    assert result.wasSuccessful(), (result.errors, result.failures)
    assert not [t for t in threading.enumerate() if "pk.testing" in t.name]


def test_what_does_not_exist() -> None:
    with pytest.raises(AttributeError):
        _ = pk.testing.zookeeper  # type: ignore[attr-defined]
    with Broker() as kafka:
        with pytest.raises(ValueError, match="did you mean OffsetCommit"):
            kafka.requests("OffsetCommits")
        with pytest.raises(ValueError, match="did you mean NOT_LEADER_OR_FOLLOWER"):
            kafka.fail_next("Produce", "NOT_LEADER")
        with pytest.raises(TimeoutError, match="0 of 1 Produce"):
            kafka.wait_for_requests("Produce", timeout_s=0)
