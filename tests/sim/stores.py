"""The metadata stores of a simulated cluster, and the way in which its nodes find the controller.

`Ensemble` acts as ZooKeeper: a log that outlives every node, sessions that end after a process was
silent for a while, and a leadership that goes to the next in the queue. Requests and answers take
the network's way. A request in flight when its process stops still arrives.

`ObservedStore` wraps any store and reports its appends and loads to the history.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import trio
from meta.memory_store import MemoryLog, MemoryStore
from sim.history import History
from sim.network import Network
from sim.processes import Process

from pk.core.meta import snapshot
from pk.core.meta.events import Endpoint, Event
from pk.core.meta.image import MetadataImage
from pk.core.meta.store import Fenced, Leader, MetadataStore, StoreFailed

HOST: Final = "zk"
SESSION_S: Final = 3.0
TICK_S: Final = 0.25
ANSWER_S: Final = 2.0
"""How long a client waits for an answer before it says that the store failed."""


class Candidate:
    """A process that waits for the leadership."""

    def __init__(self, process: Process, controller_id: int) -> None:
        self.process = process
        self.controller_id = controller_id
        self.epoch: int | None = None
        """The epoch of the leadership, once it is won."""
        self.won = trio.Event()
        self.given_up = False


class Ensemble:
    """See the top of this file. `run` must run while it is used."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.log = MemoryLog()
        self.memory = MemoryStore(self.log)
        self.holder: Process | None = None
        self.holder_id = -1
        self._heard: dict[Process, float] = {}
        self._waiting: list[Candidate] = []

    def reaches(self, process: Process) -> bool:
        """Whether messages pass both ways between a process's machine and this."""
        cut = self.network.cut
        return (process.host, HOST) not in cut and (HOST, process.host) not in cut

    async def run(self) -> None:
        """End sessions, and give the leadership away."""
        while True:
            await trio.sleep(TICK_S)
            now = trio.current_time()
            for process in list(self._heard):
                if process.alive and not process.frozen and self.reaches(process):
                    self._heard[process] = now
                elif now - self._heard[process] > SESSION_S:
                    self._expire(process)
            self._elect()

    def _expire(self, process: Process) -> None:
        del self._heard[process]
        self._waiting = [one for one in self._waiting if one.process is not process]
        if self.holder is process:
            self.network.chronicle.note("zookeeper", f"session of {process} ended")
            self.holder = None

    def _elect(self) -> None:
        while self.holder is None and self._waiting:
            one = self._waiting.pop(0)
            process = one.process
            if process.alive and process in self._heard:
                self.holder, self.holder_id = process, one.controller_id
                last = self.log.leader
                one.epoch = last.epoch + 1 if last is not None else 1
                self.log.leader = Leader(one.controller_id, one.epoch)
                self.network.chronicle.note(
                    "zookeeper", f"{process} has the leadership, controller epoch {one.epoch}"
                )
                one.won.set()

    def enter(self, one: Candidate) -> None:
        """Let somebody wait for the leadership; a holder that asks again gets a new epoch."""
        if one.given_up or not one.process.alive:
            return  # the request was long under way
        self._heard[one.process] = trio.current_time()
        if self.holder is one.process:
            self.holder = None
            self._waiting.insert(0, one)
        else:
            self._waiting.append(one)
        self._elect()

    def withdraw(self, one: Candidate) -> None:
        """A candidate stops waiting; a leadership that it has won by then is given back."""
        one.given_up = True
        if one in self._waiting:
            self._waiting.remove(one)
        if one.epoch is not None and self.holder is one.process:
            self.holder = None

    def depose(self, controller_id: int) -> None:
        """The process that has the leadership under this id, though its session may last."""
        if self.holder is not None and self.holder_id == controller_id and self._waiting:
            self.network.chronicle.note("zookeeper", f"{self.holder} is deposed")
            self.holder = None
            self._elect()

    def leave(self, process: Process) -> None:
        """A session is closed by its process."""
        if process in self._heard:
            self._expire(process)

    def session_lasts(self, process: Process) -> bool:
        """Whether the session has not ended here."""
        return process in self._heard


