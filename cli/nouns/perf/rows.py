"""The result of `pk perf`, and the row of its figures for --where, --columns and similar
options."""

from typing import Annotated, Any, NotRequired, TypedDict

from pk.cli.output.amounts import show_ms
from pk.cli.output.rows import Shown


def _show_whole(number: float) -> str:
    return f"{number:,.0f}"


def _show_tenths(number: float) -> str:
    return f"{number:,.1f}"


class _Test(TypedDict):
    test: str
    at: str
    topic: str
    own_topic: bool
    """Whether the topic was temporary."""

    partitions: int
    replication_factor: int | None
    record_size: int | None
    """The size in bytes; None if records differ."""

    template: str | None
    rate: float | None
    """The rate in records per second; None at full speed."""

    acks: str | None
    compression: str | None


class _Config(TypedDict):
    config: dict[str, Any]


class _Run(TypedDict):
    pk: str
    bootstrap: str
    interrupted: bool


class Settings(_Test, _Config, _Run):
    """The settings of a measurement."""


class Figures(TypedDict):
    """The throughput. A MB is 1,000,000 bytes."""

    records: Annotated[int, Shown(show=_show_whole)]
    bytes: int
    seconds: float
    records_per_second: Annotated[float, Shown("RECORDS/S", show=_show_whole)]
    mb_per_second: Annotated[float, Shown("MB/S", show=_show_tenths)]
    client_cpu_seconds: Annotated[float, Shown("CLIENT CPU S")]


def _latency(title: str) -> Shown:
    return Shown(title, show=show_ms)


class LatencyMs(TypedDict):
    """The latencies of all records, in ms."""

    min: Annotated[float, _latency("min")]
    mean: Annotated[float, _latency("mean")]
    p50: Annotated[float, _latency("p50")]
    p95: Annotated[float, _latency("p95")]
    p99: Annotated[float, _latency("p99")]
    p99_9: Annotated[float, _latency("p99.9")]
    max: Annotated[float, _latency("max")]


class HistogramBar(TypedDict):
    """A bar: the records whose latency is longer than `up_to_ms` of the previous bar, and at most
    that of this one."""

    up_to_ms: Annotated[float, Shown("UP TO MS", show=lambda ms: f"{ms:g}")]
    records: Annotated[int, Shown(show=_show_whole)]


class DrawnBar(HistogramBar):
    """A bar for people, with its share of all records."""

    share: Annotated[str, Shown(right=True)]
    bar: str


class Faults(TypedDict):
    """The number of records read back with each kind of fault."""

    lost: Annotated[int, Shown(show=_show_whole)]
    repeated: Annotated[int, Shown(show=_show_whole)]
    reordered: Annotated[int, Shown(show=_show_whole)]
    corrupt: Annotated[int, Shown(show=_show_whole)]


class _Checked(TypedDict):
    checked: Annotated[int, Shown(show=_show_whole)]


class Verified(_Checked, Faults):
    """The records that were read back, and their faults."""


class FigureChange(TypedDict):
    """A figure of this run and of the other one. `verdict` is better, worse, or empty if they are
    about the same."""

    figure: str
    before: Annotated[float, Shown(show=show_ms)]
    now: Annotated[float, Shown(show=show_ms)]
    change_percent: Annotated[float | None, Shown("CHANGE", show=lambda change: f"{change:+.1f} %")]
    verdict: str


class _Checks(TypedDict):
    verified: Verified | None
    compared: list[FigureChange] | None


class _Sent(TypedDict):
    failed: int
    latency_ms: LatencyMs | None
    histogram: list[HistogramBar]


class SentResult(Settings, Figures, _Sent, _Checks):
    """The result of `pk perf produce` and `pk perf e2e`."""


class _Read(TypedDict):
    first_record_ms: float | None


class ReadResult(Settings, Figures, _Read, _Checks):
    """The result of `pk perf consume`."""


class _RowOfResult(TypedDict):
    failed: Annotated[NotRequired[int], Shown(show=_show_whole)]
    first_record_ms: Annotated[NotRequired[float | None], Shown("FIRST AFTER MS", show=show_ms)]
    min: float | None
    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    p99_9: float | None
    max: float | None
    checked: NotRequired[int]
    lost: NotRequired[int]
    repeated: NotRequired[int]
    reordered: NotRequired[int]
    corrupt: NotRequired[int]


class ResultRow(_Test, _Run, Figures, _RowOfResult):
    """The figures of a result in one row."""
