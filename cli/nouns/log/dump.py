"""`pk log dump`: shows the contents of files, with one table for each kind of file."""

import base64
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pk.cli.exits import CommandError, Unusable
from pk.cli.nouns.log.files import (
    LogView,
    row_type,
    rows_of,
    segment_rows,
)
from pk.cli.nouns.log.rows import BatchRow, SegmentRow
from pk.cli.nouns.log.verify import check_indexes
from pk.cli.options.known_values import SHOWN
from pk.cli.output.formats import Column, Listing, OutputOptions, Row, narrow, render
from pk.cli.output.formats import dump as dump_rows
from pk.cli.output.rows import columns
from pk.cli.runtime.context import Context
from pk.core.log.disk import RealDisk
from pk.core.log.tools.inspect import Kind, base_of, kind_of, partition_of, survey
from pk.core.nearest import did_you_mean

if TYPE_CHECKING:
    from pk.cli.nouns.log.options import DumpLog

_CHUNK_ROWS = 1000
"""The number of rows that are aligned together: a log may have millions."""

_ROOMY = 120
"""The width, in columns, from which a terminal has space for all columns of a batch."""

_LESS_ROOM = ("position", "leader_epoch", "producer_id", "base_sequence", "transactional")
"""Columns of batches that a narrower terminal shows only with -f wide."""

_KINDS = {
    "index": {Kind.INDEX},
    "timeindex": {Kind.TIME_INDEX},
    "txnindex": {Kind.TXN_INDEX},
    "snapshot": {Kind.SNAPSHOT},
    "epochs": {Kind.EPOCHS},
    "checkpoint": {Kind.OFFSETS},
    "metadata": {
        Kind.PARTITION_METADATA,
        Kind.META_PROPERTIES,
        Kind.CLEAN_SHUTDOWN,
        Kind.CONTROLLER,
        Kind.IMAGE,
    },
}


class _Part(NamedTuple):
    """A table to show. Its rows are read when they are needed."""

    title: str
    what: str
    row: type
    rows: Iterator[Row]


def dump(context: Context, options: "DumpLog") -> None:
    """Run `pk log dump`."""
    paths = [os.path.abspath(path) for path in (*options.path, *options.files)]
    if not paths:
        raise Unusable("Name a file, a partition's directory, or a data directory.")
    if options.index_sanity_check or options.verify_index_only:
        check_indexes(context, paths, alone=options.index_sanity_check)
        return
    view = LogView(
        records=options.records or "records" in options.show or options.skip_record_metadata,
        max_bytes=options.max_bytes,
        decoder=options.decoder,
        bare=options.skip_record_metadata,
    )
    if options.offset is not None:
        _check_offset(options, paths)
    parts = [part for path in paths for part in _parts(context, options, path, view)]
    _show(context, parts)


def _shown(options: "DumpLog") -> set[str]:
    shown: set[str] = set(options.show)
    for word in shown:
        if word not in SHOWN:
            hint = did_you_mean(word, SHOWN)
            raise Unusable(f"--show must be one or more of {', '.join(SHOWN)}, not {word!r}{hint}")
    if "all" in shown:
        shown = {word for word in SHOWN if word not in ("all", "records")}
    if options.records or options.skip_record_metadata:
        shown.add("records")
    return shown


def _check_offset(options: "DumpLog", paths: Sequence[str]) -> None:
    """Raise Unusable if --show names files without offsets, and CommandError if -o names a
    partition that is not there."""
    from pk.cli.nouns.log.file_positions import check_there, file_positions

    other = _shown(options) - {"batches", "records"}
    if other:
        raise Unusable(
            f"-o selects batches and records; it cannot be combined with --show {min(other)}."
        )
    named = sorted(file_positions(options.offset or "").by_partition)
    if not named:
        return
    disk = RealDisk(read_only=True)
    directories = [
        directory
        for path in paths
        for directory in (
            survey(disk, path).partitions if os.path.isdir(path) else [os.path.dirname(path)]
        )
    ]
    check_there(named, (tp.partition for d in directories if (tp := partition_of(d)) is not None))


