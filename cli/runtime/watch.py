"""`-w`: repeats a command.

A watched command runs as usual, but with a context that keeps its output instead of writing it. On
a terminal, each result is drawn over the previous one, with changed cells in reverse; q ends the
watch, and the terminal is restored, with the complete last result below. A pipe, a file or a
terminal without cursor control gets each result that differs from the previous one: a table below a
line with the time; `json` as one line for each result; `csv` with one heading for all.

A failure after the first run (a broker that died, a deleted topic) is shown beside the last result,
and retried. Only the first run may fail.

A cell has changed if its row existed before with another value. Rows are identified by the fewest
leading columns that make them unique, since every list begins with the names of its items.
"""

import io
import json
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import BinaryIO, NamedTuple

import trio

from pk.cli.exits import CommandError, Exit, Unusable
from pk.cli.output.formats import (
    Document,
    Listing,
    OutputOptions,
    cells_of,
    narrow,
    render,
    render_document,
    terminal_table,
)
from pk.cli.positions.times import show_span, show_time
from pk.cli.runtime.context import Context, Handler
from pk.cli.terminal.full_screen import FullScreen
from pk.cli.terminal.signals import listen_for_interrupts
from pk.cli.terminal.streams import Streams
from pk.cli.terminal.styles import styled
from pk.cli.terminal.text import cut, escaped_lines
from pk.core.errors import KafkaError, ProtocolError
from pk.net.client.errors import ClientError

Part = Listing | Document | bytes

_TICK_S = 0.25
_LATE_S = 2.0
"""A run that is later than this is reported."""


class Snapshot(NamedTuple):
    """The output of one run of a command."""

    parts: Sequence[Part]
    said: Sequence[str]
    at_ms: int


class _Kept(io.BytesIO):
    """Keeps all output, and otherwise behaves like the original terminal, with its size."""

    def __init__(self, outer: BinaryIO) -> None:
        super().__init__()
        self._outer = outer

    def isatty(self) -> bool:
        return self._outer.isatty()

    def fileno(self) -> int:
        return self._outer.fileno()


class _Captured(Context):
    """A context that keeps the output, except progress: only results are drawn."""

    def __init__(self, outer: Context) -> None:
        streams, self.kept = outer.streams, _Kept(outer.streams.out)
        quiet = Streams(self.kept, io.StringIO(), streams.stdin, out_terminal=streams.out_terminal)
        super().__init__(outer._values, outer.path, quiet, outer.session)
        self.use(outer.settings)
        self.about = outer.about
        self.parts: list[Part] = []
        self.said: list[str] = []

    def write(self, data: bytes) -> None:
        self.parts.append(data)

    def show(self, listing: Listing) -> None:
        self.parts.append(listing)

    def show_document(self, document: Document) -> None:
        self.parts.append(document)

    def say(self, text: str = "") -> None:
        self.said.append(text)


async def watch(context: Context, handler: Handler, seconds: float) -> int:
    """Run `handler` every `seconds` and show its output, with changes highlighted, until the watch
    is interrupted.

    The session of `context` must be open. In the shell, cancellation ends the watch. Raises the
    errors of the first run; ends after a first run that shows nothing because everything failed.
    """
    options = _options(context)
    painted = options.terminal and os.environ.get("TERM", "dumb") not in ("dumb", "")
    first, failures = await _snapshot(context, handler)
    if failures and not any(map(_rows, first.parts)):
        for line in first.said:
            context.say(line)
        context.failures += failures
        return context.exit
    watched = _Painted(context, seconds, first) if painted else _Written(context, first)
    with listen_for_interrupts() as interrupts:
        async with watched.shown():
            interrupted = await interrupts.or_until(
                lambda: _follow(watched, context, handler, seconds)
            )
    return Exit.INTERRUPTED if interrupted else Exit.OK


def _options(context: Context) -> OutputOptions:
    """How to show lists. Commands that show records have formats of their own, and are drawn as
    they write."""
    try:
        return context.output
    except Unusable:
        streams = context.streams
        return OutputOptions(
            terminal=streams.out_terminal, color=streams.color, width=streams.width
        )


async def _snapshot(context: Context, handler: Handler) -> tuple[Snapshot, list[BaseException]]:
    """The output of one run, and its failed items."""
    from pk.cli.positions.resolve import now_ms

    captured = _Captured(context)
    await handler(captured)
    records = [captured.kept.getvalue()] if captured.kept.tell() else []
    return Snapshot([*captured.parts, *records], captured.said, now_ms()), captured.failures


def _rows(part: Part) -> int:
    """The number of rows in a part."""
    if isinstance(part, bytes):
        return len(part)
    return len(part.rows) if isinstance(part, Listing) else len(part.data)


