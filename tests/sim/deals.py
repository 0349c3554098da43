"""Deals in every cluster: the two-phase machine of tests/broker/coordinator/deals.py, coordinated
by the nodes of a run.

Each node coordinates the deals whose partition it leads, and makes some in that time. A `Book`,
which outlives the nodes, lists the announcements, their recipients, and the acknowledged deals.
Faults set a trap in it, which kills the next node whose deal enters a given state, at that moment.

A deal is done only once everybody knows of it. A lost deal was announced to no one. An acknowledged
deal is announced to everybody and done in the end, however many coordinators died, in any state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import trio
from broker.coordinator.deals import EVERYBODY, TOPIC, Deals, Record, Tell
from sim.chronicle import Violation
from sim.processes import Process

from pk.core.broker.broker import Broker
from pk.core.broker.coordinator.coordinator_runtime import CoordinatorRuntime, CoordinatorSettings
from pk.core.broker.coordinator.coordinator_shard import CoordinatorShard
from pk.core.config import BrokerConfig
from pk.core.errors import KafkaError
from pk.core.machine import Effect

PREPARED, HALF_TOLD, TOLD, DONE = STATES = ("prepared", "half told", "told, not done", "done")

MADE_EVERY_S: Final = 1.0
REFUSED_S: Final = 0.2
"""After the log has refused that a deal is done: too few replicas, or no room."""
TOLD_AFTER_S: Final = 0.1
"""At most, for each of everybody; and before the machine hears of it."""


@dataclass(slots=True)
class Book:
    """All deals of a run, under any coordinator."""

    acknowledged: set[str] = field(default_factory=set)
    told: dict[str, set[str]] = field(default_factory=dict)
    idle: bool = False
    """Whether no more deals are made."""
    trap: tuple[str, Callable[[str], None]] | None = None
    """A state, and a function to call with the host of the node on which a deal enters it next."""

    def enters(self, host: str, state: str) -> None:
        """A deal of a node has come so far."""
        if self.trap is not None and self.trap[0] == state:
            (_, spring), self.trap = self.trap, None
            spring(host)

    def unfinished(self, machines: Iterable[Deals]) -> str:
        """A deal that is not done; "" if all are. `machines` are the active ones. Raises
        Violation."""
        for machine in machines:
            deals = machine.deals
            if lost := self.acknowledged - deals.keys():
                raise Violation("an acknowledged deal is kept", f"{sorted(lost)} are gone", TOPIC)
            if lost := self.told.keys() - deals.keys():
                raise Violation("a lost deal was announced to no one", f"{sorted(lost)}", TOPIC)
            open_deals = [name for name, done in deals.items() if not done]
            return f"deal {open_deals[0]} is not done" if open_deals else ""
        return "there is no coordinator of deals"


class WitnessedDeals(Deals):
    """The machine, observed while it replays records that are safe or may still become so."""

    def __init__(self, book: Book, host: str, broken: Callable[[BaseException], None]) -> None:
        super().__init__()
        self._book = book
        self._host = host
        self._broken = broken

    def replay(self, record: Record, record_offset: int, producer_id: int) -> None:
        super().replay(record, record_offset, producer_id)
        if not record.done:
            return
        missing = set(EVERYBODY) - self._book.told.get(record.name, set())
        if missing:
            text = f"{record.name}, of which {sorted(missing)} have not heard"
            self._broken(Violation("a deal is done once everybody was told", text, TOPIC))
        self._book.enters(self._host, DONE)


class DealCoordinators(CoordinatorRuntime[Deals]):
    """The coordinators of one process, and the task that makes deals with them."""

    def __init__(
        self,
        book: Book,
        broker: Broker,
        process: Process,
        random: Random,
        broken: Callable[[BaseException], None],
    ) -> None:
        super().__init__(
            TOPIC,
            lambda: WitnessedDeals(book, process.host, broken),
            broker.state,
            broker.data.replicas,
            broker.background.start_soon,
        )
        self._book = book
        self._process = process
        self._random = random
        broker.image_listeners.append(self)

    def settings(self, config: BrokerConfig) -> CoordinatorSettings:
        return CoordinatorSettings(commit_timeout_ms=1000, load_bytes=1 << 20)

    def machines(self) -> Iterable[Deals]:
        """The machines of the active coordinators."""
        return [coordinator.machine for coordinator in self if coordinator.is_active]

    async def make_deals(self) -> None:
        """One now and then, while this process coordinates, for ever."""
        number = 0
        while True:
            await trio.sleep(self._random.random() * 2 * MADE_EVERY_S)
            for coordinator in self:
                if self._book.idle or not coordinator.is_active:
                    continue
                number += 1
                name = f"{self._process.host}.{self._process.incarnation}.{number}"
                try:
                    await self._make(coordinator, name)
                except KafkaError:
                    continue  # it may exist all the same, and is then announced and done
                if self._process.alive:
                    self._book.acknowledged.add(name)

    async def _make(self, coordinator: CoordinatorShard[Deals], name: str) -> None:
        await coordinator.submit(lambda machine, _, now_ms: machine.make(name, now_ms))

    def carry_out(self, coordinator: CoordinatorShard[Any], effect: Effect) -> None:
        assert isinstance(effect, Tell)
        self._start_soon(self._tell, coordinator, effect.name)

    async def _tell(self, coordinator: CoordinatorShard[Deals], name: str) -> None:
        book, host = self._book, self._process.host
        book.enters(host, PREPARED)
        for whom in EVERYBODY:
            await trio.sleep(self._random.random() * TOLD_AFTER_S)
            if not self._process.alive:
                return
            told = book.told.setdefault(name, set())
            told.add(whom)
            book.enters(host, TOLD if len(told) == len(EVERYBODY) else HALF_TOLD)
            await trio.sleep(self._random.random() * TOLD_AFTER_S)
            while not coordinator.when_active(  # noqa: ASYNC110 - nothing tells when it would take it
                lambda machine, now_ms, whom=whom: machine.reported(name, whom, now_ms)
            ):
                await trio.sleep(REFUSED_S)
