"""The faults of a cluster: a seed determines a character for the run, and then one fault after
another.

Faults stay within the promise of acks=all: at most one broker at a time has lost unsynced bytes,
and until it is back in every ISR no other broker crashes, since the controller has to assume that a
crash may have lost bytes. Some seeds go beyond it on purpose, and report that to the history.
Records that are synced on every replica (`flush.messages=1`), and the metadata log, must survive
everything.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

import trio
from sim.deals import STATES, Book
from sim.history import History
from sim.network import Network
from sim.nodes import SimNode
from sim.stores import HOST as ENSEMBLE_HOST


@dataclass(frozen=True, slots=True)
class Character:
    """The character of a run."""

    every_s: float
    """Between two faults, on average."""
    weights: dict[str, int]
    down_s: float
    """The maximum time for which a node stays down."""
    beyond: bool
    """Whether more power may go than the promise bears."""
    down_max: int
    """How many brokers may be down or standing still at once."""


KINDS: Final = {
    "kill": 6,
    "power": 5,
    "stop": 4,
    "pause": 4,
    "drop": 8,
    "cut": 6,
    "one_way": 3,
    "slow": 3,
    "controller": 3,
    "coordinator": 8,
    "disk_full": 1,
    "sync_fails": 1,
    "write_fails": 1,
    "blackout": 1,
}
"""Every kind of fault, and how often it happens beside the others."""


def character(random: Random, brokers: int, wanted: frozenset[str]) -> Character:
    """Draw one, of the kinds `wanted`: now mixed, now one kind of trouble over and over."""
    kinds = dict(KINDS)
    if random.random() < 0.5:
        loved = random.sample(sorted(kinds), 3)
        kinds = {kind: weight * (6 if kind in loved else 1) for kind, weight in kinds.items()}
    kinds = {kind: weight for kind, weight in kinds.items() if kind in wanted}
    return Character(
        every_s=random.choice((0.6, 1.5, 3.0)),
        weights=kinds,
        down_s=random.choice((0.5, 3.0, 10.0)),
        beyond=random.random() < 0.1,
        down_max=random.choice((1, 1, 2, brokers)),
    )


class Faults:
    """Draws faults for one run."""

    def __init__(
        self,
        random: Random,
        nodes: list[SimNode],
        network: Network,
        history: History,
        nursery: trio.Nursery,
        book: Book,
        *,
        kinds: frozenset[str],
        synced: set[str],
        single: set[str],
    ) -> None:
        """`kinds` of faults happen. `synced` are topics with `flush.messages=1`, `single` those
        with `min.insync.replicas=1`."""
        self.character = character(random, len([n for n in nodes if n.config.is_broker]), kinds)
        self.unclean: dict[int, str] = {}
        """Brokers that crashed and are not back in every ISR: how."""
        self.happened: dict[str, int] = {}
        self._failing: set[int] = set()
        """Brokers whose disk has lost its unsynced data, even if their process may not know yet."""
        self._rotten: set[int] = set()
        """Brokers with a damaged closed segment."""
        self._random = random
        self._nodes = nodes
        self._network = network
        self._history = history
        self._nursery = nursery
        self._book = book
        self._synced = synced
        self._single = single
        self._doings: dict[str, Callable[[], bool]] = {
            "kill": self._kill,
            "power": self._power,
            "stop": self._stop,
            "pause": self._pause,
            "drop": self._drop,
            "cut": self._cut,
            "one_way": self._one_way,
            "slow": self._slow,
            "controller": self._controller,
            "coordinator": self._coordinator,
            "disk_full": self._disk_full,
            "sync_fails": self._sync_fails,
            "write_fails": self._write_fails,
            "blackout": self._blackout,
        }

    async def run(self, duration_s: float) -> None:
        """Faults for that long, then peace: everything is mended."""
        random, end = self._random, trio.current_time() + duration_s
        names, weights = list(self.character.weights), list(self.character.weights.values())
        while (now := trio.current_time()) < end:
            await trio.sleep(min(end - now, random.expovariate(1 / self.character.every_s)))
            self.forget_the_recovered()
            name = random.choices(names, weights)[0]
            if self._doings[name]():
                self.happened[name] = self.happened.get(name, 0) + 1
        self.mend()

    def mend(self) -> None:
        """Everything runs again, and everyone reaches everyone."""
        self._history.chronicle.note("faults", "everything is mended")
        self._book.trap = None
        self._network.heal()
        for node in self._nodes:
            node.disk.heal()
            node.disk.bytes_max = None
            node.resume()
            if not node.up:
                node.start()

    # --- possible victims ---

    def _brokers(self) -> list[SimNode]:
        """Brokers that run."""
        return [n for n in self._nodes if n.config.is_broker and n.up and not self._frozen(n)]

    def _frozen(self, node: SimNode) -> bool:
        return node.process is not None and node.process.frozen

    def _victim(self) -> SimNode | None:
        """A broker that may go down now."""
        return self._random.choice(self._brokers()) if self._has_victim() else None

    def _has_victim(self) -> bool:
        """Whether one broker more may be down."""
        brokers = [n for n in self._nodes if n.config.is_broker]
        running = self._brokers()
        return bool(running) and len(brokers) - len(running) < self.character.down_max

    def forget_the_recovered(self) -> None:
        """A broker that is in every ISR again counts as clean."""
        image = self._history.metadata.image
        for node_id in list(self.unclean):
            node = next(n for n in self._nodes if n.node_id == node_id)
            broker = node.broker
            if broker is None or not node.ready or node_id in self._failing | self._rotten:
                continue
            registered = image.brokers.get(node_id)
            if registered is None or registered.broker_epoch != broker.broker_epoch:
                continue
            if all(
                node_id in partition.isr
                for topic in image.topics.values()
                for partition in topic.partitions
                if node_id in partition.replicas
            ):
                del self.unclean[node_id]

    def _may_crash(self, node: SimNode, *, power: bool) -> bool:
        """Whether the promise allows a crash; if not, and the run goes beyond it, the topics
        concerned lose their promise."""
        others = [how for node_id, how in self.unclean.items() if node_id != node.node_id]
        if not (others and (power or "power" in others)):
            return True
        if not self.character.beyond:
            return False
        self._beyond(f"{node.host} crashes, too")
        return True

    def _beyond(self, why: str) -> None:
        for topic in self._history.metadata.image.topics.values():
            if topic.name not in self._synced:
                self._history.unpromise(topic.name, why)

    def damaged(self, node: SimNode) -> None:
        """A closed segment of a broker is damaged while it runs."""
        self._rotten.add(node.node_id)
        self.unclean[node.node_id] = "power"

    def whole(self, node: SimNode) -> None:
        """It is no longer damaged, but the truncated records may be missing."""
        self._rotten.discard(node.node_id)

    def crashed(self, node: SimNode) -> None:
        """A process ended by itself, and not well."""
        self._crashed(node, power=False)

    def _crashed(self, node: SimNode, *, power: bool) -> None:
        if not node.config.is_broker:
            return
        if power or self.unclean.get(node.node_id) != "power":
            self.unclean[node.node_id] = "power" if power else "kill"
        others = [how for node_id, how in self.unclean.items() if node_id != node.node_id]
        if others and (power or "power" in others):
            self._beyond(f"{node.host} crashed, too")
        if power:
            for name in sorted(self._single - self._synced):
                self._history.unpromise(name, f"min.insync.replicas=1, and {node.host} lost bytes")

    def _later(self, what: Callable[[], None], seconds: float) -> None:
        async def wait() -> None:
            await trio.sleep(seconds)
            what()

        self._nursery.start_soon(wait)

    def restart_later(self, node: SimNode) -> None:
        """Start it again in a while."""

        def start() -> None:
            # A cluster that has lost every disk is given up: see `restored`.
            if not node.up and node in self._nodes:
                node.start()

        self._later(start, 0.1 + self._random.random() * self.character.down_s)

    # --- faults ---

    def _kill(self) -> bool:
        node = self._victim()
        return node is not None and self._crash(node, power=False)

    def _power(self) -> bool:
        node = self._victim()
        return node is not None and self._crash(node, power=True)

    def _crash(self, node: SimNode, *, power: bool) -> bool:
        if node.config.is_broker and not self._may_crash(node, power=power):
            return False
        self._end(node, power=power)
        return True

    def _end(self, node: SimNode, *, power: bool) -> None:
        if power:
            node.cut_power(self._random)
        else:
            node.kill()
        self._crashed(node, power=power)
        self.restart_later(node)

    def crash_in(self, host: str, step: str) -> None:
        """A broker in the middle of something, if it may crash now."""
        self._crash_in(host, step, power=self._random.random() < 0.5)

    def crash_all_in(self, host: str, step: str) -> None:
        """All brokers are killed while one is in the middle of something, if that may happen
        now."""
        if "power" not in self.unclean.values():
            self._history.chronicle.note("faults", f"{host} was the {step}; all are killed")
            self._crash_all(power=False)
            self.happened[f"all, {step}"] = self.happened.get(f"all, {step}", 0) + 1

    def _crash_all(self, *, power: bool) -> None:
        for node in self._nodes:
            if node.up:
                node.resume()
                self._end(node, power=power)

    def _crash_in(self, host: str, what: str, *, power: bool) -> None:
        node = next(n for n in self._nodes if n.host == host)
        if node in self._brokers() and self._has_victim() and self._crash(node, power=power):
            self._history.chronicle.note("faults", f"{node.host} was the {what}")
            self.happened[what] = self.happened.get(what, 0) + 1

    def _coordinator(self) -> bool:
        """The coordinator of deals, in the moment in which one of them enters a state: killed, or
        without power."""
        state, power = self._random.choice(STATES), self._random.random() < 0.5
        hosts: list[str] = []
        sprung = trio.Event()

        def spring(host: str) -> None:
            hosts.append(host)
            sprung.set()

        async def wait() -> None:
            await sprung.wait()
            self._crash_in(hosts[0], f"coordinator, {state}", power=power)

        self._book.trap = state, spring
        self._nursery.start_soon(wait)
        return False  # it happens when the trap is sprung

    def _blackout(self) -> bool:
        """All at once: killed, or, where more than the promise is asked for, without power."""
        power = self.character.beyond and self._random.random() < 0.5
        if "power" in self.unclean.values() and not self.character.beyond:
            return False
        if self.character.down_max < 2:
            return False
        if power or "power" in self.unclean.values():
            self._beyond("every broker crashes")
        self._crash_all(power=power)
        return True

    def _stop(self) -> bool:
        node = self._victim()
        if node is None or not node.ready:
            return False
        node.stop()
        ended = node.ended

        async def again() -> None:
            await ended.wait()
            await trio.sleep(self._random.random() * self.character.down_s)
            if not node.up:
                node.start()

        self._nursery.start_soon(again)
        return True

    def _pause(self) -> bool:
        node = self._victim()
        if node is None:
            return False
        process = node.process
        node.pause()

        def resume() -> None:
            if node.process is process:
                node.resume()

        self._later(resume, self._random.choice((0.3, 2.0, 5.0, 12.0)) * self._random.random())
        return True

    def _drop(self) -> bool:
        dropped = self._network.drop_connection(self._random)
        if dropped is not None:
            self._history.chronicle.note("network", f"{dropped}: connection reset")
        return dropped is not None

    def _hosts(self, node: SimNode) -> list[str]:
        """Whom a cut keeps from `node`: all other machines, or some of them."""
        random = self._random
        others = [n.host for n in self._nodes if n is not node]
        if self._has_ensemble() and random.random() < 0.6:
            others.append(ENSEMBLE_HOST)
        if random.random() < 0.5:
            return others
        return random.sample(others, random.randint(1, len(others)))

    def _has_ensemble(self) -> bool:
        return all(n.config.is_broker for n in self._nodes)

    def _cut(self) -> bool:
        node = self._random.choice(self._nodes)
        hosts = self._hosts(node)
        for host in hosts:
            self._network.block(node.host, host)
            self._network.block(host, node.host)
        self._history.chronicle.note("network", f"{node.host} is cut off from {', '.join(hosts)}")
        self._mend_later([(node.host, h) for h in hosts] + [(h, node.host) for h in hosts])
        return True

    def _one_way(self) -> bool:
        node = self._random.choice(self._nodes)
        hosts = self._hosts(node)
        out = self._random.random() < 0.5
        links = [(node.host, h) if out else (h, node.host) for h in hosts]
        for source, target in links:
            self._network.block(source, target)
        word = "to" if out else "from"
        self._history.chronicle.note(
            "network", f"nothing passes {word} {node.host} {'from' if not out else ''} {hosts}"
        )
        self._mend_later(links)
        return True

    def _mend_later(self, links: list[tuple[str, str]]) -> None:
        def mend() -> None:
            for link in links:
                self._network.cut.discard(link)
            self._network.release()
            self._history.chronicle.note("network", f"mended: {len(links)} links of {links[0][0]}")

        self._later(mend, self._random.choice((0.3, 2.0, 8.0)) * (0.2 + self._random.random()))

    def _slow(self) -> bool:
        a, b = self._random.sample(self._nodes, 2)
        slow = self._random.choice((0.02, 0.1, 0.4))
        self._network.weather.slow[a.host, b.host] = slow
        self._history.chronicle.note("network", f"{a.host} → {b.host} takes {slow} s longer")

        def mend() -> None:
            self._network.weather.slow.pop((a.host, b.host), None)

        self._later(mend, 6 * self._random.random())
        return True

    def _controller(self) -> bool:
        """The controller fails. One that is a broker too fails in the ways of a broker."""
        active = [n for n in self._nodes if n.up and n.is_active_controller]
        if not active:
            return False
        node = self._random.choice(active)
        if self._frozen(node):
            return False
        if node.config.is_broker and self._random.random() < 0.3:
            node.pause()
            process = node.process

            def resume() -> None:
                if node.process is process:
                    node.resume()

            self._later(resume, 6 * self._random.random())
            return True
        return self._crash(node, power=self._random.random() < 0.5)

    def _disk_full(self) -> bool:
        node = self._victim()
        if node is None:
            return False
        node.disk.bytes_max = node.disk.used_bytes + self._random.randrange(4096)
        self._history.chronicle.note(node.host, "disk is full")
        # It refuses produces; but a broker that cannot write down the epoch of its leadership ends,
        # as Kafka's does.

        def room() -> None:
            node.disk.bytes_max = None
            self._history.chronicle.note(node.host, "disk has room")
            if not node.up:
                node.start()

        self._later(room, 4 * self._random.random())
        return True

    def _write_fails(self) -> bool:
        """The next write to a log stops in its middle: for want of room, and the log takes it back,
        or for good, and its directory is done with."""
        node, random = self._victim(), self._random
        for_good = random.random() < 0.5
        if node is None or (for_good and not self._may_crash(node, power=False)):
            return False
        written = random.randrange(600)
        how = "for good" if for_good else "for want of room"
        self._history.chronicle.note(
            node.host, f"the next write fails {how} after {written} bytes of it"
        )
        if for_good:
            self._crashed(node, power=False)
        node.disk_failed = True
        code = errno.EIO if for_good else errno.ENOSPC
        node.disk.fail_next("write", code, suffix=".log", after_bytes=written)
        ended = node.ended

        async def again() -> None:
            with trio.move_on_after(4):
                await ended.wait()
            node.disk.heal()
            node.disk_failed = False
            if for_good and node.up:
                node.kill()
            await trio.sleep(random.random() * self.character.down_s)
            if not node.up:
                node.start()

        self._nursery.start_soon(again)
        return True

    def _sync_fails(self) -> bool:
        """The next sync of a log fails: its directory is taken out of use, and unsynced data may be
        lost."""
        node = self._victim()
        if node is None or not self._may_crash(node, power=True):
            return False
        self._crashed(node, power=True)
        self._failing.add(node.node_id)
        self._history.chronicle.note(node.host, "the next sync fails")
        node.disk_failed = True
        node.disk.fail_next("sync", suffix=".log")
        ended = node.ended

        async def again() -> None:
            with trio.move_on_after(4):
                await ended.wait()
            node.disk.heal()
            if node.up:
                node.kill()
            node.disk.power_cut(self._random)
            node.disk_failed = False
            self._failing.discard(node.node_id)
            await trio.sleep(self._random.random() * self.character.down_s)
            if not node.up:
                node.start()

        self._nursery.start_soon(again)
        return True