async def _follow(
    watched: "_Painted | _Written", context: Context, handler: Handler, seconds: float
) -> None:
    """Run the command repeatedly, until a key ends the watch. Shows failures that may be
    temporary."""

    async def tick() -> None:
        while True:
            await trio.sleep(_TICK_S)
            watched.tick()

    async def repeat() -> None:
        while True:
            await trio.sleep(seconds)
            try:
                snapshot, _ = await _snapshot(context, handler)
                watched.see(snapshot)
            except Exception as error:  # noqa: BLE001 - what is not a failure of the cluster is raised again
                watched.miss(_passing(error))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tick)
        nursery.start_soon(repeat)
        await watched.ended.wait()
        nursery.cancel_scope.cancel()


def _passing(error: Exception) -> str:
    """The sentence for a failure that may be temporary. Raises the others."""
    from pk.cli.runtime.failures import leaf, sentence

    found = leaf(error)
    if isinstance(found, BrokenPipeError) or not isinstance(
        found, (KafkaError, ClientError, ProtocolError, CommandError, OSError)
    ):
        raise error
    return sentence(found)


# What changed.


def changed_cells(before: Listing | None, now: Listing) -> set[tuple[int, int]]:
    """The cells of `now`, as (row, column), that are new or differ from those of `before`."""
    if before is None:
        return set()
    keys = [column.key for column in now.columns]
    if keys != [column.key for column in before.columns]:
        return set()
    names = _names(before, now, keys)
    old = dict(zip(names(before), cells_of(before), strict=True))
    highlighted: set[tuple[int, int]] = set()
    for i, (name, cells) in enumerate(zip(names(now), cells_of(now), strict=True)):
        was = old.get(name)
        highlighted.update(
            (i, k) for k, cell in enumerate(cells) if was is None or k >= len(was) or was[k] != cell
        )
    return highlighted


def _names(
    before: Listing, now: Listing, keys: Sequence[str]
) -> Callable[[Listing], list[tuple[str, ...]]]:
    """A function that identifies the rows of both listings: by the fewest leading columns that are
    unique, or else by index."""

    def by(count: int, listing: Listing) -> list[tuple[str, ...]]:
        return [tuple(str(row.get(key)) for key in keys[:count]) for row in listing.rows]

    for count in range(1, len(keys) + 1):
        if all(len(set(by(count, one))) == len(one.rows) for one in (before, now)):
            return lambda listing: by(count, listing)
    return lambda listing: [(str(i),) for i in range(len(listing.rows))]


def _tables(part: Listing | Document, options: OutputOptions) -> list[tuple[str, Listing]]:
    """The tables that a terminal shows for a part, each with its title."""
    if isinstance(part, Listing):
        return [("", narrow(part, options))]
    if options.narrows:
        return [("", narrow(part.rows, options))]
    return [(section.title, narrow(section.body, options)) for section in part.sections]


def _flat(snapshot: Snapshot, options: OutputOptions) -> list[tuple[str, Listing] | bytes]:
    shown: list[tuple[str, Listing] | bytes] = []
    for part in snapshot.parts:
        if isinstance(part, bytes):
            shown.append(part)
        elif options.format in ("table", "wide"):
            shown += _tables(part, options)
        else:
            shown.append(_rendered(part, options))
    return shown


def _rendered(part: Listing | Document, options: OutputOptions) -> bytes:
    return render(part, options) if isinstance(part, Listing) else render_document(part, options)


def painted_lines(snapshot: Snapshot, before: Snapshot | None, options: OutputOptions) -> list[str]:
    """The lines that a terminal shows, with the differences from `before` in reverse."""
    old = _flat(before, options) if before is not None else []
    lines: list[str] = []
    for i, shown in enumerate(_flat(snapshot, options)):
        was = old[i] if i < len(old) else None
        if isinstance(shown, bytes):
            known = (
                set(was.decode(errors="replace").splitlines()) if isinstance(was, bytes) else None
            )
            for line in shown.decode(errors="replace").splitlines():
                new = known is not None and line not in known
                lines.append(styled(line, "reverse") if new else line)
            continue
        title, listing = shown
        if title:
            lines += [title] if not lines else ["", title]
        elif lines:
            lines.append("")
        highlighted = changed_cells(was[1] if isinstance(was, tuple) else None, listing)
        lines += terminal_table(
            listing, options, lambda row, k, highlighted=highlighted: (row, k) in highlighted
        ).splitlines()
    return lines


# The two ways to show it.


