"""Measures how long a member of one group waits for answers while a thousand members join another.

A thousand members, each on a separate connection, join one group at once. The group has settled
when all members have the same epoch (or generation) and equal shares, and each partition has one
owner. Then a tenth of the members leaves, and the rest settles again. During this time, one member
of another group, whose records are in the same partition of `__consumer_offsets`, sends a heartbeat
every two milliseconds. The table shows for each phase, in milliseconds:

- settled: how long the group took to settle. A classic group waits three seconds for its first
  members (`group.initial.rebalance.delay.ms`), and members learn from their heartbeats, which they
  send every three seconds, that others have left; a member of the consumer protocol sends one every
  five seconds;
- hold: the longest time that a task of the broker ran without yielding to the loop, in CPU time,
  and the task's name;
- p99 and max: how long the other member waited for its answers.

    scripts/bench --members
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from uuid import uuid4

import trio
from rich.console import Console
from rich.table import Table

from benchmark.stalls import Client, prepare, process, serve
from pk.core.errors import ErrorCode
from pk.core.wire.codec import decode_whole
from pk.core.wire.header import frame_request, parse_response_header
from pk.core.wire.index import MESSAGES
from pk.core.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from pk.core.wire.messages.heartbeat import HeartbeatRequest
from pk.core.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pk.core.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pk.core.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

MEMBERS = 1000
LEAVING = 10
"""One in this many members leaves in the second phase."""

PROTOCOLS = ("consumer", "classic")
PAUSE_S = 0.002
CLASSIC_HEARTBEAT_S = 3.0
CLASSIC_SESSION_MS = 45_000
REBALANCE_MS = 300_000
METADATA = bytes(150)
SPARE_FILES = 100
LIMIT_S = 600.0
QUIET_S = 3.0
AGAIN_S = 0.1
LATER = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
FENCED = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION)


class Line:
    """A connection that sends one request at a time and waits for its answer."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._data = bytearray()

    async def call(self, request: Any, version: int) -> Any:
        """Return the answer to a request. Raises EOFError."""
        await self._stream.send_all(frame_request(request, version, 1, "member"))
        frame = await self._read(int.from_bytes(await self._read(4), "big"))
        _, position = parse_response_header(frame, request.API_KEY, version)
        return decode_whole(MESSAGES[request.API_KEY].response, frame, version, position)

    async def _read(self, count: int) -> bytes:
        while len(self._data) < count:
            if not (piece := await self._stream.receive_some(1 << 16)):
                raise EOFError("the broker closed a connection")
            self._data.extend(piece)
        piece = bytes(self._data[:count])
        del self._data[:count]
        return piece


@dataclass(eq=False)
class Team:
    """The members of the large group."""

    group: str
    topic: str
    topic_id: bytes
    partitions: int
    members: list[Member] = field(default_factory=list)
    heartbeats: int = 0
    fenced: int = 0
    changed: trio.Event = field(default_factory=trio.Event)

    def news(self) -> None:
        """Wake `settle`, because a member's state has changed."""
        self.changed.set()
        self.changed = trio.Event()

    @property
    def settled(self) -> bool:
        """Whether all members have the same epoch and equal shares, and each partition has one
        owner."""
        here = [one for one in self.members if not one.leaving]
        if not all(one.done for one in here) or len({one.epoch for one in here}) != 1:
            return False
        shares = [len(one.owned) for one in here]
        if max(shares) - min(shares) > 1:  # the assignment does not cover all members yet
            return False
        owners = Counter(number for one in here for number in one.owned)
        return len(owners) == self.partitions and max(owners.values()) == 1

    async def settle(self) -> None:
        """Wait until the group has settled."""
        while not self.settled:
            await self.changed.wait()


@dataclass(eq=False)
class Member:
    """A member of the large group, of either protocol."""

    team: Team
    line: Line
    member_id: str = ""
    epoch: int = 0
    owned: list[int] = field(default_factory=list)
    done: bool = False
    """Whether the member has the coordinator's last assignment, and the coordinator knows that."""
    leaving: bool = False

    async def run(self) -> None:
        """Join the group and remain a member."""
        raise NotImplementedError

    async def leave(self) -> None:
        """Leave the group."""
        raise NotImplementedError


