"""Damaged disks: on one broker while the others live, or on all but a few after all brokers crashed
or were stopped.

In such a case acks=all still promises: as long as one member of the last ISR has its whole log and
returns, no acknowledged record is lost, regardless of the damage to the others and the order in
which they return. So some are spared: for each partition with several replicas, one that is in
sync, or eligible, when all are down. The others lose unsynced data, or files, or bits, or the whole
disk.

Two wrecks are built on purpose, since they are rare by chance: the longer log of an older epoch
returns beside a shorter one of a newer epoch; and with `min.insync.replicas=1` the only replica in
sync loses records that another one knows to be committed, and continues.

A start does not find a bit that flips in data synced long ago, but a read does. A changed bit in
the offset or leader epoch of the very last batch cannot be detected. Such bits are left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Final

import trio
from sim.faults import Faults
from sim.history import History
from sim.network import Network
from sim.nodes import SimNode
from sim.stores import HOST as ENSEMBLE_HOST

from pk.core.meta.partition_rules import PartitionRules
from pk.core.record.batch import CorruptBatch, iter_headers

DATA: Final = "/data"
LOG: Final = ".log"
AFTER_S: Final = 2.0
"""Between the recovery of one and the next, on average."""
ALONE_S: Final = 5.0
"""The time to wait for a replica to be alone in sync."""
PARTED_S: Final = 20.0
"""How long one that is cut off is waited for to have more than its successor."""
SECTOR_BYTES: Final = 512
UNCOVERED_BYTES: Final = 16
"""A batch's offset, length and leader epoch: no CRC covers them."""

Harm = Callable[[SimNode, Random], None]


def _logs(node: SimNode) -> list[str]:
    """The directories of its partitions."""
    if not node.disk.exists(DATA):
        return []
    names = node.disk.list(DATA)
    return sorted(
        f"{DATA}/{name}"
        for name, entry in names.items()
        if entry.is_directory and name.rpartition("-")[2].isdigit()
    )


def _last_segments(node: SimNode) -> list[str]:
    """The file with the newest records of each partition that has any."""
    found: list[str] = []
    for directory in _logs(node):
        files = [n for n in node.disk.list(directory) if n.endswith(LOG) and n[:20].isdigit()]
        path = f"{directory}/{max(files)}" if files else ""
        if path and node.disk.open(path).size():
            found.append(path)
    return found


def _lose_power(node: SimNode, random: Random) -> None:
    """A random part of the unsynced data is lost."""
    node.disk.power_cut(random)


def _replace(node: SimNode, random: Random) -> None:
    """The disk is another one."""
    if node.disk.exists(DATA):
        node.disk.remove_tree(DATA)


def _remove(node: SimNode, random: Random) -> None:
    """The directories of some partitions are gone."""
    logs = _logs(node)
    for directory in random.sample(logs, random.randint(min(1, len(logs)), len(logs))):
        node.disk.remove_tree(directory)


def _remove_files(node: SimNode, random: Random) -> None:
    """A file is gone in each of some directories."""
    logs = _logs(node)
    for directory in random.sample(logs, random.randint(min(1, len(logs)), len(logs))):
        names = sorted(node.disk.list(directory))
        if names:
            node.disk.remove(f"{directory}/{random.choice(names)}")


def _tear(node: SimNode, random: Random) -> None:
    """Logs end somewhere in their last segment."""
    for path in _last_segments(node):
        if random.random() < 0.7:
            file = node.disk.open(path)
            file.truncate(random.randrange(file.size()))


def _flip(node: SimNode, random: Random) -> None:
    """One bit, a sector, or all of a segment is another."""
    for path in _last_segments(node):
        how = random.random()
        file = node.disk.open(path)
        data = file.pread(file.size(), 0)
        last = 0
        with suppress(CorruptBatch):  # it was damaged before
            for position, _ in iter_headers(data):
                last = position
        at = random.randrange(len(data))
        if how < 0.4 and not last <= at < last + UNCOVERED_BYTES:
            file.pwrite(bytes([data[at] ^ (1 << random.randrange(8))]), at)
        elif how < 0.6:
            length = min(SECTOR_BYTES, len(data) - at)
            file.pwrite(random.randbytes(length) if how < 0.5 else bytes(length), at)
        elif how < 0.7:
            file.pwrite(bytes(len(data)), 0)


def _cut_below(node: SimNode, directory: str, offset: int) -> None:
    """A log ends with a whole batch, at or below `offset`, and has lost at least one batch."""
    for path in _last_segments(node):
        if path.startswith(f"{directory}/"):
            file = node.disk.open(path)
            batches = list(iter_headers(file.pread(file.size(), 0)))
            starts = [at for at, header in batches if header.base_offset < offset]
            file.truncate(max(starts, default=0))
    node.disk.sync_all([DATA])


ANY_TIME: Final[dict[str, Harm]] = {
    "replaced": _replace,
    "directories removed": _remove,
    "files removed": _remove_files,
    "torn": _tear,
}
"""Damage that a start finds even after a clean stop."""
CRASHED: Final[dict[str, Harm]] = {**ANY_TIME, "power": _lose_power, "flipped": _flip}


