"""The end of some runs: every disk is lost, and another cluster restores the tiered topics from the
store, while its brokers die and the store fails.

It must have exactly the content of the store: each partition begins no later than its log began,
and ends with the last offset that was copied. Committed records up to there count as committed in
the new cluster, so that every check of the first one applies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Final

import trio
from sim import swarm
from sim.admin import Admin
from sim.chronicle import Violation
from sim.clients import AGAIN, Consumer, IdempotentProducer
from sim.faults import Faults
from sim.history import History, Key
from sim.network import Address
from sim.nodes import BROKER_PORT, World
from sim.processes import owned_by
from sim.tiered import PARTITIONS, TOPIC, ProcessStorage, Tiers, TrueStorage

from pk.core.broker.peers import PeerLost
from pk.core.errors import ErrorCode, error_name
from pk.core.log.remote.checking import checked_objects
from pk.core.log.remote.restoring import TopicFound, found_topics, producer_id_after
from pk.core.wire.messages.pk_restore_topics import (
    PkRestoreTopicsRequest,
    RestoredConfig,
    RestoredPartition,
    RestoredTopic,
)

if TYPE_CHECKING:
    from sim.simulation import Simulation

CHANCE: Final = 0.5
FIRST_NODE: Final = 10
"""The new cluster has other hosts."""
FAULTS_S: Final = 6.0
KINDS: Final = frozenset({"kill", "power", "stop", "pause", "drop", "cut", "one_way", "slow"})
TIMEOUT_MS: Final = 8_000


@dataclass(frozen=True, slots=True)
class _Reach:
    """How much of a partition the store must have."""

    start: int
    copied_to: int


def _reaches(tiers: Tiers) -> dict[Key, _Reach]:
    found: dict[Key, _Reach] = {}
    for _, _, partition in tiers.replicas():
        if partition.leads and partition.remote is not None:
            key = (partition.topic_id, partition.tp.partition)
            start = partition.log.state.log_start_offset
            found[key] = _Reach(start, partition.remote.highest_copied(partition.log)[0])
    return found


def _check(found: list[TopicFound], reaches: dict[Key, _Reach]) -> None:
    plans = {
        (topic.topic_id, one.partition.partition): one.plan
        for topic in found
        for one in topic.partitions
    }
    for key, reach in reaches.items():
        end = plans[key].end_offset if key in plans else -1
        if end != reach.copied_to and end >= reach.start:
            raise Violation(
                "the store has what was copied", f"{key[1]} to {end}, not {reach.copied_to}", TOPIC
            )
        if end >= reach.start and plans[key].start_offset > reach.start:
            raise Violation(
                "the store has what was copied",
                f"{key[1]} from {plans[key].start_offset}, not {reach.start}",
                TOPIC,
            )


def _inherited(old: History, found: list[TopicFound]) -> History:
    """A history in which everything that is restored is committed."""
    history = History(old.chronicle, old.names)
    history.compacts = old.compacts
    for topic in found:
        for one in topic.partitions:
            key = (topic.topic_id, one.partition.partition)
            before, known = old.partition(key), history.partition(key)
            kept = [b for b in before.batches if b.next <= one.plan.end_offset + 1]
            known.batches, known.bases = kept, [b.base for b in kept]
            known.end = one.plan.end_offset + 1
            history.starts[key] = max(one.plan.start_offset, 0)
    return history


def _request(tiers: Tiers, found: list[TopicFound]) -> PkRestoreTopicsRequest:
    storage: Any = TrueStorage(tiers.store)
    plans = [one.plan for topic in found for one in topic.partitions]
    return PkRestoreTopicsRequest(
        topics=[_wanted(topic) for topic in found],
        producer_id_next=max(producer_id_after(storage, "", plan) for plan in plans),
        timeout_ms=TIMEOUT_MS,
    )


def _wanted(topic: TopicFound) -> RestoredTopic:
    assert topic.state is not None
    configs = dict(topic.state.configs) | {"remote.storage.enable": "true"}
    return RestoredTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        replication_factor=3,
        configs=[RestoredConfig(name=key, value=value) for key, value in configs.items()],
        partitions=[
            RestoredPartition(
                end_offset=one.plan.end_offset,
                last_epoch=one.plan.last_epoch,
                cluster_ids=list(one.cluster_ids),
                start_offset=one.plan.start_offset,
            )
            for one in topic.partitions
        ],
    )


async def restore(simulation: Simulation, tiers: Tiers, nursery: trio.Nursery) -> None:
    """Lose the cluster, and restore its topics in another one. Raises Violation."""
    chronicle, network = simulation.chronicle, simulation.network
    if not tiers.holds:
        return
    random = Random(f"{simulation.result.seed}/restored")
    reaches = _reaches(tiers)
    chronicle.note("simulation", "every disk is lost")
    for node in simulation.nodes:
        node.kill()
    for client in simulation.clients:
        client.process.freeze()
    storage: Any = TrueStorage(tiers.store)
    found = found_topics(checked_objects(storage, records=True), "")
    _check(found, reaches)
    if TOPIC not in {topic.name for topic in found}:
        return
    history = simulation.history = _inherited(simulation.history, found)
    tiers.begin_again(history)
    simulation.swarm = swarm.Swarm(
        frozenset({swarm.TIERED, *swarm.SETTINGS} & simulation.swarm.on), KINDS, (FAULTS_S,)
    )
    simulation.rot, simulation.moving = None, False
    simulation.producers, simulation.consumers, simulation.groups = [], [], []
    simulation.nodes.clear()
    world = World(
        network, history, nursery, random, None,
        simulation.look, simulation.fail, simulation.book,
    )  # fmt: skip
    world.storage = lambda process: ProcessStorage(tiers.store, process)
    simulation.make_nodes(world, first=FIRST_NODE)
    nodes = simulation.nodes
    bootstrap: dict[int, Address] = {
        n.node_id: (n.host, BROKER_PORT) for n in nodes if n.config.is_broker
    }

    def common(name: str) -> Iterator[Any]:
        yield from (name, network, history, bootstrap, Random(f"{random.random()}/{name}"))

    for node in nodes:
        node.start()
    await simulation.until_ready()
    admin = Admin(*common("restorer"), brokers=list(bootstrap), rate_s=1000.0)
    faults = Faults(
        Random(f"{simulation.result.seed}/restored faults"), nodes, network, history, nursery,
        simulation.book, kinds=KINDS, synced=set(), single=set(),
    )  # fmt: skip
    world.crashed, tiers.store.crash = faults.crashed, faults.crash_in
    tiers.store.crash_all = faults.crash_all_in
    tiers.store.calm = random.random() < 0.3
    where: dict[str, Any] = {"topic": TOPIC, "partitions": PARTITIONS}
    producer = IdempotentProducer(*common("p9"), **where, in_flight=3, rate_s=0.5)
    consumer = Consumer(*common("c10"), **where)
    simulation.producers, simulation.consumers = [producer], [consumer]
    simulation.clients += [admin, producer, consumer]
    with owned_by(admin.process):
        nursery.start_soon(_ask, admin, _request(tiers, found))
    for client in (producer, consumer):
        with owned_by(client.process):
            nursery.start_soon(simulation.work, client)
    away = trio.CancelScope()
    nursery.start_soon(simulation.leave, tiers.store, away)
    await faults.run(FAULTS_S)
    away.cancel()
    tiers.store.mend()
    for client in simulation.clients:
        client.idle = True
    await simulation.settle(admin)
    world.crashed = lambda node: None


async def _ask(admin: Admin, request: PkRestoreTopicsRequest) -> None:
    """Have the topics restored, however often it takes."""
    while True:
        try:
            answer = await admin.ask_any(request, TIMEOUT_MS + 2_000)
            code = answer.error_code or max(one.error_code for one in answer.topics)
        except PeerLost:
            code = ErrorCode.NETWORK_EXCEPTION
        admin.note(f"restores topics: {error_name(code)}")
        if not code:
            return
        assert code in AGAIN, error_name(code)
        await admin.pause()
