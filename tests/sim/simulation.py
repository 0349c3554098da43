"""One run: a cluster from a seed, clients at work, faults, peace, and the question whether
everything is there."""

from __future__ import annotations

import gc
import logging
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from random import Random
from time import process_time
from traceback import format_exception
from typing import Any, Final

import trio
from sim import restored, swarm
from sim.admin import Admin
from sim.chains import ClassicWorker, ConsumerWorker, OutputReader, Outputs
from sim.chronicle import Chronicle, LogNotes, Violation
from sim.clients import Consumer, IdempotentProducer, PlainProducer, SimClient
from sim.consumer_groups import KEYS as CONSUMER_GROUP_KEYS
from sim.consumer_groups import ConsumerMember, Owners
from sim.deals import TOPIC as DEALS_TOPIC
from sim.deals import Book
from sim.faults import KINDS, Faults
from sim.groups import Group, Member
from sim.history import History
from sim.network import Address, Network
from sim.nodes import BROKER_PORT, CONTROLLER_PORT, SimNode, World, first_violation, leaves
from sim.processes import OWNER, Process, abandon_run, child, deterministic, owned_by
from sim.rot import Rot
from sim.share_groups import GROUP_CONFIGS as SHARE_GROUP_CONFIGS
from sim.share_groups import KEYS as SHARE_GROUP_KEYS
from sim.share_groups import Deliveries, ShareMember
from sim.stores import Ensemble, ObservedStore
from sim.tiered import (
    CRASH_CHANCE,
    REREADER_CHANCE,
    UNDER_WAY_S,
    LateConsumer,
    ProcessStorage,
    RemoteStore,
    Rereader,
    Tiers,
)
from sim.tiered import KEYS as TIERED_KEYS
from sim.tiered import PARTITIONS as TIERED_PARTITIONS
from sim.tiered import TOPIC as TIERED_TOPIC
from sim.tiered import hooks as tiered_hooks
from sim.tiered_admin import TieredAdmin
from sim.transactions import (
    STATE_TOPIC,
    CommittedReader,
    Ledger,
    LedgerReader,
    TransactionalProducer,
)
from sim.virtual_time import VirtualClock
from sim.wrecks import Wrecks

from pk.core.api.share.share_fetch import _ShareFetch
from pk.core.broker import node_lifecycle
from pk.core.broker.controller.embedded_store import EmbeddedStore
from pk.core.broker.offload import inline
from pk.core.broker.replication.partition import Partition
from pk.core.broker.replication.partition_tasks import PartitionTasks
from pk.core.log import durability
from pk.core.log.damaged import kept_files
from pk.core.log.log import Log
from pk.core.meta.image import PartitionImage
from pk.net.collector import rare_collections

Common = Callable[[str], tuple[Any, ...]]
"""The arguments of each client, by its name."""

START_S: Final = 60.0
"""How long a cluster may take to come up, or to make its topics."""
SETTLE_S: Final = 90.0
"""How long everything may take to be well again once the faults are over."""
PATIENCE_S: Final = 25.0
"""How long an operator waits before deciding between two logs."""
CPU_S: Final = 120.0
"""How much of the machine's time a run may take before it counts as stuck: on a busy machine that
is long by the clock."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a seed is run."""

    detail: bool = False
    """Keep messages for the timeline."""
    faults_s: float | None = None
    """How long faults happen; None: as the seed draws."""
    everything: bool = False
    """Whether every workload and kind of fault is on, and not a part that the seed draws."""
    always: frozenset[str] = frozenset()
    """Workloads and settings that are on in each seed, in addition to the drawn ones."""


@dataclass(slots=True)
class Result:
    """The result of a run."""

    seed: int
    violation: Violation | None = None
    error: str = ""
    """An error in the simulation itself, or an unforeseen error in a node: a traceback."""
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
    """A run takes too much of the machine's time."""


