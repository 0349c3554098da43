"""The rows of `pk top`, and how the screen draws them.

A snapshot (`-f`, `-n`) shows a row type such as `BrokerRow`. The screen draws the same fields,
without those that it shows in another way, and with a few more in some tabs: `TopicOnScreen` has a
line of bars, which a snapshot lacks. The fields are in the order of the columns.

If the terminal is too narrow, the columns with the highest `drop_rank` are dropped first; the first
column, the name, shrinks last. A snapshot drops no columns: `-f wide` shows them.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, TypedDict

from pk.cli.cluster.replica_lag import ReplicaLag, show_lag
from pk.cli.output.amounts import show_bytes, show_count, show_ms, show_rate
from pk.cli.output.rows import Shown
from pk.cli.positions.times import show_span

_SPARKS = "▁▂▃▄▅▆▇█"
_BAR = 10


class Drawn(Shown):
    """How the screen draws a field, and how a table shows it."""

    __slots__ = ("drop_rank", "falling", "flexible", "only_snapshot", "sorts")

    def __init__(
        self,
        title: str | None = None,
        *,
        show: Callable[[Any], str] | None = None,
        null: str = "-",
        right: bool | None = None,
        drop_rank: int = 0,
        falling: bool = False,
        only_snapshot: bool = False,
        sorts: bool = True,
        flexible: bool = False,
        word: bool = False,
    ) -> None:
        """`drop_rank` is 0 if the field is always drawn. `falling` means that sorting by the field
        starts with the largest value; `only_snapshot`, that the screen draws the field only on
        request; `sorts`, that rows can be sorted by the field; `flexible`, that the column takes
        the space that the others leave, instead of the first column, and is cut at its end."""
        super().__init__(title, show=show, null=null, right=right, wide=drop_rank > 1, word=word)
        self.drop_rank = drop_rank
        self.falling = falling
        self.only_snapshot = only_snapshot
        self.sorts = sorts
        self.flexible = flexible


def _show_percent(percent: float) -> str:
    return f"{percent:.0f}%"


def _show_seconds(seconds: float) -> str:
    return show_span(seconds * 1000)


def spark(values: Sequence[float], width: int = 20) -> str:
    """Draw the last values as a line of bars, scaled to the highest."""
    values = list(values)[-width:]
    top = max(values, default=0.0)
    if top <= 0:
        return _SPARKS[0] * len(values)
    return "".join(_SPARKS[min(round(v / top * 7), 7)] for v in values)


def _show_bar(percent: float) -> str:
    full = round(percent / 100 * _BAR)
    return "█" * full + "░" * (_BAR - full)


def show_trend(word: str) -> str:
    """The reason to show instead of a time."""
    return {"none": "-", "even": "keeps up"}.get(word, word)


def _show_to_zero(trend: tuple[str | None, float | None]) -> str:
    word, seconds = trend
    if word == "shrinking" and seconds is not None:
        return _show_seconds(seconds)
    return show_trend(word) if word else "-"


class BrokerRow(TypedDict):
    """A broker in the tab `cluster`. Rates are in records and bytes per second."""

    broker: int
    address: str | None
    rack: Annotated[str | None, Drawn(drop_rank=3)]
    state: Annotated[str, Shown(word=True)]
    controller: Annotated[bool, Drawn("CTRL", drop_rank=2, falling=True)]
    leaders: Annotated[int, Drawn(show=show_count, falling=True)]
    replicas: Annotated[int, Drawn(show=show_count, drop_rank=1, falling=True)]
    in_rate: Annotated[float | None, Drawn("IN/s", show=show_rate, falling=True)]
    log_bytes: Annotated[int | None, Drawn("LOG", show=show_bytes, falling=True)]
    growth: Annotated[float | None, Drawn("+B/s", show=show_bytes, drop_rank=1, falling=True)]
    disk_used_percent: Annotated[float | None, Drawn("DISK", show=_show_percent, falling=True)]


class TopicRow(TypedDict):
    """A topic in the tab `topics`."""

    topic: str
    partitions: Annotated[int, Drawn(show=show_count, falling=True)]
    replication_factor: Annotated[int, Drawn("RF", falling=True)]
    under_replicated: Annotated[int, Drawn("UNDER", show=show_count, falling=True)]
    offline: Annotated[int, Drawn("OFFL", show=show_count, drop_rank=2, falling=True)]
    in_rate: Annotated[float | None, Drawn("IN/s", show=show_rate, falling=True)]
    out_rate: Annotated[float | None, Drawn("OUT/s", show=show_rate, drop_rank=1, falling=True)]
    bytes: Annotated[int | None, Drawn("SIZE", show=show_bytes, drop_rank=1, falling=True)]
    internal: Annotated[bool, Drawn(drop_rank=4, falling=True, only_snapshot=True)]


class TopicOnScreen(TopicRow):
    """A topic as the screen draws it, with recent rates."""

    recent: Annotated[Sequence[float], Drawn("RECENT IN", show=spark, drop_rank=3, sorts=False)]


class PartitionRow(TypedDict):
    """A partition of the open topic."""

    partition: int
    leader: int | None
    replicas: list[int]
    isr: Annotated[list[int], Drawn("ISR")]
    end: Annotated[int | None, Drawn(falling=True)]
    in_rate: Annotated[float | None, Drawn("IN/s", show=show_rate, falling=True)]
    out_rate: Annotated[float | None, Drawn("OUT/s", show=show_rate, falling=True)]
    bytes: Annotated[int | None, Drawn("SIZE", show=show_bytes, falling=True)]


class _Group(TypedDict):
    group: str
    state: Annotated[str | None, Shown(word=True)]
    type: Annotated[str | None, Drawn(drop_rank=4, word=True)]
    members: Annotated[int | None, Drawn("MEM", show=show_count, drop_rank=1, falling=True)]
    topics: Annotated[int | None, Drawn(show=show_count, drop_rank=2, falling=True)]


class _Rates(TypedDict):
    lag: Annotated[int | None, Drawn(show=show_count, falling=True)]
    in_rate: Annotated[float | None, Drawn("IN/s", show=show_rate, drop_rank=1, falling=True)]
    drain_rate: Annotated[float | None, Drawn("DRAIN/s", show=show_rate, drop_rank=1, falling=True)]


class _Trend(TypedDict):
    trend: Annotated[str | None, Drawn(show=show_trend, only_snapshot=True, word=True)]
    zero_s: Annotated[float | None, Drawn("TO ZERO", show=_show_seconds, only_snapshot=True)]


class _TrendOnScreen(TypedDict):
    to_zero: Annotated[
        tuple[str | None, float | None], Drawn("TO ZERO", show=_show_to_zero, right=True)
    ]
    """`trend` and `zero_s` together."""


DRAWN_AS: Final = {"trend": "to_zero", "zero_s": "to_zero"}
"""Fields that the screen draws as another field."""


class _TimeLag(TypedDict):
    time_lag_ms: Annotated[int | None, Drawn("TIME LAG", show=show_span, falling=True)]


class LagOnScreen(_Rates, _Trend, _TrendOnScreen, _TimeLag):
    """How far a group lags, in total or in one partition, and when it will have caught up."""


class GroupRow(_Group, _Rates, _Trend, _TimeLag):
    """A group in the tab `groups`."""


class GroupOnScreen(_Group, LagOnScreen):
    """A group as the screen draws it."""


class _GroupPartition(TypedDict):
    topic: str
    partition: int
    offset: Annotated[int, Drawn(drop_rank=2, falling=True)]
    """The committed offset, or the start offset of a share group, which commits no offsets."""

    end: Annotated[int | None, Drawn(drop_rank=1, falling=True)]


class GroupPartitionRow(_GroupPartition, _Rates, _Trend, _TimeLag):
    """A partition of the open group."""


class GroupPartitionOnScreen(_GroupPartition, LagOnScreen):
    """A partition of a group as the screen draws it."""


class OutOfSyncRow(TypedDict):
    """A partition in the tab `isr`: one with replicas out of sync, or without a leader."""

    topic: str
    partition: int
    leader: Annotated[int | None, Drawn(drop_rank=1)]
    replicas: Annotated[list[int], Drawn(drop_rank=1)]
    isr: Annotated[list[int], Drawn("ISR")]
    out_of_sync: Annotated[list[int], Drawn("OUT")]
    state: Annotated[str, Drawn(drop_rank=2, word=True)]
    out_for_ms: Annotated[int | None, Drawn("OUT FOR", show=show_span, null="?", falling=True)]
    since: Annotated[str | None, Drawn(drop_rank=4)]
    behind: Annotated[ReplicaLag | None, Drawn(show=show_lag)]


def _show_ms(ms: float) -> str:
    return f"{show_ms(ms)} ms"


class RequestRow(TypedDict):
    """The requests of an API to a broker in the tab `requests`, over the last ten seconds."""

    request: str
    """The API, such as Produce."""
    broker: int
    rate: Annotated[float | None, Drawn("/s", show=show_rate, falling=True)]
    """Requests per second."""
    p50_ms: Annotated[float | None, Drawn("p50", show=_show_ms, drop_rank=1, falling=True)]
    """The median time from the arrival of a request until its answer is ready. For a Fetch, it
    includes the wait for records."""
    p99_ms: Annotated[float | None, Drawn("p99", show=_show_ms, falling=True)]
    error_rate: Annotated[float | None, Drawn("ERRORS/s", show=show_rate, falling=True)]
    """Requests per second that failed as a whole."""
    errors: Annotated[int | None, Drawn("ERRORS", show=show_count, drop_rank=2, falling=True)]
    """Requests that failed as a whole since the broker started."""


class _Move(TypedDict):
    topic: str
    partition: int
    replicas: Annotated[list[int], Drawn(drop_rank=2)]
    adding: list[int]
    removing: list[int]


class _Bar(TypedDict):
    bar: Annotated[
        float | None,
        Drawn("", show=_show_bar, null="·" * _BAR, right=False, drop_rank=1, sorts=False),
    ]


class _MoveProgress(TypedDict):
    percent: Annotated[float | None, Drawn("%", show=_show_percent, falling=True)]
    copied: Annotated[int | None, Drawn(show=show_bytes, drop_rank=3, falling=True)]
    total: Annotated[int | None, Drawn("OF", show=show_bytes, falling=True)]
    note: str | None


class MoveRow(_Move, _MoveProgress):
    """A partition in the tab `reassign`."""


class MoveOnScreen(_Move, _Bar, _MoveProgress):
    """A partition that moves, as the screen draws it."""
