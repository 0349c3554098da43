"""Deletes logs that are no longer needed: they are renamed at once, and removed later, since
readers may still use them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import trio

from pk.core.broker.offload import offload
from pk.core.broker.replication.partition import Partition
from pk.core.log.failures import StorageError

if TYPE_CHECKING:
    from pk.core.log.log_dirs import LogDirs

logger = logging.getLogger("pk.broker")

BATCH_PARTITIONS: Final = 256
"""The number of logs that are renamed at a time in a thread."""


class LogDeletion:
    """Deletes the logs of one broker."""

    def __init__(self, dirs: LogDirs, start_soon: Callable[..., None]) -> None:
        self._dirs = dirs
        self._start_soon = start_soon

    async def delete(self, partitions: list[Partition]) -> None:
        """Rename the logs of deleted partitions, and remove them after `file.delete.delay.ms`."""
        for start in range(0, len(partitions), BATCH_PARTITIONS):
            batch = partitions[start : start + BATCH_PARTITIONS]
            for path, delay_ms in await offload(self._rename, batch):
                self._start_soon(self._remove, path, delay_ms)

    def remove_leftovers(self) -> None:
        """Remove the logs that a previous run of this broker has renamed for deletion."""
        for directory in self._dirs.usable:
            for path in list(directory.deleted):
                self._start_soon(self._remove, path, 0)

    def remove_later(self, path: str, delay_ms: int) -> None:
        """Delete the unneeded log at `path` after `delay_ms`."""
        self._start_soon(self._remove, path, delay_ms)

    async def _remove(self, path: str, delay_ms: int) -> None:
        await trio.sleep(delay_ms / 1000)
        try:
            await offload(self._dirs.remove_deleted, path)
        except StorageError as e:
            logger.error("%s could not be removed: %s", path, e)

    def _rename(self, partitions: list[Partition]) -> list[tuple[str, int]]:
        """Rename logs for deletion, in a thread. Returns (the new path, how long to keep it)."""
        renamed: list[tuple[str, int]] = []
        for partition in partitions:
            try:
                path = self._dirs.delete_log(partition.log)
            except StorageError as e:
                logger.error("%s could not be deleted: %s", partition.tp, e)
                continue
            renamed.append((path, partition.config.file_delete_delay_ms))
        return renamed
