"""Takes the log directory of a failed disk offline, with every partition in it. A broker without a
working directory ends its process."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from pk.core.broker.background import Background
from pk.core.broker.replication.partition import Partition
from pk.core.errors import ErrorCode, KafkaError
from pk.core.log.failures import StorageError
from pk.core.values import ZERO_UUID, Uuid

if TYPE_CHECKING:
    from pk.core.log.log_dir import LogDir
    from pk.core.log.log_dirs import LogDirs

logger = logging.getLogger("pk.broker")


class StorageFailures:
    """Takes failed log directories offline."""

    def __init__(
        self, dirs: LogDirs, partitions: Iterable[Partition], background: Background
    ) -> None:
        self._dirs = dirs
        self._partitions = partitions
        self._background = background
        self.directory_failed: list[Callable[[], None]] = []
        """Called when a log directory has failed."""

    @property
    def offline_directories(self) -> list[Uuid]:
        """The ids of the failed directories, if their ids could be read (KIP-858)."""
        failed = (d.directory_id for d in self._dirs.directories if d.failed)
        return [directory_id for directory_id in failed if directory_id != ZERO_UUID]

    def fail_partition(self, partition: Partition, error: StorageError) -> None:
        """Take the log directory of a partition offline, because its disk failed."""
        self.fail_directory(partition.log.log_dir, error)

    def fail_directory(self, directory: LogDir, error: KafkaError) -> None:
        """Take the partitions of `directory` offline, because its disk failed. A failed sync is
        never retried."""
        if not directory.failed:
            directory.failed = True
            logger.error("log directory %s is offline: %s", directory.path, error)
            for callback in self.directory_failed:
                callback()
        for partition in self._partitions:
            if partition.log.log_dir is directory and partition.offline is None:
                partition.fail(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)))
        if not self._dirs.usable:
            self._background.fail(
                f"every log directory has failed, the last was {directory.path}: {error}"
            )

    def report(self, error: StorageError) -> None:
        """Take the directory in the error offline, unless its disk is only full."""
        if error.undone or error.is_transient:
            return
        for directory in self._dirs.usable:
            if f"{error.directory}/".startswith(f"{directory.path}/"):
                self.fail_directory(directory, error)
