"""In how many threads logs are recovered: `num.recovery.threads.per.data.dir`, or one.

Several threads help where they wait for the disk, and where a log has much to check: reading large
pieces and their CRC leave the interpreter to the others. They do harm with thousands of small logs
that are in the page cache, as after `kill -9`: such a log is some thirty short system calls with
Python in between, and each of them gives the interpreter away and waits for its return. Two threads
then take up to twice the processor's time of one, and are not done sooner.

So each round of logs is measured, and the next one goes by it.
"""

from typing import Final

LARGE_BYTES: Final = 1 << 20
"""The average number of bytes to check in a log that makes another thread worthwhile."""
WAITING: Final = 0.5
"""The disk takes the time where threads computed for less than this share of a round."""


class RecoveryThreads:
    """The number of threads for the next round of logs."""

    def __init__(self, threads_max: int) -> None:
        """`threads_max`: as many as the configuration allows; the first round has them all."""
        self._threads_max = threads_max
        self.count = threads_max

    def round_took(self, logs: int, checked_bytes: int, busy_s: float, elapsed_s: float) -> None:
        """Adjust the count after a round of `logs`; `busy_s` is the CPU time of all its threads."""
        if checked_bytes > logs * LARGE_BYTES or busy_s < elapsed_s * WAITING:
            self.count = self._threads_max
        elif busy_s > elapsed_s:  # they would be done by now, one after another
            self.count = 1
