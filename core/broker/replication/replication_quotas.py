"""Limits the speed of copying that is not urgent: Kafka's replication quotas (KIP-73), and the
quota of moves between directories (KIP-113).

A quota is a rate over a window of `num` samples of `size` seconds each
(`replication.quota.window.*`). Nothing is delayed: while the rate is above the quota, the leader or
the follower leaves throttled partitions out of a fetch. Bytes count after they are copied, so one
response may exceed the quota, and the next has to wait.

The topic lists the throttled replicas: `leader.replication.throttled.replicas` and `follower.…` are
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
    """A limit of bytes a second, over a sliding window."""

    def __init__(self, clock: Clock, rate: int, samples: int, sample_s: float) -> None:
        """`rate` is in bytes a second."""
        self.rate = rate
        self._clock = clock
        self._sample_s = sample_s
        self._samples: deque[list[float]] = deque(maxlen=samples)
        """[start, bytes] of the last samples with bytes."""
        self._began: float | None = None

    @property
    def unlimited(self) -> bool:
        """Whether the quota has no limit."""
        return self.rate >= UNLIMITED

    def record(self, count: int) -> None:
        """Count copied bytes."""
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
        """Whether the rate is above the quota."""
        return self.rate < UNLIMITED and self.measured_rate > self.rate

    @property
    def measured_rate(self) -> float:
        """The rate over the window, in bytes a second. A window that has just begun counts as one
        sample."""
        samples, now = self._samples, self._clock.time()
        window_s = (self._samples.maxlen or 1) * self._sample_s
        while samples and now - samples[0][0] >= window_s:
            samples.popleft()
        if not samples:
            return 0.0
        # As in Kafka's SimpleRate, a window that is not full yet counts for the time since its
        # start, but at least for one sample.
        elapsed_s = max(now - samples[0][0], self._sample_s)
        return sum(count for _, count in samples) / elapsed_s

    @property
    def wait_s(self) -> float:
        """The seconds until the quota is no longer exceeded, if no more bytes are copied."""
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
    """Return whether a topic's list of throttled replicas has this one."""
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
        """Use the rates of `config`."""
        self.leader.rate = config.leader_replication_throttled_rate
        self.follower.rate = config.follower_replication_throttled_rate
        self.directories.rate = config.replica_alter_log_dirs_io_max_bytes_per_second
