"""Faults of a run: what kills, pauses, cuts off and restarts brokers, and steps their clocks."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

from clients.pk_broker import PkBrokerError
from clients.pk_cluster import PkCluster
from clients.wires import Wires
from list_append.watch import Pulse

READY_S: Final = 600.0
"""How long nodes may take to start again: on a machine that does much else a minute is not
unusual."""


class Faults:
    """One fault after another; between two of them everything runs."""

    def __init__(
        self,
        cluster: PkCluster,
        wires: Wires,
        clock: Path,
        random: Random,
        pulse: Pulse,
        *,
        kill_all: bool,
    ) -> None:
        self.cluster = cluster
        self._pulse = pulse
        self.done: Counter[str] = Counter()
        self._wires = wires
        self._clock = clock
        self._random = random
        self._doings: list[Callable[[], None]] = [
            self.kill, self.kill, self.pause, self.blink, self.cut, self.restart_all, self.kill_all,
            self.step_clock,
        ]  # fmt: skip
        if kill_all:
            self._doings = [self.kill_all]

    def cycle(self) -> str:
        """Run one fault until its target has recovered, and return a description of the fault."""
        doing = self._random.choice(self._doings)
        doing()
        name = doing.__name__.replace("_", " ")
        self.done[name] += 1
        return name

    def mend(self) -> None:
        """Everything runs, and everybody reaches everybody."""
        self._wires.heal()
        self._clock.write_text("0")
        for node in self.cluster.nodes:
            if node not in self.cluster.running:
                self.cluster.start(node, wait=False)
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        with self._pulse.bounded():
            self.cluster.wait_until_ready(READY_S)

    def kill(self) -> None:
        """kill -9 of one broker."""
        node = self._broker()
        self.cluster.kill(node)
        self._rest(0.0, 3.0)
        self.cluster.start(node, wait=False)

    def kill_all(self) -> None:
        """kill -9 of every node, one right after the other."""
        for node in self.cluster.nodes:
            self.cluster.kill(node)
        self._rest(0.0, 1.0)
        for node in self.cluster.nodes:
            self.cluster.start(node, wait=False)
        self._wait_until_ready()

    def restart_all(self) -> None:
        """Every node stops in order and starts again."""
        for node in reversed(self.cluster.nodes):
            # A node that is too slow to stop is killed.
            with self._pulse.bounded(), contextlib.suppress(PkBrokerError):
                self.cluster.stop(node)
        for node in self.cluster.nodes:
            self.cluster.start(node, wait=False)
        self._wait_until_ready()

    def pause(self) -> None:
        """Pause one broker for longer than its session, then resume it."""
        self._stand_still(4.0, 8.0)

    def blink(self) -> None:
        """One broker stands still for a moment."""
        self._stand_still(0.2, 1.5)

    def cut(self) -> None:
        """One broker is cut off from all other nodes; clients reach it."""
        node = self._broker()
        self._wires.cut_off(node, [other for other in self.cluster.nodes if other != node])
        self._rest(1.0, 8.0)
        self._wires.heal()

    def step_clock(self) -> None:
        """The clock of every node jumps, by a minute at most, and back."""
        self._clock.write_text(str(self._random.randint(-60_000, 60_000)))
        self._rest(1.0, 5.0)
        self._clock.write_text("0")

    def _stand_still(self, low_s: float, high_s: float) -> None:
        node = self._broker()
        self.cluster.pause(node)
        self._rest(low_s, high_s)
        self.cluster.resume(node)

    def _broker(self) -> int:
        return self._random.choice([n for n in self.cluster.running if n in self.cluster.brokers])

    def _rest(self, low_s: float, high_s: float) -> None:
        time.sleep(self._random.uniform(low_s, high_s))
