"""Closed segments that change on the disk of a running broker: a bit or a sector changes, and the
page cache no longer has it.

Only one replica at a time is changed, while all replicas are whole and in sync. The others then
have its records, and the scrubber replaces the segment. Until it has done so, the broker counts as
one that lost bytes, and wrecks spare another one that has the segment (wrecks.py). Offset, length
and leader epoch of a batch are not changed: no CRC covers them, so a reader might get a wrong one
before the scrubber has found it.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final, NamedTuple

import trio
from sim.faults import Faults
from sim.history import History
from sim.nodes import SimNode

from pk.core.broker.replication.partition import Partition
from pk.core.broker.upkeep.retention import copies_to_remote
from pk.core.log.segment import Segment
from pk.core.record.batch import CorruptBatch, check_crc, iter_headers

AFTER_S: Final = 1.0
"""Between one damage and the next, on average, if nothing else is wrong."""
SECTOR_BYTES: Final = 512
UNCOPIED_CHANCE: Final = 0.5
"""How likely a segment that its leader has yet to copy to remote storage is damaged, if there is
one."""
UNCOVERED_BYTES: Final = 16
"""A batch's offset, length and leader epoch: no CRC covers them."""


class Rotten(NamedTuple):
    """The current damage."""

    node: SimNode
    partition: Partition
    path: str
    position: int
    data: bytes
    """The damaged bytes."""


class Rot:
    """Damages closed segments during one run, beside its faults."""

    def __init__(
        self,
        random: Random,
        nodes: list[SimNode],
        history: History,
        faults: Faults,
        *,
        spared: set[str],
    ) -> None:
        """`spared` are topics that no second replica holds for sure."""
        self._random = random
        self._nodes = nodes
        self._history = history
        self._faults = faults
        self._spared = spared
        self.rotten: Rotten | None = None

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await trio.sleep(self._random.expovariate(1 / AFTER_S))
            while not self._damage():  # noqa: ASYNC110 - many things make it possible
                await trio.sleep(0.05)

    def look(self) -> None:
        """Between two messages: whether the damaged bytes are gone, and what came instead."""
        found = self.rotten
        if found is None:
            return
        node, partition = found.node, found.partition
        disk, end = node.disk, found.position + len(found.data)
        data = disk.read(found.path) if disk.exists(found.path) else b""
        # A segment that came instead may have the same bytes there by chance.
        if found.data == data[found.position : end] and not _is_whole(data):
            return
        self.rotten = None
        disk.cold.discard(found.path)
        self._faults.whole(node)
        self._history.chronicle.note(node.host, f"{found.path} is not damaged any more")
        self._history.repaired(node.process, partition)

    def unrepaired(self) -> str:
        """The damage that is not repaired; "" if there is none."""
        found = self.rotten
        return f"{found.path} of {found.node.host} is still damaged" if found is not None else ""

    def _damage(self) -> bool:
        """Damage a segment, if one may be damaged now; whether that was done."""
        self._faults.forget_the_recovered()
        if self.rotten is not None or self._faults.unclean:
            return False
        closed = [found for node in self._nodes for found in self._closed(node)]
        if not closed:
            return False
        uncopied = [found for found in closed if _is_to_be_copied(found[1], found[2])]
        if uncopied and self._random.random() < UNCOPIED_CHANCE:
            closed = uncopied
        node, partition, segment, following = self._random.choice(closed)
        data = node.disk.read(segment.file.path)
        batches = [(at, header.size) for at, header in iter_headers(data)]
        start, size = self._random.choice(batches)
        at = self._random.randrange(start + UNCOVERED_BYTES, start + size)
        old = data[at : at + SECTOR_BYTES]
        new = self._random.choice((self._random.randbytes(len(old)), bytes(len(old))))
        if new == old or self._random.random() < 0.5:
            new = bytes([old[0] ^ (1 << self._random.randrange(8))])
        path = segment.file.path
        self.rotten = Rotten(node, partition, path, at, new)
        node.disk.rot(path, new, at)
        self._faults.damaged(node)
        self._history.damaged(partition, following)
        self._history.chronicle.note(node.host, f"{path} is damaged at position {at}")
        happened = self._faults.happened
        happened["rot"] = happened.get("rot", 0) + 1
        return True

    def _closed(self, node: SimNode) -> Iterator[tuple[SimNode, Partition, Segment, int]]:
        """The closed segments of a broker that may be damaged, and the base offsets of the segments
        after them."""
        broker = node.broker
        if not node.config.is_broker or broker is None or not node.ready or node.disk_failed:
            return
        images = self._history.metadata.image.topics_by_id
        for partition in broker.data.replicas:
            topic = images.get(partition.topic_id)
            image = topic.partition(partition.tp.partition) if topic is not None else None
            log = partition.log
            if (
                image is None
                or set(image.replicas) != set(image.isr)
                or len(image.isr) < 2
                or partition.tp.topic in self._spared | self._history.unsafe
                or partition.offline is not None
                or log.mark is not None
            ):
                continue
            end = self._history.partition((partition.topic_id, image.partition)).end
            committed = min(end, partition.high_watermark)
            for segment, after in zip(log.state.segments, log.state.segments[1:], strict=False):
                if segment.size and after.base_offset <= committed:
                    yield node, partition, segment, after.base_offset


def _is_to_be_copied(partition: Partition, segment: Segment) -> bool:
    remote = partition.remote
    return (
        partition.leads
        and remote is not None
        and copies_to_remote(partition)
        and segment.base_offset > remote.copied_to(partition.log)
    )


def _is_whole(data: bytes) -> bool:
    """Whether every batch of a segment has the checksum that it says."""
    try:
        for position, header in iter_headers(data):
            check_crc(data, position, header)
    except CorruptBatch:
        return False
    return True
