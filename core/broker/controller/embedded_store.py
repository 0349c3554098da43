"""The embedded metadata store: `pk-metadata/` in the first log directory, used by a single process,
which holds that directory's lock.

```
pk-metadata/
  controller                  CBOR: the node that campaigned last, and its epoch
  00000000000000001234.image  CBOR: the image after the events before 1234 (the newest is used)
  __cluster_metadata-0/       an ordinary log of record batches, one event in each record
```

An append is one batch, written and synced before any reader sees it. A batch is atomic in a crash
as well: its CRC is checked when the log is opened, and a torn batch is truncated. Since each batch
is synced before the next is written, only the last can be torn. An invalid batch that other batches
follow was damaged later, and the log is refused rather than truncated, since a truncation would
silently remove topics from the cluster. The batch's leader epoch is the controller's epoch.

An event is durable when `append` returns, so a snapshot never contains more than the log had. The
log ends before the snapshot only if the log's directory was replaced; then the log continues from
the snapshot's offset.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar, TypeVarTuple

from pk.core import cbor
from pk.core.broker.controller.metadata_feed import values_of
from pk.core.broker.offload import offload
from pk.core.errors import KafkaError
from pk.core.log.config import LogConfig
from pk.core.log.failures import StorageError
from pk.core.log.files import Disk
from pk.core.log.log import Log, Origin
from pk.core.log.log_loader import open_log
from pk.core.log.state import LogIdentity
from pk.core.log.torn_tail import damage_before_end
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
"""Kafka's id of the metadata topic."""

_LEADER_KIND: Final = "pk.metadata.controller"
_LEADER_VERSION: Final = 1
_SUFFIX: Final = ".image"
_SNAPSHOTS_KEPT: Final = 2
_READ_BYTES: Final = 1 << 20
_CONFIG: Final = LogConfig(
    # A batch is one append of any size. Segments end with snapshots, not by size or time.
    segment_bytes=(1 << 31) - 1,
    segment_ms=(1 << 62),
    max_message_bytes=(1 << 31) - 1,
)


