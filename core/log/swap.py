"""Replaces segments with a compacted one, so that a crash at any moment leaves a correct log.

    1  .cleaned           the new files are written and synced; a crash leaves the old log
                          (`.cleaned` is removed at start)
    2  .cleaned → .swap   the indexes first, the records last: from here on the swap is decided.
                          Readers get the new segment at once; the names are synced
    3  old → .deleted     removed `file.delete.delay.ms` later; the names are synced
    4  .swap → final      the indexes, synced, and then the records, synced

If a start finds `.log.swap`, it does steps 3 and 4: `complete`. Old segments that begin within the
new one are removed. One that begins after the new one's last batch, because compaction removed all
its records, may stay: its records are superseded by the segments after it, or by the next round.

Between two steps the names are synced, off the loop; the renames run on the loop. Code that
truncates the log in the meantime finishes the swap first, so that no old segment reappears after
the truncation.

The index of aborted transactions always exists while it is swapped, even when empty: if it were
missing, a start could not know whether to remove the old one.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Final

from pk.core.log.files import Disk
from pk.core.log.segment import INDEX, LOG, TIME_INDEX, TXN_INDEX, Segment, file_name

CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
INDEXES: Final = (INDEX, TIME_INDEX, TXN_INDEX)


class Swap:
    """A swap in progress. After each of its steps, which rename files, the directory must be
    synced."""

    def __init__(
        self,
        new: Segment,
        old: Sequence[Segment],
        drop: Callable[[list[Segment]], None],
        directory: Callable[[], str],
        is_current: Callable[[Segment], bool],
    ) -> None:
        """`drop` renames the files of segments that will be removed. `is_current` returns whether
        the log still has the new segment."""
        self._new = new
        self._old = list(old)
        self._drop = drop
        self._directory = directory
        self._is_current = is_current
        self._steps = [self._remove_old, self._name_indexes, self._name_records]

    @property
    def done(self) -> bool:
        """Whether nothing is left to rename."""
        return not self._steps

    def step(self) -> None:
        """Do the next renames, which are step 3 or a part of step 4. Raises OSError."""
        self._steps.pop(0)()

    def _remove_old(self) -> None:
        self._drop(self._old)

    def _name_indexes(self) -> None:
        self._name(1)

    def _name_records(self) -> None:
        self._name(0)

    def _name(self, first: int) -> None:
        if not self._is_current(self._new):
            return  # retention has dropped it in the meantime, so its files have other names
        files = self._new.files[first:] if first else self._new.files[:1]
        for file in files:
            name = file.path.rpartition("/")[2].removesuffix(SWAP)
            file.rename(f"{self._directory()}/{name}")


def begin(new: Segment, directory: str) -> None:
    """Do step 2: rename the files of `new` from `.cleaned` to `.swap`. If this raises OSError, the
    swap is not decided."""
    files = new.files
    for file in (*files[1:], files[0]):
        file.rename(f"{directory}/{file.path.rpartition('/')[2].removesuffix(CLEANED)}{SWAP}")


def complete(disk: Disk, directory: str, names: Sequence[str], now_ms: int) -> None:
    """Complete the swaps that were decided before a crash, and remove the remains of the others.
    `names` are the names in the directory. Raises OSError."""
    there = set(names)
    decided = sorted(name for name in there if name.endswith(LOG + SWAP))
    for name in decided:
        base = int(name.partition(".")[0])
        size = disk.open(f"{directory}/{name}").size()
        new = Segment(disk, directory, base, {LOG: size}, now_ms, SWAP)
        end = base
        for _, header in new.headers(chunk_bytes=1 << 16):
            end = header.next_offset
        new.close()
        for other in _bases(there):
            if base < other < end:
                for kind in (LOG, *INDEXES):
                    _remove(disk, directory, file_name(other, kind), there)
        for kind in INDEXES:
            final = file_name(base, kind)
            for suffix in (SWAP, CLEANED):
                if final + suffix in there:
                    disk.rename(f"{directory}/{final}{suffix}", f"{directory}/{final}")
                    there.discard(final + suffix)
                    break
        disk.sync_dir(directory)
        disk.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP)}")
        there.discard(name)
    for name in list(there):
        if name.endswith(SWAP):
            _remove(disk, directory, name, there)
    disk.sync_dir(directory)


def _bases(names: set[str]) -> list[int]:
    return [
        int(name.removesuffix(LOG)) for name in names if name.endswith(LOG) and name[:20].isdigit()
    ]


def _remove(disk: Disk, directory: str, name: str, there: set[str]) -> None:
    if name in there:
        with contextlib.suppress(FileNotFoundError):
            disk.remove(f"{directory}/{name}")
        there.discard(name)