def _within(
    context: Context, options: "DumpLog", disk: RealDisk, directory: str, view: LogView
) -> LogView | None:
    """The view, limited to the offsets of -o in the partition of `directory`; None if -o does not
    name the partition. Raises Unusable, CommandError."""
    if options.offset is None:
        return view
    from pk.cli.cluster.position_lookup import say_inverted
    from pk.cli.nouns.log.file_positions import Log, file_positions

    log = Log(disk, directory)
    span = log.range_of(file_positions(options.offset))
    if span is None:
        return None
    say_inverted(context, {log.tp: span})
    return view._replace(span=(span.begin, log.end if span.end is None else span.end))


def _parts(context: Context, options: "DumpLog", path: str, view: LogView) -> Iterator[_Part]:
    disk, say = RealDisk(read_only=True), context.say
    if not os.path.isdir(path):
        if not os.path.exists(path):
            raise CommandError(f"{path} does not exist.")
        kind = kind_of(path.rpartition("/")[2])
        if kind is None:
            raise CommandError(f"{path} is not a log file: its name and suffix are unknown.")
        own = (
            _within(context, options, disk, path.rpartition("/")[0], view)
            if kind is Kind.LOG
            else view
        )
        if own is not None:
            yield _Part(path, kind.value, row_type(kind, own), rows_of(disk, path, kind, own, say))
        return
    found = survey(disk, path)
    one = found.partitions == [path] or options.offset is not None
    shown = _shown(options) or {"batches" if one else "segments"}
    if "segments" in shown:
        rows = itertools.chain.from_iterable(segment_rows(disk, d) for d in found.partitions)
        yield _Part(path, "segments", SegmentRow, rows)
    files = [(file, view) for file in found.files if options.offset is None]
    for directory in found.partitions:
        if directory != path and options.offset is not None and partition_of(directory) is None:
            continue  # pk's own events, which have no partition
        own = _within(context, options, disk, directory, view)
        names = [n for n, e in disk.list(directory).items() if not e.is_directory]
        if own is not None:
            files += [(f"{directory}/{n}", own) for n in names if not _outside(n, names, own)]
    for file, own in files:
        kind = kind_of(file.rpartition("/")[2])
        if kind is None:
            continue
        if kind is Kind.LOG:
            for word in ("batches", "records"):
                if word in shown:
                    how = own._replace(records=word == "records")
                    yield _Part(
                        file, word, row_type(kind, how), rows_of(disk, file, kind, how, say)
                    )
        elif any(kind in _KINDS.get(word, ()) for word in shown):
            yield _Part(file, kind.value, row_type(kind, own), rows_of(disk, file, kind, own, say))


def _outside(name: str, names: list[str], view: LogView) -> bool:
    """Whether the segment of this file has none of the requested offsets; `names` are the files of
    its directory."""
    if view.span is None or kind_of(name) is not Kind.LOG:
        return False
    begin, end = view.span
    base = base_of(name)
    following = [base_of(n) for n in names if kind_of(n) is Kind.LOG and base_of(n) > base]
    return base >= end or min(following, default=end) <= begin


# --- showing ---


def _show(context: Context, parts: list[_Part]) -> None:
    output = context.output
    if len({part.row for part in parts}) > 1 and (
        output.narrows or output.format == "csv" or "{" in output.format
    ):
        what = ", ".join(dict.fromkeys(part.what for part in parts))
        raise Unusable(
            f"These tables ({what}) have different columns; choose one with --show, or leave out "
            "--columns, --where, --sort, --limit, csv and templates."
        )
    if parts:
        # Report unknown columns before anything is read.
        narrow(Listing(columns(parts[0].row), ()), output)
    if output.sort:
        rows = itertools.chain.from_iterable(part.rows for part in parts)
        context.show(Listing(columns(parts[0].row) if parts else (), list(rows)))
        return
    if output.format in ("table", "wide"):
        _show_tables(context, parts, output)
    else:
        _show_data(context, parts, output)


