"""How fast things go: speeds of counters, and what they make of a lag. Pure; time, in seconds, is an argument."""

from collections.abc import Container, Hashable
from typing import Generic, NamedTuple, TypeVar

WINDOW_S = 10.0
"""A speed is that of the last so many seconds, or of the last two samples where they lie further apart."""
_EVEN = 0.02
"""Speeds that differ by less than this part of each other are even."""
_FRESH_S = 5.0
"""A group that lacks no more than comes in so many seconds, and reads, keeps up: it commits every so often only."""

K = TypeVar("K", bound=Hashable)


class Meter(Generic[K]):
    """Counters that only grow, sampled now and then, each at its own times."""

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._samples: dict[K, list[tuple[float, int]]] = {}

    def see(self, key: K, value: int, now: float) -> None:
        """Takes in a sample. A counter that falls has begun anew (a topic of the same name, offsets that were reset)."""
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
        """A second's worth; None before the second sample."""
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
        """Forgets what is not in `known`."""
        for key in [key for key in self._samples if key not in known]:
            del self._samples[key]


class Trend(NamedTuple):
    """Where a lag is going."""

    word: str | None
    """`none`, `shrinking`, `growing`, `even`, `stuck`; None while nobody knows."""

    zero_s: float | None
    """Seconds until nothing is left to read, at these speeds; None where that never comes or is not known."""


def trend(lag: int | None, drain: float | None, incoming: float | None) -> Trend:
    """What becomes of a lag that is read at `drain` records a second while `incoming` a second come."""
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
