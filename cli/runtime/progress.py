"""A progress bar on standard error for work that takes more than a second. Before that, nothing is
imported or drawn."""

import time
from typing import TYPE_CHECKING, Self

from pk.cli.runtime.context import Context

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

_QUIET_S = 1.0
_EVERY_S = 0.1


class Progress:
    """Shows progress, only on a terminal and after the first second.

    If standard output is a terminal too, there is no bar, unless the code that writes to it removes
    the status first: `over_output`.
    """

    def __init__(
        self,
        context: Context,
        what: str,
        total: int,
        *,
        unit: str = "records",
        over_output: bool = False,
    ) -> None:
        self._context = context
        streams = context.streams
        shares = streams.out_terminal and not over_output
        self._shows = streams.err_redraws and not shares
        self._what = what
        self._total = total
        self._unit = unit
        self._since = time.monotonic()
        self._last = 0.0
        self._bar: Bar | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._context.clear_status()

    def update(
        self,
        done: int,
        note: str = "",
        *,
        total: int | None = None,
        bytes_done: int | None = None,
    ) -> None:
        """Set how much of the total is done, and show the rate of bytes read or written."""
        if not self._shows:
            return
        now = time.monotonic()
        if now - self._since < _QUIET_S or now - self._last < _EVERY_S:
            return
        self._last = now
        self._total = total if total is not None else self._total
        if self._bar is None:
            self._bar = self._make(now - self._since)
        rate = ""
        if bytes_done is not None:
            rate = f"{bytes_done / 1e6 / (now - self._since):,.1f} MB/s"
        whole = f"{done:,} of {self._total:,}" if self._total else f"{done:,}"
        self._bar.update(
            self._bar.task_ids[0],
            completed=done,
            total=self._total or None,
            whole=f"{whole} {self._unit}",
            rate=rate,
            note=note,
        )
        self._context.draw_status(self._bar.get_renderable())

    def _make(self, passed_s: float) -> "Bar":
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(bar_width=12),
            TaskProgressColumn(),
            TextColumn("{task.fields[whole]}"),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[note]}"),
            auto_refresh=False,
            # The estimate is based on the time from the start, even before the bar appeared.
            speed_estimate_period=max(30.0, passed_s),
        )
        bar.add_task(self._what, total=self._total or None, whole="", rate="", note="")
        return bar
