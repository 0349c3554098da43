"""One run: a cluster from a seed, clients at work, faults, peace, and the question whether everything is there."""

from __future__ import annotations

import gc
import logging
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from random import Random
from time import process_time
from traceback import format_exception
from typing import Any, Final

import trio
import trio.testing
from sim.admin import Admin
from sim.chronicle import Chronicle, LogNotes, Violation
from sim.clients import Consumer, IdempotentProducer, PlainProducer, SimClient
from sim.faults import Faults
from sim.groups import Group, Member
from sim.history import History
from sim.network import Address, Network
from sim.nodes import BROKER_PORT, CONTROLLER_PORT, SimNode, World, first_violation, leaves
from sim.processes import OWNER, abandon_run, child, deterministic, owned_by
from sim.stores import Ensemble, ObservedStore
from sim.transactions import STATE_TOPIC, CommittedReader, Ledger, TransactionalProducer

from pk.core.broker import runtime as runtime_module
from pk.core.broker.controller.embedded_store import EmbeddedStore
from pk.core.broker.offload import inline
from pk.core.broker.replication.partition import Partition

START_S: Final = 60.0
"""How long a cluster may take to come up, or to make its topics."""
SETTLE_S: Final = 90.0
"""How long everything may take to be well again once the faults are over."""
WALL_S: Final = 120.0
"""How long a run may take by the machine's clock before it counts as stuck."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a seed is run."""

    detail: bool = False
    """Keep messages for the timeline."""
    faults_s: float | None = None
    """How long faults happen; None: as the seed draws."""


@dataclass(slots=True)
class Result:
    """What came of a run."""

    seed: int
    violation: Violation | None = None
    error: str = ""
    """What went wrong in the simulation itself, or in a node in a way that nobody foresaw: a traceback."""
    stuck: bool = False
    """Whether it was ended because it took too long."""
    virtual_s: float = 0.0
    cpu_s: float = 0.0
    digest: int = 0
    messages: int = 0
    records: int = 0
    """Batches that were acknowledged with acks=all."""
    faults: dict[str, int] = field(default_factory=dict)
    shape: str = ""
    chronicle: Chronicle = field(default_factory=Chronicle)

    @property
    def failed(self) -> bool:
        """Whether something is wrong."""
        return self.violation is not None or bool(self.error)


class Stuck(BaseException):
    """A run takes too long by the machine's clock."""


