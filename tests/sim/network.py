"""The network between simulated processes: connections that carry encoded frames, and their faults.

A connection is two pipes. The pieces sent into a pipe arrive in order, each after a random delay;
there is no order between connections. A cut (one way or both) holds the data in flight, as TCP
does, until the cut heals or an end gives up. New connections through it fail. The machine of a
killed process resets its connections. A machine without power sends nothing until it is up again,
and then resets connections that it does not know.

Time moves only here and in the nodes' own timers, so when `on_step` is called before each delivery,
the cluster has processed everything before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import count
from math import inf
from random import Random
from typing import Any, Final, cast

import trio
from sim.chronicle import Chronicle
from sim.processes import Process
from sim.virtual_time import VirtualClock
from stream_transport import feed

from pk.core.wire.types import Part
from pk.net.frames import FrameBuffer

FIN: Final = b"FIN"
RESET: Final = b"RESET"
SYN_AGAIN_S: Final = 1.0

Address = tuple[str, int]


class Refused(Exception):
    """No process listens there."""


class End:
    """One end of a connection, in the hands of `process`."""

    def __init__(self, network: Network, process: Process, number: int) -> None:
        self.process = process
        self.number = number
        self.peer: End
        self.inbox: deque[bytes] = deque()
        self.closed = False
        self.broken = False
        """Reset by the other side, or by the network."""
        self.ended = False
        """The other side has sent all it will."""
        self.on_arrival: Callable[[], None] | None = None
        """Called when something came; without it `receive` waits."""
        self.pipe = Pipe(self)
        """The pipe that this end sends into."""
        self._network = network
        self._arrived = trio.Event()

    @property
    def usable(self) -> bool:
        """Whether sending has any point."""
        return not (self.closed or self.broken)

    def send(self, data: bytes) -> None:
        """Send data. Raises trio.BrokenResourceError if the connection is lost."""
        if not self.usable or not self.process.alive:
            raise trio.BrokenResourceError("the connection is gone")
        self._network.put(self.pipe, data)

    async def receive(self) -> bytes:
        """Return the next data, or b"" at the end. Raises trio.BrokenResourceError."""
        while not self.inbox:
            if self.broken or self.closed:
                raise trio.BrokenResourceError("the connection is gone")
            if self.ended:
                return b""
            self._arrived = trio.Event()
            await self._arrived.wait()
        return self.inbox.popleft()

    async def receive_all(self) -> bytes:
        """All that has come, as one read of a socket gives it; b"" at the end. Raises
        trio.BrokenResourceError."""
        first = await self.receive()
        if not self.inbox:
            return first
        data = b"".join((first, *self.inbox))
        self.inbox.clear()
        return data

    def finish(self) -> None:
        """Send nothing more. Data that was sent still arrives."""
        if self.usable and self.process.alive:
            self._network.put(self.pipe, FIN)

    def close(self) -> None:
        """Take no more, and let the other side know."""
        if not self.closed:
            self.closed = True
            if not self.broken and self.process.alive:
                self._network.put(self.pipe, FIN)
            self.woken()

    def woken(self) -> None:
        """Wake the tasks that wait."""
        self._arrived.set()
        if self.on_arrival is not None:
            self.on_arrival()


class Pipe:
    """One direction of a connection: the data in flight, each piece with its arrival time."""

    __slots__ = ("due", "sender", "stuck", "under_way")

    def __init__(self, sender: End) -> None:
        self.sender = sender
        self.under_way: deque[tuple[float, bytes]] = deque()
        self.due = 0.0
        self.stuck = False


class Weather:
    """How long things take: drawn from chance, a character a run, and worse on some links."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.base_s = random.choice((0.0002, 0.0005, 0.002))
        self.spike_chance = random.choice((0.0, 0.005, 0.03))
        self.spike_s = random.choice((0.03, 0.2, 0.8))
        self.slow: dict[tuple[str, str], float] = {}
        """(from host, to host) → seconds that everything there takes longer."""

    def delay(self, source: str, target: str) -> float:
        """Seconds from one host to another."""
        random = self._random
        delay = self.base_s * (0.5 + random.random() * 2)
        if random.random() < self.spike_chance:
            delay += random.random() * self.spike_s
        if self.slow and (slow := self.slow.get((source, target))):
            delay += slow * (0.5 + random.random())
        return delay


