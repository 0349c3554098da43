"""Rates of counters, and their meaning for a lag. Pure; time, in seconds, is an argument."""

from collections.abc import Container, Hashable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from pk.core.metrics import quantile

WINDOW_S = 10.0
"""A rate covers this many seconds, or the last two samples if they are further apart."""
_EVEN = 0.02
"""Rates that differ by less than this fraction of each other are even."""
_FRESH_S = 5.0
"""A group keeps up if it reads, and its lag is no more than the records that arrive in this many
seconds: commits come in steps."""

Cumulative = Sequence[tuple[str, int]]
"""(upper bound in ms, number of times up to that): the buckets of a histogram."""

K = TypeVar("K", bound=Hashable)


class Meter(Generic[K]):
    """Counters that only grow, each sampled at its own times."""

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._samples: dict[K, list[tuple[float, int]]] = {}

    def see(self, key: K, value: int, now: float) -> None:
        """Add a sample. A counter that decreases has restarted (a topic of the same name, offsets
        that were reset)."""
        samples = self._samples.get(key)
        if samples is None or value < samples[-1][1]:
            self._samples[key] = [(now, value)]
            return
        if now <= samples[-1][0]:
            samples[-1] = (samples[-1][0], value)
            return
        samples.append((now, value))
        while len(samples) > 2 and now - samples[1][0] >= self._window_s:
            del samples[0]

    def rate(self, key: K) -> float | None:
        """The rate per second; None before the second sample."""
        samples = self._samples.get(key)
        if samples is None or len(samples) < 2:
            return None
        (first, was), (last, now) = samples[0], samples[-1]
        return (now - was) / (last - first)

    def value(self, key: K) -> int | None:
        """The last sample."""
        samples = self._samples.get(key)
        return samples[-1][1] if samples else None

    def keep(self, known: Container[K]) -> None:
        """Drop items that are not in `known`."""
        for key in [key for key in self._samples if key not in known]:
            del self._samples[key]


class TimesMeter(Generic[K]):
    """Histograms of times that only grow, each sampled at its own times: how often something
    happens, and how long it takes, within the window."""

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._samples: dict[K, list[tuple[float, Cumulative]]] = {}

    def see(self, key: K, value: Cumulative, now: float) -> None:
        """Add a sample. Counts that decrease have restarted."""
        samples = self._samples.get(key)
        if samples is None or _total(value) < _total(samples[-1][1]):
            self._samples[key] = [(now, value)]
            return
        samples.append((now, value))
        while len(samples) > 2 and now - samples[1][0] >= self._window_s:
            del samples[0]

    def sampled(self) -> Sequence[K]:
        """The items that were sampled."""
        return list(self._samples)

    def rate(self, key: K) -> float | None:
        """How often it happens, per second; None before the second sample."""
        samples = self._samples.get(key)
        if samples is None or len(samples) < 2 or samples[-1][0] <= samples[0][0]:
            return None
        (first, was), (last, now) = samples[0], samples[-1]
        return (_total(now) - _total(was)) / (last - first)

    def quantile(self, key: K, share: float) -> float | None:
        """The time, in ms, that a share of those in the window do not exceed; None if there are
        none."""
        return self.together((key,), share)

    def together(self, keys: Iterable[K], share: float) -> float | None:
        """The quantile over several keys together, whose buckets have the same bounds."""
        counts: dict[str, int] = {}
        for key in keys:
            samples = self._samples.get(key, [])
            if len(samples) < 2:
                continue
            before = dict(samples[0][1])
            for bound, count in samples[-1][1]:
                counts[bound] = counts.get(bound, 0) + count - before.get(bound, 0)
        return quantile(list(counts.items()), share)

    def keep(self, known: Container[K]) -> None:
        """Drop items that are not in `known`."""
        for key in [key for key in self._samples if key not in known]:
            del self._samples[key]


def _total(value: Cumulative) -> int:
    return value[-1][1] if value else 0


class Trend(NamedTuple):
    """The direction of a lag."""

    word: str | None
    """`none`, `shrinking`, `growing`, `even` or `stuck`; None if unknown."""

    zero_s: float | None
    """The seconds until nothing is left to read, at these rates; None if never, or unknown."""


def trend(lag: int | None, drain: float | None, incoming: float | None) -> Trend:
    """The trend of a lag of which `drain` records per second are read, while `incoming` records per
    second arrive."""
    if lag is None:
        return Trend(None, None)
    if lag == 0:
        return Trend("none", 0.0)
    if drain is None or incoming is None:
        return Trend(None, None)
    if drain <= 0:
        return Trend("stuck", None)
    if lag <= incoming * _FRESH_S and drain >= incoming / 2:
        return Trend("even", None)
    net = drain - incoming
    if abs(net) <= _EVEN * incoming:
        return Trend("even", None)
    return Trend("shrinking", lag / net) if net > 0 else Trend("growing", None)
