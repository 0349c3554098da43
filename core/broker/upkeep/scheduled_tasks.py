"""Periodic tasks of a broker: checkpoints, syncs for `flush.ms`, expiry of producers."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import trio

from pk.core.broker.loop_time import let_others_run
from pk.core.broker.offload import offload
from pk.core.broker.replication.partition import Partition
from pk.core.broker.replication.replicas import Replicas
from pk.core.config import BrokerConfig
from pk.core.log.failures import StorageError
from pk.core.log.log_dirs import LogDirs
from pk.core.values import TopicPartition

logger = logging.getLogger("pk.broker")

FLUSH_CHECK_S = 1.0
"""The interval at which `flush.ms` is checked, in seconds; it is shorter if a topic's `flush.ms`
is."""
FLUSH_CHECK_S_MIN = 0.01
NEVER_MS = 1 << 53
"""From this value on, which includes its default, `flush.ms` means never."""
EXPIRATION_CHECK_S = 600.0
"""The interval at which idle producers are expired, in seconds."""


class ScheduledTasks:
    """The background tasks of one broker."""

    def __init__(self, replicas: Replicas, dirs: LogDirs, config: BrokerConfig) -> None:
        self._replicas = replicas
        self._dirs = dirs
        self._config = config
        self._high_watermarks: dict[TopicPartition, int] = {}

    async def run(self) -> None:
        """Run the tasks until cancelled."""
        config = self._config
        recovery_s = config.log_flush_offset_checkpoint_interval_ms / 1000
        starts_s = config.log_flush_start_offset_checkpoint_interval_ms / 1000
        watermarks_s = config.replica_high_watermark_checkpoint_interval_ms / 1000
        async with trio.open_nursery() as nursery:
            start = nursery.start_soon
            start(self._every, recovery_s, self._blocking(self._dirs.write_recovery_points))
            start(self._every, starts_s, self._blocking(self._dirs.write_log_start_offsets))
            start(self._every, watermarks_s, self.write_high_watermarks)
            start(self._every, EXPIRATION_CHECK_S, self.expire_producers)
            start(self._flush)

    async def write_high_watermarks(self) -> None:
        """Checkpoint the high watermark of each partition, if it has changed."""
        now = {p.tp: p.high_watermark for p in list(self._replicas)}
        if now != self._high_watermarks:
            self._high_watermarks = now
            await offload(self._dirs.write_high_watermarks, now)

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """Return the high watermark of every partition."""
        return {partition.tp: partition.high_watermark for partition in self._replicas}

    async def _every(self, interval_s: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await trio.sleep(interval_s)
            try:
                await work()
            except StorageError as e:
                logger.error("%s", e)
                self._replicas.failures.report(e)

    def _blocking(self, work: Callable[[], None]) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            await offload(work)

        return run

    async def expire_producers(self) -> None:
        """Expire the producers that wrote nothing for `producer.id.expiration.ms`."""
        now_ms = self._replicas.clock.now_ms()
        for partition in list(self._replicas):
            partition.log.state.expire_producers(now_ms)
            await trio.lowlevel.checkpoint()

    async def _flush(self) -> None:
        """Sync partitions that have waited for their topic's `flush.ms`."""
        unsynced_since: dict[TopicPartition, float] = {}
        while True:
            shortest_s = FLUSH_CHECK_S
            now = trio.current_time()
            due: list[Partition] = []
            for partitions in list(self._replicas.by_topic()):
                await let_others_run()
                # Check topics, not partitions: there may be 50,000 partitions, and usually none is
                # due.
                one = next(iter(partitions), None)  # None if the topic was deleted
                if one is not None and one.config.flush_ms < NEVER_MS:
                    due += partitions
            for partition in due:
                await let_others_run()
                wait_s = partition.config.flush_ms / 1000
                shortest_s = min(shortest_s, wait_s / 4)
                log = partition.log
                if log.durability.recovery_point >= log.state.log_end_offset:
                    unsynced_since.pop(partition.tp, None)
                    continue
                since = unsynced_since.setdefault(partition.tp, now)
                if now - since >= wait_s:
                    del unsynced_since[partition.tp]
                    self._replicas.tasks.flush(partition)
            await trio.sleep(max(shortest_s, FLUSH_CHECK_S_MIN))
