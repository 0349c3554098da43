"""Limits the speed of copying that is not urgent: Kafka's replication quotas (KIP-73), and the
quota of moves between directories (KIP-113).

A quota is a rate over a window of `num` samples of `size` seconds each
(`replication.quota.window.*`). Nothing is delayed: while the rate is above the quota, the leader or
the follower leaves throttled partitions out of a fetch. Bytes count after they have moved, so one
answer may exceed the quota, and the next has to wait.

The topic names the throttled replicas: `leader.replication.throttled.replicas` and `follower.…` are
lists of `partition:broker`, or `*` for all. A leader never throttles a replica that is in sync,
because that would delay producers.
"""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pk.core.broker.clock import Clock
    from pk.core.config import BrokerConfig

UNLIMITED: Final = (1 << 63) - 1
ALL: Final = "*"


class Quota:
    """Bytes a second that may pass, over a sliding window."""

    def __init__(self, clock: Clock, rate: int, samples: int, sample_s: float) -> None:
        """`rate` is in bytes a second."""
        self.rate = rate
        self._clock = clock
        self._sample_s = sample_s
        self._samples: deque[list[float]] = deque(maxlen=samples)
        """[when it began, bytes], of the last samples in which something passed."""
        self._began: float | None = None

    @property
    def unlimited(self) -> bool:
        """Whether there is nothing to count."""
        return self.rate >= UNLIMITED

    def passed(self, count: int) -> None:
        """Count bytes that have passed."""
        if self.rate >= UNLIMITED or not count:
            return
        now = self._clock.time()
        samples = self._samples
        if samples and now - samples[-1][0] < self._sample_s:
            samples[-1][1] += count
        else:
            samples.append([now, count])

    @property
    def exceeded(self) -> bool:
        """Whether more has passed than may."""
        return self.rate < UNLIMITED and self.measured > self.rate

    @property
    def measured(self) -> float:
        """Bytes a second over the window; while that has just begun, over a sample at least."""
        samples, now = self._samples, self._clock.time()
        window_s = (self._samples.maxlen or 1) * self._sample_s
        while samples and now - samples[0][0] >= window_s:
            samples.popleft()
        if not samples:
            return 0.0
        # As in Kafka's SimpleRate, a window that is not full yet counts for the time that it has
        # been open, but at least for one sample.
        elapsed_s = max(now - samples[0][0], self._sample_s)
        return sum(count for _, count in samples) / elapsed_s

    @property
    def wait_s(self) -> float:
        """How long until it is not exceeded anymore, if nothing else passes."""
        if not self.exceeded:
            return 0.0
        samples, now = self._samples, self._clock.time()
        total = sum(count for _, count in samples)
        window_s = (self._samples.maxlen or 1) * self._sample_s
        enough_s = total / self.rate if self.rate else window_s
        return max(min(enough_s, window_s) - (now - samples[0][0]), 0.001)


@lru_cache(maxsize=1024)
def _parsed(replicas: tuple[str, ...]) -> frozenset[tuple[int, int]]:
    found: set[tuple[int, int]] = set()
    for entry in replicas:
        partition, colon, broker = entry.partition(":")
        if colon and partition.strip().isdigit() and broker.strip().isdigit():
            found.add((int(partition), int(broker)))
    return frozenset(found)


def is_throttled(replicas: tuple[str, ...], partition: int, broker_id: int) -> bool:
    """Whether a topic's list of throttled replicas has this one."""
    if not replicas:
        return False
    return ALL in replicas or (partition, broker_id) in _parsed(replicas)


class ReplicationQuotas:
    """The quotas of one broker."""

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        num, size_s = (
            config.replication_quota_window_num,
            config.replication_quota_window_size_seconds,
        )
        self.leader = Quota(clock, UNLIMITED, num, size_s)
        """The quota for sending to throttled replicas."""
        self.follower = Quota(clock, UNLIMITED, num, size_s)
        """The quota for fetches of its throttled replicas."""
        self.directories = Quota(
            clock,
            UNLIMITED,
            config.alter_log_dirs_replication_quota_window_num,
            config.alter_log_dirs_replication_quota_window_size_seconds,
        )
        """The quota for moves between its log directories."""
        self.configure(config)

    def configure(self, config: BrokerConfig) -> None:
        """Take the rates that are in force now."""
        self.leader.rate = config.leader_replication_throttled_rate
        self.follower.rate = config.follower_replication_throttled_rate
        self.directories.rate = config.replica_alter_log_dirs_io_max_bytes_per_second
