"""A metadata log in memory, for clusters that are simulated and for tests of the controller."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from pk.core import cbor
from pk.core.meta import snapshot
from pk.core.meta.events import Endpoint, Event, decode, encode
from pk.core.meta.image import ContradictoryEvent, MetadataImage
from pk.core.meta.store import Fenced, Leader, StoreFailed
from pk.core.values import NO_EPOCH, NO_NODE


class MemoryLog(Struct):
    """The state that several `MemoryStore`s share: a cluster's log, which ends with the process."""

    leader: Leader | None = None
    records: list[bytes] | None = None
    first: int = 0
    snapshot: bytes | None = None


class MemoryStore:
    """See `MetadataStore`. It stores bytes, so the events it returns have been encoded and decoded.
    `fault` is called before each operation and may raise StoreFailed."""

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
        except (cbor.CborError, ContradictoryEvent) as e:
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
