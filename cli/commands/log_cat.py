"""`pk log cat`: records out of a partition's files, as console-consumer shows those of a broker."""

import os
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pk.cli.commands.common import partition_numbers
from pk.cli.commands.reading import Part
from pk.cli.commands.record_output import Output
from pk.cli.context import Context
from pk.cli.exits import CommandError, Unusable
from pk.cli.position import START, Anchor, Position, Positions, everywhere
from pk.cli.record_source import Source
from pk.cli.resolve import Bounds, place, positions_option
from pk.core.errors import KafkaError
from pk.core.log.checkpoints import LOG_START_OFFSETS, parse_offsets
from pk.core.log.disk import RealDisk
from pk.core.log.files import Disk
from pk.core.log.inspect import Batch, Partition, survey
from pk.core.record.batch import CONTROL_BIT, MAGIC, TRANSACTIONAL_BIT, Record
from pk.core.record.build import ControlType, control_type
from pk.core.values import TopicPartition

_AGAIN_S = 0.02


class _Log:
    """A partition's files, read by offset and by time."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self.partition = Partition(disk, directory)
        tp = self.partition.tp
        if tp is None:
            raise CommandError(f"{directory} is not named TOPIC-PARTITION.")
        self.tp: TopicPartition = tp
        self._disk = disk
        segments = self.partition.segments
        self.start = max(segments[0].base_offset if segments else 0, self._checkpointed())
        self.end = self._end()

    def _checkpointed(self) -> int:
        """The log start offset that the data directory notes: what lies below it was deleted."""
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
        """The batches from `offset` on. Raises CommandError where a file is damaged."""
        try:
            yield from self.partition.batches(offset, _wait)
        except KafkaError as e:
            raise CommandError(f"{e.message}; `pk log verify` tells what is sound.") from None

    def records(self, batch: Batch) -> list[Record]:
        """What is inside a batch. Raises CommandError."""
        where = f"{self.partition.directory}, offset {batch.header.base_offset}"
        if (error := batch.crc_error) is not None:
            raise CommandError(f"{where}: {error}; `pk log verify` tells what is sound.")
        try:
            return batch.records()
        except KafkaError as e:
            raise CommandError(f"{where}: what is inside cannot be read: {e.message}.") from None

    def offset_at(self, timestamp: int) -> int:
        """The first offset whose record is not earlier; -1 where there is none."""
        for batch in self.batches(self.start):
            if batch.header.max_timestamp >= timestamp and not _is_control(batch):
                for record in self.records(batch):
                    if record.timestamp >= timestamp and record.offset >= self.start:
                        return record.offset
        return -1

    def bounds(self, positions: Iterable[Position | None]) -> Bounds:
        """What positions are counted from."""
        times = {p.value for p in positions if p is not None and p.anchor is Anchor.TIME}
        return Bounds(self.start, self.end, {t: self.offset_at(t) for t in times}, None)


def _wait() -> None:
    time.sleep(_AGAIN_S)


def _is_control(batch: Batch) -> bool:
    return batch.header.magic == MAGIC and bool(batch.header.attributes & CONTROL_BIT)


class _Committed:
    """Which records of a log are committed: those outside transactions, and of those that did not abort. A
    transaction that is open ends what is shown, as it does for a consumer. The log itself says it, whatever became of its
    indexes."""

    def __init__(self, log: _Log) -> None:
        self._aborted: dict[int, list[tuple[int, int]]] = {}
        self.stable = self._last_stable(log)

    def _last_stable(self, log: _Log) -> int:
        """The first offset of the oldest transaction that has not ended; the end of the log where all have. Notes those
        that were aborted."""
        begun: dict[int, int] = {}
        for batch in log.batches(log.start):
            header = batch.header
            if header.magic != MAGIC or not header.attributes & TRANSACTIONAL_BIT:
                continue
            if not header.attributes & CONTROL_BIT:
                begun.setdefault(header.producer_id, header.base_offset)
            elif (kind := _ending(log.records(batch))) is not None:
                first = begun.pop(header.producer_id, None)
                if first is not None and kind is ControlType.ABORT:
                    spans = self._aborted.setdefault(header.producer_id, [])
                    spans.append((first, header.base_offset))
        return min(begun.values(), default=log.end)

    def shows(self, batch: Batch) -> bool:
        """Whether a batch below the last stable offset is committed."""
        header = batch.header
        if header.magic != MAGIC or not header.attributes & TRANSACTIONAL_BIT:
            return True
        spans = self._aborted.get(header.producer_id, ())
        return not any(first <= header.base_offset <= last for first, last in spans)


def _ending(found: list[Record]) -> ControlType | None:
    """How the control batch with these records ends a transaction, if it does."""
    kind = control_type(found[0]) if found else None
    return kind if kind in (ControlType.ABORT, ControlType.COMMIT) else None


class _Wish(NamedTuple):
    positions: Positions
    numbers: list[int]
    committed: bool


def _wish(context: Context) -> _Wish:
    args = context.args
    positions = everywhere(START)
    if args.offset is not None:
        positions = positions_option(args.offset, "-o")
    if positions.uses(Anchor.COMMITTED):
        raise Unusable("Files know no group's commits; -o is a place in the log here.")
    numbers = partition_numbers(args.partitions, "-p") or sorted(positions.by_partition)
    return _Wish(positions, numbers, args.isolation_level == "read_committed")


def cat(context: Context) -> None:
    """`pk log cat`."""
    wish = _wish(context)
    logs = _logs(context.args.partition_dir, wish.numbers)
    output = Output(context)
    for log in logs:
        _copy(log, wish, output)
        if output.full:
            break
    output.end()


def _logs(paths: Iterable[str], numbers: list[int]) -> list[_Log]:
    disk = RealDisk(read_only=True)
    found = []
    for path in map(os.path.abspath, paths):
        if not os.path.isdir(path):
            raise CommandError(f"{path} is no directory; name that of a partition.")
        for directory in survey(disk, path).partitions:
            if "/pk-metadata/" in directory.removeprefix(path):
                continue  # pk's own events, which `pk log dump --records` shows
            log = _Log(disk, directory)
            if not numbers or log.tp.partition in numbers:
                found.append(log)
    if not found:
        raise CommandError("There is no partition of that number in what was named.")
    return found


def _copy(log: _Log, wish: _Wish, output: Output) -> None:
    asked = wish.positions.of(log.tp.partition)
    if asked is None:
        return
    span = place(wish.positions, log.tp.partition, log.bounds(asked))
    end = log.end if span.end is None else span.end
    committed = _Committed(log) if wish.committed else None
    if committed is not None:
        end = min(end, committed.stable)
    for batch in log.batches(span.begin):
        header = batch.header
        if header.base_offset >= end or output.full:
            return
        if _is_control(batch) or (committed is not None and not committed.shows(batch)):
            continue
        records = log.records(batch)
        if header.base_offset < span.begin or header.next_offset > end:
            records = [r for r in records if span.begin <= r.offset < end]
        source = Source(*log.tp, header.attributes >> 3 & 1, header.leader_epoch)
        output.take([Part(source, records)])
