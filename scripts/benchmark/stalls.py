"""Measures how long one large request delays other clients.

For each kind of request and each array in it, a request with that array full (10,000 elements, or
`--elements`) is sent three times. `Fetch topics` names this many topics with one partition each,
and `Fetch topics.partitions` names one topic with this many partitions. The table shows for each,
in milliseconds:

- hold: the longest time that a task of the broker ran without yielding to the loop, in CPU time,
  which does not depend on other load, and the task's name;
- collector: the longest garbage collection, which is part of a hold;
- produce p99 and max: how long another client, which sends a record every two milliseconds, waited
  for its answers meanwhile.

While a request names 10,000 elements, another client's p99 must stay below 20 ms. While a request
names 100,000, the maximum (`pk.request.elements.max`), it must stay below 150 ms. An array whose
elements have arrays of their own then has fewer elements, as many as a request may name.

With `--partitions 50000`, the cluster has this many partitions, and the requests are those whose
answers cover all partitions; p99 must stay below 150 ms.

The first row is without a large request, and shows how long the machine itself makes the client
wait. With `--consumers 1000`, this many consumers of 100 partitions each poll at the same time, and
find nothing.

    scripts/bench --stalls --consumers 1000 --only OffsetCommit
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path as FilePath
from threading import Thread
from time import thread_time
from typing import Any, cast

import msgspec
import trio
from large_requests import Names, Path, kinds, large, name_of
from rich.console import Console
from rich.table import Table

from pk.core.config import BrokerConfig
from pk.core.record.build import build_batch
from pk.core.wire.codec import decode_whole
from pk.core.wire.header import frame_request, parse_response_header
from pk.core.wire.index import MESSAGES
from pk.core.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pk.core.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from pk.core.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from pk.core.wire.messages.elect_leaders import ElectLeadersRequest
from pk.core.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from pk.core.wire.messages.find_coordinator import FindCoordinatorRequest
from pk.core.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pk.core.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from pk.core.wire.messages.metadata import MetadataRequest
from pk.core.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pk.core.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from pk.core.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pk.core.wire.schema import Request
from pk.net.node import Node, run_node

ELEMENTS = 10_000
ELEMENTS_MAX = BrokerConfig.parse({"node.id": "1"}).pk_request_elements_max
TIMES = 3
PAUSE_S = 0.002
TOPIC, PRODUCED, PARTITIONS, GROUP = "stalls", "produced", 1000, "stalls"
ANSWER_S = 900.0
POLLED = 100
SETTLE_S = 5.0
QUIET_S = 3.0


@dataclass(eq=False)
class Holds(trio.abc.Instrument):
    """Measures the longest step of any task since the last call of `take`."""

    longest_s: float = 0.0
    task: str = ""
    collected_s: float = 0.0
    """The longest garbage collection."""
    _begun: float = field(default=0.0, repr=False)
    _collecting: float = field(default=0.0, repr=False)

    def collector(self, phase: str, _: dict[str, int]) -> None:
        """Measure a garbage collection; a callback of `gc`."""
        if phase == "start":
            self._collecting = thread_time()
        else:
            self.collected_s = max(self.collected_s, thread_time() - self._collecting)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._begun = thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        took_s = thread_time() - self._begun
        if took_s > self.longest_s:
            self.longest_s, self.task = took_s, task.name.rpartition("pk.")[2]

    def take(self) -> tuple[float, str, float]:
        """Return the longest step in seconds, its task, and the longest garbage collection, since
        the last call."""
        found = self.longest_s, self.task, self.collected_s
        self.longest_s, self.task, self.collected_s = 0.0, "", 0.0
        return found


def serve(directory: str, pipe: Connection) -> None:
    """Run a broker, in a process of its own. It sends its port, and for each message from `pipe`
    the longest step since the last message."""
    holds = Holds()
    gc.callbacks.append(holds.collector)

    def answer() -> None:
        while pipe.recv():
            pipe.send(holds.take())
        os.kill(os.getpid(), 15)

    def ready(node: Node) -> None:
        pipe.send(node.listeners[0].advertised.port)
        Thread(target=answer, daemon=True).start()

    config = BrokerConfig.parse(
        {
            "node.id": "1",
            "log.dirs": directory,
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
        }
    )

    async def main() -> None:
        await run_node(config, ready=ready)

    trio.run(main, instruments=[holds])


class Client:
    """A connection that sends one request at a time and waits for its answer."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request: Any, version: int) -> bytes:
        """Return the frame of the answer to a request."""
        return self.send(frame_request(request, version, 1, "stalls"))

    def send(self, frame: bytes) -> bytes:
        self._socket.sendall(frame)
        return self._read(int.from_bytes(self._read(4), "big"))

    def call(self, request: Any, version: int) -> Any:
        """Return the answer to a request."""
        frame = self.ask(request, version)
        _, position = parse_response_header(frame, request.API_KEY, version)
        return decode_whole(MESSAGES[request.API_KEY].response, frame, version, position)

    def _read(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            piece = self._socket.recv(min(count - len(data), 1 << 20))
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)


