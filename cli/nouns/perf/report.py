"""The output of `pk perf`: a result as JSON and tables, live figures while it runs, and a comparison with another run."""

import json
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

import trio

from pk.cli.nouns.perf.histogram import Histogram
from pk.cli.output.formats import Column, Document, Listing, Section
from pk.cli.runtime.context import Context
from pk.cli.runtime.exits import Unusable

_BAR: Final = 30
_LIVE_S: Final = 0.5
_SAME: Final = 5.0
"""A change of less than this many percent counts as none."""

RATES: Final = ("records_per_second", "mb_per_second")
LATENCIES: Final = ("min", "mean", "p50", "p95", "p99", "p99_9", "max")
_SETTINGS: Final = (
    "test",
    "partitions",
    "replication_factor",
    "record_size",
    "template",
    "rate",
    "acks",
    "compression",
    "config",
)


class Progress(NamedTuple):
    """A run's progress."""

    records: int
    size: int
    latency: Histogram | None = None


async def show_live(
    context: Context,
    interval_ms: int | None,
    what: str,
    now: Callable[[], Progress],
    total: int | None,
) -> None:
    """Shows a run's progress until cancelled: on a terminal one line that is redrawn; with `interval_ms`
    (--reporting-interval) a line for each interval."""
    drawn = context.streams.err_colour and interval_ms is None
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
                text += f"  p50 {_ms(summary['p50'])} p99 {_ms(summary['p99'])} ms"
            if total:
                text += f"  {min(100, found.records * 100 // total)} %"
            if drawn:
                context.show_status(text)
            else:
                context.say(text)
            last, before = at, found.records
    finally:
        context.clear_status()


def figures(records: int, size: int, seconds: float, cpu_s: float) -> dict[str, Any]:
    """The throughput part of a result. A MB is 1,000,000 bytes."""
    return {
        "records": records,
        "bytes": size,
        "seconds": round(seconds, 3),
        "records_per_second": round(records / seconds, 1),
        "mb_per_second": round(size / seconds / 1e6, 3),
        "client_cpu_seconds": round(cpu_s, 3),
    }


def now_text() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _ms(value: Any) -> str:
    """Milliseconds with three significant digits."""
    if value is None:
        return "-"
    number = float(value)
    digits = 3 if number < 1 else 2 if number < 10 else 1 if number < 100 else 0
    return f"{number:,.{digits}f}"


def _tenths(value: float) -> str:
    return f"{value:,.1f}"


def _short(value: float) -> str:
    return f"{value:g}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:+.1f} %"


def _whole(value: Any) -> str:
    return f"{value:,.0f}" if value is not None else "-"


def _throughput(result: Mapping[str, Any]) -> Section:
    columns = [
        Column("records", _whole, right=True),
        Column("seconds", right=True, title="SECONDS"),
        Column("records_per_second", _whole, right=True, title="RECORDS/S"),
        Column("mb_per_second", _tenths, right=True, title="MB/S"),
        Column("client_cpu_seconds", right=True, title="CLIENT CPU S"),
    ]
    if "failed" in result:
        columns.append(Column("failed", _whole, right=True))
    if "first_record_ms" in result:
        columns.append(Column("first_record_ms", _ms, right=True, title="FIRST AFTER MS"))
    return Section(result["title"], Listing(columns, [result]))


def _latency(result: Mapping[str, Any]) -> list[Section]:
    latency = result.get("latency_ms")
    if not latency:
        return []
    columns = [Column(name, _ms, right=True, title=name.replace("_", ".")) for name in LATENCIES]
    rows = result["histogram"]
    most = max((row["records"] for row in rows), default=1)
    total = sum(row["records"] for row in rows)

    def bar(count: int) -> str:
        eighths = round(count * _BAR * 8 / most)
        full, rest = divmod(max(eighths, 1 if count else 0), 8)
        return "█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")

    shown = [
        {
            "up_to_ms": row["up_to_ms"],
            "records": row["records"],
            "share": f"{row['records'] * 100 / total:.1f} %",
            "bar": bar(row["records"]),
        }
        for row in rows
    ]
    histogram = Listing(
        (
            Column("up_to_ms", _short, right=True, title="UP TO MS"),
            Column("records", _whole, right=True),
            Column("share", right=True),
            Column("bar", title=""),
        ),
        shown,
    )
    return [
        Section(result["latency_of"], Listing(columns, [latency])),
        Section("", histogram),
    ]


