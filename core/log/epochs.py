"""The leader epochs of a log, and the offset at which each began (KIP-101, KIP-279).

`leader-epoch-checkpoint`, Kafka's text format:

    0                    version
    2                    the number of lines that follow
    0 0                  epoch, its start offset
    4 118

Epochs and start offsets both increase from line to line. The file is updated when the log is
flushed, rolled or closed, before the recovery point moves. After a crash, epochs above the recovery
point are rebuilt from the batches, each of which has its epoch. So a new leader need not write a
file, which matters when 10,000 partitions get new leaders at once.
"""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from pk.core.values import NO_EPOCH, NO_OFFSET


class EpochStart(NamedTuple):
    """A leader epoch and the offset of the first batch it wrote."""

    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """The largest epoch not above the requested one, and the offset after its last batch; (-1, -1)
    if there is none."""

    epoch: int
    end_offset: int


class LeaderEpochs:
    """The leader epochs of one log, oldest first. `dirty` means that the checkpoint file is
    outdated."""

    def __init__(self, entries: list[EpochStart] | None = None) -> None:
        self._entries = entries or []
        self.dirty = False

    @property
    def latest(self) -> int:
        """The newest epoch, or -1."""
        return self._entries[-1].epoch if self._entries else NO_EPOCH

    @property
    def entries(self) -> list[EpochStart]:
        """Return a copy of all entries."""
        return list(self._entries)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Record that `epoch` begins at `start_offset`. An epoch that is already known keeps its
        start.

        Drops entries with a later epoch or a later start, which contradict the new one. They come
        from an unclean leader, or from a log that ended in a gap and was moved back by a restart.
        """
        if epoch < 0:
            return
        if self._entries:
            latest = self._entries[-1]
            if latest.epoch == epoch and latest.start_offset <= start_offset:
                return
        kept = [e for e in self._entries if e.epoch < epoch and e.start_offset < start_offset]
        self._entries = [*kept, EpochStart(epoch, start_offset)]
        self.dirty = True

    def end_offset(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """Return the end of `epoch` in this log (OffsetForLeaderEpoch). The latest epoch ends at
        the log end, and an earlier epoch at the start of the next one. An epoch that was never in
        this log ends where the largest epoch below it ends (KIP-279)."""
        if epoch == NO_EPOCH or not self._entries:
            return EpochEnd(NO_EPOCH, NO_OFFSET)
        if epoch == self._entries[-1].epoch:
            return EpochEnd(epoch, log_end_offset)
        i = bisect_right(self._entries, epoch, key=lambda e: e.epoch)
        if i == len(self._entries):  # an unknown epoch
            return EpochEnd(NO_EPOCH, NO_OFFSET)
        if i == 0:  # older than all remaining epochs: it ends at the log start
            return EpochEnd(epoch, self._entries[0].start_offset)
        return EpochEnd(self._entries[i - 1].epoch, self._entries[i].start_offset)

    def epoch_of(self, offset: int) -> int:
        """Return the epoch that wrote `offset`; -1 if unknown."""
        i = bisect_right(self._entries, offset, key=lambda e: e.start_offset)
        return self._entries[i - 1].epoch if i else NO_EPOCH

    def precede(self, earlier: Iterable[EpochStart]) -> None:
        """Add epochs from before the first known one. `earlier` may continue beyond it."""
        earlier = list(earlier)
        if not earlier:
            return
        if not self._entries:
            self._entries = earlier
        else:
            first, *rest = self._entries
            before = [e for e in earlier if e.start_offset <= first.start_offset]
            same = [e.start_offset for e in before if e.epoch == first.epoch]
            first = EpochStart(first.epoch, min([first.start_offset, *same]))
            self._entries = [*(e for e in before if e.epoch < first.epoch), first, *rest]
        self.dirty = True

    def truncate_end(self, offset: int) -> None:
        """Drop the epochs that begin at or after `offset`, the new end of the log."""
        if self._entries and self._entries[-1].start_offset >= offset:
            self._entries = [e for e in self._entries if e.start_offset < offset]
            self.dirty = True

    def truncate_start(self, offset: int) -> None:
        """Drop the epochs that end at or before `offset`, the new start of the log. The epoch that
        contains `offset` then begins there."""
        i = bisect_right(self._entries, offset, key=lambda e: e.start_offset)
        if i > 1 or (i and self._entries[0].start_offset < offset):
            self._entries = [EpochStart(self._entries[i - 1].epoch, offset), *self._entries[i:]]
            self.dirty = True

    def format(self) -> bytes:
        """Format the content of the checkpoint file."""
        lines = [
            "0",
            str(len(self._entries)),
            *(f"{e.epoch} {e.start_offset}" for e in self._entries),
        ]
        return ("\n".join(lines) + "\n").encode()

    @classmethod
    def parse(cls, content: bytes) -> "LeaderEpochs":
        """Parse the content of a checkpoint file. Raises ValueError if it is invalid."""
        try:
            version, announced, *lines = content.decode().split("\n")
            count = int(announced)
            entries = [EpochStart(*map(int, line.split())) for line in lines[:count]]
        except TypeError as e:
            raise ValueError(f"an invalid line in a leader epoch checkpoint: {e}") from None
        if version.strip() != "0":
            raise ValueError(f"version {version!r} of a leader epoch checkpoint")
        if count < 0 or len(entries) != count or any(lines[count:]):
            raise ValueError(f"{count} epochs announced, {len(lines) - 1} lines follow")
        if any(a.epoch >= b.epoch or a.start_offset > b.start_offset for a, b in pairwise(entries)):
            raise ValueError("leader epochs that do not grow")
        return cls(entries)