class Simulation:
    """One cluster and its clients."""

    def __init__(self, seed: int, options: Options) -> None:
        self.random = random = Random(seed)
        self.options = options
        self.result = Result(seed)
        self.chronicle = self.result.chronicle = Chronicle(options.detail)
        self.brokers = random.choice((3, 3, 3, 4, 5))
        self.moving = random.random() < 0.5
        """Whether the controller moves between brokers; else it has a node of its own."""
        self.network = Network(child(random, "network"), self.chronicle, self._step)
        self.history = History(self.chronicle, self.network.names)
        self.nodes: list[SimNode] = []
        self.clients: list[SimClient] = []
        self.producers: list[IdempotentProducer] = []
        self.consumers: list[Consumer] = []
        self.group = Group("group", "all")
        self.ledger = Ledger("txn", 2)
        self.transactional: list[TransactionalProducer] = []
        self.committed: CommittedReader | None = None
        self.broken: BaseException | None = None
        self._over = trio.CancelScope()
        self.result.shape = (
            f"{self.brokers} brokers, {'moving controller' if self.moving else 'controller node'}"
        )

    # --- what is looked at between two messages ---

    def _step(self) -> None:
        try:
            self._look()
        except Violation as e:
            self.fail(e)

    def _look(self) -> None:
        running: dict[int, Any] = {}
        for node in self.nodes:
            broker = node.broker
            if broker is not None and node.process is not None and node.config.is_broker:
                self.history.observe(node.process, broker)
                running[node.node_id] = (node.process, broker)
        if self.history.dirty:
            self.history.check_in_sync(running)

    def fail(self, error: BaseException) -> None:
        """End the run: something does not hold. The first reason counts."""
        if self.broken is None:
            self.broken = error
            self.chronicle.note("simulation", f"fails: {error}")
        for node in self.nodes:
            if node.process is not None:
                node.process.thaw()  # what stands still cannot be cancelled
        self._over.cancel()

    # --- the run ---

    async def run(self) -> None:
        """From the first start to the last question."""
        with self._over:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.network.run)
                ensemble = Ensemble(self.network) if self.moving else None
                if ensemble is not None:
                    nursery.start_soon(ensemble.run)
                world = World(
                    self.network, self.history, nursery, child(self.random, "nodes"), ensemble,
                    self._step, self.fail,
                )  # fmt: skip
                self._make_nodes(world)
                admin = await self._start(nursery)
                faults = self._faults(nursery)
                world.crashed = faults.crashed
                self.result.faults = faults.happened
                duration = self.options.faults_s
                if duration is None:
                    duration = self.random.choice((8.0, 15.0, 25.0))
                await faults.run(duration)
                for client in self.clients:
                    client.idle = True
                try:
                    await self._settle(admin)
                except Violation as e:
                    self.fail(e)
                world.crashed = lambda node: None
                nursery.cancel_scope.cancel()

    def _make_nodes(self, world: World) -> None:
        random = child(self.random, "keys")
        interval, session = random.choice(((200, 1500), (500, 3000), (2000, 9000)))
        keys = {
            "broker.heartbeat.interval.ms": str(interval),
            "broker.session.timeout.ms": str(session),
            "replica.lag.time.max.ms": random.choice(("1000", "3000", "10000")),
            "replica.fetch.wait.max.ms": "500",
            "min.insync.replicas": "2",
            "offsets.topic.num.partitions": "2",
            "offsets.topic.replication.factor": "3",
            "group.initial.rebalance.delay.ms": "0",
            "transaction.state.log.num.partitions": "2",
            "transaction.state.log.replication.factor": "3",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
            "initial.broker.registration.timeout.ms": "600000",
            "leader.imbalance.check.interval.seconds": random.choice(("5", "300")),
            "controller.listener.names": "CONTROLLER",
            "log.dirs": "/data",
            "auto.create.topics.enable": "false",
            "pk.metadata.log.bytes.between.snapshots": random.choice(("4000", "20971520")),
        }
        if self.moving:
            keys["pk.metadata.store"] = "zookeeper://zk:2181/pk"
        else:
            keys["controller.quorum.bootstrap.servers"] = f"n0:{CONTROLLER_PORT}"
            self.nodes.append(SimNode(world, 0, self._keys(keys, 0, "controller")))
        for node_id in range(1, self.brokers + 1):
            roles = "broker,controller" if self.moving else "broker"
            self.nodes.append(SimNode(world, node_id, self._keys(keys, node_id, roles)))

    def _keys(self, keys: dict[str, str], node_id: int, roles: str) -> dict[str, str]:
        listeners = []
        if "broker" in roles:
            listeners.append(f"PLAINTEXT://n{node_id}:{BROKER_PORT}")
        if "controller" in roles:
            listeners.append(f"CONTROLLER://n{node_id}:{CONTROLLER_PORT}")
        return keys | {
            "node.id": str(node_id),
            "process.roles": roles,
            "listeners": ",".join(listeners),
        }

    async def _start(self, nursery: trio.Nursery) -> Admin:
        """Bring the cluster up, make its topics, set the clients to work."""
        for node in self.nodes:
            node.start()
        await self._until(
            lambda: all(node.ready for node in self.nodes), START_S, "the cluster comes up"
        )
        random = child(self.random, "clients")
        bootstrap: dict[int, Address] = {
            n.node_id: (n.host, BROKER_PORT) for n in self.nodes if n.config.is_broker
        }

        def common(name: str) -> tuple[Any, ...]:
            return (name, self.network, self.history, bootstrap, child(random, name))

        admin = Admin(
            *common("admin"), brokers=list(bootstrap), rate_s=random.choice((2.0, 5.0, 1000.0))
        )
        with owned_by(admin.process):
            with trio.move_on_after(START_S) as scope:
                await admin.create("all", 2, 3, min__insync__replicas="2")
                await admin.create("txn", 2, 3, min__insync__replicas="2")
                await admin.create("synced", 1, 1, flush__messages="1", min__insync__replicas="1")
                await admin.create("one", 1, min(2, self.brokers), min__insync__replicas="1")
            if scope.cancelled_caught:
                raise Violation("a cluster comes up", f"no topics after {START_S} s")
        self.clients.append(admin)
        rate = random.choice((0.2, 0.5, 1.0))
        for name, topic, partitions in (("p1", "all", 2), ("p2", "all", 2), ("p3", "synced", 1)):
            self.producers.append(
                IdempotentProducer(
                    *common(name),
                    topic=topic,
                    partitions=partitions,
                    in_flight=random.choice((1, 3, 5)),
                    rate_s=rate,
                )
            )
        self.consumers = [
            Consumer(*common("c1"), topic="all", partitions=2),
            Consumer(*common("c2"), topic="synced", partitions=1),
            Consumer(*common("c3"), topic="one", partitions=1),
        ]
        self.clients += [*self.producers, *self.consumers]
        self.clients.append(PlainProducer(*common("p4"), topic="one", partitions=1, rate_s=rate))
        for i in range(random.choice((1, 2, 3))):
            self.clients.append(Member(*common(f"m{i + 1}"), group=self.group, partitions=2))
        for i in range(random.choice((1, 2))):
            producer = TransactionalProducer(
                *common(f"t{i + 1}"),
                ledger=self.ledger,
                rate_s=rate,
                timeout_ms=random.choice((3_000, 30_000)),
            )
            self.transactional.append(producer)
        self.committed = CommittedReader(*common("c4"), ledger=self.ledger)
        self.clients += [*self.transactional, self.committed]
        for client in self.clients:
            with owned_by(client.process):
                nursery.start_soon(self._work, client)
        return admin

    async def _work(self, client: Any) -> None:
        """A client's life."""
        try:
            await client.run()
        except (Violation, BaseExceptionGroup) as e:
            violation = first_violation(e)
            if violation is None:
                raise
            self.fail(violation)
            await trio.sleep_forever()

    def _faults(self, nursery: trio.Nursery) -> Faults:
        return Faults(
            child(self.random, "faults"),
            self.nodes,
            self.network,
            self.history,
            nursery,
            synced={"synced"},
            single={"one"},
        )

    async def _until(self, ready: Callable[[], bool], within_s: float, what: str) -> None:
        with trio.move_on_after(within_s):
            while not ready():  # noqa: ASYNC110 - many things make it true
                await trio.sleep(0.05)
            return
        raise Violation("liveness", f"{what}: not within {within_s:g} s")

    async def _settle(self, admin: Admin) -> None:
        """The faults are over: everything becomes well again, and nothing is missing."""
        self.chronicle.note("simulation", "waits until all is well")
        with trio.move_on_after(SETTLE_S):
            while self.unwell():  # noqa: ASYNC110 - many things make it well
                await trio.sleep(0.1)
        if missing := self.unwell():
            raise Violation("liveness", f"{SETTLE_S:g} s after the last fault: {missing}")
        self._step()
        self.result.records = sum(
            stream.acknowledged for producer in self.producers for stream in producer.streams
        )

    def unwell(self) -> str:
        """What is not as it should be once the faults are over; "" where all is."""
        image = self.history.metadata.image
        for node in self.nodes:
            if not node.ready:
                return f"{node.host} is not ready"
        for broker_id, registered in sorted(image.brokers.items()):
            if registered.fenced:
                return f"broker {broker_id} is fenced"
        for node in self.nodes:
            broker = node.broker
            if broker is not None and node.config.is_broker and broker.image.offset != image.offset:
                return f"{node.host} is at {broker.image.offset} of {image.offset} events"
        for name, topic in sorted(image.topics.items()):
            for partition in topic.partitions:
                if partition.leader < 0 or set(partition.isr) != set(partition.replicas):
                    return f"{name}: {partition}"
                if partition.adding or partition.removing:
                    return f"{name}: {partition}"
        return self._unfinished()

    def _unfinished(self) -> str:
        for producer in self.producers:
            if not producer.done:
                return f"{producer.process} has unacknowledged batches"
        ends = {found.name: found.end for found in self.history.partitions.values()}
        for consumer in self.consumers:
            if consumer.topic in self.history.unsafe:
                continue
            for partition, position in consumer.positions.items():
                end = ends.get(f"{consumer.topic}-{partition}", 0)
                if position < end:
                    return f"{consumer.process} is at {position} of {end} in {consumer.topic}"
        if untransacted := self._untransacted(ends):
            return untransacted
        if {"__consumer_offsets", self.group.topic} & self.history.unsafe:
            return ""
        for partition, progress in self.group.progress.items():
            end = ends.get(f"{self.group.topic}-{partition}", 0)
            if progress.committed < end:
                return f"the group is at {progress.committed} of {end} in partition {partition}"
        return ""

    def _untransacted(self, ends: dict[str, int]) -> str:
        """What of the transactions is not over, or not seen."""
        ledger, reader = self.ledger, self.committed
        if reader is None or {STATE_TOPIC, ledger.topic} & self.history.unsafe:
            return ""
        for producer in self.transactional:
            if producer.open:
                return f"{producer.process} has a transaction open"
        for partition, position in reader.positions.items():
            end = ends.get(f"{ledger.topic}-{partition}", 0)
            if position < end:
                return f"{reader.process} is at {position} of {end} in {ledger.topic}-{partition}"
        return ledger.torn()


