"""Opens the logs of partitions that are new to this broker, and recovers the logs of a broker that
was killed in as many threads as are useful.

A log that cannot be opened makes its partition offline; opening is tried again with each image. A
partition is *lost* if its log is in a directory that had failed at the start.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, NamedTuple

from pk.core.broker.clock import Clock
from pk.core.broker.offload import is_inline, offload
from pk.core.broker.replication.recovery_progress import RecoveryProgress
from pk.core.broker.replication.recovery_threads import RecoveryThreads
from pk.core.broker.replication.storage_failures import StorageFailures
from pk.core.broker.state import BrokerState
from pk.core.errors import KafkaError
from pk.core.log.config import LogConfig
from pk.core.log.failures import StorageError, UnexpectedLogError, unexpected_errors
from pk.core.meta.image import MetadataImage, PartitionChange, PartitionImage, TopicImage
from pk.core.values import TopicIdPartition, TopicPartition

if TYPE_CHECKING:
    from pk.core.log.log import Log
    from pk.core.log.log_dirs import LogDirs

logger = logging.getLogger("pk.broker")

BATCH_LOGS = 256
"""The number of logs that are opened at a time in a thread."""

PARTS_PER_THREAD = 8
"""The number of parts in which a thread takes logs to recover, so that a large log delays only
its own part."""

FIRST_PART_LOGS = 16
"""The number of logs that one thread recovers before the first measurement of whether more threads
would help."""

SNAPSHOT_BYTES_MAX = 1 << 15
"""The size above which the producers' snapshot is read when its log is opened: reading 100,000
producers would block the event loop for a tenth of a second. Smaller snapshots are read at their
first use, so 10,000 logs are opened without reading any."""


class _Recovery(NamedTuple):
    """The progress of recovering all logs, and the number of threads for it."""

    progress: RecoveryProgress
    threads: RecoveryThreads


class LogOpener:
    """Opens logs, and knows the partitions that are offline because their logs could not be
    opened."""

    def __init__(
        self, state: BrokerState, dirs: LogDirs, clock: Clock, failures: StorageFailures
    ) -> None:
        self._state = state
        self._dirs = dirs
        self._clock = clock
        self._failures = failures
        self.starting = True
        """Whether the broker is starting, so that no image has been committed yet."""
        self._offline: dict[TopicPartition, tuple[PartitionChange, KafkaError]] = {}
        """Partitions whose logs could not be opened, with the errors. They are tried again with
        each image while a directory works."""
        self._lost: dict[TopicPartition, bytes] = {}
        """Partitions, with their topics' ids, whose logs are in a directory that had failed at the
        start. They do not get an empty log in another directory, which would be no replacement."""

    def is_offline(self, tp: TopicPartition) -> bool:
        """Return whether this broker has the partition, but could not open its log."""
        return tp in self._offline or tp in self._lost

    def unreadable(self) -> Iterator[TopicIdPartition]:
        """Yield the partitions whose logs could not be opened."""
        for tp, (change, _) in self._offline.items():
            yield TopicIdPartition(change.topic.topic_id, tp.partition)
        for tp, topic_id in self._lost.items():
            yield TopicIdPartition(topic_id, tp.partition)

    async def open(
        self, wanted: list[PartitionChange], configs: Mapping[str, LogConfig]
    ) -> list[tuple[PartitionChange, Log]]:
        """Create or open logs, with the settings of their topics. A log that cannot be opened makes
        its partition offline; the others are unaffected."""
        opened: list[tuple[PartitionChange, Log]] = []
        recovery = self._recovery()
        for start in range(0, len(wanted), BATCH_LOGS):
            batch = wanted[start : start + BATCH_LOGS]
            for change, log in zip(
                batch, await offload(self._open, batch, configs, recovery), strict=True
            ):
                if isinstance(log, KafkaError):
                    self._failed(change, log)
                else:
                    self._offline.pop(change.tp, None)
                    opened.append((change, log))
        if recovery is not None:
            recovery.progress.end()
        return opened

    def _recovery(self) -> _Recovery | None:
        """Return the recovery of the logs of a broker that was killed, or None if there are
        none."""
        to_recover = self._dirs.to_recover
        if not to_recover:
            return None
        threads_max = self._state.config.num_recovery_threads_per_data_dir * len(self._dirs.usable)
        progress = RecoveryProgress(to_recover, self._clock.now_ms)
        return _Recovery(progress, RecoveryThreads(1 if is_inline() else threads_max))

    def _failed(self, change: PartitionChange, error: KafkaError) -> None:
        if change.tp not in self._offline:
            cause = error.__cause__ if isinstance(error, UnexpectedLogError) else None
            logger.error("%s is offline: %s", change.tp, error, exc_info=cause)
        self._offline[change.tp] = change, error
        if isinstance(error, StorageError):
            self._failures.report(error)

    def is_lost(self, change: PartitionChange) -> bool:
        """Return whether the partition's log is in a directory that this broker cannot read (see
        `_lost`)."""
        tp, topic_id = change.tp, change.topic.topic_id
        if self.starting and len(self._dirs.usable) < len(self._dirs.directories):
            if not any(tp in directory.found for directory in self._dirs.usable):
                self._lost[tp] = topic_id
                logger.error("%s is offline: its log directory has failed", tp)
        elif self._lost.get(tp, topic_id) != topic_id:
            del self._lost[tp]
        return tp in self._lost

    def to_retry(
        self, image: MetadataImage, wanted: Iterable[PartitionChange] = ()
    ) -> list[PartitionChange]:
        """Return the offline partitions that are not in `wanted`, as changes of `image`. Partitions
        that `image` does not assign to this broker are dropped."""
        retried: list[PartitionChange] = []
        if not self._offline:
            return retried
        covered = {change.tp for change in wanted}
        for tp, (change, _) in list(self._offline.items()):
            topic, new = image.topics.get(tp.topic), image.partition(*tp)
            if (
                topic is None
                or new is None
                or topic.topic_id != change.topic.topic_id
                or self._state.node_id not in new.replicas
            ):
                del self._offline[tp]
            elif tp not in covered and self._dirs.usable:
                retried.append(PartitionChange(topic, None, new))
        return retried

    def lacking_space(self, image: MetadataImage) -> list[PartitionChange]:
        """Return the partitions that could not be created or opened for lack of space or
        descriptors, as if they were new in `image`."""
        without_space: list[PartitionChange] = []
        for change in self.to_retry(image):
            error = self._offline[change.tp][1]
            if isinstance(error, StorageError) and error.is_transient:
                without_space.append(change)
        return without_space

    def forget(self, topic: TopicImage) -> None:
        """Handle the deletion of a topic: its missing partitions no longer count as lost."""
        for one in topic.partitions if self._lost else ():
            tp = TopicPartition(topic.name, one.partition)
            if self._lost.get(tp) == topic.topic_id:
                del self._lost[tp]

    def _open(
        self,
        batch: list[PartitionChange],
        configs: Mapping[str, LogConfig],
        recovery: _Recovery | None,
    ) -> list[Log | KafkaError]:
        """Open logs in a thread, or in several if that speeds up recovery. Returns each log, or its
        error."""
        progress = None if recovery is None else recovery.progress

        def open_one(change: PartitionChange) -> Log | KafkaError:
            config = configs[change.topic.name]
            try:
                with unexpected_errors("open"):
                    log = self._dirs.open_log(
                        change.tp,
                        change.topic.topic_id,
                        config,
                        self._clock.now_ms(),
                        progress,
                        expected=self._had_log(change.new),
                    )
                    log.state.epochs  # noqa: B018  read here, not by the loop when the partition is led
                    if log.snapshot_bytes > SNAPSHOT_BYTES_MAX:
                        with suppress(KafkaError):  # the first use of the producers raises it again
                            log.state.producers  # noqa: B018
            except KafkaError as e:
                return e
            finally:
                if progress is not None:
                    progress.log_done()
            return log

        if recovery is None or not self._dirs.to_recover:
            return [open_one(change) for change in batch]
        opened: list[Log | KafkaError] = []
        while len(opened) < len(batch):
            opened += _recover_batch(open_one, batch[len(opened) :], recovery)
        return opened

    def _had_log(self, image: PartitionImage) -> bool:
        """Return whether this broker, which is starting, had a log of this partition when it
        stopped, according to the image."""
        members = (*image.isr, *image.elr, *image.last_known_elr)
        return self.starting and image.partition_epoch > 0 and self._state.node_id in members


def _recover_batch(
    open_one: Callable[[PartitionChange], Log | KafkaError],
    changes: list[PartitionChange],
    recovery: _Recovery,
) -> list[Log | KafkaError]:
    """Open the first of these logs, or all of them, in as many threads as the previous logs
    suggest. Returns each log, or its error."""

    def open_each(part: list[PartitionChange]) -> tuple[list[Log | KafkaError], float]:
        begun_s = thread_time()
        return [open_one(change) for change in part], thread_time() - begun_s

    progress, threads = recovery
    begun_s, checked_bytes = perf_counter(), progress.checked_bytes
    if threads.count == 1:
        parts = [open_each(changes[:FIRST_PART_LOGS])]
    else:
        each = max(1, len(changes) // (threads.count * PARTS_PER_THREAD))
        with ThreadPoolExecutor(threads.count, "recover-log") as pool:
            starts = range(0, len(changes), each)
            parts = [*pool.map(open_each, (changes[start : start + each] for start in starts))]
    opened = [log for logs, _ in parts for log in logs]
    threads.round_took(
        len(opened),
        progress.checked_bytes - checked_bytes,
        sum(busy_s for _, busy_s in parts),
        perf_counter() - begun_s,
    )
    return opened