def _verified(result: Mapping[str, Any]) -> list[Section]:
    found = result.get("verified")
    if not found:
        return []
    columns = [
        Column(name, _whole, right=True)
        for name in ("checked", "lost", "repeated", "reordered", "corrupt")
    ]
    return [
        Section("Verified: number and CRC-32C of every record read back", Listing(columns, [found]))
    ]


def flat(result: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of a result in one row."""
    latency: Mapping[str, float] = result.get("latency_ms") or {}
    verified: Mapping[str, int] = result.get("verified") or {}
    row: dict[str, Any] = {k: v for k, v in result.items() if not isinstance(v, (dict, list))}
    row.update({name: latency.get(name) for name in LATENCIES})
    row.update(verified)
    row.pop("title", None)
    row.pop("latency_of", None)
    return row


def document(result: dict[str, Any], compared: "Comparison | None", width: int | None) -> Document:
    """The result for people and for programs; `width` is the terminal's, None without a terminal."""
    sections = [_throughput(result), *_latency(result), *_verified(result)]
    if compared is not None:
        sections.append(compared.section())
    if width is not None:
        sections = [s._replace(title=textwrap.fill(s.title, width)) for s in sections]
    row = flat(result)
    data = {k: v for k, v in result.items() if k not in ("title", "latency_of")}
    data["compared"] = None if compared is None else compared.rows
    return Document([data], sections, Listing([Column(name) for name in row], [row]))


class Comparison(NamedTuple):
    """This run compared with another."""

    name: str
    rows: Sequence[Mapping[str, Any]]
    differs: Sequence[str]
    """The settings in which the two runs differ."""

    def section(self) -> Section:
        columns = (
            Column("figure", title=""),
            Column("before", _ms, right=True),
            Column("now", _ms, right=True),
            Column(
                "change_percent",
                _percent,
                right=True,
                title="CHANGE",
            ),
            Column("verdict", title=""),
        )
        title = f"Compared with {self.name}"
        if self.differs:
            title += f"; they differ in {', '.join(self.differs)}"
        return Section(title, Listing(columns, self.rows, _lit))


def _lit(row: Mapping[str, Any]) -> str | None:
    return {"better": "green", "worse": "red"}.get(row["verdict"])


def read_result(path: str) -> dict[str, Any]:
    """A result that `-f json` wrote. Raises Unusable."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except OSError as e:
        raise Unusable(f"--compare: {path} cannot be read: {e.strerror}.") from None
    except ValueError:
        found = None
    if isinstance(found, list) and len(rows := cast("list[Any]", found)) == 1:
        found = rows[0]
    if not isinstance(found, dict) or "records_per_second" not in found:
        raise Unusable(f"--compare: {path} is not a result of `pk perf … -f json`.")
    return cast("dict[str, Any]", found)


def compare(name: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> Comparison:
    """Compares the figures of two results."""
    old, new = flat(before), flat(now)
    rows: list[dict[str, Any]] = []
    for figure in (*RATES, "client_cpu_seconds", *LATENCIES):
        a, b = old.get(figure), new.get(figure)
        if a is None or b is None:
            continue
        change = (b - a) * 100 / a if a else None
        up = figure in RATES
        verdict = ""
        if change is not None and abs(change) >= _SAME:
            verdict = "better" if (change > 0) == up else "worse"
        rows.append(
            {
                "figure": figure.replace("p99_9", "p99.9").replace("_", " "),
                "before": a,
                "now": b,
                "change_percent": None if change is None else round(change, 1),
                "verdict": verdict,
            }
        )
    differs = [name for name in _SETTINGS if before.get(name) != now.get(name)]
    return Comparison(name, rows, differs)