class Simulation:
    """One cluster and its clients."""

    def __init__(self, seed: int, options: Options) -> None:
        self.random = random = Random(seed)
        self.options = options
        self.result = Result(seed)
        self.chronicle = self.result.chronicle = Chronicle(options.detail)
        kinds = tuple(KINDS)
        drawn = swarm.everything(kinds) if options.everything else swarm.draw(seed, kinds)
        self.swarm = replace(drawn, on=drawn.on | options.always)
        self.brokers = random.choice((3, 3, 3, 4, 5))
        self.moving = random.random() < 0.5
        """Whether the controller moves between brokers; else it has a node of its own."""
        self.network = Network(child(random, "network"), self.chronicle, self._step)
        self.history = History(self.chronicle, self.network.names)
        self.nodes: list[SimNode] = []
        self.clients: list[SimClient] = []
        self.producers: list[IdempotentProducer] = []
        self.consumers: list[Consumer] = []
        unsafe = self.history.unsafe
        self.groups = [Group(name, "all", unsafe=unsafe) for name in ("group", "group848")]
        self.deliveries = Deliveries(Group("shares", "all"), self.history, self._epoch_of)
        self.chain = Group("chain", "txn", unsafe=unsafe)
        self.outputs = Outputs("out")
        self.book = Book()
        self.ledger = Ledger("txn", 2)
        self.late = Ledger("txn", 2, self.ledger.ended)
        self.transactional: list[TransactionalProducer] = []
        self.readers: list[CommittedReader] = []
        self.broken: BaseException | None = None
        self.rot: Rot | None = None
        self.tiers: Tiers | None = None
        if swarm.TIERED in self.swarm:
            store = RemoteStore(Random(f"{seed}/store"), self.network)
            self.tiers = Tiers(self.history, store, self.nodes)
        self.restored_too = Random(f"{seed}/lost").random() < restored.CHANCE
        """Whether a tiered topic is restored by another cluster in the end."""
        self._over = trio.CancelScope()
        self.book.idle = swarm.DEALS not in self.swarm
        # If segments end early, the cleaner finds some to compact with its usual settings, too.
        self.history.compacts = bool({swarm.COMPACTION, swarm.ROLLS} & self.swarm.on)
        on = "everything" if options.everything else ", ".join(sorted(self.swarm.on))
        self.result.shape = (
            f"{self.brokers} brokers, {'moving controller' if self.moving else 'controller node'};"
            f" {on}"
        )

    # --- checks between two messages ---

    def _step(self) -> None:
        """Between two messages, when nothing runs: look at who ran since the step before."""
        if self.rot is not None:
            self.rot.look()
        self.look(lambda process: process.ran)
        for node in self.nodes:
            if node.process is not None:
                node.process.ran = False
        if self.tiers is not None:
            try:
                self.tiers.look()
            except Violation as e:
                self.fail(e)

    def look(self, wanted: Callable[[Process], bool] = lambda _: True) -> None:
        try:
            self._observe(wanted)
        except Violation as e:
            self.fail(e)

    def _observe(self, wanted: Callable[[Process], bool]) -> None:
        running: dict[int, Any] = {}
        for node in self.nodes:
            broker = node.broker
            process = node.process
            if broker is not None and process is not None and node.config.is_broker:
                if wanted(process):
                    self.history.observe(process, broker)
                running[node.node_id] = (process, broker)
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
        for client in self.clients:
            client.process.thaw()
        self._over.cancel()

    def _epoch_of(self, node_id: int, topic: str, partition: int) -> int:
        """The epoch in which a broker considers itself a partition's leader, or -1."""
        for node in self.nodes:
            if node.node_id == node_id and node.broker is not None:
                found = node.broker.data.replicas.find(topic, partition)
                if found is not None and found.leads:
                    return found.leader_epoch
        return -1

    # --- the run ---

    async def run(self) -> None:
        """Run everything from the first start to the last check."""
        with self._over:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.network.run)
                ensemble = Ensemble(self.network) if self.moving else None
                if ensemble is not None:
                    nursery.start_soon(ensemble.run)
                world = World(
                    self.network, self.history, nursery, child(self.random, "nodes"), ensemble,
                    self.look, self.fail, self.book,
                )  # fmt: skip
                if (tiers := self.tiers) is not None:
                    world.storage = lambda process: ProcessStorage(tiers.store, process)
                self.make_nodes(world)
                admin = await self._start(nursery)
                faults = self._faults(nursery)
                world.crashed = faults.crashed
                if tiers is not None and Random(f"{self.result.seed}/amid").random() < 0.5:
                    tiers.store.crash_chance = CRASH_CHANCE
                    tiers.store.crash = faults.crash_in
                    tiers.store.crash_all = faults.crash_all_in
                self.result.faults = faults.happened
                duration = self.options.faults_s
                if duration is None:
                    duration = self.random.choice(self.swarm.durations_s)
                wrecked, damaged = trio.CancelScope(), trio.CancelScope()
                if swarm.WRECKS in self.swarm:
                    nursery.start_soon(self._wreck, faults, wrecked)
                if swarm.ROT in self.swarm:
                    nursery.start_soon(self._damage, faults, damaged)
                away = trio.CancelScope()
                if self.tiers is not None:
                    nursery.start_soon(self.leave, self.tiers.store, away)
                await faults.run(duration)
                if self.tiers is not None:
                    away.cancel()
                    self.tiers.store.mend()
                wrecked.cancel()
                damaged.cancel()
                for client in self.clients:
                    client.idle = True
                self.book.idle = True
                try:
                    await self.settle(admin)
                    if tiers is not None:
                        # Abandoned uploads may have ended since.
                        await trio.sleep(UNDER_WAY_S)
                        await self.settle(admin)
                    world.crashed = lambda node: None
                    if tiers is not None and self.restored_too:
                        await restored.restore(self, tiers, nursery)
                except Violation as e:
                    self.fail(e)
                world.crashed = lambda node: None
                for client in self.clients:
                    client.process.thaw()
                nursery.cancel_scope.cancel()

    def make_nodes(self, world: World, first: int = 0) -> None:
        """The nodes of a cluster, with ids from `first` on, which is the controller if that has a
        node of its own."""
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
            **CONSUMER_GROUP_KEYS,
            **SHARE_GROUP_KEYS,
            "share.coordinator.snapshot.update.records.per.snapshot": random.choice(("3", "500")),
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
        if swarm.ROLLS in self.swarm:
            keys["log.roll.ms"] = random.choice(("700", "3000"))
            keys["pk.log.scrub.interval.ms"] = "2000"
        if swarm.COMPACTION in self.swarm:
            keys["log.cleaner.backoff.ms"] = "500"
            keys["log.cleaner.min.cleanable.ratio"] = "0.01"
        if swarm.TIERED in self.swarm:
            keys |= TIERED_KEYS
        if self.moving:
            keys["pk.metadata.store"] = "zookeeper://zk:2181/pk"
        else:
            keys["controller.quorum.bootstrap.servers"] = f"n{first}:{CONTROLLER_PORT}"
            self.nodes.append(SimNode(world, first, self._keys(keys, first, "controller")))
        for node_id in range(first + 1, first + self.brokers + 1):
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
        await self.until_ready()
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
                await self._create_topics(admin)
            if scope.cancelled_caught:
                raise Violation("a cluster comes up", f"no topics after {START_S} s")
        self.clients.append(admin)
        rate = random.choice((0.2, 0.5, 1.0))
        self._add_records(common, random, rate)
        if swarm.TRANSACTIONS in self.swarm:
            self._add_transactions(common, random, rate)
        self._add_members(common, random)
        if swarm.TIERED in self.swarm:
            self._add_tiered(common, random, rate)
        for client in self.clients:
            with owned_by(client.process):
                nursery.start_soon(self.work, client)
        return admin

    async def until_ready(self) -> None:
        """Return when every node serves."""
        await self._until(
            lambda: all(node.ready for node in self.nodes), START_S, "the cluster comes up"
        )

    async def _create_topics(self, admin: Admin) -> None:
        on = self.swarm
        if swarm.RECORDS in on:
            await admin.create("all", 2, 3, min__insync__replicas="2")
        if swarm.TRANSACTIONS in on:
            await admin.create("txn", 2, 3, min__insync__replicas="2")
        if swarm.CHAIN in on:
            await admin.create("out", 2, 3, min__insync__replicas="2")
        if swarm.SYNCED in on:
            await admin.create("synced", 1, 1, flush__messages="1", min__insync__replicas="1")
        if swarm.DEALS in on:
            await admin.create(DEALS_TOPIC, 1, 3, min__insync__replicas="2")
        if swarm.SHARE_GROUP in on:
            await admin.configure_group(self.deliveries.group.name, SHARE_GROUP_CONFIGS)
        if swarm.ONE in on:
            await admin.create("one", 1, min(2, self.brokers), min__insync__replicas="1")

        if self.tiers is not None:
            drawn = Random(f"{self.result.seed}/tiered topic")
            self.tiers.retention_ms = drawn.choice((-1, 4_000, 12_000))
            await admin.create(
                TIERED_TOPIC, TIERED_PARTITIONS, 3,
                min__insync__replicas="2",
                remote__storage__enable="true",
                segment__ms=drawn.choice(("300", "1000")),
                local__retention__ms=drawn.choice(("0", "1000")),
                retention__ms=str(self.tiers.retention_ms),
            )  # fmt: skip

    def _add_tiered(self, common: Common, random: Random, rate_s: float) -> None:
        """A producer, and consumers of which one reads when everything is over."""
        where: dict[str, Any] = {"topic": TIERED_TOPIC, "partitions": TIERED_PARTITIONS}
        producer = IdempotentProducer(
            *common("p5"), **where, in_flight=random.choice((1, 3)), rate_s=min(rate_s, 0.5)
        )
        consumers = [Consumer(*common("c7"), **where), LateConsumer(*common("c8"), **where)]
        if Random(f"{self.result.seed}/reads twice").random() < REREADER_CHANCE:
            consumers.append(Rereader(*common("c9"), **where))
        self.producers.append(producer)
        self.consumers += consumers
        self.clients += [producer, *consumers]
        drawn = Random(f"{self.result.seed}/tiered admin")
        if drawn.random() < 0.6:
            assert self.tiers is not None
            name, network, history, bootstrap, _ = common("admin of tiers")
            self.clients.append(
                TieredAdmin(
                    *(name, network, history, bootstrap, drawn),
                    tiers=self.tiers,
                    rate_s=drawn.choice((0.7, 2.0)),
                    turns_off=drawn.random() < 0.4,
                )
            )

    def _add_records(self, common: Common, random: Random, rate_s: float) -> None:
        """Producers, and consumers that read by assignment."""
        producers = {"p1": ("all", 2), "p2": ("all", 2), "p3": ("synced", 1)}
        consumers = {"c1": ("all", 2), "c2": ("synced", 1), "c3": ("one", 1)}
        topics = {"all": swarm.RECORDS, "synced": swarm.SYNCED, "one": swarm.ONE}
        on = {topic for topic, workload in topics.items() if workload in self.swarm}
        for name, (topic, partitions) in producers.items():
            if topic in on:
                self.producers.append(
                    IdempotentProducer(
                        *common(name),
                        topic=topic,
                        partitions=partitions,
                        in_flight=random.choice((1, 3, 5)),
                        rate_s=rate_s,
                    )
                )
        self.consumers = [
            Consumer(*common(name), topic=topic, partitions=partitions)
            for name, (topic, partitions) in consumers.items()
            if topic in on
        ]
        self.clients += [*self.producers, *self.consumers]
        if "one" in on:
            plain = PlainProducer(*common("p4"), topic="one", partitions=1, rate_s=rate_s)
            self.clients.append(plain)

    def _add_transactions(self, common: Common, random: Random, rate_s: float) -> None:
        """Add transactional producers, and readers of committed records."""
        for i in range(random.choice((1, 2))):
            producer = TransactionalProducer(
                *common(f"t{i + 1}"),
                ledger=self.ledger,
                rate_s=rate_s,
                timeout_ms=random.choice((3_000, 30_000)),
            )
            self.transactional.append(producer)
        self.readers.append(LedgerReader(*common("c4"), ledger=self.ledger))
        if swarm.CHAIN in self.swarm:
            reader = OutputReader(*common("c5"), outputs=self.outputs, partitions=2)
            self.readers.append(reader)
        self.readers.append(LedgerReader(*common("c6"), ledger=self.late, late=True))
        self.clients += [*self.transactional, *self.readers]

    def _add_members(self, common: Common, random: Random) -> None:
        """Groups of all kinds, and the workers of the chain, in a group of either protocol."""
        on = self.swarm
        if swarm.CLASSIC_GROUP in on:
            for i in range(random.choice((1, 2, 3))):
                member = Member(*common(f"m{i + 1}"), group=self.groups[0], partitions=2)
                self.clients.append(member)
        if swarm.CONSUMER_GROUP in on:
            owners = Owners(self.groups[1])
            for i in range(random.choice((1, 2, 3))):
                member = ConsumerMember(
                    *common(f"k{i + 1}"), group=self.groups[1], partitions=2, owners=owners
                )
                self.clients.append(member)
        if swarm.SHARE_GROUP in on:
            for i in range(random.choice((1, 2, 3))):
                member = ShareMember(
                    *common(f"s{i + 1}"), group=self.deliveries.group, partitions=2,
                    deliveries=self.deliveries,
                )  # fmt: skip
                self.clients.append(member)
        if swarm.CHAIN in on:
            self._add_chain(common, random)

    def _add_chain(self, common: Common, random: Random) -> None:
        chain_owners = Owners(self.chain) if random.random() < 0.5 else None
        for i in range(random.choice((1, 2, 2))):
            of_chain: dict[str, Any] = {
                "group": self.chain,
                "partitions": self.ledger.partitions,
                "outputs": self.outputs,
                "timeout_ms": random.choice((3_000, 30_000)),
            }
            name = f"w{i + 1}"
            if chain_owners is None:
                self.clients.append(ClassicWorker(*common(name), **of_chain))
            else:
                self.clients.append(ConsumerWorker(*common(name), owners=chain_owners, **of_chain))

    async def work(self, client: Any) -> None:
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
            self.book,
            kinds=self.swarm.faults,
            synced={"synced"},
            single={"one"},
        )

    async def leave(self, store: RemoteStore, scope: trio.CancelScope) -> None:
        with scope:
            await store.run(self.nodes)

    async def _wreck(self, faults: Faults, scope: trio.CancelScope) -> None:
        random = Random(f"{self.result.seed}/wreck")
        wrecks = Wrecks(
            random,
            self.nodes,
            self.history,
            faults,
            self.network,
            synced={"synced"},
            single={"one"},
        )
        with scope:
            await wrecks.run()

    async def _damage(self, faults: Faults, scope: trio.CancelScope) -> None:
        random = Random(f"{self.result.seed}/damage")
        spared = {"synced", "one"}
        self.rot = Rot(random, self.nodes, self.history, faults, spared=spared)
        with scope:
            await self.rot.run()

    async def _until(self, ready: Callable[[], bool], within_s: float, what: str) -> None:
        with trio.move_on_after(within_s):
            while not ready():  # noqa: ASYNC110 - many things make it true
                await trio.sleep(0.05)
            return
        raise Violation("liveness", f"{what}: not within {within_s:g} s")

    async def settle(self, admin: Admin) -> None:
        """The faults are over: everything becomes well again, and nothing is missing."""
        self.chronicle.note("simulation", "waits until all is well")
        decides_at = trio.current_time() + PATIENCE_S
        with trio.move_on_after(SETTLE_S):
            while self.unwell():
                await trio.sleep(0.1)
                if trio.current_time() >= decides_at:
                    await admin.decide_between_logs(self.history.unsafe)
                    decides_at = trio.current_time() + PATIENCE_S
        if missing := self.unwell():
            raise Violation("liveness", f"{SETTLE_S:g} s after the last fault: {missing}")
        self.look()
        self.result.records = sum(
            stream.acknowledged for producer in self.producers for stream in producer.streams
        )

    def unwell(self) -> str:
        """A problem that is left after the end of the faults; "" if there is none."""
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
        if self.rot is not None and (damaged := self.rot.unrepaired()):
            return damaged
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
        if undone := self._untransacted(ends) or self._deals_open():
            return undone
        if self.tiers is not None and (undone := self.tiers.unfinished()):
            return undone
        if swarm.SHARE_GROUP in self.swarm and (undone := self.deliveries.unfinished(ends, 2)):
            return undone
        for group in self.groups:
            if {"__consumer_offsets", group.topic} & self.history.unsafe:
                continue
            for partition, progress in group.progress.items():
                end = ends.get(f"{group.topic}-{partition}", 0)
                if progress.committed < end:
                    return f"{group.name} is at {progress.committed} of {end} in {partition}"
        return ""

    def _deals_open(self) -> str:
        """A deal that is not done."""
        if swarm.DEALS not in self.swarm or DEALS_TOPIC in self.history.unsafe:
            return ""
        coordinators = [node.deals for node in self.nodes if node.broker is not None and node.deals]
        return self.book.unfinished(m for deals in coordinators for m in deals.machines())

    def _untransacted(self, ends: dict[str, int]) -> str:
        """A transaction that is not ended, or not seen."""
        unsafe = self.history.unsafe
        if swarm.TRANSACTIONS not in self.swarm or STATE_TOPIC in unsafe:
            return ""
        for producer in self.transactional:
            if producer.open and producer.topic not in unsafe:
                return f"{producer.process} has a transaction open"
        for reader in self.readers:
            for partition, position in reader.positions.items():
                end = ends.get(f"{reader.topic}-{partition}", 0)
                if position < end and reader.topic not in unsafe:
                    return (
                        f"{reader.process} is at {position} of {end} in {reader.topic}-{partition}"
                    )
        if self.ledger.topic in unsafe:
            return ""
        if torn := self.ledger.torn() or self.late.torn():
            return torn
        if swarm.CHAIN not in self.swarm or {"__consumer_offsets", self.outputs.topic} & unsafe:
            return ""
        return self.outputs.missing(self.ledger.places)


