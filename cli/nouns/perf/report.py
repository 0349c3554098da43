"""The result of `pk perf`, for people and for programs."""

import textwrap
import time
from typing import Final, NamedTuple

from pk.cli.nouns.perf.comparison import Comparison
from pk.cli.nouns.perf.histogram import Histogram
from pk.cli.nouns.perf.rows import (
    DrawnBar,
    Figures,
    HistogramBar,
    LatencyMs,
    ReadResult,
    ResultRow,
    SentResult,
    Settings,
    Verified,
)
from pk.cli.output.formats import Document, Listing, Section
from pk.cli.output.rows import columns, listing, names, part_of

_BAR: Final = 30
_THROUGHPUT: Final = (
    "records",
    "seconds",
    "records_per_second",
    "mb_per_second",
    "client_cpu_seconds",
    "failed",
    "first_record_ms",
)


class Latencies(NamedTuple):
    """The latencies of the records."""

    of: str
    """The name of the measurement, for people."""

    ms: LatencyMs | None
    """None if no record was measured."""

    bars: list[HistogramBar]


def latencies(histogram: Histogram, of: str) -> Latencies:
    """The current content of a histogram, which may still grow."""
    bars: list[HistogramBar] = [
        {"up_to_ms": bar.top_ms, "records": bar.records} for bar in histogram.bars()
    ]
    return Latencies(of, histogram.summary() if histogram.count else None, bars)


class Measured(NamedTuple):
    """The figures of a measurement."""

    figures: Figures
    failed: int = 0
    """The number of records that could not be sent."""

    first_record_ms: float | None = None
    """The time from the start to the first record read; None if no record was read."""

    latencies: Latencies | None = None
    """None if latency was not measured."""

    verified: Verified | None = None


def figures(records: int, size: int, seconds: float, cpu_s: float) -> Figures:
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


def result_of(settings: Settings, measured: Measured) -> SentResult | ReadResult:
    """The result, without a comparison."""
    latency = measured.latencies
    if latency is None:
        return {
            **settings,
            **measured.figures,
            "first_record_ms": measured.first_record_ms,
            "verified": measured.verified,
            "compared": None,
        }
    return {
        **settings,
        **measured.figures,
        "failed": measured.failed,
        "latency_ms": latency.ms,
        "histogram": latency.bars,
        "verified": measured.verified,
        "compared": None,
    }


def result_row(result: SentResult | ReadResult) -> ResultRow:
    """The figures of a result in one row."""
    latency = result.get("latency_ms") or dict.fromkeys(names(LatencyMs))
    found = {**result, **latency, **(result["verified"] or {})}
    return part_of(ResultRow, found)


def document(
    result: SentResult | ReadResult,
    title: str,
    measured: Measured,
    compared: Comparison | None,
    width: int | None,
) -> Document:
    """The result of a measurement, for people and for programs; `width` is that of the terminal,
    None without one."""
    if compared is not None:
        result["compared"] = list(compared.rows)
    row = result_row(result)
    sections = [_throughput(title, row)]
    if measured.latencies is not None:
        sections += _latency(measured.latencies)
    if measured.verified is not None:
        checked = "Verified: number and CRC-32C of every record read back"
        sections.append(Section(checked, listing(Verified, [measured.verified])))
    if compared is not None:
        sections.append(compared.section())
    if width is not None:
        sections = [s._replace(title=textwrap.fill(s.title, width)) for s in sections]
    absent = [name for name in names(ResultRow) if name not in row]
    return Document([result], sections, listing(ResultRow, [row], without=absent))


def _throughput(title: str, row: ResultRow) -> Section:
    shown = [c for c in columns(ResultRow) if c.key in _THROUGHPUT and c.key in row]
    return Section(title, Listing(shown, [row]))


def _latency(found: Latencies) -> list[Section]:
    if found.ms is None:
        return []
    most = max((bar["records"] for bar in found.bars), default=1)
    total = sum(bar["records"] for bar in found.bars)
    bars: list[DrawnBar] = [
        {
            **bar,
            "share": f"{bar['records'] * 100 / total:.1f}%",
            "bar": _bar(bar["records"], most),
        }
        for bar in found.bars
    ]
    return [
        Section(found.of, listing(LatencyMs, [found.ms])),
        Section("", listing(DrawnBar, bars)),
    ]


def _bar(records: int, most: int) -> str:
    """A bar in eighths of a character; the longest bar has `most` records."""
    eighths = round(records * _BAR * 8 / most)
    full, rest = divmod(max(eighths, 1 if records else 0), 8)
    return "█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")
