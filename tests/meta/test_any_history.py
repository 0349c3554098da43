"""A random cluster under everything that can happen to it: brokers register (cleanly or not), fall
silent, shut down, lose directories; leaders change their ISR; elections, reassignments, changes of
configs, in any order.

Beside the image runs a model of what the replicas hold. Leaders append, followers copy, and what is
on every member of a large enough ISR is acknowledged. A broker that did not shut down cleanly has
lost any part of its tail when it is back. After every decision the image must be sound, and a
leader that came by no unclean election must hold everything acknowledged: that is what the promise
of acks=all rests on. Where logs are compared because nobody is eligible, the leader must hold it if
one of those does that were in sync when something was acknowledged last.
"""

from __future__ import annotations

from random import Random
from typing import Any

from effort import examples
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from meta.world import CONFIG, SET, alter, cluster, create, registration, topic

from pk.core.machine import Decision
from pk.core.meta import (
    alter_partition,
    brokers,
    directories,
    elections,
    reassignment,
    snapshot,
    topics,
    unclean_recovery,
)
from pk.core.meta.events import (
    BROKER,
    TOPIC,
    Event,
    PartitionChanged,
    decode,
    encode,
)
from pk.core.meta.image import MetadataImage, PartitionImage
from pk.core.meta.unclean_recovery import Report
from pk.core.values import TopicIdPartition
from pk.core.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from pk.core.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pk.core.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    DirectoryData,
)
from pk.core.wire.messages.assign_replicas_to_dirs import PartitionData as Assigned
from pk.core.wire.messages.assign_replicas_to_dirs import TopicData as AssignedTopic
from pk.core.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from pk.core.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from pk.core.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from pk.core.wire.messages.pk_replica_logs import PkReplicaLogsRequest, ReplicaLog, TopicLogs
from pk.core.wire.messages.unregister_broker import UnregisterBrokerRequest

NODES = range(1, 6)
Tp = tuple[bytes, int]
nodes = st.sampled_from(NODES)
chance = st.integers(0, 2**16)


def directory(node: int, number: int) -> bytes:
    return bytes(12) + bytes([1, node, number, 0])


