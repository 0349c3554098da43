"""`pk top`: connects the screen, the keys and the requests.

On a terminal, it draws a screen, and redraws it after every response and every key. Otherwise (a
pipe, TERM=dumb, a format other than table, -n), it writes snapshots of one tab. A snapshot takes
two rounds of requests, since a rate needs two samples.
"""

import os
import signal
import threading
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager

import trio

from pk.cli.exits import Exit, Unusable
from pk.cli.output.formats import Listing
from pk.cli.positions.resolve import now_ms
from pk.cli.runtime.context import Context
from pk.cli.terminal.full_screen import FullScreen
from pk.cli.terminal.interruption import note_signal
from pk.cli.terminal.signals import receive_signals
from pk.cli.top.collect import Collector, ScreenNeeds
from pk.cli.top.model import Model
from pk.cli.top.options import Top
from pk.cli.top.records import Found, RecordReader, Wanted
from pk.cli.top.state import Screen
from pk.cli.top.tables import BY_NAME, TABS, snapshot_columns
from pk.cli.top.view import Painter, Status

_TOGETHER_S = 0.1
"""Responses that arrive within this time are drawn together: drawing a large screen takes 10 ms of
CPU, and there may be hundreds of responses."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def top(context: Context, options: Top) -> int:
    """Run `pk top`."""
    name = options.tab or "cluster"
    names = [tab.name for tab in TABS]
    if name not in names:
        raise Unusable(f"TAB must be one of {', '.join(names)}, not {name!r}.")
    admin = await context.admin()
    streams = context.streams
    drawn = (
        streams.out_terminal
        and streams.in_terminal
        and os.environ.get("TERM", "dumb") not in ("", "dumb")
        and options.num is None
        and not context.given("format")
    )
    needs = ScreenNeeds()
    needs.tab = name
    collector = Collector(admin, Model(), needs, lambda: None)
    try:
        if drawn:
            return await _Live(context, collector, options).run()
        return await _snapshots(context, collector, options)
    finally:
        await collector.close()


async def _snapshots(context: Context, collector: Collector, options: Top) -> int:
    """Write snapshots of a tab: -n of them, or until interrupted if the terminal cannot be drawn
    on."""
    endless = context.streams.out_terminal and options.num is None and not context.given("format")
    left = options.num or 1
    collector.needs.whole = True
    await collector.begin()
    tab = BY_NAME[collector.needs.tab]
    started = trio.current_time()
    interval_s = options.interval.s
    await collector.round(interval_s)
    screen = Screen(tab=tab.name, internal=options.internal)  # for the sort order
    while True:
        # A slow broker has already used up part of the interval; the others need not wait for it
        # again.
        due = started + interval_s - trio.current_time()
        await trio.sleep(max(due, interval_s / 2))
        started = trio.current_time()
        await collector.round(interval_s)
        rows = screen.arrange(tab.rows(collector.model, None, now_ms()))
        context.show(Listing(snapshot_columns(tab), rows, tab.style))
        if collector.trouble is not None:
            context.say(collector.trouble)
        elif tab.name == "requests" and collector.model.metrics_missing is not None:
            context.say(collector.model.metrics_missing)
        left -= 1
        if left <= 0 and not endless:
            for error in collector.refused:
                context.fail(error)
            return context.exit
        if context.output.format in ("table", "wide"):
            context.write(b"\n")


class _Live:
    """The screen while it is open."""

    def __init__(self, context: Context, collector: Collector, options: Top) -> None:
        self._context = context
        self._collector = collector
        collector.changed = self._paint_soon
        self._screen = Screen(
            tab=collector.needs.tab, interval_s=options.interval.s, internal=options.internal
        )
        self._screen.narrow_to(context.output)
        self._painter = Painter()
        self._reader = RecordReader(
            context,
            collector.admin,
            lambda name: collector.model.topics.get(name),
            self._found_records,
        )
        self._wanted: Wanted | None = None
        self._reading = trio.CancelScope()
        self._terminal = FullScreen(context.streams, self._press, self._paint_soon)
        self._dirty, self._pressed = trio.Event(), trio.Event()
        self._wake = trio.Event()
        self._quit = trio.Event()
        self._code: int = Exit.OK

    def _paint_soon(self) -> None:
        self._dirty.set()

    def _found_records(self) -> None:
        self._collector.model.version += 1
        self._paint_soon()

    async def run(self) -> int:
        await self._collector.begin()
        with _signals() as signals:
            async with self._terminal.shown(), trio.open_nursery() as nursery:
                nursery.start_soon(self._paint)
                nursery.start_soon(self._collect)
                nursery.start_soon(self._read_records)
                if signals is not None:
                    nursery.start_soon(self._handle_signals, signals)
                await self._quit.wait()
                nursery.cancel_scope.cancel()
        return self._code

    async def _paint(self) -> None:
        """Redraw immediately after a key, and soon after a response."""
        while True:
            self._dirty, self._pressed = trio.Event(), trio.Event()
            self._draw()
            await self._dirty.wait()
            with trio.move_on_after(_TOGETHER_S):
                await self._pressed.wait()

    def _draw(self) -> None:
        screen, collector = self._screen, self._collector
        width, height = self._terminal.size
        status = Status(
            self._context.settings.cluster_name,
            collector.at_ms,
            now_ms(),
            collector.trouble,
            collector.lost,
        )
        lines = self._painter.lines(collector.model, screen, status, width, height)
        self._terminal.draw(lines)
        self._update_needs()

    def _update_needs(self) -> None:
        """Make the collector request only the data that is on the screen."""
        screen, needs = self._screen, self._collector.needs
        tab, position = screen.shown, screen.position
        needs.tab, needs.subject = tab.name, screen.subject
        shown = self._painter.rows(screen)[position.top : position.top + screen.page]
        needs.visible = (
            [str(tab.key(row)) for row in shown] if tab.name in ("topics", "groups") else ()
        )

    async def _collect(self) -> None:
        """Collect at each interval unless paused, and whenever another view is opened."""
        opened = False
        while True:
            self._wake = trio.Event()
            if opened or not self._screen.paused:
                await self._collector.round(self._screen.interval_s)
            opened = False
            with trio.move_on_after(self._screen.interval_s):
                await self._wake.wait()
                opened = True

    async def _read_records(self) -> None:
        """Read the records on the screen. Begins again when other records are wanted."""
        screen, model = self._screen, self._collector.model
        while True:
            self._wanted = screen.records
            with trio.CancelScope() as self._reading:
                if self._wanted is None:
                    model.records = None
                    await trio.sleep_forever()
                else:
                    model.records = Found(self._wanted)
                    self._found_records()
                    await self._reader.follow(
                        model.records,
                        lambda: screen.interval_s,
                        lambda: screen.paused or screen.record is not None,
                    )

    def _press(self, key: str) -> None:
        self._press_key(key)
        self._pressed.set()
        if self._screen.records != self._wanted:
            self._reading.cancel()

    def _press_key(self, key: str) -> None:
        self._paint_soon()
        match self._screen.press(key, self._painter.rows(self._screen)):
            case "quit":
                self._quit.set()
            case "refresh":
                self._update_needs()
                self._wake.set()
            case "redraw":
                self._terminal.redraw()
            case _:
                pass

    async def _handle_signals(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            note_signal(number)
            self._code = Exit.INTERRUPTED
            self._quit.set()


@contextmanager
def _signals() -> Generator[AsyncIterator[int] | None]:
    """The signals as they arrive. None in the shell, whose loop is not in the main thread and is
    cancelled instead."""
    if threading.current_thread() is not threading.main_thread():
        yield None
        return
    with receive_signals(*_SIGNALS) as signals:
        yield signals
