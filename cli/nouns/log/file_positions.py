"""Resolves positions in a partition's files, by offset and by time, without a broker."""

import os
import time
from collections.abc import Iterable, Iterator

from pk.cli.exits import CommandError, Unusable
from pk.cli.phrases import join
from pk.cli.positions.grammar import Anchor, Position, Positions
from pk.cli.positions.resolve import Bounds, ResolvedRange, positions_option, resolve_range
from pk.core.errors import KafkaError
from pk.core.log.checkpoints import LOG_START_OFFSETS, parse_offsets
from pk.core.log.files import Disk
from pk.core.log.tools.inspect import Batch, Partition
from pk.core.record.batch import CONTROL_BIT, MAGIC, Record
from pk.core.values import TopicPartition

_AGAIN_S = 0.02


def file_positions(text: str) -> Positions:
    """Parse the value of -o for a command that reads files. Raises Unusable."""
    positions = positions_option(text, "-o")
    if positions.uses(Anchor.COMMITTED):
        raise Unusable(
            "A partition's files do not contain committed offsets; `committed` needs a broker."
        )
    return positions


def check_there(numbers: Iterable[int], there: Iterable[int]) -> None:
    """Raise CommandError for a partition that no directory contains."""
    held = sorted(set(there))
    for number in numbers:
        if number not in held:
            which = f"only {join([str(n) for n in held])}" if held else "nor any other"
            raise CommandError(f"The given directories do not contain partition {number}, {which}.")


class ReadableLog:
    """A partition's log, read by offset and by time."""

    tp: TopicPartition
    start: int
    """The first offset."""
    end: int
    """The offset after the last record."""
    where: str
    """The name of the log in errors."""
    check: str
    """The command that shows the damage."""

    def batches(self, offset: int) -> Iterator[Batch]:
        """The batches from the one that contains `offset` on. Raises CommandError."""
        raise NotImplementedError

    def records(self, batch: Batch) -> list[Record]:
        """The records of a batch. Raises CommandError."""
        where = f"{self.where}, offset {batch.header.base_offset}"
        if (error := batch.crc_error) is not None:
            raise CommandError(f"{where}: {error}; `{self.check}` shows what is damaged.")
        try:
            return batch.records()
        except KafkaError as e:
            raise CommandError(f"{where}: the records cannot be read: {e.message}.") from None

    def offset_at(self, timestamp: int) -> int:
        """The first offset whose record is at or after `timestamp` (epoch milliseconds); -1 if
        there is none."""
        for batch in self.batches(self.start):
            if batch.header.max_timestamp >= timestamp and not is_control(batch):
                for record in self.records(batch):
                    if record.timestamp >= timestamp and record.offset >= self.start:
                        return record.offset
        return -1

    def range_of(self, positions: Positions) -> ResolvedRange | None:
        """The offsets that `positions` mean in this partition; None if they do not name it."""
        asked = positions.of(self.tp.partition)
        return asked and resolve_range(positions, self.tp.partition, self._bounds(asked))

    def _bounds(self, positions: Iterable[Position | None]) -> Bounds:
        """The offsets to which positions are relative."""
        times = {p.value for p in positions if p is not None and p.anchor is Anchor.TIME}
        return Bounds(self.start, self.end, {t: self.offset_at(t) for t in times}, None)


class Log(ReadableLog):
    """A partition's files."""

    check = "pk log verify"

    def __init__(self, disk: Disk, directory: str) -> None:
        self.partition = Partition(disk, directory)
        tp = self.partition.tp
        if tp is None:
            raise CommandError(f"{directory} is not named TOPIC-PARTITION.")
        self.tp = tp
        self.where = self.partition.directory
        self._disk = disk
        segments = self.partition.segments
        self.start = max(segments[0].base_offset if segments else 0, self._checkpointed())
        self.end = self._end()

    def _checkpointed(self) -> int:
        """The log start offset in the checkpoint of the data directory; records before it were
        deleted."""
        try:
            parent = os.path.dirname(self.partition.directory)
            return parse_offsets(self._disk.read(f"{parent}/{LOG_START_OFFSETS}")).get(self.tp, 0)
        except (FileNotFoundError, ValueError):
            return 0

    def _end(self) -> int:
        if not self.partition.segments:
            return self.start
        last = self.partition.segments[-1]
        entries = self.partition.index(last.base_offset)
        end = last.base_offset
        for at in (entries[-1].position if entries else 0, 0):
            scan = self.partition.scan(last.base_offset, position=at, again=_wait)
            for batch in scan:
                end = max(end, batch.header.next_offset)
            if not scan.problems or not at:
                break
        return max(end, self.start)

    def batches(self, offset: int) -> Iterator[Batch]:
        """The batches from `offset` on. Raises CommandError if a file is damaged."""
        try:
            yield from self.partition.batches(offset, _wait)
        except KafkaError as e:
            raise CommandError(f"{e.message}; `pk log verify` shows what is damaged.") from None


def _wait() -> None:
    time.sleep(_AGAIN_S)


def is_control(batch: Batch) -> bool:
    return batch.header.magic == MAGIC and bool(batch.header.attributes & CONTROL_BIT)