def same(one: list[int], other: list[int]) -> int:
    """How many records two logs begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


class AnyHistory(RuleBasedStateMachine):
    @initialize(seed=chance)
    def begin(self, seed: int) -> None:
        image = cluster()
        for node in NODES:
            request = registration(node, node, log_dirs=[directory(node, 0), directory(node, 1)])
            image = image.apply(brokers.register_broker(image, request, CONFIG).records)
            image = image.apply(self.beating(image, node).records)
        image, _ = create(
            image,
            topic("three", 2, 3, own={"min.insync.replicas": "2"}),
            topic("two", 1, 2),
            topic("dirty", 1, 3, own={"unclean.leader.election.enable": "true"}),
            topic("five", 1, 5, own={"min.insync.replicas": "3"}),
            seed=seed,
        )
        self.image = image
        self.incarnations = 100
        self.log: dict[tuple[Tp, int], list[int]] = {}
        self.acknowledged: dict[Tp, list[int]] = {}
        self.next = 0
        self.joining: list[int] = []
        self.emptied: set[tuple[Tp, int]] = set()
        self.damaged: set[tuple[Tp, int]] = set()
        self.epoch_of: dict[int, int] = {}
        self.acting: dict[Tp, tuple[int, ...]] = {}
        self.reports: dict[TopicIdPartition, dict[int, Report]] = {}
        self.comparing = False
        self.unsound = -1
        self.promised: dict[Tp, int] = {}
        self.losses: dict[Tp, set[int]] = {}
        self.reported: dict[int, int] = {node: image.brokers[node].broker_epoch for node in NODES}

    # --- the model of the replicas ---

    def log_of(self, tp: Tp, node: int) -> list[int]:
        return self.log.setdefault((tp, node), [])

    def all_partitions(self) -> list[tuple[str, Tp, PartitionImage]]:
        return [
            (t.name, (t.topic_id, p.partition), p)
            for t in self.image.topics.values()
            for p in t.partitions
        ]

    def min_isr(self, name: str, partition: PartitionImage) -> int:
        own = self.image.topic_configs(name).get("min.insync.replicas")
        every = self.image.broker_configs(None).get("min.insync.replicas", "1")
        return min(int(own or every), len(partition.replicas))

    def unclean(self, name: str) -> bool:
        return self.image.topic_configs(name).get("unclean.leader.election.enable") == "true"

    def acknowledge(self) -> None:
        for name, tp, p in self.all_partitions():
            if p.leader >= 0 and len(p.isr) >= self.min_isr(name, p):
                # A follower counts as far as it has the leader's records, not others of that
                # number.
                leader = self.log_of(tp, p.leader)
                end = min(same(leader, self.log_of(tp, node)) for node in p.isr)
                known = self.acknowledged.setdefault(tp, [])
                if end > len(known):
                    self.acting[tp] = p.isr
                    self.acknowledged[tp] = self.log_of(tp, p.leader)[:end]

    # --- decisions ---

    def commit(self, decision: Decision[Event, Any], *, may_be_unclean: bool = False) -> Any:
        for event in decision.records:
            before = self.image
            self.image = before.apply([decode(encode(event))])
            if isinstance(event, PartitionChanged):
                self.changed(before, event, may_be_unclean)
        return decision.reply

    def changed(self, before: MetadataImage, event: PartitionChanged, asked: bool) -> None:
        found, now_topic = (
            before.topic_by_id(event.topic_id),
            self.image.topic_by_id(event.topic_id),
        )
        assert found is not None and now_topic is not None
        old, new = found.partitions[event.partition], now_topic.partitions[event.partition]
        tp = (event.topic_id, event.partition)
        assert new != old and new.partition_epoch == old.partition_epoch + 1
        assert new.leader_epoch == old.leader_epoch + (event.leader is not None)
        if new.leader != old.leader or not set(old.replicas) <= set(new.replicas):
            assert new.leader_epoch > old.leader_epoch
        for node in set(old.replicas) - set(new.replicas):
            self.log.pop((tp, node), None)
            if self.unclean(found.name) and node in (*old.isr, *old.elr):
                # If unclean elections are allowed, a reassignment may be canceled although the
                # remaining replicas have fewer records.
                self.losses.setdefault(tp, set()).add(node)
        if new.leader < 0 or new.leader == old.leader:
            return
        safe = {*old.isr, *old.elr, *self.joining}
        if new.leader not in safe or (tp, new.leader) in self.emptied:
            alone = len(new.replicas) == 1 and (tp, new.leader) not in self.emptied
            assert asked or self.unclean(found.name) or alone or self.comparing, (old, new)
            assert new.recovering and new.isr == (new.leader,) and not new.elr
            lossy = new.unclean_epoch == new.leader_epoch
            assert lossy == (not alone and (new.unclean_epoch > old.unclean_epoch))
            if self.comparing and any(
                n in old.replicas and self.is_whole(tp, n) for n in self.acting.get(tp, ())
            ):
                assert not lossy and self.is_whole(tp, new.leader), (old, new)
            self.acknowledged[tp] = self.common(tp, new.leader)
            self.promised.pop(tp, None)

    def is_whole(self, tp: Tp, node: int) -> bool:
        """Whether `node` has all that was acknowledged."""
        known = self.acknowledged.get(tp, [])
        return self.log_of(tp, node)[: len(known)] == known and (tp, node) not in self.damaged

    def common(self, tp: Tp, node: int) -> list[int]:
        """The acknowledged records that `node` has."""
        known, log = self.acknowledged.get(tp, []), self.log_of(tp, node)
        return known[: same(known, log)]

    def beating(self, image: MetadataImage, node: int, **fields: Any) -> Decision[Event, Any]:
        request = BrokerHeartbeatRequest(
            broker_id=node,
            broker_epoch=image.brokers[node].broker_epoch,
            current_metadata_offset=image.offset,
            **fields,
        )
        return brokers.heartbeat(image, request, CONFIG)

    # --- what brokers do ---

    @rule(node=nodes, clean=st.booleans(), lost=chance, new_disk=st.booleans())
    def register(self, node: int, clean: bool, lost: int, new_disk: bool) -> None:
        old = self.image.brokers.get(node)
        self.incarnations += 1
        log_dirs = list(old.log_dirs) if old is not None else []
        log_dirs = log_dirs or [directory(node, self.incarnations % 100)]
        if new_disk:
            log_dirs[0] = directory(node, self.incarnations % 100)
        request = registration(
            node,
            self.incarnations,
            previous=old.broker_epoch if clean and old is not None else -1,
            log_dirs=list(dict.fromkeys(log_dirs)),
        )
        if not clean or old is None:
            random = Random(lost)
            for (_, holder), log in self.log.items():
                if holder == node and log:
                    del log[random.randrange(len(log) + 1) :]
        self.unsound = -1 if clean and old is not None else node
        if self.unsound == node:
            for _, tp, _ in self.all_partitions():
                self.losses.setdefault(tp, set()).add(node)
        reply = self.commit(brokers.register_broker(self.image, request, CONFIG))
        self.unsound = -1
        assert reply.error_code == 0
        self.reported[node] = self.image.brokers[node].broker_epoch
        assert self.image.brokers[node].fenced
        for _, _, p in self.all_partitions():
            assert node not in p.isr and ((clean and old is not None) or node not in p.elr)

    @rule(node=nodes, want_fence=st.booleans(), want_shut_down=st.booleans())
    def heartbeat(self, node: int, want_fence: bool, want_shut_down: bool) -> None:
        if node in self.image.brokers:
            reply = self.commit(
                self.beating(self.image, node, want_fence=want_fence, want_shut_down=want_shut_down)
            )
            assert reply.is_fenced == self.image.brokers[node].fenced
            if reply.should_shut_down:
                assert all(p.leader != node for _, _, p in self.all_partitions())

    @rule()
    def everybody_is_unfenced(self) -> None:
        for node in sorted(self.image.brokers):
            self.commit(self.beating(self.image, node))

    @rule(node=nodes)
    def fall_silent(self, node: int) -> None:
        if node in self.image.brokers:
            epoch = self.image.brokers[node].broker_epoch
            self.commit(brokers.fence_broker(self.image, node, epoch, CONFIG))

    @rule(node=nodes)
    def unregister(self, node: int) -> None:
        request = UnregisterBrokerRequest(broker_id=node)
        self.commit(brokers.unregister_broker(self.image, request, CONFIG))

    @rule(node=nodes, which=chance)
    def lose_directory(self, node: int, which: int) -> None:
        broker = self.image.brokers.get(node)
        if broker is not None and len(broker.log_dirs) > 1:
            lost = broker.log_dirs[which % len(broker.log_dirs)]
            self.commit(self.beating(self.image, node, want_fence=True, offline_log_dirs=[lost]))

    @rule(node=nodes, which=chance)
    def place(self, node: int, which: int) -> None:
        """A broker finds its replicas, or creates them again if the directory is gone."""
        broker = self.image.brokers.get(node)
        if broker is None or not broker.log_dirs:
            return
        to = broker.log_dirs[which % len(broker.log_dirs)]
        wanted = []
        for _, tp, p in self.all_partitions():
            if node in p.replicas:
                was = p.directory(node)
                if was not in (*broker.log_dirs, bytes(16)):
                    self.log[tp, node] = []
                    self.emptied.add((tp, node))
                    self.damaged.add((tp, node))
                    self.losses.setdefault(tp, set()).add(node)
                wanted.append(
                    AssignedTopic(topic_id=tp[0], partitions=[Assigned(partition_index=tp[1])])
                )
        request = AssignReplicasToDirsRequest(
            broker_id=node,
            broker_epoch=broker.broker_epoch,
            directories=[DirectoryData(id=to, topics=wanted)],
        )
        self.commit(directories.assign_directories(self.image, request, CONFIG))
        self.emptied.clear()

    @rule(node=nodes)
    def report(self, node: int) -> None:
        """A broker reports the logs of partitions without a leader."""
        broker = self.image.brokers.get(node)
        if broker is None:
            return
        logs: list[tuple[Tp, ReplicaLog]] = []
        for _, tp, p in self.all_partitions():
            if p.leader < 0 and node in p.replicas:
                log = self.log_of(tp, node)
                found = ReplicaLog(
                    partition_index=tp[1],
                    leader_epoch=p.leader_epoch,
                    last_epoch=self.epoch_of[log[-1]] if log else -1,
                    end_offset=len(log),
                    start_offset=0,
                    damage=int((tp, node) in self.damaged),
                )
                logs.append((tp, found))
        request = PkReplicaLogsRequest(
            broker_id=node,
            broker_epoch=broker.broker_epoch,
            topics=[TopicLogs(topic_id=tp[0], partitions=[log]) for tp, log in logs],
        )
        reply = self.commit(unclean_recovery.report(self.image, request, CONFIG))
        for (tp, log), answer in zip(logs, reply.topics, strict=True):
            assert answer.partitions[0].error_code == 0
            key = TopicIdPartition(*tp)
            self.reports.setdefault(key, {})[node] = Report(broker.broker_epoch, log)

    @rule()
    def everybody_reports(self) -> None:
        for node in NODES:
            self.report(node)
        self.compare()

    @rule()
    def compare(self) -> None:
        self.comparing = True
        self.commit(unclean_recovery.recover(self.image, self.reports, CONFIG))
        self.comparing = False

    # --- what leaders and followers do ---

    @rule(count=st.integers(1, 3))
    def append(self, count: int) -> None:
        for _, tp, p in self.all_partitions():
            if p.leader >= 0:
                for _ in range(count):
                    self.next += 1
                    self.epoch_of[self.next] = p.leader_epoch
                    self.log_of(tp, p.leader).append(self.next)
        self.acknowledge()

    @rule(node=nodes, count=st.integers(1, 4))
    def replicate(self, node: int, count: int) -> None:
        self.copy(node, count)
        self.acknowledge()

    @rule()
    def replicate_all(self) -> None:
        for node in NODES:
            self.copy(node, 1000)
        self.acknowledge()

    def copy(self, node: int, count: int) -> None:
        broker = self.image.brokers.get(node)
        if broker is None:
            return
        for _, tp, p in self.all_partitions():
            known = p.directory(node) in (*broker.log_dirs, bytes(16))
            if node in p.replicas and node != p.leader and p.leader >= 0 and known:
                mine, theirs = self.log_of(tp, node), self.log_of(tp, p.leader)
                begin = same(mine, theirs)
                mine[begin:] = theirs[begin : begin + count]

    @rule(seed=chance, grow=st.booleans())
    def change_isr(self, seed: int, grow: bool) -> None:
        """Each leader asks: to drop some, or to take in those that have all that is
        acknowledged."""
        random = Random(seed)
        for _, tp, p in self.all_partitions():
            if p.leader < 0:
                continue
            high_watermark = len(self.acknowledged.get(tp, []))
            if grow:
                new = [
                    n
                    for n in p.replicas
                    if n in p.isr
                    or same(self.log_of(tp, n), self.log_of(tp, p.leader)) >= high_watermark
                ]
            else:
                new = [n for n in p.isr if n == p.leader or random.randrange(2)]
            self.ask(tp, p, new)
        self.acknowledge()

    def ask(self, tp: Tp, p: PartitionImage, new: list[int]) -> None:
        states = [BrokerState(broker_id=n, broker_epoch=self.reported.get(n, -1)) for n in new]
        data = PartitionData(
            partition_index=tp[1],
            leader_epoch=p.leader_epoch,
            new_isr_with_epochs=states,
            partition_epoch=p.partition_epoch,
        )
        request = AlterPartitionRequest(
            broker_id=p.leader,
            broker_epoch=self.image.brokers[p.leader].broker_epoch,
            topics=[TopicData(topic_id=tp[0], partitions=[data])],
        )
        self.joining = new
        self.commit(alter_partition.alter_partition(self.image, request, CONFIG, 3))
        self.joining = []

    # --- what operators do ---

    @rule(unclean=st.booleans(), which=chance, everything=st.booleans())
    def elect(self, unclean: bool, which: int, everything: bool) -> None:
        found = self.all_partitions()
        name, tp, _ = found[which % len(found)]
        request = ElectLeadersRequest(
            election_type=int(unclean),
            topic_partitions=None
            if everything
            else [TopicPartitions(topic=name, partitions=[tp[1]])],
        )
        self.commit(
            elections.elect_leaders(self.image, request, CONFIG, self.reports),
            may_be_unclean=unclean,
        )

    @rule()
    def rebalance(self) -> None:
        self.commit(elections.rebalance_leaders(self.image, CONFIG))
        self.commit(elections.elect_offline(self.image, CONFIG))

    @rule(
        which=chance, to=st.lists(nodes, min_size=1, max_size=4, unique=True), cancel=st.booleans()
    )
    def reassign(self, which: int, to: list[int], cancel: bool) -> None:
        found = self.all_partitions()
        name, tp, _ = found[which % len(found)]
        request = AlterPartitionReassignmentsRequest(
            topics=[
                ReassignableTopic(
                    name=name,
                    partitions=[
                        ReassignablePartition(
                            partition_index=tp[1], replicas=None if cancel else to
                        )
                    ],
                )
            ]
        )
        self.commit(reassignment.alter_reassignments(self.image, request, CONFIG))

    @rule(
        name=st.sampled_from(["three", "two", "five", ""]), value=st.sampled_from(["1", "2", "3"])
    )
    def configure(self, name: str, value: str) -> None:
        kind = TOPIC if name else BROKER
        before = self.image
        after, answer = alter(before, kind, name, ("min.insync.replicas", SET, value))
        assert answer.error_code == 0
        for _, tp, p in self.all_partitions():
            now = after.topics_by_id[tp[0]].partitions[tp[1]]
            assert now.leader == p.leader or p.leader < 0
        self.image = after
        self.acknowledge()

    @precondition(lambda self: len(self.image.topics["two"].partitions) < 4)
    @rule(seed=chance)
    def grow(self, seed: int) -> None:
        count = len(self.image.topics["two"].partitions) + 1
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="two", count=count, assignments=None)]
        )
        self.commit(topics.create_partitions(self.image, request, Random(seed)))

    # --- what must hold ---

    @invariant()
    def partitions_are_sound(self) -> None:
        if not hasattr(self, "image"):
            return
        for name, tp, p in self.all_partitions():
            replicas, isr, elr = set(p.replicas), set(p.isr), set(p.elr)
            assert len(replicas) == len(p.replicas) > 0
            assert isr <= replicas and len(isr) == len(p.isr)
            assert elr <= replicas and len(elr) == len(p.elr)
            assert not isr & elr
            assert p.leader < 0 or p.leader in isr
            assert bool(p.isr) == (p.leader >= 0), "who may lead does; the others left the ISR"
            known = set(p.last_known_elr)
            assert known <= replicas and len(known) == len(p.last_known_elr)
            assert not known & isr and not (p.leader >= 0 and known & elr)
            self.damaged -= {(tp, node) for node in isr}
            if len(isr) >= self.min_isr(name, p):
                assert not elr
            assert set(p.adding) <= replicas and set(p.removing) <= replicas
            assert len(p.directories) in (0, len(p.replicas))
            assert reassignment.original(p) and reassignment.target(p)
            for node in isr:
                assert self.image.brokers[node].may_lead

    @invariant()
    def enough_replicas_have_what_is_acknowledged(self) -> None:
        """At least `min.insync.replicas`, less the replicas that lost their tails since."""
        if not hasattr(self, "image"):
            return
        for name, tp, p in self.all_partitions():
            isr_min, safe = self.min_isr(name, p), {*p.isr, *p.elr}
            if len(p.isr) >= isr_min:
                self.promised[tp] = isr_min
                self.losses[tp] = set()
            elif tp in self.promised:
                promised = min(self.promised[tp], isr_min)
                assert len(safe | self.losses.get(tp, set())) >= promised, (name, p)

    @invariant()
    def nothing_acknowledged_is_lost(self) -> None:
        if not hasattr(self, "image"):
            return
        for _, tp, p in self.all_partitions():
            if p.leader >= 0:
                known = self.acknowledged.get(tp, [])
                assert self.log_of(tp, p.leader)[: len(known)] == known, (tp, p)

    def teardown(self) -> None:
        if hasattr(self, "image"):
            assert snapshot.load(snapshot.dump(self.image)) == self.image

    @invariant()
    def epochs_are_offsets(self) -> None:
        if hasattr(self, "image"):
            for broker in self.image.brokers.values():
                assert broker.broker_epoch < self.image.offset


# Not shrunk: that takes minutes, and a history prints its steps as it is.
AnyHistory.TestCase.settings = settings(
    max_examples=examples(60),
    stateful_step_count=40,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
TestAnyHistory = AnyHistory.TestCase