class Network:
    """See the top of this file."""

    def __init__(
        self, random: Random, chronicle: Chronicle, on_step: Callable[[], None] = lambda: None
    ) -> None:
        self.weather = Weather(random)
        self.cut: set[tuple[str, str]] = set()
        """(from host, to host) between which nothing passes."""
        self.without_power: set[str] = set()
        self.on_step = on_step
        self.chronicle = chronicle
        self.names: dict[bytes, str] = {}
        """Topic ids that are known, for the timeline."""
        self._random = random
        self._heap: list[tuple[float, int, Any]] = []
        self._numbers = count(1)
        self._listeners: dict[Address, tuple[Process, Callable[[End], None]]] = {}
        self._ends: dict[int, tuple[End, End]] = {}
        self._stuck: list[Pipe] = []
        self._clock: VirtualClock | None = None

    async def run(self) -> None:
        """Deliver, for ever."""
        heap = self._heap
        clock = self._clock = cast("VirtualClock", trio.lowlevel.current_clock())
        try:
            while True:
                while not heap or heap[0][0] > clock.now:
                    clock.alarm_at = heap[0][0] if heap else inf
                    await clock.sleep_until_alarm()
                self.on_step()
                now = clock.now
                while heap and heap[0][0] <= now:
                    _, _, due = heappop(heap)
                    if isinstance(due, Pipe):
                        self._deliver(due)
                    else:
                        due()
        finally:
            # Shielded tasks that still sleep continue without deliveries.
            self._clock, clock.alarm_at = None, inf

    # --- connections ---

    def listen(self, process: Process, port: int, accept: Callable[[End], None]) -> None:
        """Have `accept(end)` called with each connection to that port of the process's host."""
        self._listeners[process.host, port] = (process, accept)

    def unlisten(self, process: Process) -> None:
        """Close the process's ports."""
        self._listeners = {a: v for a, v in self._listeners.items() if v[0] is not process}

    async def dial(self, process: Process, host: str, port: int, deadline: float) -> End | None:
        """A connection to an address, or None if there was no answer before `deadline`. Raises
        Refused."""
        outcome: list[End | None] = []
        answered = trio.Event()

        def answer(end: End | None) -> None:
            if process.alive and not answered.is_set():
                outcome.append(end)
                answered.set()
            elif end is not None:
                end.close()

        while not answered.is_set() and trio.current_time() < deadline:
            there = self.weather.delay(process.host, host)
            self.after(there, lambda: self._syn(process, (host, port), answer))
            with trio.CancelScope(deadline=min(deadline, trio.current_time() + SYN_AGAIN_S)):
                await answered.wait()
        if not outcome:
            answered.set()
            return None
        if outcome[0] is None:
            raise Refused(f"{host}:{port} refused the connection")
        return outcome[0]

    def _syn(self, process: Process, to: Address, answer: Callable[[End | None], None]) -> None:
        host = to[0]
        if (process.host, host) in self.cut or host in self.without_power:
            return
        back = self.weather.delay(host, process.host)
        if (host, process.host) in self.cut:
            return
        found = self._listeners.get(to)
        if found is None:
            self.after(back, lambda: answer(None))
            return
        server, accept = found
        number = next(self._numbers)
        near, far = End(self, process, number), End(self, server, number)
        near.peer, far.peer = far, near
        self._ends[number] = (near, far)
        accept(far)
        self.after(back, lambda: answer(near))

    def put(self, pipe: Pipe, data: bytes) -> None:
        """Send a piece on its way."""
        sender = pipe.sender
        now = trio.current_time()
        delay = self.weather.delay(sender.process.host, sender.peer.process.host)
        pipe.due = due = max(pipe.due, now + delay)
        pipe.under_way.append((due, data))
        if not pipe.stuck:
            self._push(due, pipe)

    def _deliver(self, pipe: Pipe) -> None:
        sender = pipe.sender
        receiver = sender.peer
        link = (sender.process.host, receiver.process.host)
        if pipe.stuck or not pipe.under_way:
            return
        if link in self.cut or link[1] in self.without_power:
            pipe.stuck = True
            self._stuck.append(pipe)
            return
        _, data = pipe.under_way.popleft()
        if receiver.closed or receiver.broken:
            # A machine that does not know the connection, or whose process has closed it, resets
            # it.
            if data is not RESET and not sender.broken:
                self.after(self.weather.delay(link[1], link[0]), lambda: self._break(sender))
            return
        self.chronicle.carried(data)
        if data is FIN:
            receiver.ended = True
        elif data is RESET:
            receiver.broken = True
        else:
            receiver.inbox.append(data)
        receiver.woken()
        if receiver.ended and sender.ended:
            self._ends.pop(sender.number, None)

    def _break(self, end: End) -> None:
        if not end.broken:
            end.broken = True
            end.woken()

    def after(self, delay: float, what: Callable[[], None]) -> None:
        """Have `what` called after `delay` seconds, in the network's task."""
        self._push(trio.current_time() + delay, what)

    def _push(self, due: float, what: Pipe | Callable[[], None]) -> None:
        heappush(self._heap, (due, next(self._numbers), what))
        if self._clock is not None and due < self._clock.alarm_at:
            self._clock.alarm_at = due

    # --- faults ---

    def process_gone(self, process: Process, *, power: bool) -> None:
        """A process ended: its ports are closed, its connections reset by its machine, or silent
        with `power` gone."""
        self.unlisten(process)
        for pair in list(self._ends.values()):
            for end in pair:
                if end.process is process:
                    end.broken = True
                    if not power:
                        pipe = end.pipe
                        pipe.under_way.clear()
                        self.put(pipe, RESET)
                    else:
                        end.pipe.under_way.clear()
                    self._ends.pop(end.number, None)

    def block(self, source: str, target: str) -> None:
        """Block all data from one host to the other."""
        self.cut.add((source, target))

    def heal(self) -> None:
        """End all cuts and delays, and send the held data on."""
        self.cut.clear()
        self.weather.slow.clear()
        self.release()

    def release(self) -> None:
        """Send the held data on. Data that is still blocked is held again."""
        stuck, self._stuck = self._stuck, []
        for pipe in stuck:
            pipe.stuck = False
            now, sender = trio.current_time(), pipe.sender
            for i, (due, data) in enumerate(pipe.under_way):
                later = now + self.weather.delay(sender.process.host, sender.peer.process.host)
                pipe.due = max(due, pipe.due, later) if i else max(due, later)
                pipe.under_way[i] = (pipe.due, data)
                self._push(pipe.due, pipe)

    def drop_connection(self, random: Random) -> str | None:
        """Reset a random connection at both ends; its data in flight is lost. Returns its
        description."""
        alive = [pair for pair in self._ends.values() if pair[0].usable and pair[1].usable]
        if not alive:
            return None
        pair = random.choice(alive)
        for end in pair:
            end.pipe.under_way.clear()
            end.broken = True
            end.woken()
        self._ends.pop(pair[0].number, None)
        return f"{pair[0].process}–{pair[1].process}"


class SimTransport:
    """An `End` as the server's connections want it (`pk.net.transport.Transport`)."""

    def __init__(self, end: End) -> None:
        self._end = end
        self._left = b""
        self.last_sent = self.waited_at = float("-inf")

    async def receive(self, buffer: FrameBuffer) -> int | None:
        data = self._left or await self._end.receive_all()
        self._left = b""
        before = len(buffer)
        if not feed(buffer, data):
            self._left = data[len(buffer) - before :]
            return None
        return len(data)

    def send_at_once(self, parts: Sequence[Part]) -> list[Part]:
        self._end.send(
            b"".join(
                [p if isinstance(p, bytes | bytearray | memoryview) else p.read() for p in parts]
            )
        )
        self.last_sent = trio.current_time()
        return []

    async def send(self, parts: Sequence[Part]) -> None:
        self.send_at_once(parts)

    async def finish(self) -> None:
        self._end.finish()

    async def aclose(self) -> None:
        self._end.close()
