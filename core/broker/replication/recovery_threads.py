"""Decides how many threads recover logs: `num.recovery.threads.per.data.dir`, or one.

Several threads help if they wait for the disk, and if a log has much to check: reading large pieces
and computing their CRC release the interpreter to other threads. They do harm with thousands of
small logs in the page cache, as after `kill -9`. Such a log takes some thirty short system calls
with Python in between, and each call releases the interpreter and waits to get it back. Two threads
then take up to twice the CPU time of one, and do not finish sooner.

Therefore each round of logs is measured, and determines the threads of the next one.
"""

from typing import Final

LARGE_BYTES: Final = 1 << 20
"""The average number of bytes to check in a log that makes another thread worthwhile."""
WAITING: Final = 0.5
"""If the threads computed for less than this share of a round, the disk determines its time."""


class RecoveryThreads:
    """The number of threads for the next round of logs."""

    def __init__(self, threads_max: int) -> None:
        """`threads_max`: the number that the configuration allows, which the first round uses."""
        self._threads_max = threads_max
        self.count = threads_max

    def round_took(self, logs: int, checked_bytes: int, busy_s: float, elapsed_s: float) -> None:
        """Adjust the count after a round of `logs`; `busy_s` is the CPU time of all its threads."""
        if checked_bytes > logs * LARGE_BYTES or busy_s < elapsed_s * WAITING:
            self.count = self._threads_max
        elif busy_s > elapsed_s:  # one thread would have finished by now
            self.count = 1