@contextmanager
def hooks(simulation: Simulation) -> Iterator[None]:
    """Have the run's history told what only the nodes' own code can tell."""

    def observed(*args: Any) -> ObservedStore:
        process = OWNER.get()
        assert process is not None
        return ObservedStore(EmbeddedStore(*args), simulation.history, process)

    append, append_run = Partition.append, Partition.append_run

    def witness(partition: Partition, epoch: int) -> None:
        try:
            simulation.history.leader_appended(partition, epoch)
        except Violation as e:
            simulation.fail(e)

    def witnessed(self: Partition, *args: Any, **kwargs: Any) -> Any:
        epoch = self.leader_epoch
        appended = append(self, *args, **kwargs)
        witness(self, epoch)
        return appended

    def witnessed_run(self: Partition, *args: Any, **kwargs: Any) -> list[int]:
        epoch = self.leader_epoch
        offsets = append_run(self, *args, **kwargs)
        if offsets:
            witness(self, epoch)
        return offsets

    mend = PartitionTasks._clear_damage

    async def witnessed_mend(
        self: PartitionTasks, partition: Partition, log: Log, image: PartitionImage
    ) -> None:
        kept = bool(kept_files(log.state.disk, log.state.directory))
        await mend(self, partition, log, image)
        try:
            simulation.history.mended(partition.node_id, log, image, kept)
        except Violation as e:
            simulation.fail(e)

    acquire = _ShareFetch._acquire

    def witnessed_acquire(self: _ShareFetch, found: Any, left: int) -> int:
        taken = acquire(self, found, left)
        key = found.share_partition.key
        data = self._answers.get(key.topic_partition)
        if taken and data is not None:
            topic = simulation.history.names.get(key.topic_id, "")
            simulation.deliveries.handed(key.group_id, topic, key.partition, data.acquired_records)
        return taken

    handler = LogNotes(simulation.chronicle)
    logger = logging.getLogger("pk")
    level, propagate = logger.level, logger.propagate
    node_lifecycle.EmbeddedStore = observed  # type: ignore[assignment, misc]
    Partition.append = witnessed  # type: ignore[method-assign]
    Partition.append_run = witnessed_run  # type: ignore[method-assign]
    PartitionTasks._clear_damage = witnessed_mend  # type: ignore[method-assign]
    _ShareFetch._acquire = witnessed_acquire  # type: ignore[method-assign]
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    at_once = durability.SNAPSHOT_AT_ONCE
    if swarm.LATE_SNAPSHOTS in simulation.swarm:
        durability.SNAPSHOT_AT_ONCE = 0
    try:
        yield
    finally:
        durability.SNAPSHOT_AT_ONCE = at_once
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate
        Partition.append = append  # type: ignore[method-assign]
        Partition.append_run = append_run  # type: ignore[method-assign]
        PartitionTasks._clear_damage = mend  # type: ignore[method-assign]
        _ShareFetch._acquire = acquire  # type: ignore[method-assign]
        node_lifecycle.EmbeddedStore = EmbeddedStore  # type: ignore[misc]


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Raise Stuck if the block takes more CPU time than this."""

    def stuck(*_: Any) -> None:
        raise Stuck(f"more than {seconds:g} s")

    before = signal.signal(signal.SIGPROF, stuck)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def stuck_in(error: BaseException) -> Stuck | None:
    """The alarm that ended a run, which trio may have taken for a fault of its own."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, Stuck):
        cause = cause.__cause__
    return cause


