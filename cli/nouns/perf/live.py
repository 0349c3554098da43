"""The progress that `pk perf` shows while it runs."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

import trio

from pk.cli.nouns.perf.histogram import Histogram
from pk.cli.output.amounts import show_ms
from pk.cli.runtime.context import Context

_LIVE_S: Final = 0.5


class Progress(NamedTuple):
    """A run's progress."""

    records: int
    size: int
    latency: Histogram | None = None


@asynccontextmanager
async def live(
    context: Context,
    interval_ms: int | None,
    what: str,
    now: Callable[[], Progress],
    total: int | None,
) -> AsyncGenerator[None]:
    """Show the progress of a run during the block: on a terminal, one line that is redrawn; with
    `interval_ms` (--reporting-interval), a line for each interval. `total` is the number of
    records, if known."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_show_live, context, interval_ms, what, now, total)
        yield
        nursery.cancel_scope.cancel()


async def _show_live(
    context: Context,
    interval_ms: int | None,
    what: str,
    now: Callable[[], Progress],
    total: int | None,
) -> None:
    drawn = context.streams.err_redraws and interval_ms is None
    if not drawn and interval_ms is None:
        return
    every = _LIVE_S if interval_ms is None else interval_ms / 1000
    started = last = trio.current_time()
    before = 0
    try:
        while True:
            await trio.sleep(every)
            at, found = trio.current_time(), now()
            rate = (found.records - before) / max(at - last, 1e-9)
            size = found.size / max(found.records, 1)
            text = (
                f"{what} {at - started:.0f} s  {rate:,.0f} records/s  {rate * size / 1e6:,.1f} MB/s"
            )
            if found.latency is not None and found.latency.count:
                summary = found.latency.summary()
                text += f"  p50 {show_ms(summary['p50'])} p99 {show_ms(summary['p99'])} ms"
            if total:
                text += f"  {min(100, found.records * 100 // total)}%"
            if drawn:
                context.show_status(text)
            else:
                context.say(text)
            last, before = at, found.records
    finally:
        context.clear_status()