@contextmanager
def hooks(simulation: Simulation) -> Iterator[None]:
    """Have the run's history told what only the nodes' own code can tell."""
    history = simulation.history

    def observed(*args: Any) -> ObservedStore:
        process = OWNER.get()
        assert process is not None
        return ObservedStore(EmbeddedStore(*args), history, process)

    append = Partition.append

    def witnessed(self: Partition, *args: Any, **kwargs: Any) -> Any:
        epoch = self.leader_epoch
        appended = append(self, *args, **kwargs)
        try:
            history.leader_appended(self, epoch)
        except Violation as e:
            simulation.fail(e)
        return appended

    handler = LogNotes(simulation.chronicle)
    logger = logging.getLogger("pk")
    level, propagate = logger.level, logger.propagate
    runtime_module.EmbeddedStore = observed  # type: ignore[assignment, misc]
    Partition.append = witnessed  # type: ignore[method-assign]
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate
        Partition.append = append  # type: ignore[method-assign]
        runtime_module.EmbeddedStore = EmbeddedStore  # type: ignore[misc]


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Raise Stuck where what is within takes longer by the machine's clock."""

    def stuck(*_: Any) -> None:
        raise Stuck(f"more than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stuck)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def stuck_in(error: BaseException) -> Stuck | None:
    """The alarm that ended a run, which trio may have taken for a fault of its own."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, Stuck):
        cause = cause.__cause__
    return cause


def collect_tasks() -> None:
    """Have the tasks of a run that was abandoned end now, and not within the next one; what they complain about is of no use."""
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        gc.collect()
    finally:
        sys.unraisablehook = hook


def run_seed(
    seed: int, options: Options | None = None, planted: Callable[[], Any] | None = None
) -> Result:
    """Run one seed. `planted` gives a context in which the product has a bug."""
    result = _run(seed, options, planted)
    if result.stuck:
        collect_tasks()
    return result


def _run(seed: int, options: Options | None, planted: Callable[[], Any] | None) -> Result:
    simulation = Simulation(seed, options or Options())
    result, started = simulation.result, process_time()
    clock = trio.testing.MockClock(autojump_threshold=0)

    async def main() -> None:
        with inline():
            await simulation.run()

    with ExitStack() as stack:
        stack.enter_context(alarm(WALL_S))
        stack.enter_context(deterministic(seed))
        if planted is not None:
            stack.enter_context(planted())
        stack.enter_context(hooks(simulation))
        try:
            trio.run(main, clock=clock)
        except BaseException as e:
            if isinstance(e, KeyboardInterrupt):
                raise
            stuck = stuck_in(e)
            if stuck is not None:
                result.stuck = True
                abandon_run(stuck)
            simulation.broken = simulation.broken or stuck or e
    broken = simulation.broken
    if broken is not None:
        result.violation = first_violation(broken)
        if result.violation is None:
            error = leaves(broken)[0] if isinstance(broken, BaseExceptionGroup) else broken
            result.error = "".join(format_exception(error))
    result.virtual_s = clock.current_time()
    result.cpu_s = process_time() - started
    result.digest = simulation.chronicle.digest
    result.messages = simulation.chronicle.messages
    return result