def ended_in(error: BaseException) -> KeyboardInterrupt | SystemExit | None:
    """The exception that ends this process and is no result of the run: Ctrl-C, or SIGTERM's
    SystemExit."""
    cause: BaseException | None = error  # trio may have taken it for a fault of its own
    while cause is not None:
        found = leaves(cause) if isinstance(cause, BaseExceptionGroup) else [cause]
        for one in found:
            if isinstance(one, KeyboardInterrupt | SystemExit):
                return one
        cause = cause.__cause__
    return None


def collect_tasks() -> None:
    """End the tasks of an abandoned run now, and not within the next run. Their complaints are
    ignored."""
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        gc.collect()
    finally:
        sys.unraisablehook = hook


def run_seed(
    seed: int, options: Options | None = None, planted: Callable[[], Any] | None = None
) -> Result:
    """Run one seed. `planted` gives a context in which the product has a bug."""
    with rare_collections():  # a run lets go of few cycles, and full collections took a sixth of it
        result = _run(seed, options, planted)
    if result.stuck:
        collect_tasks()
    else:
        gc.collect(1)
    return result


def _run(seed: int, options: Options | None, planted: Callable[[], Any] | None) -> Result:
    simulation = Simulation(seed, options or Options())
    result, started = simulation.result, process_time()
    clock = VirtualClock()

    async def main() -> None:
        with inline():
            await simulation.run()

    with ExitStack() as stack:
        stack.enter_context(alarm(CPU_S))
        stack.enter_context(deterministic(seed))
        if planted is not None:
            stack.enter_context(planted())
        stack.enter_context(hooks(simulation))
        if simulation.tiers is not None:
            stack.enter_context(tiered_hooks(simulation.tiers, simulation.fail))
        try:
            trio.run(main, clock=clock)
        except BaseException as e:  # noqa: BLE001 - whatever a planted bug raises is its finding
            if (ended := ended_in(e)) is not None:
                raise ended from None
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
