"""`pk log cat`: shows records from a partition's files, as `pk consume` shows the records of a
broker."""

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from pk.cli.cluster.position_lookup import say_inverted
from pk.cli.cluster.topics import partition_numbers
from pk.cli.exits import CommandError, Unusable
from pk.cli.nouns.log.file_positions import (
    Log,
    ReadableLog,
    check_there,
    file_positions,
    is_control,
)
from pk.cli.nouns.log.stored_log import is_store, stored_logs
from pk.cli.positions.grammar import START, Positions, everywhere
from pk.cli.records.output import Output
from pk.cli.records.range_reader import Part
from pk.cli.records.source import Source
from pk.cli.runtime.context import Context
from pk.core.log.disk import RealDisk
from pk.core.log.tools.inspect import Batch, partition_of, survey
from pk.core.record.batch import CONTROL_BIT, MAGIC, TRANSACTIONAL_BIT, Record
from pk.core.record.build import ControlType, control_type

if TYPE_CHECKING:
    from pk.cli.nouns.log.options import CatRecords


class _Committed:
    """Finds the committed records of a log: those outside transactions, and those of transactions
    that did not abort. Like a consumer, it stops at the start of an open transaction. It reads only
    the log, not its indexes."""

    def __init__(self, log: ReadableLog) -> None:
        self._aborted: dict[int, list[tuple[int, int]]] = {}
        self.stable = self._last_stable(log)

    def _last_stable(self, log: ReadableLog) -> int:
        """Find the first offset of the oldest open transaction, or the end of the log. Collects the
        aborted transactions."""
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
    """How the control batch with these records ends a transaction; None if it does not end one."""
    kind = control_type(found[0]) if found else None
    return kind if kind in (ControlType.ABORT, ControlType.COMMIT) else None


class _Request(NamedTuple):
    """The request of the command line."""

    positions: Positions
    numbers: list[int]
    committed: bool


def _request(options: "CatRecords") -> _Request:
    positions = everywhere(START) if options.offset is None else file_positions(options.offset)
    chosen = partition_numbers(options.partitions, "-p")
    named = sorted(positions.by_partition)
    for number in named:
        if chosen and number not in chosen:
            raise Unusable(f"-o has a position of partition {number}, which -p does not select.")
    numbers = named or chosen
    return _Request(positions, numbers, options.isolation_level == "read_committed")


def cat(context: Context, options: "CatRecords") -> None:
    """Run `pk log cat`."""
    request = _request(options)
    urls = [path for path in options.partition_dir if is_store(path)]
    if not urls and (options.topics or options.configs):
        raise Unusable("-t and -X are for the URL of a store; a directory has its own partitions.")
    logs: list[ReadableLog] = []
    for url in urls:
        logs += stored_logs(url, options.topics, request.numbers, options.configs)
    if directories := [path for path in options.partition_dir if path not in urls]:
        logs += _logs(directories, request.numbers)
    output = Output(context, options)
    with output.completed():
        for log in logs:
            _copy(context, log, request, output)
            if output.full:
                break


def _logs(paths: Iterable[str], numbers: list[int]) -> list[Log]:
    disk = RealDisk(read_only=True)
    found: list[str] = []
    for path in map(os.path.abspath, paths):
        if not os.path.isdir(path):
            raise CommandError(f"{path} is not a directory; give a partition directory.")
        # pk's own events are left out; `pk log dump --records` shows them.
        found += [
            directory
            for directory in survey(disk, path).partitions
            if "/pk-metadata/" not in directory.removeprefix(path)
        ]
    if not found:
        raise CommandError("The given directories contain no partition.")
    held = {d: tp.partition for d in found if (tp := partition_of(d)) is not None}
    check_there(numbers, held.values())
    return [Log(disk, d) for d in found if not numbers or held.get(d) in numbers]


def _copy(context: Context, log: ReadableLog, request: _Request, output: Output) -> None:
    span = log.range_of(request.positions)
    if span is None:
        return
    say_inverted(context, {log.tp: span})
    end = log.end if span.end is None else span.end
    committed = _Committed(log) if request.committed else None
    if committed is not None:
        end = min(end, committed.stable)
    for batch in log.batches(span.begin):
        header = batch.header
        if header.base_offset >= end or output.full:
            return
        if is_control(batch) or (committed is not None and not committed.shows(batch)):
            continue
        records = log.records(batch)
        if header.base_offset < span.begin or header.next_offset > end:
            records = [r for r in records if span.begin <= r.offset < end]
        source = Source(
            *log.tp,
            header.attributes >> 3 & 1,
            header.leader_epoch,
            None,
            header.attributes,
            header.producer_id,
            header.producer_epoch,
        )
        output.take([Part(source, records)])
