"""Logs the progress of checking logs that were not closed, at intervals if the check takes long."""

import logging
import threading
from collections.abc import Callable
from typing import Final

logger = logging.getLogger("pk.recovery")
"""Its lines are shown even if other loggers show only warnings, to explain a start that takes
minutes."""

EVERY_MS: Final = 2000
_GB: Final = 1e9


class RecoveryProgress:
    """The progress of recovering a number of logs. Its methods are called from several threads."""

    def __init__(self, logs: int, now_ms: Callable[[], int]) -> None:
        self._logs = logs
        self._now_ms = now_ms
        self._done = self._due = self._checked = 0
        self._began_ms = self._reported_ms = now_ms()
        self._reported = False
        self._lock = threading.Lock()

    def due(self, count: int) -> None:
        """Add to the number of bytes to check."""
        with self._lock:
            self._due += count

    def checked(self, count: int) -> None:
        """Count bytes that have been checked."""
        with self._lock:
            self._checked += count
            self._log_progress()

    @property
    def checked_bytes(self) -> int:
        """The number of bytes that have been checked."""
        return self._checked

    def log_done(self) -> None:
        """Count an opened log."""
        with self._lock:
            self._done += 1
            self._log_progress()

    def end(self) -> None:
        """End the recovery. This is logged only if progress was logged before."""
        if self._reported:
            seconds = (self._now_ms() - self._began_ms) / 1000
            logger.info("recovery took %.0f s and checked %.1f GB", seconds, self._checked / _GB)

    def _log_progress(self) -> None:
        now_ms = self._now_ms()
        if now_ms - self._reported_ms >= EVERY_MS:
            self._reported_ms, self._reported = now_ms, True
            logger.info(
                "recovering logs after an unclean shutdown: %d of %d are done; %.1f GB were "
                "checked, and %.1f GB remain in the logs that are being recovered",
                self._done,
                self._logs,
                self._checked / _GB,
                (self._due - self._checked) / _GB,
            )
