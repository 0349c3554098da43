"""The metadata log for followers: the last commits of the active controller, ready to be sent.

A broker fetches `__cluster_metadata` from the controller like a partition from its leader. It gets
record batches, one for each append to the store: one record per event (`core/meta/events.py`), with
the offsets of the store, and the controller's epoch as the batch's leader epoch. An append is never
split, so a reader that applies whole batches never sees a part of a decision.

Only the tail is kept, in memory, about `TAIL_BYTES`. A follower that is further behind, or whose
log diverges (with another epoch for its last record, or an offset beyond the end), cannot continue:
`read` returns None, and the follower loads a snapshot. A snapshot is the document of
`core/meta/snapshot.py`, sent in pieces by FetchSnapshot (KIP-630) and identified by the offset
after its last event and the controller epoch of that event.

Everything here is already durable in the store: a follower never has to undo anything.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Final

import trio
from msgspec import Struct

from pk.core.broker.offload import offload
from pk.core.meta import snapshot
from pk.core.meta.events import Event, encode
from pk.core.meta.image import MetadataImage
from pk.core.record.build import BatchBuilder, frame_record
from pk.core.values import NO_EPOCH

TAIL_BYTES: Final = 4 << 20
"""The size of the tail that is kept, in bytes; the last append is always kept."""

SNAPSHOTS_KEPT: Final = 2
"""The number of snapshots kept: a follower that is loading the snapshot before the newest may
finish."""


class Snapshot(Struct, frozen=True):
    """The image at one offset, as a document."""

    end_offset: int
    """The offset of the first event that is not in the snapshot."""
    epoch: int
    """The controller epoch of the last event in the snapshot."""
    data: bytes
    created_ms: int
    """The time of its creation, in ms since 1970."""


class EventBatch(list[Event]):
    """Events that are appended together. Both the store and the feed need their encoded values,
    which are computed only once."""

    _values: list[bytes] | None = None

    def values(self) -> list[bytes]:
        """Return the values of their records. No event may be added afterwards."""
        if self._values is None:
            self._values = [encode(event) for event in self]
        return self._values

    @property
    def computed_values(self) -> list[bytes] | None:
        """The values of their records; None if they are not computed yet."""
        return self._values


def values_of(events: Iterable[Event]) -> list[bytes]:
    """Return the values of the records of `events`."""
    if isinstance(events, EventBatch):
        return events.values()
    return [encode(event) for event in events]


class _Append(Struct, frozen=True):
    first: int
    end: int
    epoch: int
    data: bytes


class MetadataFeed:
    """The tail of the metadata log. One task adds to it; any number of tasks read and wait."""

    def __init__(self, *, tail_bytes: int = TAIL_BYTES) -> None:
        self._tail_bytes = tail_bytes
        self._tail: deque[_Append] = deque()
        self._bytes = 0
        self._epoch_before_tail = NO_EPOCH
        """The epoch of the event before the tail's first."""
        self._image = MetadataImage()
        self._snapshots: list[Snapshot] = []
        self._snapshot_lock = trio.Lock()
        self._changed = trio.Event()
        self._open = False

    @property
    def image(self) -> MetadataImage:
        """The image after the events so far."""
        return self._image

    @property
    def end_offset(self) -> int:
        """The offset of the next event: the log end and the high watermark."""
        return self._image.offset

    @property
    def start_offset(self) -> int:
        """The first offset at which `read` can begin."""
        return self._tail[0].first if self._tail else self._image.offset

    @property
    def newest_snapshot(self) -> Snapshot | None:
        """The newest snapshot."""
        return self._snapshots[-1] if self._snapshots else None

    def restart(self, image: MetadataImage) -> None:
        """Restart with the contents of the store when the controller was elected. The tail is kept
        if it ends at exactly that point."""
        known = self._tail and (self._image.offset, self._tail[-1].epoch) == (
            image.offset,
            image.controller_epoch,
        )
        if not known:
            self._tail.clear()
            self._bytes = 0
            self._epoch_before_tail = image.controller_epoch
            self._snapshots.clear()
        self._image = image
        self._open = True

    def add(self, events: Iterable[Event], image: MetadataImage, now_ms: int) -> None:
        """Add an append that the store has: `events`, and the resulting `image`. Readers see all of
        it, or nothing until this call has finished."""
        first, epoch = self._image.offset, image.controller_epoch
        values = events.computed_values if isinstance(events, EventBatch) else None
        builder = BatchBuilder()
        values = map(encode, events) if values is None else values
        builder.extend(now_ms, (frame_record(None, value) for value in values))
        data = bytes(builder.build(first, epoch))
        self._tail.append(_Append(first, image.offset, epoch, data))
        self._bytes += len(data)
        while self._bytes > self._tail_bytes and len(self._tail) > 1:
            dropped = self._tail.popleft()
            self._bytes -= len(dropped.data)
            self._epoch_before_tail = dropped.epoch
        self._image = image
        self._wake()

    def close(self) -> None:
        """End all waits, since this node is no longer the controller."""
        self._open = False
        self._wake()

    def read(self, offset: int, bytes_max: int, last_epoch: int = NO_EPOCH) -> bytes | None:
        """Return whole batches from the one with `offset` on, about `bytes_max` bytes and at least
        one batch; empty at the end. Returns None if a follower with the log up to `offset`, whose
        last event has `last_epoch` (-1: not given), must load a snapshot first."""
        if not self.start_offset <= offset <= self.end_offset:
            return None
        at = bisect_right(self._tail, offset, key=lambda append: append.first) - 1
        if last_epoch != NO_EPOCH and offset > 0 and last_epoch != self._epoch_before(offset, at):
            return None
        found: list[bytes] = []
        left = bytes_max
        for append in islice(self._tail, max(at, 0), None):
            if append.end <= offset:
                continue
            if found and len(append.data) > left:
                break
            found.append(append.data)
            left -= len(append.data)
        return b"".join(found)

    async def wait_for_event(self, offset: int, deadline: float) -> bool:
        """Wait until there is an event at `offset`. Returns False if `deadline` (seconds of trio's
        clock) or the end of the controller's term comes first."""
        with trio.CancelScope(deadline=deadline):
            while self._open and self.end_offset <= offset:
                await self._changed.wait()
        return self._open and self.end_offset > offset

    async def snapshot(self, now_ms: int) -> Snapshot:
        """Return a snapshot from which `read` can continue: the newest or, if it is older than the
        tail, a new one."""
        async with self._snapshot_lock:
            newest = self.newest_snapshot
            if newest is not None and newest.end_offset >= self.start_offset:
                return newest
            image = self._image
            data = await offload(snapshot.dump, image)
            newest = Snapshot(image.offset, image.controller_epoch, data, now_ms)
            self._snapshots = [*self._snapshots, newest][-SNAPSHOTS_KEPT:]
            return newest

    def find_snapshot(self, end_offset: int, epoch: int) -> Snapshot | None:
        """Return an earlier snapshot, or None if it is gone."""
        for known in self._snapshots:
            if (known.end_offset, known.epoch) == (end_offset, epoch):
                return known
        return None

    def _epoch_before(self, offset: int, at: int) -> int:
        """Return the epoch of the event before `offset`; `at` is the position of the append with
        `offset`."""
        if at < 0:
            return self._epoch_before_tail
        if self._tail[at].first < offset:
            return self._tail[at].epoch
        return self._tail[at - 1].epoch if at else self._epoch_before_tail

    def _wake(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()