class EnsembleStore:
    """A process's way to the `Ensemble` (`MetadataStore`). Its `watch` must run in the process."""

    def __init__(self, ensemble: Ensemble, process: Process) -> None:
        self.lost: list[Callable[[int, str], None]] = []
        self._ensemble = ensemble
        self._process = process
        self._epoch: int | None = None
        self.since_snapshot = 0

    @property
    def bytes_since_snapshot(self) -> int:
        return self.since_snapshot

    async def watch(self) -> None:
        """Say that the leadership may be lost once nothing was heard for a session's time."""
        heard = trio.current_time()
        while True:
            await trio.sleep(TICK_S)
            now = trio.current_time()
            late = now - heard > SESSION_S  # we were stopped ourselves
            if self._ensemble.reaches(self._process):
                heard = now
            if self._epoch is not None and (
                late
                or now - heard > SESSION_S * 2 / 3
                or not self._ensemble.session_lasts(self._process)
            ):
                epoch, self._epoch = self._epoch, None
                for tell in self.lost:
                    tell(epoch, "the session may have ended")

    async def campaign(self, controller_id: int) -> int:
        one = Candidate(self._process, controller_id)
        ensemble = self._ensemble
        try:
            while one.epoch is None:
                await self._ask(lambda: ensemble.enter(one))
                while one.epoch is None and ensemble.session_lasts(self._process):
                    with trio.move_on_after(TICK_S):
                        await one.won.wait()
        except BaseException:
            ensemble.withdraw(one)
            raise
        self._epoch = one.epoch
        return one.epoch

    async def leader(self) -> Leader | None:
        return await self._ask(lambda: self._ensemble.log.leader)

    async def load(self) -> MetadataImage:
        return await self._ask(self._load)

    def _load(self) -> MetadataImage:
        image = run_now(self._ensemble.memory.load())
        self.since_snapshot = self._ensemble.memory.bytes_since_snapshot
        return image

    async def append(self, epoch: int, offset: int, events: Sequence[Event]) -> None:
        await self._ask(lambda: run_now(self._ensemble.memory.append(epoch, offset, events)))
        self.since_snapshot = self._ensemble.memory.bytes_since_snapshot

    async def save_snapshot(self, epoch: int, image: MetadataImage) -> None:
        data = snapshot.load(snapshot.dump(image))
        await self._ask(lambda: run_now(self._ensemble.memory.save_snapshot(epoch, data)))
        self.since_snapshot = 0

    async def trim(self, epoch: int) -> None:
        await self._ask(lambda: run_now(self._ensemble.memory.trim(epoch)))

    def depose(self, controller_id: int, endpoint: Endpoint) -> None:
        ensemble, network = self._ensemble, self._ensemble.network
        if (self._process.host, HOST) not in network.cut:
            delay = network.weather.delay(self._process.host, HOST)
            network.after(delay, lambda: ensemble.depose(controller_id))

    async def close(self) -> None:
        if self._process.alive:
            self._ensemble.leave(self._process)

    async def _ask(self, do: Callable[[], Any]) -> Any:
        """Call `do` at the ensemble and return its result. Raises its exceptions, and StoreFailed
        if there is no answer."""
        network, process = self._ensemble.network, self._process
        if not process.alive:
            raise StoreFailed("the process is dead")
        outcome: list[Any] = []
        answered = trio.Event()
        gone = False

        def arrive() -> None:
            if (process.host, HOST) in network.cut:
                if not gone:
                    network.after(TICK_S, arrive)
                return
            try:
                outcome.append((True, do()))
            except (Fenced, StoreFailed) as e:
                outcome.append((False, e))
            network.after(network.weather.delay(HOST, process.host), answer)

        def answer() -> None:
            if (HOST, process.host) in network.cut:
                if not gone:
                    network.after(TICK_S, answer)
                return
            answered.set()

        network.after(network.weather.delay(process.host, HOST), arrive)
        with trio.move_on_after(ANSWER_S):
            await answered.wait()
        gone = True
        if not answered.is_set():
            raise StoreFailed("ZooKeeper does not answer")
        good, result = outcome[0]
        if not good:
            raise result
        return result


def run_now(coroutine: Any) -> Any:
    """The result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as e:
        return e.value
    raise AssertionError("it waits")


class ObservedStore:
    """A store whose appends and loads the history sees."""

    def __init__(self, store: MetadataStore, history: History, process: Process) -> None:
        self.lost = store.lost
        self._store = store
        self._history = history
        self._process = process

    @property
    def bytes_since_snapshot(self) -> int:
        return self._store.bytes_since_snapshot

    async def campaign(self, controller_id: int) -> int:
        return await self._store.campaign(controller_id)

    async def leader(self) -> Leader | None:
        return await self._store.leader()

    async def load(self) -> MetadataImage:
        durable = self._history.metadata.image.offset
        image = await self._store.load()
        if self._process.alive:
            self._history.metadata.loaded(self._process, image, durable)
        return image

    async def append(self, epoch: int, offset: int, events: Sequence[Event]) -> None:
        self._history.metadata.trying(self._process, epoch, offset, list(events))
        await self._store.append(epoch, offset, events)
        if self._process.alive:
            self._history.metadata.appended(self._process, epoch, offset, list(events))

    async def save_snapshot(self, epoch: int, image: MetadataImage) -> None:
        await self._store.save_snapshot(epoch, image)

    async def trim(self, epoch: int) -> None:
        await self._store.trim(epoch)

    def depose(self, controller_id: int, endpoint: Endpoint) -> None:
        self._store.depose(controller_id, endpoint)

    async def close(self) -> None:
        await self._store.close()


class EnsembleLocator:
    """The holder of the leadership, as far as a process can see."""

    def __init__(
        self, ensemble: Ensemble, process: Process, endpoint_of: Callable[[int], Endpoint]
    ) -> None:
        self._ensemble = ensemble
        self._process = process
        self._endpoint_of = endpoint_of

    async def find(self) -> tuple[int, Endpoint] | None:
        weather = self._ensemble.network.weather
        host = self._process.host
        await trio.sleep(weather.delay(host, HOST) + weather.delay(HOST, host))
        if not self._ensemble.reaches(self._process) or self._ensemble.holder is None:
            return None
        holder = self._ensemble.holder_id
        return holder, self._endpoint_of(holder)
