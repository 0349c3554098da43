"""The state that the tasks of remote storage share: the store, its known contents, and the failures
of each partition."""

from __future__ import annotations

import logging
from collections.abc import Callable
from random import Random
from typing import Final, TypeVar, TypeVarTuple

import trio

from pk.core.broker.clock import Clock
from pk.core.broker.offload import offload
from pk.core.broker.remote.metadata_topic import RemoteLogMetadataTopic
from pk.core.broker.replication.partition import Partition
from pk.core.broker.replication.remote_log import RemoteReads
from pk.core.broker.state import BrokerState
from pk.core.errors import KafkaError
from pk.core.log.remote.metadata import RemotePartition
from pk.core.log.remote.storage import RemoteStorage, RemoteStorageError
from pk.core.values import TopicIdPartition, TopicPartition

logger = logging.getLogger("pk.remote")

T = TypeVar("T")
Args = TypeVarTuple("Args")

RETRY_S: Final = 0.5
"""The pause after a failed turn, in seconds; it doubles with each failure. This and the next two
have the values of Kafka's `remote.log.manager.task.retry.*`."""
RETRY_S_MAX: Final = 30.0
RETRY_JITTER: Final = 0.2


class RemoteMetrics:
    """Counters of the tasks."""

    def __init__(self) -> None:
        self.copied_bytes = 0
        self.copied_segments = 0
        self.copy_errors = 0
        self.deleted_segments = 0
        self.delete_errors = 0


class RemoteTasks:
    """The objects that every task of one broker needs."""

    def __init__(
        self,
        storage: RemoteStorage,
        state: BrokerState,
        topic: RemoteLogMetadataTopic,
        reads: RemoteReads,
        clock: Clock,
        random: Random,
    ) -> None:
        self.storage = storage
        self.state = state
        self.topic = topic
        self.reads = reads
        self.clock = clock
        self.random = random
        self.threads = trio.CapacityLimiter(1)
        """Limits the threads that wait for the store."""
        self.failures = RemoteFailures(clock, random)
        self.metrics = RemoteMetrics()

    async def run_on_store(self, fn: Callable[[*Args], T], *args: *Args) -> T:
        """Run a function that uses the store in one of the store's threads."""
        return await offload(fn, *args, limiter=self.threads)


class _ConsecutiveFailures:
    """The failures of one partition since its last success."""

    def __init__(self, now: float) -> None:
        self.since = now
        self.count = 0
        self.kinds: set[type[Exception]] = set()
        """The types of exceptions that were logged."""


class RemoteFailures:
    """The failures of each partition, and the time at which it may try again."""

    def __init__(self, clock: Clock, random: Random) -> None:
        self._clock = clock
        self._random = random
        self._consecutive: dict[TopicIdPartition, _ConsecutiveFailures] = {}
        self.retry_at: dict[TopicIdPartition, float] = {}
        self.trouble: dict[TopicPartition, str] = {}
        """The reason why the last turn of a partition did not do all that was due."""

    def __contains__(self, key: TopicIdPartition) -> bool:
        """Return whether the last turn of a partition failed."""
        return key in self._consecutive

    def failed(self, key: TopicIdPartition, tp: TopicPartition, error: Exception) -> None:
        """Record a failure. Of consecutive failures, only the first of each type is logged."""
        now, reason = self._clock.time(), str(error) or repr(error)
        failures = self._consecutive.setdefault(key, _ConsecutiveFailures(now))
        wait_s = min(RETRY_S * 2.0 ** min(failures.count, 20), RETRY_S_MAX)
        jitter = 1 + RETRY_JITTER * (2 * self._random.random() - 1)
        self.retry_at[key] = now + wait_s * jitter
        failures.count += 1
        self.trouble[tp] = reason
        if type(error) in failures.kinds:
            return
        failures.kinds.add(type(error))
        if isinstance(error, KafkaError | RemoteStorageError | OSError):
            logger.warning("%s: remote storage: %s", tp, reason)
        else:
            logger.error("%s: a task of remote storage failed", tp, exc_info=error)

    def succeeded(self, key: TopicIdPartition, tp: TopicPartition) -> None:
        """Record that the turn did everything that was due."""
        self.trouble.pop(tp, None)
        self.retry_at.pop(key, None)
        failures = self._consecutive.pop(key, None)
        if failures is not None:
            took_s = self._clock.time() - failures.since
            logger.info(
                "%s: remote storage works again, after %d failures in %.0f s",
                tp,
                failures.count,
                took_s,
            )


def still_leads(partition: Partition, epoch: int) -> bool:
    """Return whether this broker leads a partition in that epoch, and its disk works."""
    return partition.leads and partition.leader_epoch == epoch and partition.offline is None


def has_gap(partition: Partition) -> bool:
    """Return whether the log begins with records that were only in remote storage, which was turned
    off for the topic."""
    state = partition.log.state
    is_tiered = partition.config.remote_storage_enable
    return not is_tiered and state.log_start_offset < state.local_log_start_offset


def remote_partition(partition: Partition) -> RemotePartition:
    """Return the name and ids of a partition for remote storage."""
    return RemotePartition(partition.tp.topic, partition.topic_id, partition.tp.partition)
