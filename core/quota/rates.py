"""The rates that quotas limit: samples over a sliding window, and a bucket of tokens. Pure: the
caller passes the time. Both only count past use and then tell how long to wait: one large request
may greatly exceed the limit, and its client then waits until the average is within the limit again
(KIP-13).

`SampledRate` is Apache Kafka's `Rate`: the sum of the last `num` samples of `size_s` seconds each,
divided by the time that they cover. A new window counts as if all but its last sample had been
idle, so a client that was idle may use several seconds' worth at once.

`TokenBucket` is the one of KIP-599, for a few large requests: it refills at the rate of the quota,
and holds at most the tokens of a whole window. It may go below zero; then the client waits until it
is back at zero.
"""

from __future__ import annotations

from collections import deque
from math import isfinite

WAIT_MS_MAX = (1 << 31) - 1
"""The longest wait that fits into a response."""


class SampledRate:
    """The measured rate per second over a sliding window, and its limit."""

    __slots__ = ("_sample_s", "_samples", "_total", "last_s", "limit")

    def __init__(self, limit: float, samples: int, sample_s: float) -> None:
        """Create a rate without samples. `limit` is per second."""
        self.limit = limit
        self.last_s = 0.0
        """The time of the last recorded value."""
        self._sample_s = sample_s
        self._samples: deque[list[float]] = deque(maxlen=samples)
        """[start of the sample in s, sum of its values], oldest first."""
        self._total = 0.0

    def record(self, value: float, now_s: float) -> None:
        """Add `value` to the current sample. A negative value takes back an earlier one."""
        samples = self._samples
        self.last_s = now_s
        if samples and now_s - samples[-1][0] < self._sample_s:
            samples[-1][1] += value
        else:
            if len(samples) == samples.maxlen:
                self._total -= samples[0][1]
            samples.append([now_s, value])
        self._total += value

    def measured(self, now_s: float) -> float:
        """Return the rate per second over the window."""
        self._purge(now_s)
        return self._total / self._window_s(now_s)

    def wait_ms(self, now_s: float) -> int:
        """Return the time until the rate is within its limit if nothing else is recorded, or 0 if
        it already is. If the limit is 0, return the length of the window."""
        self._purge(now_s)
        if self._total <= 0:
            return 0
        window_s = self._window_s(now_s)
        over = self._total / window_s - self.limit
        if not over > 0:
            return 0
        if self.limit <= 0:
            return round(window_s * 1000)
        return min(round(over / self.limit * window_s * 1000), WAIT_MS_MAX)

    def _purge(self, now_s: float) -> None:
        samples = self._samples
        oldest = now_s - self._sample_s * (samples.maxlen or 1)
        while samples and samples[0][0] <= oldest:
            self._total -= samples.popleft()[1]
        if not samples:
            self._total = 0.0  # Clear rounding errors.

    def _window_s(self, now_s: float) -> float:
        """Return the time that the samples cover. For a new window, all samples but the last count
        in full."""
        samples, size = self._samples, self._sample_s
        elapsed_s = now_s - samples[0][0] if samples else 0.0
        whole, least = int(elapsed_s / size), (samples.maxlen or 1) - 1
        if whole < least:
            elapsed_s += (least - whole) * size
        return max(elapsed_s, size)


class TokenBucket:
    """A bucket of tokens, each of which allows a unit of work."""

    __slots__ = ("_at_s", "_tokens", "_window_s", "last_s", "limit")

    def __init__(self, limit: float, samples: int, sample_s: float, now_s: float) -> None:
        """Create a full bucket. `limit` is in tokens per second."""
        self.limit = limit
        self._window_s = samples * sample_s
        self._tokens = limit * self._window_s
        self._at_s = self.last_s = now_s

    def set_limit(self, limit: float, now_s: float) -> None:
        """Change the limit from now on."""
        self._refill(now_s)
        self.limit = limit

    def take(self, tokens: float, now_s: float) -> None:
        """Take `tokens`, whether or not the bucket has enough."""
        self._refill(now_s)
        self._tokens = min(self._tokens - tokens, self.limit * self._window_s)
        self.last_s = now_s

    def wait_ms(self, now_s: float) -> int:
        """Return the time until more work may be done, or 0 if it may be done now."""
        self._refill(now_s)
        if not self._tokens < 0:
            return 0
        wait_s = -self._tokens / self.limit if self.limit > 0 else self._window_s
        return max(1, min(round(wait_s * 1000), WAIT_MS_MAX)) if isfinite(wait_s) else WAIT_MS_MAX

    def _refill(self, now_s: float) -> None:
        if now_s > self._at_s:
            added = self.limit * (now_s - self._at_s)
            self._tokens = min(self.limit * self._window_s, self._tokens + added)
            self._at_s = now_s
