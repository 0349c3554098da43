"""What counting and an authorizer with 10,000 ACLs add to a Produce request.

A broker in this process takes Produce requests of one record from a connection without a socket, a
few thousand with the one and then a few thousand without, and so on. What is compared is the
processor's time of this thread, which a busy machine does not lengthen: the ratio of each pair, and
the median of all pairs. The requests come one at a time, and pipelined by forty.

    scripts/bench --overheads
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from time import thread_time, time

import trio
from nodes import caller_of, make_topic, running_node
from rich.console import Console
from stream_transport import feed

from benchmark import report
from pk.core.api.index import APIS
from pk.core.auth.acls import (
    NO_ACLS,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from pk.core.auth.authorizer import Authorizer
from pk.core.broker.broker import Broker
from pk.core.broker.requests.context import Context
from pk.core.log.disk import RealDisk
from pk.core.record.build import build_batch
from pk.core.wire.header import frame_request
from pk.core.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pk.core.wire.types import Part
from pk.net.connection.connection import Connection, Limits
from pk.net.frames import FrameBuffer, RequestMemory

ACLS = 10_000
TOPIC = "counted"
REQUESTS = 4_000
ROUNDS = 31
PIPELINED = (1, 40)
DRIVER = "in process"
PLAIN = (bytes, bytearray, memoryview)
COUNTING_MAX, ACLS_MAX = 1.03, 1.05


class Repeating:
    """A transport whose peer sends the same bytes again and again, and takes every answer."""

    last_sent = float("-inf")

    def __init__(self, data: bytes, times: int) -> None:
        self._data = data
        self._left = times
        self.answered = 0
        self.waited_at = float("-inf")  # it never waits

    async def receive(self, buffer: FrameBuffer) -> int | None:
        """See Transport."""
        await trio.lowlevel.checkpoint()
        if not self._left:
            return 0
        self._left -= 1
        return len(self._data) if feed(buffer, self._data) else None

    def send_at_once(self, parts: Sequence[Part]) -> list[Part]:
        """See Transport."""
        return list(parts)

    async def send(self, parts: Sequence[Part]) -> None:
        """See Transport."""
        self.answered += sum(len(part) for part in parts if isinstance(part, PLAIN))

    async def finish(self) -> None:
        """See Transport."""

    async def aclose(self) -> None:
        """See Transport."""


class Uncounted(Connection):
    """A connection that does not count its requests."""

    def _handled(self, api_key: int, received_at: float, count: int = 1) -> None:
        pass


def authorizer_with_rules() -> Authorizer:
    """Ten thousand rules about other topics, and one that allows the client its own."""
    kind, literal, allow = ResourceType.TOPIC, PatternType.LITERAL, Permission.ALLOW
    rules = [
        AclBinding(kind, f"other-{n}", literal, f"User:u{n % 100}", "*", Operation.READ, allow)
        for n in range(ACLS)
    ]
    rules.append(AclBinding(kind, TOPIC, literal, "User:ANONYMOUS", "*", Operation.WRITE, allow))
    return Authorizer(NO_ACLS.changed(rules, ()))


class Bench:
    """The broker, and how long its requests take."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._apis = {api.key: api for api in APIS}
        self._rules = authorizer_with_rules()

    async def produce(
        self, pipelined: int, *, fast: bool, kind: type[Connection], with_rules: bool
    ) -> float:
        """The processor's time for a request, in seconds. `fast`: by the fast path."""
        batch = build_batch([(int(time() * 1000), None, bytes(100), ())])
        data = PartitionProduceData(index=0, records=batch)
        topic = TopicProduceData(name=TOPIC, partition_data=[data])
        request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])
        frames = frame_request(request, 9, 1, "bench") * pipelined
        transport = Repeating(frames, REQUESTS // pipelined)
        self._broker.authorization.authorizer = self._rules if with_rules else None
        connection = kind(
            transport,
            self._broker,
            self._apis,
            Limits(100 << 20, 1000, 1.0),
            RequestMemory(1 << 30),
            Context(self._broker, client_host="/127.0.0.1"),
            "bench",
        )
        if not fast:
            connection._fast_path = None
        began = thread_time()
        await connection.serve()
        took_s = thread_time() - began
        assert transport.answered > REQUESTS * 20, "the requests were refused"
        return took_s / REQUESTS


async def measure(results: report.Results, rounds: int, progress: Callable[[str], None]) -> None:
    """All of it."""
    with tempfile.TemporaryDirectory(prefix="pk-overheads-") as directory:
        disk = RealDisk()
        async with running_node(disk, log__dirs=directory) as node:
            async with caller_of(node) as caller:
                await make_topic(caller, TOPIC, 1)
            bench = Bench(node.broker)
            for pipelined in PIPELINED:
                for fast in (True, False):
                    name = (
                        f"Produce, {pipelined} at a time, {'fast path' if fast else 'general way'}"
                    )
                    progress(name)
                    await _compare(results, rounds, bench, name, pipelined, fast)


async def _compare(
    results: report.Results, rounds: int, bench: Bench, name: str, pipelined: int, fast: bool
) -> None:
    async def one(kind: type[Connection] = Connection, *, with_rules: bool = False) -> float:
        return await bench.produce(pipelined, fast=fast, kind=kind, with_rules=with_rules)

    await one()
    for number in range(rounds):
        if number % 2:
            plain, uncounted, ruled = await one(), await one(Uncounted), await one(with_rules=True)
        else:
            ruled, uncounted, plain = await one(with_rules=True), await one(Uncounted), await one()
        results.row(f"{name}: CPU", "µs", DRIVER, higher=False).add("pk", plain * 1e6)
        row = f"{name}: counting, to without"
        results.row(row, "ratio", DRIVER, higher=False, limit=COUNTING_MAX).add(
            "pk", plain / uncounted
        )
        row = f"{name}: with {ACLS:,} ACLs, to without"
        results.row(row, "ratio", DRIVER, higher=False, limit=ACLS_MAX).add("pk", ruled / plain)


def main() -> int:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser(prog="scripts/bench --overheads")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    results, log = report.Results(), Console(stderr=True)
    trio.run(measure, results, options.rounds, log.print)
    report.show(results, Console(width=None if sys.stdout.isatty() else 200))
    return 0


if __name__ == "__main__":
    sys.exit(main())