class ConsumerMember(Member):
    """A member of the consumer protocol (KIP-848)."""

    async def run(self) -> None:
        self.member_id = str(uuid4())
        wait_s, has_news = 0.0, True
        while True:
            with trio.move_on_after(wait_s):
                await trio.sleep_forever()
            if self.leaving:
                return
            answer = await self._heartbeat(self.epoch, full=has_news)
            if answer.error_code in LATER:
                wait_s = AGAIN_S
                continue
            if answer.error_code in FENCED:
                self.team.fenced += 1
                self.epoch, self.owned, self.done, has_news, wait_s = 0, [], False, True, 0.0
                continue
            if answer.error_code:
                raise AssertionError(f"{answer.error_code}: {answer.error_message}")
            self.epoch, has_news, wait_s = answer.member_epoch, False, 0.0
            if answer.assignment is not None:  # answers to full heartbeats have one too
                assigned = answer.assignment.topic_partitions
                numbers = sorted(number for one in assigned for number in one.partitions)
                has_news, self.owned = numbers != self.owned, numbers
            if not has_news:
                wait_s = answer.heartbeat_interval_ms / 1000
            self.done = not has_news
            self.team.news()

    async def leave(self) -> None:
        self.leaving = True
        await self._heartbeat(-1, full=False)

    async def _heartbeat(self, epoch: int, *, full: bool) -> Any:
        self.team.heartbeats += 1
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.team.group, member_id=self.member_id, member_epoch=epoch
        )
        if full:
            request.rebalance_timeout_ms = REBALANCE_MS
            request.subscribed_topic_names = [self.team.topic]
            held = TopicPartitions(topic_id=self.team.topic_id, partitions=self.owned)
            request.topic_partitions = [held] if self.owned else []
        return await self.line.call(request, 1)


class ClassicMember(Member):
    """A member of the classic protocol. The leader assigns the partitions in turn."""

    async def run(self) -> None:
        while not self.leaving:
            if not await self._join():
                continue
            while not self.leaving:
                await trio.sleep(CLASSIC_HEARTBEAT_S)
                if self.leaving:
                    return
                self.team.heartbeats += 1
                answer = await self.line.call(
                    HeartbeatRequest(
                        group_id=self.team.group,
                        generation_id=self.epoch,
                        member_id=self.member_id,
                    ),
                    4,
                )
                if answer.error_code:
                    self._refused(answer.error_code)
                    break

    async def leave(self) -> None:
        self.leaving = True
        leaver = MemberIdentity(member_id=self.member_id)
        await self.line.call(LeaveGroupRequest(group_id=self.team.group, members=[leaver]), 5)

    def _refused(self, code: int) -> None:
        self.done = False
        if code in FENCED:
            self.team.fenced += 1
            self.member_id = ""
        elif code not in (*LATER, ErrorCode.REBALANCE_IN_PROGRESS):
            raise AssertionError(code)

    async def _join(self) -> bool:
        """Join the group once. Returns whether the member has an assignment."""
        request = JoinGroupRequest(
            group_id=self.team.group,
            session_timeout_ms=CLASSIC_SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=METADATA)],
        )
        joined = await self.line.call(request, 9)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            return False
        if joined.error_code:
            self._refused(joined.error_code)
            await trio.sleep(AGAIN_S)
            return False
        self.member_id, self.epoch = joined.member_id, joined.generation_id
        ids = [one.member_id for one in joined.members]
        numbers = {
            one: range(first, self.team.partitions, len(ids)) for first, one in enumerate(ids)
        }
        synced = await self.line.call(
            SyncGroupRequest(
                group_id=self.team.group,
                generation_id=self.epoch,
                member_id=self.member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=[
                    SyncGroupRequestAssignment(member_id=one, assignment=json.dumps([*of]).encode())
                    for one, of in numbers.items()
                ],
            ),
            5,
        )
        if synced.error_code:
            self._refused(synced.error_code)
            return False
        self.owned, self.done = json.loads(synced.assignment), True
        self.team.news()
        return True


def settle(
    port: int, names: tuple[str, bytes, int], how: tuple[str, int], pipe: Connection
) -> None:
    """Run the large group, in a process of its own. For each message from `pipe`, it goes through a
    phase, and sends how long that took in seconds, how many heartbeats were sent, and how many were
    fenced."""
    protocol, count = how
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, count + SPARE_FILES), most))
    team = Team(f"large-{protocol}", *names)
    kind = ConsumerMember if protocol == "consumer" else ClassicMember

    async def phase(nursery: trio.Nursery) -> None:
        if not team.members:
            for _ in range(count):
                line = Line(await trio.open_tcp_stream("127.0.0.1", port))
                team.members.append(kind(team, line))
            pipe.send("connected")
            await trio.to_thread.run_sync(pipe.recv)
            started = time.perf_counter()
            for member in team.members:
                nursery.start_soon(member.run)
        else:
            started = time.perf_counter()
            leaving = team.members[::LEAVING]
            for member in leaving:
                member.leaving = True
            for member in leaving:  # the member's own connection may be waiting for an answer
                member.line = Line(await trio.open_tcp_stream("127.0.0.1", port))
                await member.leave()
        with trio.fail_after(LIMIT_S):
            await team.settle()
        pipe.send((time.perf_counter() - started, team.heartbeats, team.fenced))
        team.heartbeats = team.fenced = 0

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            while await trio.to_thread.run_sync(pipe.recv):
                await phase(nursery)
            nursery.cancel_scope.cancel()

    trio.run(main)


