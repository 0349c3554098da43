"""`--trace`: shows the protocol requests of a command as a waterfall on standard error when it
ends.

A request is recorded when it is answered or has failed; the table is sorted by start. A command may
run for days, so only the first and the last requests are kept, and the sums of all. The JSON form
(one object per line, written as each request ends) shows all requests and keeps none.
"""

import json
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

import trio

from pk.cli.output.amounts import show_bytes
from pk.cli.phrases import count
from pk.cli.runtime.context import Context, Handler
from pk.cli.terminal.table import GAP, pad
from pk.net.client.connection import CONNECT, TRACE_HOOK, RequestTrace

KEPT_FIRST: Final = 200
KEPT_LAST: Final = 300
_PIPED_WIDTH: Final = 120
_BAR_LEAST: Final = 10


def traced(handler: Handler, *, as_json: bool) -> Handler:
    """Wrap `handler`, to show its requests: as a table when it ends, or as JSON while it runs."""

    async def run(context: Context) -> int | None:
        began = trio.current_time()
        recorder = Recorder(began)

        def record(request: RequestTrace) -> None:
            if as_json:
                context.say(json.dumps(as_row(request, began), ensure_ascii=False))
            else:
                recorder.add(request)

        token = TRACE_HOOK.set(record)
        try:
            return await handler(context)
        finally:
            TRACE_HOOK.reset(token)
            if not as_json:
                took_ms = (trio.current_time() - began) * 1000
                streams = context.streams
                width = streams.err_width if streams.err_terminal else _PIPED_WIDTH
                context.say("\n".join(waterfall(recorder, took_ms, width)))

    return run


class Recorder:
    """The first and the last requests, and the sums of all."""

    def __init__(self, began: float) -> None:
        self.began = began
        self.first: list[RequestTrace] = []
        self.last: deque[RequestTrace] = deque(maxlen=KEPT_LAST)
        self.seen = 0
        self.requests = 0
        self.connections = 0
        self.failed = 0
        self.bytes_out = 0
        self.bytes_in = 0
        self.throttle_ms = 0
        self.brokers: dict[str, int] = {}
        """Address → node id. The id is negative for an address that was asked before its id was
        known."""

    def add(self, request: RequestTrace) -> None:
        (self.first if len(self.first) < KEPT_FIRST else self.last).append(request)
        self.seen += 1
        self.connections += request.api_name == CONNECT
        self.requests += request.api_name != CONNECT
        self.failed += request.error is not None
        self.bytes_out += request.bytes_out
        self.bytes_in += request.bytes_in
        self.throttle_ms += request.throttle_ms
        known = self.brokers.get(request.address, request.node_id)
        self.brokers[request.address] = max(known, request.node_id)

    @property
    def left_out(self) -> int:
        return self.seen - len(self.first) - len(self.last)


def as_row(request: RequestTrace, began: float) -> dict[str, Any]:
    """A request in `--trace-json`: times are in ms since the command started, sizes in bytes."""
    connect = request.api_name == CONNECT
    return {
        "api": "connect" if connect else request.api_name,
        "api_key": None if connect else request.api_key,
        "version": None if connect else request.api_version,
        "broker": request.node_id if request.node_id >= 0 else None,
        "address": request.address,
        "correlation_id": None if connect else request.correlation_id,
        "start_ms": round((request.started - began) * 1000, 3),
        "duration_ms": round(request.elapsed_ms, 3),
        "bytes_out": request.bytes_out,
        "bytes_in": request.bytes_in,
        "throttle_ms": request.throttle_ms,
        "error": request.error,
    }


def _cells(request: RequestTrace, began: float) -> list[str]:
    connect = request.api_name == CONNECT
    said = ""
    if request.throttle_ms:
        said += f"  throttled for {request.throttle_ms} ms"
    if request.error is not None:
        said += f"  {request.error}"
    return [
        f"{(request.started - began) * 1000:.1f}",
        f"{request.elapsed_ms:.1f}",
        str(request.node_id) if request.node_id >= 0 else "-",
        request.api_name if connect else f"{request.api_name} v{request.api_version}",
        "" if connect else show_bytes(request.bytes_out),
        show_bytes(request.bytes_in) if request.bytes_in else "",
        said,
    ]


_HEADS: Final = ("START", "MS", "BROKER", "REQUEST", "OUT", "IN")
_RIGHT: Final = (True, True, True, False, True, True)


def waterfall(recorder: Recorder, took_ms: float, width: int) -> list[str]:
    """The lines of the waterfall: a row with a bar for each request, and the sums below."""
    first = sorted(recorder.first, key=lambda r: r.started)
    last = sorted(recorder.last, key=lambda r: r.started)
    rows = [*first, *last]
    cells = [_cells(request, recorder.began) for request in rows]
    widths = [max([len(head), *(len(line[i]) for line in cells)]) for i, head in enumerate(_HEADS)]
    room = max(width - sum(widths) - 2 * len(widths) - 1, _BAR_LEAST)
    span_ms = _span_ms(recorder)
    lines = [_line(_HEADS, widths)] if rows else []
    for i, (request, line) in enumerate(zip(rows, cells, strict=True)):
        if recorder.left_out and i == len(first):
            lines.append(f"… {count(recorder.left_out, 'request')} more …")
        bar = _bar((request.started - recorder.began) * 1000, request.elapsed_ms, span_ms, room)
        lines.append(f"{_line(line, widths)}  {bar}".rstrip())
        if line[-1]:
            lines.append(f"{'':{widths[0] + widths[1] + widths[2] + 6}}{line[-1].strip()}")
    return [*lines, *_sums(recorder, took_ms)]


def _span_ms(recorder: Recorder) -> float:
    """The time from the command's start to the end of its last request."""
    ends = (r.started + r.elapsed_ms / 1000 for r in (*recorder.first, *recorder.last))
    return (max(ends, default=recorder.began) - recorder.began) * 1000


def _line(cells: Iterable[str], widths: list[int]) -> str:
    return GAP.join(map(pad, cells, widths, _RIGHT))


def _bar(start_ms: float, took_ms: float, all_ms: float, room: int) -> str:
    scale = room / all_ms if all_ms > 0 else 0
    begin = min(int(start_ms * scale), room - 1)
    length = max(round(took_ms * scale), 1)
    return " " * begin + "█" * min(length, room - begin)


def _sums(recorder: Recorder, took_ms: float) -> list[str]:
    parts = [
        count(recorder.requests, "request"),
        count(recorder.connections, "connection"),
        f"{_span_ms(recorder):,.1f} of {took_ms:,.1f} ms",
        f"{show_bytes(recorder.bytes_out)} out",
        f"{show_bytes(recorder.bytes_in)} in",
    ]
    if recorder.throttle_ms:
        parts.append(f"throttled for {recorder.throttle_ms:,} ms")
    if recorder.failed:
        parts.append(f"{recorder.failed} failed")
    known = sorted((node, address) for address, node in recorder.brokers.items())
    names = ", ".join(f"{node if node >= 0 else '-'} = {address}" for node, address in known)
    return [", ".join(parts) + ".", *([f"Brokers: {names}."] if names else [])]