class EmbeddedStore:
    """A `MetadataStore` in a log directory."""

    def __init__(self, disk: Disk, log_dir: str, now_ms: Callable[[], int]) -> None:
        """`log_dir` is a log directory whose lock this process holds; `now_ms` is the clock for the
        records' timestamps."""
        self._disk = disk
        self._now_ms = now_ms
        self._path = f"{log_dir}/{DIRECTORY}"
        self._log: Log | None = None
        self._failure: str | None = None
        self.lost: list[Callable[[int, str], None]] = []
        """Never called: only the process that holds the directory's lock campaigns."""
        self.bytes_since_snapshot = 0

    async def campaign(self, controller_id: int) -> int:
        """Take the leadership (see `MetadataStore`). Never waits, since there is no other
        candidate."""
        return await self._offload(self._campaign, controller_id)

    async def leader(self) -> Leader | None:
        """See `MetadataStore`."""
        return await self._offload(self._leader)

    async def load(self) -> MetadataImage:
        """See `MetadataStore`. If the newest snapshot is damaged, the previous one is used, with a
        warning."""
        return await self._offload(self._load)

    async def append(self, epoch: int, offset: int, events: Sequence[Event]) -> None:
        """See `MetadataStore`."""
        await self._offload(self._append, epoch, offset, events)

    async def save_snapshot(self, epoch: int, image: MetadataImage) -> None:
        """See `MetadataStore`."""
        await self._offload(self._save_snapshot, epoch, image)

    async def trim(self, epoch: int) -> None:
        """See `MetadataStore`. Keeps the last two snapshots, and the events after the older one."""
        await self._offload(self._trim, epoch)

    def depose(self, controller_id: int, endpoint: Endpoint) -> None:
        """Do nothing (see `MetadataStore`): no other node can be the controller."""

    async def close(self) -> None:
        """See `MetadataStore`."""
        await self._offload(self._close)

    async def _offload(self, fn: Callable[[*Args], T], *args: *Args) -> T:
        try:
            return await offload(fn, *args, directory=self._path)
        except (OSError, cbor.CborError, KafkaError, ContradictoryEvent) as e:
            if self._log is not None and self._log.state.dead is not None:
                # A failed sync is never retried, and its data in the page cache is not trusted.
                self._failure = str(e)
            raise StoreFailed(str(e)) from e

    # --- on a thread ---

    def _campaign(self, controller_id: int) -> int:
        if self._failure is not None:
            raise StoreFailed(self._failure)
        self._disk.make(f"{self._path}/{METADATA_TOPIC}-0")
        if self._log is not None:
            self._log.abandon()
        log = self._log = self._open()
        last = self._leader()
        # The log has the epoch too, if that file was lost: no epoch may be used twice.
        epoch = max(last.epoch if last is not None else 0, log.state.epochs.latest, 0) + 1
        self._disk.write(
            f"{self._path}/controller",
            cbor.dumps(_LEADER_KIND, _LEADER_VERSION, {"id": controller_id, "epoch": epoch}),
        )
        self._disk.sync_dir(self._path)
        self._disk.sync_dir(self._path.rpartition("/")[0])
        log.state.assign_epoch_start(epoch)
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
            raise StoreFailed(f"{damaged}, and the log has later events, which cannot be dropped")
        tp = TopicPartition(METADATA_TOPIC, 0)
        identity = LogIdentity(self._disk, directory, tp, TOPIC_ID)
        log = open_log(identity, _CONFIG, self._now_ms())
        # Data that a killed process left in the page cache must be durable before it is trusted.
        log.durability.flush(force=True)
        self._disk.sync_dir(log.state.directory)
        return log

    def _load(self) -> MetadataImage:
        log = self._opened()
        image = self._newest_snapshot()
        if image.offset > log.state.log_end_offset:
            logger.warning("%s ends before its snapshot; continuing from the snapshot", self._path)
            log.segments.restart_at(image.offset, self._now_ms())
        elif image.offset < log.state.log_start_offset:
            raise StoreFailed(
                f"{self._path}: events {image.offset} to {log.state.log_start_offset} are missing"
            )
        counted = _Counted()
        image = image.apply(self._events(log, image.offset, counted))
        self.bytes_since_snapshot = counted.bytes
        return image

    def _events(self, log: Log, offset: int, counted: "_Counted") -> Iterator[Event]:
        end = log.state.log_end_offset
        while offset < end:
            data = memoryview(log.reader.read_bytes(offset, _READ_BYTES, end))
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
        if log.state.log_end_offset != offset:
            raise Fenced(f"the metadata log ends at {log.state.log_end_offset}, not at {offset}")
        if not events:
            return
        now_ms = self._now_ms()
        batch = build_batch([(now_ms, None, value, ()) for value in values_of(events)])
        header = read_header(batch)
        try:
            log.appender.append_as_leader(batch, header, epoch, now_ms, origin=Origin.COORDINATOR)
        except StorageError as e:
            if e.undone and e.disk_full:
                raise StoreFull(str(e)) from e
            raise
        log.durability.flush()
        self.bytes_since_snapshot += len(batch)

    def _save_snapshot(self, epoch: int, image: MetadataImage) -> None:
        self._fenced(epoch)
        self._disk.write(f"{self._path}/{image.offset:020d}{_SUFFIX}", snapshot.dump(image))
        self.bytes_since_snapshot = 0

    def _trim(self, epoch: int) -> None:
        log = self._fenced(epoch)
        kept = self._snapshots()[-_SNAPSHOTS_KEPT:]
        if kept:
            # If a segment begins at this snapshot, the next trim can delete the segments below it.
            log.segments.roll(self._now_ms())
            if len(kept) == _SNAPSHOTS_KEPT:
                log.segments.delete_before(kept[0])
                log.segments.remove_deleted()
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
        if self._failure is not None:
            raise StoreFailed(self._failure)
        if self._log is None:
            self._log = self._open()
        return self._log

    def _fenced(self, epoch: int) -> Log:
        """Return the log, if `epoch` is the last epoch. Reading the file costs little compared to
        the sync of an append."""
        log = self._opened()
        last = self._leader()
        if last is None or last.epoch != epoch:
            newer = (
                f"node {last.controller_id} is the controller of epoch {last.epoch}"
                if last is not None
                else "the store names no controller"
            )
            raise Fenced(f"epoch {epoch} has ended: {newer}")
        return log

    def _close(self) -> None:
        if self._log is not None and self._log.state.dead is None:
            self._log.close()
        self._log = None


class _Counted:
    bytes = 0