def beat(port: int, topic: str, pipe: Connection) -> None:
    """Run the member of the other group, in a process of its own. For each message from `pipe`, it
    sends how long it waited for each answer since the last message."""
    client = Client(port)
    member_id = str(uuid4())
    request = ConsumerGroupHeartbeatRequest(
        group_id="small",
        member_id=member_id,
        rebalance_timeout_ms=REBALANCE_MS,
        subscribed_topic_names=[topic],
        topic_partitions=[],
    )
    while (joined := client.call(request, 1)).error_code in LATER:
        time.sleep(AGAIN_S)
    assert not joined.error_code, joined
    alive = ConsumerGroupHeartbeatRequest(
        group_id="small", member_id=member_id, member_epoch=joined.member_epoch
    )
    frame = frame_request(alive, 1, 1, "other")
    took_s: list[float] = []
    pipe.send("ready")
    while True:
        started = time.perf_counter()
        client.send(frame)
        took_s.append(time.perf_counter() - started)
        if pipe.poll(PAUSE_S):
            if not pipe.recv():
                return
            pipe.send(took_s)
            took_s = []


@dataclass
class Figures:
    """The figures of one phase, in milliseconds."""

    phase: str
    settled: float
    heartbeats: int
    fenced: int
    hold: float
    task: str
    p99: float
    longest: float


@contextmanager
def _measured(
    phase: str, broker: Connection, other: Connection, found: list[Figures]
) -> Iterator[list[Any]]:
    """Measure the block. The block adds the results of the large group to the list that it gets."""
    for pipe in (broker, other):
        pipe.send("begin")
        pipe.recv()
    said: list[Any] = []
    yield said
    broker.send("take")
    hold_s, task, _ = broker.recv()
    other.send("take")
    waits = sorted(other.recv())
    settled_s, heartbeats, fenced = said or (0.0, 0, 0)
    p99, longest = waits[int(len(waits) * 0.99)] * 1e3, waits[-1] * 1e3
    figures = Figures(phase, settled_s * 1e3, heartbeats, fenced, hold_s * 1e3, task, p99, longest)
    found.append(figures)
    print(figures, file=sys.stderr)


def measure(protocol: str, members: int) -> list[Figures]:
    """Measure both phases of a group of a new broker, and before them some seconds without the
    group."""
    found: list[Figures] = []
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="pk-members-"))
        broker = stack.enter_context(process(serve, directory))
        port = broker.recv()
        names = prepare(Client(port))
        topic = (names.topic, names.topic_id, names.partitions)
        other = stack.enter_context(process(beat, port, names.topic))
        other.recv()
        with _measured(f"{protocol}: the other group alone", broker, other, found):
            time.sleep(QUIET_S)
        group = stack.enter_context(process(settle, port, topic, (protocol, members)))
        group.send("connect")
        group.recv()
        for phase in (f"{members:,} members join", f"{members // LEAVING:,} leave"):
            with _measured(f"{protocol}: {phase}", broker, other, found) as said:
                group.send("go")
                said.extend(group.recv())
    return found


def main() -> int:
    """Run the benchmark and print a table."""
    parser = argparse.ArgumentParser(prog="scripts/bench --members", description=__doc__)
    parser.add_argument("--members", type=int, default=MEMBERS, metavar="N")
    parser.add_argument("--protocol", choices=PROTOCOLS, action="append")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    found = [
        figures
        for protocol in options.protocol or PROTOCOLS
        for figures in measure(protocol, options.members)
    ]
    table = Table("phase", "settled", "heartbeats", "fenced", "hold", "in", "p99", "max")
    for one in found:
        settled, hold, p99, longest = (
            f"{value:.1f}" for value in (one.settled, one.hold, one.p99, one.longest)
        )
        row = (settled, f"{one.heartbeats:,}", f"{one.fenced:,}", hold, one.task, p99, longest)
        table.add_row(one.phase, *row)
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    if options.json:
        options.json.write_text(json.dumps([vars(one) for one in found], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
