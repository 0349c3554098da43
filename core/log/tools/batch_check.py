"""Checks the parts of a batch header that no CRC covers, offset and leader epoch, against the
neighboring batches."""

from pk.core.log.epochs import LeaderEpochs
from pk.core.log.recovery import EPOCHS_FILE
from pk.core.record.batch import BatchHeader


class BatchCheck:
    """Checks batch headers in the order of the log."""

    def __init__(
        self, epochs: LeaderEpochs | None, next_offset: int = -1, *, all_epochs: bool = False
    ) -> None:
        """`epochs` are the log's leader epochs, if known. With `all_epochs` they are complete: no
        batch has a later one. No batch may begin before `next_offset`."""
        self.epochs = epochs
        self._all_epochs = all_epochs
        self.next_offset = next_offset
        """The offset after the last checked batch."""
        self._epoch = -1
        self._reported_epochs: set[int] = set()

    def check(self, header: BatchHeader, following: int | None) -> list[str]:
        """Check the next batch. Returns descriptions of its errors. `following` is the base offset
        of the next segment."""
        wrong: list[str] = []
        if header.last_offset_delta < 0:
            wrong.append(f"its last offset delta is {header.last_offset_delta}")
        if header.base_offset < self.next_offset:
            wrong.append(f"begins at offset {header.base_offset}, but {self.next_offset} is due")
        elif following is not None and header.last_offset >= following:
            wrong.append(
                f"goes to offset {header.last_offset}, but the next segment begins at {following}"
            )
        wrong += self._check_epoch(header.leader_epoch, header.base_offset)
        self.next_offset = max(self.next_offset, header.next_offset)
        return wrong

    def _check_epoch(self, epoch: int, offset: int) -> list[str]:
        epochs = self.epochs
        if epoch < 0 or epoch in self._reported_epochs:
            return []
        if epoch < self._epoch:
            self._reported_epochs.add(epoch)
            return [f"leader epoch {epoch} comes after epoch {self._epoch}"]
        self._epoch = epoch
        if epochs is None or not epochs.entries:
            return []
        if epoch > epochs.latest and not self._all_epochs:
            return []
        said = epochs.epoch_of(offset)
        if said not in (-1, epoch):
            self._reported_epochs.add(epoch)
            return [f"leader epoch {epoch}, but {EPOCHS_FILE} says {said} at this offset"]
        return []
