"""`pk top`: the screen, the keys and the questions together.

On a terminal it draws a screen, and redraws it after every response and every key. Elsewhere (a
pipe, TERM=dumb, a format other than table, -n) it writes snapshots of one tab. A snapshot takes two
rounds of requests, since a rate needs two samples.
"""

import os
import signal
import threading
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager

import trio

from pk.cli.output.formats import Listing
from pk.cli.positions.resolve import now_ms
from pk.cli.runtime.context import Context
from pk.cli.runtime.exits import Exit, Unusable
from pk.cli.runtime.interruption import note_signal
from pk.cli.terminal.alternate_screen import AlternateScreen
from pk.cli.terminal.keyboard import Keyboard
from pk.cli.terminal.signals import TypedBeforeInterrupt, receive_signals
from pk.cli.top.collect import Collector, ScreenNeeds
from pk.cli.top.keys import Keys
from pk.cli.top.model import Model
from pk.cli.top.options import Top
from pk.cli.top.state import Screen
from pk.cli.top.tables import BY_NAME, TABS, snapshot_columns
from pk.cli.top.view import Painter, Status, texts

_ESCAPE_S = 0.05
_TICK_S = 0.25
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGWINCH)


async def top(context: Context, options: Top) -> int:
    """`pk top`."""
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
    """Writes snapshots of a tab: -n of them, or until interrupted if the terminal cannot be drawn
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
        # A slow broker has used up part of the interval already; the others need not wait for it
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
        self._terminal = AlternateScreen(context.streams, self._resume)
        self._keyboard = Keyboard(context.streams)
        self._dirty = trio.Event()
        self._wake = trio.Event()
        self._size = (0, 0)
        self._code: int = Exit.OK
        self._token: trio.lowlevel.TrioToken | None = None

    def _paint_soon(self) -> None:
        self._dirty.set()

    def _resume(self) -> None:
        """Redraws after Ctrl-Z; called in the main thread."""
        assert self._token is not None
        self._token.run_sync_soon(self._paint_soon)

    async def run(self) -> int:
        await self._collector.begin()
        self._token = trio.lowlevel.current_trio_token()
        with _signals() as signals, self._terminal, self._keyboard:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._paint)
                nursery.start_soon(self._collect)
                nursery.start_soon(self._tick)
                if signals is not None:
                    nursery.start_soon(self._handle_signals, signals, nursery.cancel_scope)
                await self._keys()
                nursery.cancel_scope.cancel()
        return self._code

    async def _paint(self) -> None:
        """Redraws when something changed; several changes within 20 ms are drawn together."""
        while True:
            self._dirty = trio.Event()
            self._draw()
            await self._dirty.wait()
            await trio.sleep(0.02)

    def _draw(self) -> None:
        screen, collector = self._screen, self._collector
        width, height = self._size = self._terminal.size
        status = Status(
            self._context.settings.cluster_name,
            collector.at_ms,
            now_ms(),
            collector.trouble,
            collector.lost,
        )
        lines = self._painter.lines(collector.model, screen, status, width, height)
        self._terminal.draw(texts(lines))
        self._update_needs()

    def _update_needs(self) -> None:
        """Updates what the collector asks for: what is on the screen."""
        screen, needs = self._screen, self._collector.needs
        tab, position = screen.shown, screen.position
        needs.tab, needs.subject = tab.name, screen.subject
        shown = self._painter.rows(screen)[position.top : position.top + screen.page]
        needs.visible = (
            [str(tab.key(row)) for row in shown] if tab.name in ("topics", "groups") else ()
        )

    async def _tick(self) -> None:
        """Notices a new terminal size if no signal reports it."""
        while True:
            await trio.sleep(_TICK_S)
            if self._terminal.size != self._size:
                self._paint_soon()

    async def _collect(self) -> None:
        while True:
            self._wake = trio.Event()
            if not self._screen.paused:
                await self._collector.round(self._screen.interval_s)
            with trio.move_on_after(self._screen.interval_s):
                await self._wake.wait()

    async def _keys(self) -> None:
        """Handles keys until one of them quits."""
        keys, fd = Keys(), self._keyboard.fd
        typed = TypedBeforeInterrupt(fd)
        while True:
            with trio.move_on_after(_ESCAPE_S if keys.waiting else float("inf")) as late:
                await typed.wait()
            if late.cancelled_caught:
                pressed = keys.flush()
            else:
                data = os.read(fd, 1024)
                if not data:
                    return
                pressed = keys.feed(data)
            for key in pressed:
                if self._press(key):
                    return

    def _press(self, key: str) -> bool:
        """Handles a key; True if it quits."""
        self._paint_soon()
        match self._screen.press(key, self._painter.rows(self._screen)):
            case "quit":
                return True
            case "refresh":
                self._update_needs()
                self._wake.set()
            case "redraw":
                self._terminal.clear()
            case _:
                pass
        return False

    async def _handle_signals(self, signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
        async for number in signals:
            if number == signal.SIGWINCH:
                self._paint_soon()
            else:
                note_signal(number)
                self._code = Exit.INTERRUPTED
                scope.cancel()
                return


@contextmanager
def _signals() -> Generator[AsyncIterator[int] | None]:
    """The signals as they arrive. None in the shell: its loop is not in the main thread, and is
    cancelled instead."""
    if threading.current_thread() is not threading.main_thread():
        yield None
        return
    with receive_signals(*_SIGNALS) as signals:
        yield signals