class _Painted:
    """Draws each result over the previous one."""

    def __init__(self, context: Context, seconds: float, first: Snapshot) -> None:
        self._context = context
        self._every = f"every {seconds:g} s"
        self._seconds = seconds
        self._snapshot = first
        self._before: Snapshot | None = None
        self._missing: str | None = None
        self._top = 0
        self._due = trio.current_time() + seconds
        self._screen = FullScreen(context.streams, self._press, self._paint)
        self.ended = trio.Event()

    @asynccontextmanager
    async def shown(self) -> AsyncGenerator[None]:
        """Fill the terminal during the block. Afterwards the complete last result stays below."""
        self._paint()
        try:
            async with self._screen.shown():
                yield
        finally:
            self._write_last()

    def _write_last(self) -> None:
        for part in self._snapshot.parts:
            if isinstance(part, bytes):
                self._context.write(part)
            else:
                self._context.write(_rendered(part, _options(self._context)))
        for line in (*self._snapshot.said, self._missing):
            if line is not None:
                self._context.say(line)

    def _press(self, key: str) -> None:
        page = self._screen.size[1] // 2
        steps = {"up": -1, "k": -1, "down": 1, "j": 1, "page-up": -page, "page-down": page}
        if key in ("q", "escape"):
            self.ended.set()
        elif key == "redraw":
            self._screen.redraw()
        elif key in steps:
            self._top += steps[key]
            self._paint()

    def see(self, snapshot: Snapshot) -> None:
        self._before, self._snapshot = self._snapshot, snapshot
        self._missing = None
        self._due = trio.current_time() + self._seconds
        self._paint()

    def miss(self, why: str) -> None:
        self._missing = why
        self._due = trio.current_time() + self._seconds
        self._paint()

    def tick(self) -> None:
        if trio.current_time() > self._due + _LATE_S:
            self._paint()

    def _head(self) -> str:
        context, snapshot = self._context, self._snapshot
        what = " ".join(("pk", *context.path))
        clock = show_time(snapshot.at_ms)[11:19]
        keys = " · q quits" if context.streams.in_terminal else ""
        return f"{what} · {context.settings.cluster_name} · {self._every} · {clock}{keys}"

    def _status(self) -> str | None:
        snapshot = self._snapshot
        late_s = trio.current_time() - self._due
        if self._missing is not None:
            return f"As of {show_time(snapshot.at_ms)[11:19]}. {self._missing}"
        if late_s > _LATE_S:
            return (
                f"As of {show_time(snapshot.at_ms)[11:19]}. No answer for "
                f"{show_span(late_s * 1000)}."
            )
        return None

    def _paint(self) -> None:
        context = self._context
        options = _options(context)
        width, height = self._screen.size
        snapshot = self._snapshot
        status = self._status()
        head = [cut(self._head(), width), ""]
        foot = [cut(line, width) for line in snapshot.said if line]
        if status is not None:
            foot.append(styled(cut(status, width), "reverse"))
        lines = painted_lines(snapshot, self._before, options)
        room = max(height - len(head) - len(foot), 1)
        self._top = max(min(self._top, len(lines) - room), 0)
        lines = lines[self._top :]
        if len(lines) > room:
            more = len(lines) - room + 1
            hint = f"… {more} more lines (↓, --limit, --where, --sort); q stops and prints all."
            lines = [*lines[: room - 1], cut(hint, width)]
        self._screen.draw([escaped_lines(line) for line in (*head, *lines, *foot)])


class _Written:
    """Writes each result that differs from the previous one."""

    def __init__(self, context: Context, first: Snapshot) -> None:
        self._context = context
        self._first = first
        self._last: bytes | None = None
        self._said: Sequence[str] = ()
        self.ended = trio.Event()

    @asynccontextmanager
    async def shown(self) -> AsyncGenerator[None]:
        """Begin with the first result."""
        self.see(self._first)
        yield

    def see(self, snapshot: Snapshot) -> None:
        if list(snapshot.said) != list(self._said):
            self._said = snapshot.said
            for line in snapshot.said:
                self._context.say(line)
        options = _options(self._context)
        data = b"".join(
            part if isinstance(part, bytes) else _block(part, options) for part in snapshot.parts
        )
        if data == self._last:
            return
        self._context.write(_framed(data, snapshot.at_ms, options, first=self._last is None))
        self._last = data

    def miss(self, why: str) -> None:
        if list(self._said) != [why]:
            self._said = [why]
            self._context.say(why)

    def tick(self) -> None:
        return


def _block(part: Listing | Document, options: OutputOptions) -> bytes:
    """A part in the requested format; `json` on one line."""
    data = _rendered(part, options)
    if options.format != "json":
        return data
    return json.dumps(json.loads(data), ensure_ascii=False).encode() + b"\n"


def _framed(data: bytes, at_ms: int, options: OutputOptions, *, first: bool) -> bytes:
    """One of several results in the same format."""
    if options.format in ("table", "wide"):
        return (b"" if first else b"\n") + f"{show_time(at_ms)}\n".encode() + data
    if options.format == "yaml":
        return b"---\n" + data
    if options.format == "csv" and not first:
        return data.partition(b"\n")[2]
    return data