def _chunks(
    rows: Iterable[Row], found: tuple[Column, ...], output: OutputOptions
) -> Iterator[Listing]:
    """The rows to show, in portions. Reads only as many as the limit requires."""
    left, waiting = output.limit, iter(rows)
    one = _of_a_chunk(output)
    size = _CHUNK_ROWS if output.where or output.limit is None else min(output.limit, _CHUNK_ROWS)
    while left is None or left > 0:
        chunk = list(itertools.islice(waiting, size))
        if not chunk:
            return
        listing = narrow(Listing(found, chunk), one)
        if left is not None:
            listing = listing._replace(rows=listing.rows[:left])
            left -= len(listing.rows)
        if listing.rows:
            yield listing


def _with_room(row: type, output: OutputOptions) -> tuple[Column, ...]:
    """The columns. On a narrow terminal, some are shown only with -f wide."""
    is_narrow = output.terminal and output.width < _ROOMY and not output.columns
    return columns(row, wide=_LESS_ROOM if row is BatchRow and is_narrow else ())


def _of_a_chunk(output: OutputOptions) -> OutputOptions:
    """The options for a portion: without the limit and the order, which apply to all rows."""
    return output._replace(limit=None, sort=())


def _show_tables(context: Context, parts: list[_Part], output: OutputOptions) -> None:
    several = len(parts) > 1
    left = output.limit
    plain = output._replace(where=None, columns=(), sort=(), limit=None, format="wide")
    for i, part in enumerate(parts):
        title = f"{part.title}\n" if several else ""
        found, empty = _with_room(part.row, output), True
        for listing in _chunks(part.rows, found, output._replace(limit=left)):
            empty = False
            if left is not None:
                left -= len(listing.rows)
            listing = listing._replace(rows=[_readable(row) for row in listing.rows])
            context.write((("\n" if i and title else "") + title).encode() + render(listing, plain))
            title = ""
        if title:
            context.write((("\n" if i else "") + title).encode() + b"(nothing)\n")
        elif empty and not several:
            context.say(f"{part.title}: nothing to show.")


def _readable(row: Row) -> Row:
    """A row with bytes that are not UTF-8 in hexadecimal; otherwise a table would show them as
    null."""
    packed = {name: row.get(f"{name}_b64") for name in ("key", "value")}
    found = {n: f"0x{base64.b64decode(text).hex()}" for n, text in packed.items() if text}
    return {**row, **found} if found else row


def _show_data(context: Context, parts: list[_Part], output: OutputOptions) -> None:
    """Write any format but tables, row by row while reading."""
    if output.format == "json":
        _json(context, parts, output)
        return
    if len({part.row for part in parts}) > 1:
        for part in parts:
            for listing in _chunks(part.rows, columns(part.row), output):
                context.write(render(listing, _of_a_chunk(output)._replace(columns=())))
        return
    found = columns(parts[0].row) if parts else ()
    first = True
    for listing in _chunks(itertools.chain.from_iterable(p.rows for p in parts), found, output):
        data = render(listing, output._replace(where=None, limit=None, sort=(), columns=()))
        if output.format == "csv" and not first:
            data = data.partition(b"\n")[2]
        first = False
        context.write(data)
    if first and output.format == "csv":
        context.write(render(narrow(Listing(found, []), output), output._replace(columns=())))


def _json(context: Context, parts: list[_Part], output: OutputOptions) -> None:
    """Write one JSON array with all rows, while reading."""
    left, empty = output.limit, True
    for part in parts:
        for listing in _chunks(part.rows, columns(part.row), output._replace(limit=left)):
            if left is not None:
                left -= len(listing.rows)
            keys = [column.key for column in listing.columns]
            text = dump_rows([{k: row.get(k) for k in keys} for row in listing.rows], "json")
            context.write((b"[" if empty else b",") + text.strip()[1:-1].rstrip())
            empty = False
    context.write(b"[]\n" if empty else b"\n]\n")