class Wrecks:
    """Damages disks during one run, beside its faults."""

    def __init__(
        self,
        random: Random,
        nodes: list[SimNode],
        history: History,
        faults: Faults,
        network: Network,
        *,
        synced: set[str],
        single: set[str],
    ) -> None:
        """`synced` are topics with one replica, `single` those with `min.insync.replicas=1`."""
        self._random = random
        self._nodes = nodes
        self._history = history
        self._faults = faults
        self._network = network
        self._synced = synced
        self._single = single

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await trio.sleep(self._random.expovariate(1 / AFTER_S))
            brokers = [n for n in self._nodes if n.config.is_broker]
            if self._random.random() < 0.5:
                # While some lag behind, or lead on without knowing that they do not.
                if self._spared(up=True) is not None:
                    self._crash_all(brokers)
                continue
            while not self._is_well(brokers):  # noqa: ASYNC110 - many things make it so
                await trio.sleep(0.1)
            if self._single and self._random.random() < 0.25 and (pair := self._pair(brokers)):
                await self._lose_tail_alone(*pair)
            elif self._random.random() < 0.25:
                await self._crash_parted(brokers)
            elif self._random.random() < 0.3:
                await self._one(self._random.choice(brokers))
            elif self._random.random() < 0.7:
                self._crash_all(brokers)
            else:
                await self._stop_all(brokers)

    def _is_well(self, brokers: list[SimNode]) -> bool:
        """Whether every broker serves, and has all records that it should have."""
        self._faults.forget_the_recovered()
        return not self._faults.unclean and all(node.ready for node in brokers)

    def _count(self, what: str) -> None:
        happened = self._faults.happened
        happened[what] = happened.get(what, 0) + 1

    async def _one(self, node: SimNode) -> None:
        """One broker's disk is damaged, after a crash or a clean stop; the others live."""
        clean = self._random.random() < 0.4
        if clean:
            await self._stop([node])
        else:
            node.resume()
            node.kill()
        if not node.up:
            self._harm(node, ANY_TIME if clean else CRASHED)
            self._count("damaged alone")
            self._faults.restart_later(node)

    async def _stop(self, nodes: list[SimNode]) -> None:
        """Stop them in order, even if the faults end in the meantime."""
        ended = [node.ended for node in nodes]
        for node in nodes:
            node.resume()
            node.stop()
        with trio.move_on_after(30) as scope:
            scope.shield = True
            for event in ended:
                await event.wait()

    def _crash_all(self, brokers: list[SimNode], *whole: int) -> None:
        """All at once, as far as the promise goes, maybe the controller too. `whole` are brokers
        whose disks are left alone."""
        spared = self._spared(up=True)
        for node in self._nodes:
            if node.config.is_broker or self._random.random() < 0.5:
                node.resume()
                if node.up:
                    node.kill()
        self._wreck(brokers, CRASHED, {*(spared or ()), *whole})
        self._count("wreck")

    def _pair(self, brokers: list[SimNode]) -> tuple[str, int, SimNode, SimNode] | None:
        """A partition of a topic with `min.insync.replicas=1`, its leader, and the other replica,
        which is in sync; None if there is no such partition."""
        by_id = {node.node_id: node for node in brokers}
        topics = self._history.metadata.image.topics
        for name in sorted(self._single & topics.keys()):
            for p in topics[name].partitions:
                if len(p.replicas) == len(p.isr) == 2:
                    (other,) = (n for n in p.isr if n != p.leader)
                    return name, p.partition, by_id[p.leader], by_id[other]
        return None

    async def _lose_tail_alone(
        self, topic: str, number: int, leader: SimNode, follower: SimNode
    ) -> None:
        """A follower is stopped. The leader, now alone in the ISR, loses its newest records. The
        follower knows some of them as committed; the leader has not noted that, so its next start
        does not miss them."""
        replicas = [
            node.broker.data.replicas.find(topic, number)
            for node in (leader, follower)
            if node.broker is not None
        ]
        leading, following = (*replicas, None, None)[:2]
        if leading is None or following is None:
            return
        noted, tp = leading.log.log_dir.high_watermarks, leading.tp
        with trio.move_on_after(ALONE_S):
            while following.high_watermark <= noted.get(tp, 0):  # noqa: ASYNC110
                await trio.sleep(0.02)
        await self._stop([follower])
        try:
            with trio.move_on_after(ALONE_S):
                while not self._is_alone(topic, number, leader):  # noqa: ASYNC110
                    await trio.sleep(0.02)
            if leader.up and not follower.up and self._is_alone(topic, number, leader):
                leader.resume()
                leader.kill()
                why = f"{leader.host} is alone in sync, and loses its tail"
                self._history.unpromise(topic, why)
                _cut_below(leader, f"{DATA}/{topic}-{number}", following.high_watermark)
                self._faults.unclean[leader.node_id] = "power"
                self._count("lost its tail alone")
        finally:  # the faults may have ended while the follower stopped
            self._restart()

    def _is_alone(self, topic: str, number: int, leader: SimNode) -> bool:
        """Whether a leader is alone in sync and is known to have heard of it."""
        image = self._history.metadata.image
        partition = image.partition(topic, number)
        return (
            partition is not None
            and partition.isr == (leader.node_id,)
            and PartitionRules(image, leader.config).leader_has_applied_isr(partition)
        )

    async def _crash_parted(self, brokers: list[SimNode]) -> None:
        """A leader is cut off and leads on, as it believes; all crash when another one leads, and
        has committed something. Most often its log, the longer one of an older epoch, is whole."""
        image = self._history.metadata.image
        led = [
            (topic_id, p.partition, p.leader)
            for topic_id, topic in sorted(image.topics_by_id.items())
            for p in topic.partitions
            if len(p.replicas) > 1
        ]
        if not led:
            return
        topic_id, number, leader = self._random.choice(led)
        old = next((n for n in brokers if n.node_id == leader), None)
        if old is None:
            return
        others = [n.host for n in self._nodes if n is not old] + [ENSEMBLE_HOST]
        links = [(old.host, h) for h in others] + [(h, old.host) for h in others]
        for source, target in links:
            self._network.block(source, target)
        self._history.chronicle.note("wrecks", f"{old.host} is cut off")
        with trio.move_on_after(PARTED_S):
            while not self._has_parted(topic_id, number, old):  # noqa: ASYNC110
                await trio.sleep(0.02)
        if old.up and self._spared(up=True) is not None:
            whole = (old.node_id,) if self._random.random() < 0.8 else ()
            self._crash_all(brokers, *whole)
            self._count("wreck of the parted")
        for link in links:
            self._network.cut.discard(link)
        self._network.release()

    def _has_parted(self, topic_id: bytes, number: int, old: SimNode) -> bool:
        """Whether another leader has committed something, and the old one's log is longer."""
        topic = self._history.metadata.image.topics_by_id.get(topic_id)
        partition = topic.partition(number) if topic is not None else None
        if topic is None or partition is None or partition.leader in (-1, old.node_id):
            return False
        known = self._history.partition((topic_id, number))
        if not known.batches or known.batches[-1].leader_epoch < partition.leader_epoch:
            return False
        log = old.broker.data.replicas.find(topic.name, number) if old.broker is not None else None
        return log is not None and log.log.state.log_end_offset > known.end

    async def _stop_all(self, brokers: list[SimNode]) -> None:
        """Each is stopped in order; only then are the disks damaged."""
        await self._stop(brokers)
        spared = None if any(node.up for node in brokers) else self._spared()
        if spared is None:
            self._restart()
        else:
            self._wreck(brokers, ANY_TIME, spared)
            self._count("wreck after a stop")

    def _wreck(self, brokers: list[SimNode], harms: dict[str, Harm], spared: set[int]) -> None:
        for node in brokers:
            if node.node_id not in spared and self._random.random() < 0.9:
                self._harm(node, harms)
            else:  # a process that is killed loses no bytes: the promise holds
                self._faults.unclean.setdefault(node.node_id, "kill")
        self._restart()

    def _restart(self) -> None:
        """Start all that are down, in any order."""
        for node in self._random.sample(self._nodes, len(self._nodes)):
            if not node.up:
                self._faults.restart_later(node)

    def _spared(self, *, up: bool = False) -> set[int] | None:
        """For each partition one broker that was in sync last and has no damaged segment, and with
        `up` is running; None if some partition has no such broker."""
        spared: set[int] = set()
        image = self._history.metadata.image
        epochs = {node: broker.broker_epoch for node, broker in image.brokers.items()}
        running = {
            n.node_id
            for n in self._nodes
            if n.broker is not None
            and not n.disk_failed
            and n.broker.broker_epoch == epochs.get(n.node_id)
        }
        for _, topic in sorted(image.topics.items()):
            for p in topic.partitions:
                members = [*p.isr, *(n for n in p.elr if n not in p.isr)]
                if up:
                    members = [n for n in p.isr if n in running]
                rotten = self._history.rotten
                key = (topic.topic_id, p.partition)
                members = [n for n in members if (n, key) not in rotten]
                if len(p.replicas) > 1 and not spared.intersection(members):
                    if not members:
                        return None
                    spared.add(self._random.choice(members))
        return spared

    def _harm(self, node: SimNode, harms: dict[str, Harm]) -> None:
        assert not node.up
        how = self._random.choice(sorted(harms))
        self._history.chronicle.note(node.host, f"its disk: {how}")
        if how == "flipped":
            self._history.flipped.add(node.config.node_id)
        node.disk.heal()  # a write that would fail is not one of ours
        harms[how](node, self._random)
        if node.disk.exists(DATA):  # what happened has happened, also when the power goes
            node.disk.sync_all([DATA])
        self._faults.unclean[node.node_id] = "power"
        for name in sorted(self._single | (set() if how == "power" else self._synced)):
            self._history.unpromise(name, f"the disk of {node.host}: {how}")
