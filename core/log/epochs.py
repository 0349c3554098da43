"""Which leader wrote what: the leader epochs of a log and where each began (KIP-101, KIP-279).

`leader-epoch-checkpoint`, Kafka's text:

    0                    version
    2                    how many lines follow
    0 0                  epoch, its start offset
    4 118

Epochs and start offsets both grow from line to line. The file is brought up to date when the log is
flushed, rolled or closed, before the recovery point moves; what lies above the recovery point is
rebuilt from the batches after a crash, each of which carries its epoch. So a new leader writes no
file, which counts when 10,000 partitions get one at once.
"""

from bisect import bisect_right
from itertools import pairwise
from typing import NamedTuple

from pk.core.values import NO_EPOCH, NO_OFFSET


class EpochStart(NamedTuple):
    """A leader epoch and the offset of the first batch it wrote."""

    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """The largest epoch not above the one asked for, and the offset after its last batch; (-1, -1)
    if there is none."""

    epoch: int
    end_offset: int


class LeaderEpochs:
    """The epochs of one log, oldest first. `dirty` tells that the checkpoint file is behind."""

    def __init__(self, entries: list[EpochStart] | None = None) -> None:
        self._entries = entries or []
        self.dirty = False

    @property
    def latest(self) -> int:
        """The newest epoch, or -1."""
        return self._entries[-1].epoch if self._entries else NO_EPOCH

    @property
    def entries(self) -> list[EpochStart]:
        """A copy of them all."""
        return list(self._entries)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that `epoch` begins at `start_offset`. An epoch that is known keeps its start.

        Entries that this contradicts (a later epoch or a later start: an unclean leader's, or that
        of an end in a gap, which a restart moved back) are dropped.
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
        """Where `epoch` ends in this log (OffsetForLeaderEpoch): the latest ends at the log's end;
        an older one where the next begins; one that never was here, where the largest below it ends
        (KIP-279)."""
        if epoch == NO_EPOCH or not self._entries:
            return EpochEnd(NO_EPOCH, NO_OFFSET)
        if epoch == self._entries[-1].epoch:
            return EpochEnd(epoch, log_end_offset)
        i = bisect_right(self._entries, epoch, key=lambda e: e.epoch)
        if i == len(self._entries):  # an epoch we have not heard of
            return EpochEnd(NO_EPOCH, NO_OFFSET)
        if (
            i == 0
        ):  # older than all that is left: nothing of it is here, so it ends where the log begins
            return EpochEnd(epoch, self._entries[0].start_offset)
        return EpochEnd(self._entries[i - 1].epoch, self._entries[i].start_offset)

    def epoch_of(self, offset: int) -> int:
        """The epoch that wrote `offset`, or -1 if that is not known."""
        i = bisect_right(self._entries, offset, key=lambda e: e.start_offset)
        return self._entries[i - 1].epoch if i else NO_EPOCH

    def truncate_end(self, offset: int) -> None:
        """Drop the epochs that begin at or after `offset`, the new end of the log."""
        if self._entries and self._entries[-1].start_offset >= offset:
            self._entries = [e for e in self._entries if e.start_offset < offset]
            self.dirty = True

    def truncate_start(self, offset: int) -> None:
        """Drop the epochs that end at or before `offset`, the new start of the log; the one that
        covers it begins there."""
        i = bisect_right(self._entries, offset, key=lambda e: e.start_offset)
        if i > 1 or (i and self._entries[0].start_offset < offset):
            self._entries = [EpochStart(self._entries[i - 1].epoch, offset), *self._entries[i:]]
            self.dirty = True

    def format(self) -> bytes:
        """The content of the checkpoint file."""
        lines = [
            "0",
            str(len(self._entries)),
            *(f"{e.epoch} {e.start_offset}" for e in self._entries),
        ]
        return ("\n".join(lines) + "\n").encode()

    @classmethod
    def parse(cls, content: bytes) -> "LeaderEpochs":
        """From the content of a checkpoint file. Raises ValueError for anything else."""
        try:
            version, announced, *lines = content.decode().split("\n")
            count = int(announced)
            entries = [EpochStart(*map(int, line.split())) for line in lines[:count]]
        except TypeError as e:
            raise ValueError(f"a line of a leader epoch checkpoint that is none: {e}") from None
        if version.strip() != "0":
            raise ValueError(f"version {version!r} of a leader epoch checkpoint")
        if count < 0 or len(entries) != count or any(lines[count:]):
            raise ValueError(f"{count} epochs announced, {len(lines) - 1} lines follow")
        if any(a.epoch >= b.epoch or a.start_offset > b.start_offset for a, b in pairwise(entries)):
            raise ValueError("leader epochs that do not grow")
        return cls(entries)