def produce(port: int, pipe: Connection) -> None:
    """Run another client, in a process of its own. For each message from `pipe`, it sends how long
    it waited for each answer since the last message."""
    client = Client(port)
    batch = build_batch([(int(time.time() * 1000), None, bytes(100), ())])
    data = PartitionProduceData(index=0, records=batch)
    topic = TopicProduceData(name=PRODUCED, partition_data=[data])
    frame = frame_request(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic]), 9, 1, "p")
    took_s: list[float] = []
    while True:
        started = time.perf_counter()
        client.send(frame)
        took_s.append(time.perf_counter() - started)
        if pipe.poll(PAUSE_S):
            if not pipe.recv():
                return
            pipe.send(took_s)
            took_s = []


async def _poll(port: int, topic_id: bytes, first: int) -> None:
    """Poll partitions without writers as one consumer, in a fetch session."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    data = bytearray()

    async def read(count: int) -> bytes:
        while len(data) < count:
            data.extend(await stream.receive_some(1 << 16) or b"")
        piece = bytes(data[:count])
        del data[:count]
        return piece

    numbers = [(first + i) % PARTITIONS for i in range(POLLED)]
    topic = FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition=n) for n in numbers])
    session_id, epoch, topics = 0, 0, [topic]
    while True:
        wish = FetchRequest(
            session_id=session_id,
            session_epoch=epoch,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=topics,
        )
        await stream.send_all(frame_request(wish, 17, 1, "idle"))
        frame = await read(int.from_bytes(await read(4), "big"))
        _, position = parse_response_header(frame, 1, 17)
        session_id = decode_whole(FetchResponse, frame, 17, position).session_id
        epoch, topics = epoch + 1, []


def consume(port: int, topic_id: bytes, count: int, pipe: Connection) -> None:
    """Run idle consumers, in a process of their own."""

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for number in range(count):
                nursery.start_soon(_poll, port, topic_id, number * POLLED)
            await trio.sleep(SETTLE_S)
            pipe.send("ready")
            await trio.to_thread.run_sync(pipe.recv)
            nursery.cancel_scope.cancel()

    trio.run(main)


@contextmanager
def process(target: Callable[..., None], *args: Any) -> Iterator[Connection]:
    """Run `target(*args, pipe)` in a process of its own. A false message ends it."""
    context = multiprocessing.get_context("spawn")
    ours, its = context.Pipe()
    started = context.Process(target=target, args=(*args, its))
    started.start()
    its.close()
    try:
        yield ours
        ours.send(None)
    finally:
        started.join(10)
        started.kill()


def prepare(client: Client) -> Names:
    """Create the topics, and wait for the coordinators of the group and the transactional id."""
    topics = [
        CreatableTopic(name=name, num_partitions=count, replication_factor=1)
        for name, count in ((TOPIC, PARTITIONS), (PRODUCED, 1))
    ]
    made = client.call(CreateTopicsRequest(topics=topics, timeout_ms=30_000), 7)
    for kind in (0, 1):
        for _ in range(200):
            wish = FindCoordinatorRequest(key_type=kind, coordinator_keys=[GROUP])
            if not client.call(wish, 6).coordinators[0].error_code:
                break
            time.sleep(0.05)
    return Names(TOPIC, made.topics[0].topic_id, PARTITIONS, GROUP)


def fill(client: Client, partitions: int) -> dict[str, bytes]:
    """Create topics with `partitions` in total. Returns name → id."""
    topics: dict[str, bytes] = {}
    for number in range(partitions // PARTITIONS):
        topic = CreatableTopic(
            name=f"all-{number}", num_partitions=PARTITIONS, replication_factor=1
        )
        made = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=120_000), 7).topics[0]
        if made.error_code:
            raise RuntimeError(f"{made.name}: {made.error_message}")
        topics[made.name] = made.topic_id
    return topics


Frame = Callable[[], bytes]
"""Encodes a request. This is a function because encoding 100,000 elements takes a second, and only
requests that are measured are encoded."""


def framed(request: Any, version: int) -> bytes:
    """Return the frame of a request."""
    return frame_request(request, version, 1, "stalls")


def things(part: Any) -> int:
    """Return how many elements the arrays of a request, or of a part of one, have in total."""
    if isinstance(part, list):
        elements = cast("list[Any]", part)
        return len(elements) + sum(map(things, elements))
    if isinstance(part, msgspec.Struct):
        return sum(things(getattr(part, name)) for name in part.__struct_fields__)
    return 0


def plain(names: Names, elements: int) -> Iterator[tuple[str, Frame]]:
    """Yield each array of each request in the schema as (name, function that encodes a request with
    that array full)."""

    def made(kind: tuple[type[Request[Any]], int, Path]) -> bytes:
        one, two = (things(large(*kind, count, names).request) for count in (1, 2))
        fits = (ELEMENTS_MAX - one) // (two - one) + 1
        return framed(large(*kind, min(elements, fits), names).request, kind[1])

    for kind in kinds():
        yield name_of(kind), partial(made, kind)


def special(names: Names, elements: int) -> Iterator[tuple[str, Frame]]:
    """Yield requests that the schema alone does not give: they leave or find a certain state."""

    def numbers() -> list[int]:
        return [i % names.partitions for i in range(min(elements, ELEMENTS_MAX - 1))]

    def fetch(session_epoch: int, max_wait_ms: int, topics: list[FetchTopic]) -> bytes:
        request = FetchRequest(
            session_epoch=session_epoch,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=topics,
        )
        return framed(request, 17)

    def one_topic() -> list[FetchTopic]:
        partitions = [FetchPartition(partition=number) for number in numbers()]
        return [FetchTopic(topic_id=names.topic_id, partitions=partitions)]

    def many_topics() -> list[FetchTopic]:
        return [
            FetchTopic(topic_id=i.to_bytes(16, "big"), partitions=[FetchPartition()])
            for i in range(1, min(elements, ELEMENTS_MAX // 2) + 1)
        ]

    def everything() -> bytes:
        group = OffsetFetchRequestGroup(group_id=GROUP, topics=None)
        return framed(OffsetFetchRequest(groups=[group]), 9)

    def commit() -> bytes:
        partitions = [
            OffsetCommitRequestPartition(partition_index=number, committed_offset=5)
            for number in numbers()
        ]
        topic = OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)
        return framed(OffsetCommitRequest(group_id=GROUP, topics=[topic]), 8)

    yield "Fetch topics.partitions, waiting", lambda: fetch(-1, 100, one_topic())
    yield "Fetch topics.partitions, a new session", lambda: fetch(0, 0, one_topic())
    yield "Fetch topics, a new session", lambda: fetch(0, 0, many_topics())
    yield "OffsetFetch all that is committed", everything
    yield "OffsetCommit topics.partitions, v8", commit


def of_all(topics: dict[str, bytes]) -> Iterator[tuple[str, Frame]]:
    """Yield requests whose answers cover all partitions of these topics (name → id)."""

    def list_offsets() -> bytes:
        listed = [
            ListOffsetsTopic(
                name=name,
                partitions=[
                    ListOffsetsPartition(partition_index=i, timestamp=-1) for i in range(PARTITIONS)
                ],
            )
            for name in topics
        ]
        return framed(ListOffsetsRequest(topics=listed), 9)

    def fetch(max_wait_ms: int, session_epoch: int) -> bytes:
        fetched = [
            FetchTopic(
                topic_id=topic_id,
                partitions=[FetchPartition(partition=i) for i in range(PARTITIONS)],
            )
            for topic_id in topics.values()
        ]
        return framed(
            FetchRequest(
                max_wait_ms=max_wait_ms,
                min_bytes=1,
                max_bytes=1 << 20,
                session_epoch=session_epoch,
                topics=fetched,
            ),
            17,
        )

    yield "Metadata of all", lambda: framed(MetadataRequest(topics=None), 13)
    yield "DescribeTopicPartitions of all", lambda: framed(DescribeTopicPartitionsRequest(), 0)
    yield "DescribeLogDirs of all", lambda: framed(DescribeLogDirsRequest(topics=None), 4)
    yield "ListPartitionReassignments", lambda: framed(ListPartitionReassignmentsRequest(), 0)
    yield "ElectLeaders of all", lambda: framed(ElectLeadersRequest(topic_partitions=None), 2)
    yield "ListOffsets of all", list_offsets
    yield "Fetch of all", lambda: fetch(0, -1)
    yield "Fetch of all, waiting", lambda: fetch(100, -1)
    yield "Fetch of all, a new session", lambda: fetch(0, 0)


@dataclass
class Figures:
    """The figures of one kind of request, in milliseconds."""

    name: str
    hold: float
    task: str
    collected: float
    p99: float
    longest: float
    took: float
    answer: str


def measure(
    name: str, frame: bytes, port: int, broker: Connection, producer: Connection
) -> Figures:
    """Send a request `TIMES` times and measure the broker and the other client."""
    client = Client(port)
    for pipe in (broker, producer):
        pipe.send("begin")
        pipe.recv()
    started, said = time.perf_counter(), ""
    for _ in range(TIMES):
        try:
            said = f"{len(client.send(frame)):,} bytes"
        except (EOFError, ConnectionError):
            said, client = "closed", Client(port)
    took_s = time.perf_counter() - started
    time.sleep(0.1)  # cleaning up after the request counts too
    broker.send("take")
    hold_s, task, collected_s = broker.recv()
    producer.send("take")
    waits = sorted(producer.recv())
    return Figures(
        name,
        hold_s * 1e3,
        task,
        collected_s * 1e3,
        waits[int(len(waits) * 0.99)] * 1e3,
        waits[-1] * 1e3,
        took_s / TIMES * 1e3,
        said,
    )


def measure_quiet(broker: Connection, producer: Connection) -> Figures:
    """Measure the broker and the other client without a large request."""
    for pipe in (broker, producer):
        pipe.send("begin")
        pipe.recv()
    time.sleep(QUIET_S)
    broker.send("take")
    hold_s, task, collected_s = broker.recv()
    producer.send("take")
    waits = sorted(producer.recv())
    p99, longest = waits[int(len(waits) * 0.99)] * 1e3, waits[-1] * 1e3
    return Figures("(none)", hold_s * 1e3, task, collected_s * 1e3, p99, longest, 0.0, "")


def main() -> int:
    """Run the benchmark and print a table."""
    parser = argparse.ArgumentParser(prog="scripts/bench --stalls")
    parser.add_argument("--elements", type=int, default=ELEMENTS)
    parser.add_argument("--only", metavar="TEXT", action="append", help="kinds whose name has TEXT")
    parser.add_argument(
        "--after", metavar="TEXT", help="kinds behind the first whose name has TEXT"
    )
    parser.add_argument("--partitions", type=int, default=0, metavar="N", help="of the cluster")
    parser.add_argument("--consumers", type=int, default=0, metavar="N", help="idle consumers")
    parser.add_argument("--json", type=FilePath, metavar="FILE")
    options = parser.parse_args()
    log = Console(stderr=True)
    found: list[Figures] = []
    with (
        tempfile.TemporaryDirectory(prefix="pk-stalls-") as directory,
        process(serve, directory) as broker,
    ):
        port = broker.recv()
        names = prepare(Client(port))
        if options.partitions:
            every = [*of_all(fill(Client(port), options.partitions))]
        else:
            every = [*plain(names, options.elements), *special(names, options.elements)]
        with ExitStack() as stack:
            producer = stack.enter_context(process(produce, port))
            if options.consumers:
                polling = process(consume, port, names.topic_id, options.consumers)
                stack.enter_context(polling).recv()
            found.append(measure_quiet(broker, producer))
            if options.after:
                every = every[
                    1 + next(i for i, (name, _) in enumerate(every) if options.after in name) :
                ]
            for name, make in every:
                if options.only and not any(text in name for text in options.only):
                    continue
                figures = measure(name, make(), port, broker, producer)
                found.append(figures)
                log.print(
                    f"{figures.name}: hold {figures.hold:.1f} ({figures.task}, collector "
                    f"{figures.collected:.1f}), p99 {figures.p99:.1f}, max {figures.longest:.1f}, "
                    f"{figures.took:.0f} ms, {figures.answer}",
                    soft_wrap=True,
                )
    table = Table("request", "hold", "in", "collector", "p99", "max", "a request", "answer")
    for one in sorted(found, key=lambda each: -each.hold):
        ms = (f"{value:.1f}" for value in (one.collected, one.p99, one.longest))
        table.add_row(one.name, f"{one.hold:.1f}", one.task, *ms, f"{one.took:.0f}", one.answer)
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    if options.json:
        options.json.write_text(json.dumps([vars(one) for one in found], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
