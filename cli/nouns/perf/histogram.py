"""A histogram of durations, with buckets of about one percent, from a microsecond up. Pure."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from pk.cli.nouns.perf.rows import LatencyMs

_SUB_BITS: Final = 7
_SUBS: Final = 1 << _SUB_BITS
_HALF: Final = _SUBS >> 1


def bucket_of(us: int) -> int:
    """The bucket of a duration: one for each microsecond below 128 µs, then 64 for each
    doubling."""
    if us < _SUBS:
        return max(us, 0)
    shift = us.bit_length() - _SUB_BITS
    return _SUBS + (shift - 1) * _HALF + (us >> shift) - _HALF


def top_of(bucket: int) -> int:
    """The longest duration, in µs, of a bucket."""
    if bucket < _SUBS:
        return bucket
    shift, rest = divmod(bucket - _SUBS, _HALF)
    return ((rest + _HALF + 1) << (shift + 1)) - 1


class Bar(NamedTuple):
    """A bar of a histogram: `records` durations longer than the previous bar's `top_ms` and up to
    `top_ms`."""

    top_ms: float
    records: int


class Histogram:
    """Counts durations."""

    def __init__(self) -> None:
        self.count = 0
        self.longest_us = 0
        self.shortest_us = 0
        self._total_us = 0
        self._buckets: dict[int, int] = {}

    def add(self, us: int, count: int = 1) -> None:
        """Count `count` durations of `us` microseconds."""
        us = max(us, 0)
        bucket = bucket_of(us)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + count
        self.longest_us = max(self.longest_us, us)
        self.shortest_us = us if not self.count else min(self.shortest_us, us)
        self._total_us += us * count
        self.count += count

    @property
    def mean_ms(self) -> float:
        return self._total_us / self.count / 1000 if self.count else 0.0

    def percentile_ms(self, percent: float) -> float:
        """The duration, in ms, that `percent` of all did not exceed, accurate to a percent or
        two."""
        wanted = self.count * percent / 100
        passed = 0
        for bucket in sorted(self._buckets):
            passed += self._buckets[bucket]
            if passed >= wanted:
                return min(top_of(bucket), self.longest_us) / 1000
        return self.longest_us / 1000

    def summary(self) -> LatencyMs:
        return {
            "min": self.shortest_us / 1000,
            "mean": round(self.mean_ms, 3),
            "p50": self.percentile_ms(50.0),
            "p95": self.percentile_ms(95.0),
            "p99": self.percentile_ms(99.0),
            "p99_9": self.percentile_ms(99.9),
            "max": self.longest_us / 1000,
        }

    def bars(self) -> list[Bar]:
        """The histogram in steps of 1, 2, 5, 10 …, from the first bar with records to the last."""
        found: list[Bar] = []
        steps = _steps()
        top_us, count = next(steps), 0
        for bucket in sorted(self._buckets):
            while top_of(bucket) > top_us:
                if found or count:
                    found.append(Bar(top_us / 1000, count))
                top_us, count = next(steps), 0
            count += self._buckets[bucket]
        if count:
            found.append(Bar(top_us / 1000, count))
        return found


def _steps() -> Iterator[int]:
    unit = 10
    while True:
        yield unit
        yield unit * 2
        yield unit * 5
        unit *= 10
