"""Where the metadata log lives, and who may write it: one small interface, for all stores.

A store holds events by offset from 0, a snapshot that stands for those before it, and an *epoch*:
each campaign raises it, and only the last one who did may append. An append of an older epoch
is refused whole, so a controller that lost its leadership without noticing (a paused process, a
lost session) cannot write a word.

Consensus is the store's work, never the controller's: a directory has one owner by its lock,
ZooKeeper votes.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from pk.core import cbor
from pk.core.lazy_dataclass import dataclass
from pk.core.meta import snapshot
from pk.core.meta.events import Endpoint, Event, decode, encode
from pk.core.meta.image import MetadataImage
from pk.core.values import NO_EPOCH, NO_NODE


class Fenced(Exception):
    """Somebody else campaigned since: this epoch appends nothing any more."""


class StoreFailed(Exception):
    """The store could not do it. Whether an append happened is unknown until the log is loaded
    again."""


class StoreFull(StoreFailed):
    """There was no room for an append. Nothing of it happened, and the leadership is as it was."""


class MetadataLost(StoreFailed):
    """The store holds nothing where there must have been something."""


@dataclass(frozen=True, slots=True)
class Leader:
    """Who may append."""

    controller_id: int
    epoch: int


class MetadataStore(Protocol):
    """A metadata log. Every method raises StoreFailed where the store cannot be reached or is
    damaged."""

    lost: list[Callable[[int, str], None]]
    """Each is called, on the loop, with an epoch that this store campaigned for and the reason, as
    soon as that epoch is over or may be over (a session that may have expired): the node that had
    it decides nothing more, whether or not there is something to append. Stores that learn of it
    only when they append never call."""

    async def campaign(self, controller_id: int) -> int:
        """Become the one who may append, waiting for it where somebody else is; the new epoch."""
        ...

    async def leader(self) -> Leader | None:
        """Who campaigned last, None before the first."""
        ...

    async def load(self) -> MetadataImage:
        """The image of everything appended: the snapshot, and the events after it."""
        ...

    async def append(self, epoch: int, offset: int, events: Sequence[Event]) -> None:
        """Append `events` as the records from `offset` on, all or none, and return once they
        survive a crash.

        `offset` is where the appender believes the log ends. Raises Fenced where `epoch` is no
        longer the last one, or the log ends elsewhere: then somebody else has written; StoreFull
        where there is no room.
        """
        ...

    async def save_snapshot(self, epoch: int, image: MetadataImage) -> None:
        """Keep `image` as what the events before `image.offset` came to. Raises Fenced."""
        ...

    async def trim(self, epoch: int) -> None:
        """Let go of events that the last snapshot stands for. Raises Fenced."""
        ...

    @property
    def bytes_since_snapshot(self) -> int:
        """How much was appended after the last snapshot, as far as this process knows."""
        ...

    def depose(self, controller_id: int, endpoint: Endpoint) -> None:
        """No process listens any more where this controller did. Where the leadership is held by a
        session, the next candidate need not wait for its timeout then: whatever the old controller
        would append is refused once there is a new one. Never blocks."""
        ...

    async def close(self) -> None:
        """Release what the store holds open."""
        ...


@dataclass(slots=True)
class MemoryLog:
    """What several `MemoryStore`s share: the log of a cluster that is gone with its process."""

    leader: Leader | None = None
    records: list[bytes] | None = None
    first: int = 0
    snapshot: bytes | None = None


class MemoryStore:
    """A metadata log in memory: of clusters that are simulated, and of tests. It keeps bytes, so
    what it gives back has been through the events' encoding. `fault` is called before each
    operation and may raise StoreFailed."""

    def __init__(
        self, log: MemoryLog | None = None, fault: Callable[[str], None] = lambda operation: None
    ) -> None:
        self.log = log if log is not None else MemoryLog()
        self._fault = fault
        self.lost: list[Callable[[int, str], None]] = []
        """Called only by a test that plays the session's end."""
        self.bytes_since_snapshot = 0

    async def campaign(self, controller_id: int) -> int:
        """See `MetadataStore`."""
        self._fault("campaign")
        last = self.log.leader
        self.log.leader = Leader(controller_id, last.epoch + 1 if last is not None else 1)
        return self.log.leader.epoch

    async def leader(self) -> Leader | None:
        """See `MetadataStore`."""
        self._fault("leader")
        return self.log.leader

    async def load(self) -> MetadataImage:
        """See `MetadataStore`."""
        self._fault("load")
        log = self.log
        image = snapshot.load(log.snapshot) if log.snapshot is not None else MetadataImage()
        records = (log.records or [])[image.offset - log.first :]
        self.bytes_since_snapshot = sum(map(len, records))
        try:
            return image.apply(decode(record) for record in records)
        except cbor.CborError as e:
            raise StoreFailed(str(e)) from e

    async def append(self, epoch: int, offset: int, events: Sequence[Event]) -> None:
        """See `MetadataStore`."""
        self._fault("append")
        self._check(epoch)
        log = self.log
        if log.records is None:
            log.records = []
        if offset != log.first + len(log.records):
            raise Fenced(f"the log ends at {log.first + len(log.records)}, not at {offset}")
        added = [encode(event) for event in events]
        log.records += added
        self.bytes_since_snapshot += sum(map(len, added))
        self._fault("appended")

    async def save_snapshot(self, epoch: int, image: MetadataImage) -> None:
        """See `MetadataStore`."""
        self._fault("save_snapshot")
        self._check(epoch)
        self.log.snapshot = snapshot.dump(image)
        self.bytes_since_snapshot = 0

    async def trim(self, epoch: int) -> None:
        """See `MetadataStore`."""
        self._fault("trim")
        self._check(epoch)
        log = self.log
        if log.snapshot is not None and log.records is not None:
            offset = snapshot.load(log.snapshot).offset
            del log.records[: offset - log.first]
            log.first = offset

    def depose(self, controller_id: int, endpoint: Endpoint) -> None:
        """See `MetadataStore`: a campaign here does not wait."""

    async def close(self) -> None:
        """See `MetadataStore`."""

    def _check(self, epoch: int) -> None:
        leader = self.log.leader or Leader(NO_NODE, NO_EPOCH)
        if leader.epoch != epoch:
            raise Fenced(
                f"epoch {epoch} is over: controller {leader.controller_id} has {leader.epoch}"
            )
