"""The embedded metadata store: `pk-metadata/` in the first log directory, of one process, which
holds that directory.

```
pk-metadata/
  controller                  CBOR: who campaigned last, and its epoch
  00000000000000001234.image  CBOR: the image that the events before 1234 made (the newest counts)
  __cluster_metadata-0/       an ordinary log of record batches; a record an event
```

An append is one batch, written and synced before any reader sees it. One batch is all or nothing in
a crash as well: its CRC says so when the log is opened, and a torn one is cut off. Since each is
synced before the next is written, only the last can be torn: one that others lie behind was damaged
later, and the log is refused rather than cut, since a cut would take topics from the cluster
without a word. The batch's leader epoch is the controller's epoch.

An event is durable when `append` returns, so a snapshot never stands for more than the log had.
Only where somebody replaced the log's folder does it end before the snapshot; then the log goes on
from the snapshot's offset.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar, TypeVarTuple

from pk.core import cbor
from pk.core.broker.controller.metadata_feed import values_of
from pk.core.broker.offload import offload
from pk.core.errors import KafkaError
from pk.core.log.config import LogConfig
from pk.core.log.damage import damage_before_end
from pk.core.log.failures import StorageError
from pk.core.log.files import Disk
from pk.core.log.log import Log, Origin
from pk.core.meta import snapshot
from pk.core.meta.events import Endpoint, Event, decode
from pk.core.meta.image import ContradictoryEvent, MetadataImage
from pk.core.meta.store import Fenced, Leader, StoreFailed, StoreFull
from pk.core.record.batch import iter_headers, read_header, records
from pk.core.record.build import build_batch
from pk.core.values import METADATA_TOPIC, TopicPartition, Uuid

T = TypeVar("T")
Args = TypeVarTuple("Args")

logger = logging.getLogger("pk.controller")

DIRECTORY: Final = "pk-metadata"
TOPIC_ID: Final[Uuid] = bytes(15) + b"\x01"
"""The id by which Kafka knows the metadata topic."""

_LEADER_KIND: Final = "pk.metadata.controller"
_LEADER_VERSION: Final = 1
_SUFFIX: Final = ".image"
_SNAPSHOTS_KEPT: Final = 2
_READ_BYTES: Final = 1 << 20
_CONFIG: Final = LogConfig(
    # A batch is one append, whatever its size; segments end with snapshots, not by size or time.
    segment_bytes=(1 << 31) - 1,
    segment_ms=(1 << 62),
    max_message_bytes=(1 << 31) - 1,
)


class EmbeddedStore:
    """See the top of this file. It implements `MetadataStore`."""

    def __init__(self, disk: Disk, log_dir: str, now_ms: Callable[[], int]) -> None:
        """`log_dir` is a log directory that this process holds the lock of; `now_ms` stamps the
        records."""
        self._disk = disk
        self._now_ms = now_ms
        self._path = f"{log_dir}/{DIRECTORY}"
        self._log: Log | None = None
        self._dead: str | None = None
        self.lost: list[Callable[[int, str], None]] = []
        """Never called: only the process that holds the directory's lock campaigns."""
        self.bytes_since_snapshot = 0

    async def campaign(self, controller_id: int) -> int:
        """See `MetadataStore`. There is no other candidate, so there is nothing to wait for."""
        return await self._offload(self._campaign, controller_id)

    async def leader(self) -> Leader | None:
        """See `MetadataStore`."""
        return await self._offload(self._leader)

    async def load(self) -> MetadataImage:
        """See `MetadataStore`. A damaged snapshot gives way to the one before it, with a
        warning."""
        return await self._offload(self._load)

    async def append(self, epoch: int, offset: int, events: Sequence[Event]) -> None:
        """See `MetadataStore`."""
        await self._offload(self._append, epoch, offset, events)

    async def save_snapshot(self, epoch: int, image: MetadataImage) -> None:
        """See `MetadataStore`."""
        await self._offload(self._save_snapshot, epoch, image)

    async def trim(self, epoch: int) -> None:
        """See `MetadataStore`. One snapshot before the last one is kept, and the events after
        it."""
        await self._offload(self._trim, epoch)

    def depose(self, controller_id: int, endpoint: Endpoint) -> None:
        """See `MetadataStore`: no other node can be the controller."""

    async def close(self) -> None:
        """See `MetadataStore`."""
        await self._offload(self._close)

    async def _offload(self, fn: Callable[[*Args], T], *args: *Args) -> T:
        try:
            return await offload(fn, *args, directory=self._path)
        except (OSError, cbor.CborError, KafkaError, ContradictoryEvent) as e:
            if self._log is not None and self._log.dead is not None:
                # A sync that failed is never tried again, nor is what it left in the page cache
                # believed.
                self._dead = str(e)
            raise StoreFailed(str(e)) from e

    # --- below, on a thread ---

    def _campaign(self, controller_id: int) -> int:
        if self._dead is not None:
            raise StoreFailed(self._dead)
        self._disk.make(f"{self._path}/{METADATA_TOPIC}-0")
        if self._log is not None:
            self._log.abandon()
        log = self._log = self._open()
        last = self._leader()
        # The log knows it too, where that file was lost: an epoch must not come twice.
        epoch = max(last.epoch if last is not None else 0, log.latest_epoch, 0) + 1
        self._disk.write(
            f"{self._path}/controller",
            cbor.dumps(_LEADER_KIND, _LEADER_VERSION, {"id": controller_id, "epoch": epoch}),
        )
        self._disk.sync_dir(self._path)
        self._disk.sync_dir(self._path.rpartition("/")[0])
        log.assign_epoch_start(epoch)
        return epoch

    def _leader(self) -> Leader | None:
        path = f"{self._path}/controller"
        if not self._disk.exists(path):
            return None
        _, body = cbor.loads(_LEADER_KIND, self._disk.read(path), _LEADER_VERSION)
        return Leader(body["id"], body["epoch"])

    def _open(self) -> Log:
        directory = f"{self._path}/{METADATA_TOPIC}-0"
        damaged = damage_before_end(self._disk, directory)
        if damaged is not None:
            raise StoreFailed(f"{damaged}, and events that are needed lie behind it")
        log = Log.open(
            self._disk,
            directory,
            TopicPartition(METADATA_TOPIC, 0),
            _CONFIG,
            topic_id=TOPIC_ID,
            clean=False,
            now_ms=self._now_ms(),
        )
        # What a crash of the process left in the page cache becomes durable before it is believed.
        log.flush(force=True)
        self._disk.sync_dir(log.directory)
        return log

    def _load(self) -> MetadataImage:
        log = self._opened()
        image = self._newest_snapshot()
        if image.offset > log.log_end_offset:
            logger.warning("%s ends before its snapshot; continuing from the snapshot", self._path)
            log.restart_at(image.offset, self._now_ms())
        elif image.offset < log.log_start_offset:
            raise StoreFailed(
                f"{self._path}: events {image.offset} to {log.log_start_offset} are missing"
            )
        counted = _Counted()
        image = image.apply(self._events(log, image.offset, counted))
        self.bytes_since_snapshot = counted.bytes
        return image

    def _events(self, log: Log, offset: int, counted: "_Counted") -> Iterator[Event]:
        end = log.log_end_offset
        while offset < end:
            data = memoryview(log.read_bytes(offset, _READ_BYTES, end))
            before = offset
            for position, header in iter_headers(data):
                counted.bytes += header.size
                for record in records(data[position : position + header.size], header):
                    if record.offset >= offset:
                        yield decode(record.value or b"")
                offset = header.next_offset
            if offset == before:
                raise StoreFailed(f"{self._path}: no batch at offset {offset}")

    def _append(self, epoch: int, offset: int, events: Sequence[Event]) -> None:
        log = self._fenced(epoch)
        if log.log_end_offset != offset:
            raise Fenced(f"the metadata log ends at {log.log_end_offset}, not at {offset}")
        if not events:
            return
        now_ms = self._now_ms()
        batch = build_batch([(now_ms, None, value, ()) for value in values_of(events)])
        header = read_header(batch)
        try:
            log.append_as_leader(batch, header, epoch, now_ms, origin=Origin.COORDINATOR)
        except StorageError as e:
            if e.undone and e.disk_full:
                raise StoreFull(str(e)) from e
            raise
        log.flush()
        self.bytes_since_snapshot += len(batch)

    def _save_snapshot(self, epoch: int, image: MetadataImage) -> None:
        self._fenced(epoch)
        self._disk.write(f"{self._path}/{image.offset:020d}{_SUFFIX}", snapshot.dump(image))
        self.bytes_since_snapshot = 0

    def _trim(self, epoch: int) -> None:
        log = self._fenced(epoch)
        kept = self._snapshots()[-_SNAPSHOTS_KEPT:]
        if kept:
            # Where this snapshot begins a segment the next trim can drop what lies below it.
            log.roll(self._now_ms())
            if len(kept) == _SNAPSHOTS_KEPT:
                log.delete_before(kept[0])
                log.remove_deleted()
        for offset in self._snapshots()[:-_SNAPSHOTS_KEPT]:
            self._disk.remove(f"{self._path}/{offset:020d}{_SUFFIX}")

    def _snapshots(self) -> list[int]:
        names = (
            n.removesuffix(_SUFFIX) for n in self._disk.list(self._path) if n.endswith(_SUFFIX)
        )
        return sorted(int(n) for n in names if n.isascii() and n.isdigit())

    def _newest_snapshot(self) -> MetadataImage:
        for offset in reversed(self._snapshots()):
            path = f"{self._path}/{offset:020d}{_SUFFIX}"
            try:
                return snapshot.load(self._disk.read(path))
            except cbor.CborError as e:
                logger.warning("%s: %s; trying the previous snapshot", path, e)
        return MetadataImage()

    def _opened(self) -> Log:
        if self._dead is not None:
            raise StoreFailed(self._dead)
        if self._log is None:
            self._log = self._open()
        return self._log

    def _fenced(self, epoch: int) -> Log:
        """The log, if `epoch` is the last one. Reading the file costs little beside the sync of an
        append."""
        log = self._opened()
        last = self._leader()
        if last is None or last.epoch != epoch:
            raise Fenced(f"epoch {epoch} is over: {last}")
        return log

    def _close(self) -> None:
        if self._log is not None and self._log.dead is None:
            self._log.close()
        self._log = None


class _Counted:
    bytes = 0
