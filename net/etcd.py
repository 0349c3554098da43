"""The metadata store on etcd: one of several machines is the controller, and etcd decides which.

```
<path>/
  epoch                        CBOR: the last candidate that campaigned, and its epoch
  leader                       CBOR: the controller's id, epoch and address; attached to a lease of
                               the controller
  log/00000000000000012345     CBOR: the events of one append, from this offset on
  parts/                       pieces of appends that are too large for one value; they count once a
                               value of the log names them
    00000000000000012999-4-1/
      0000000000, 0000000001, …
  snapshots/                   one folder for each attempt; one counts
    00000000000000012000-4-2/  offset, epoch, number
      0000000000, 0000000001, …
  snapshot                     CBOR: which of them
```

**Election.** A candidate that finds no `leader` raises `epoch` and creates `leader` in one
transaction, on the condition that neither key has changed since it was read. All candidates watch
the same key; there are only a few of them.

**Fencing.** Every write of a controller is a transaction with one condition: the last change of
`leader` is its own campaign. etcd applies a transaction completely or not at all. So a controller
that was paused, partitioned or replaced is refused, even if it still believes that it leads. The
election affects only speed, never safety.

**Offsets.** Only the holder of `leader` can add to the log, so it knows where the log ends, and
refuses an append at any other offset without asking etcd. It reads that end after the transaction
of its campaign; from then on no earlier controller can write.

**Repeats.** Writes are idempotent, since the same controller writes the same value to the same key.
So when an etcd server dies or hangs, the client uses the next one (see etcd_client.py), and the
controller keeps its leadership as long as its lease lasts.

**Doubt.** If no server answers in time, the outcome of an append is unknown: the append fails with
StoreFailed, and the store gives up the leadership. The same happens if the first try got no answer
and the second is refused.

**Deposing.** A lease outlives its process by `pk.etcd.session.timeout.ms`. A candidate that finds
nothing listening at the controller's address (`depose`) does not wait for the lease: it takes over
`leader` while the old key still exists. If the old controller is alive after all, it is fenced like
any other.

**Loading** reads all keys at the revision of the first answer, so a trim does not affect it; if
etcd has compacted that revision, the load restarts. Reads are linearizable.

**Size.** etcd rejects requests above 1.5 MB (`--max-request-bytes`). A value holds at most 512 kB.
Larger data goes into `parts` or `snapshots` in pieces, each fenced; then one transaction makes it
valid. So an append of any size is atomic. etcd keeps deleted data until it compacts its history,
which its operator schedules (`--auto-compaction-retention`). When its quota is used up, an append
is refused as a whole, and the leadership stays.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Final

import trio
from msgspec import Struct

from pk.core.broker.offload import offload
from pk.core.meta import snapshot
from pk.core.meta.events import Endpoint, Event
from pk.core.meta.image import MetadataImage
from pk.core.meta.store import Fenced, Leader, StoreFailed, StoreFull
from pk.net.etcd_client import (
    NOT_FOUND,
    OUT_OF_RANGE,
    Answer,
    EtcdClient,
    EtcdRefused,
    EtcdUnreachable,
    decoded,
    encoded,
)
from pk.net.etcd_leader import DOCUMENTS, EtcdLeader, LeaderKey
from pk.net.etcd_lease import EtcdLease

logger = logging.getLogger("pk.controller")

VALUE_BYTES_MAX: Final = 512 << 10

APPEND_COST_BYTES: Final = 1024
"""The least that an append adds to `bytes_since_snapshot`: etcd keeps each key in memory."""

PAGE_KEYS: Final = 16
PAGE_BYTES: Final = 4 << 20
"""The size of one page of a load. The first page has `PAGE_KEYS` keys, the others about this many
bytes."""

PAGE_S: Final = 5.0
"""The timeout of one server for one page."""

LOADS_MAX: Final = 5
"""How often a load restarts because etcd has compacted its revision."""

WRITE_S: Final = 15.0
"""The total timeout of a write, long enough for an etcd cluster that elects a leader or has a slow
disk."""

OTHER_CANDIDATES_S: Final = 1.0
"""How long to let other candidates try first, after a leadership without appends."""

CLOSE_S: Final = 3.0

HOW_TO_MAKE_ROOM: Final = (
    "compact its history, defragment its members and disarm the alarm (etcdctl compact, defrag, "
    "alarm disarm)"
)


class _Leadership(Struct, eq=False):
    """The state of a leadership."""

    epoch: int
    revision: int
    """The revision of the campaign's transaction, which was the last change of `leader`."""

    lease: EtcdLease

    end: int = 0
    """The log end offset."""

    used: bool = False
    """Whether anything was appended."""


class EtcdStore:
    """The metadata store on etcd; see the top of this file. It implements `MetadataStore`."""

    def __init__(
        self,
        client: EtcdClient,
        locator: EtcdLeader,
        controller_id: int,
        endpoint: Endpoint,
        nursery: trio.Nursery,
        *,
        session_timeout_ms: int = 6000,
    ) -> None:
        """Initialize the store. `endpoint` is this controller's address, for the locators of other
        nodes. The task that keeps the lease runs in the nursery, and ends with it. `close` also
        closes the client."""
        self.controller_id = controller_id
        self.locator = locator
        """Finds the controller."""
        self.locator.changed.append(self._leader_read)
        self.lost: list[Callable[[int, str], None]] = []
        self.bytes_since_snapshot = 0
        self._client = client
        self._endpoint = endpoint
        self._nursery = nursery
        self._session_timeout_ms = session_timeout_ms
        self._lease: EtcdLease | None = None
        self._leadership: _Leadership | None = None
        self._ended_reason = "there was no campaign"
        self._had_no_append = False
        """Whether the last leadership ended without an append."""
        self._deposed: tuple[int, Endpoint] | None = None
        """The address of a controller where nothing listens anymore."""
        self._check_again = trio.Event()
        """Set when the leader may have changed, or a candidate should check for another reason."""
        self._last_read = LeaderKey(0)
        """The leader as last read by the locator."""
        self._writing = trio.Lock()
        self._folders = 0

    async def campaign(self, controller_id: int) -> int:
        """See `MetadataStore`. Returns when this store has the leadership, and keeps waiting if its
        lease expires. Raises StoreFailed if etcd is unreachable for longer than the connect
        timeout.

        After a leadership without appends, this store lets other candidates try first: a controller
        that cannot take over (for example because it is too old for the events in the log) must not
        block the others.
        """
        assert controller_id == self.controller_id
        self._end_leadership("this controller campaigns again")
        self._deposed = None
        self.locator.follow()
        if self._had_no_append:
            await self._wait_for_other_candidates()
        while True:
            lease = await self._hold_lease()
            again = self._check_again = trio.Event()
            key = await self.locator.read(within_s=self.locator.connect_timeout_s)
            if not self._may_take(key):
                await again.wait()
                continue
            try:
                leadership = await self._take_leadership(key, lease)
            except EtcdRefused as e:
                if e.code != NOT_FOUND:
                    raise self._store_error(e) from e
                lease.expire()
            else:
                if leadership is not None:
                    return leadership.epoch

    async def leader(self) -> Leader | None:
        """See `MetadataStore`."""
        data, _ = await self._get("epoch")
        with DOCUMENTS.damage():
            return DOCUMENTS.read_epoch(data)

    async def load(self) -> MetadataImage:
        """See `MetadataStore`."""
        for _ in range(LOADS_MAX - 1):
            try:
                return await self._load()
            except EtcdRefused as e:
                if e.code != OUT_OF_RANGE:
                    raise
                logger.info("the data being loaded was compacted; loading again")
        return await self._load()

    async def append(self, epoch: int, offset: int, events: Sequence[Event]) -> None:
        """See `MetadataStore`. After a failure, the store gives up the leadership; the next
        campaign shows whether the append took place."""
        async with self._writing:
            leadership = self._current(epoch)
            if offset != leadership.end:
                raise Fenced(f"the log ends at {leadership.end}, not at {offset}")
            if not events:
                return
            try:
                size = await self._append(leadership, events)
            except StoreFull:
                raise
            except BaseException as e:
                self._end_leadership(f"an append failed: {e}")
                raise
            leadership.used = True
            leadership.end += len(events)
            self.bytes_since_snapshot += max(size, APPEND_COST_BYTES)

    async def save_snapshot(self, epoch: int, image: MetadataImage) -> None:
        """See `MetadataStore`."""
        leadership = self._current(epoch)
        covered = self.bytes_since_snapshot
        data = await offload(snapshot.dump, image)
        folder, pieces = await self._write_pieces(leadership, "snapshots", image.offset, data)
        document = DOCUMENTS.snapshot(image.offset, folder, pieces, zlib.crc32(data))
        await self._write(leadership, [self._put("snapshot", document)], "a snapshot")
        self.bytes_since_snapshot -= covered

    async def trim(self, epoch: int) -> None:
        """See `MetadataStore`. Also deletes parts that never became valid."""
        leadership = self._current(epoch)
        data, _ = await self._get("snapshot")
        with DOCUMENTS.damage():
            pointer = DOCUMENTS.read_snapshot(data)
        if pointer is None:
            return
        offset, folder = f"{pointer['offset']:020d}", pointer["folder"]
        deletes = [
            self._delete("log/", f"log/{offset}"),
            self._delete("parts/", f"parts/{offset}"),
            self._delete("snapshots/", f"snapshots/{folder}/"),
            self._delete(f"snapshots/{folder}0", "snapshots0"),
        ]
        await self._write(leadership, deletes, "a trim")

    def depose(self, controller_id: int, endpoint: Endpoint) -> None:
        """See `MetadataStore`."""
        self._deposed = controller_id, endpoint
        self._check_again.set()

    async def close(self) -> None:
        """See `MetadataStore`. Revokes the lease, so that the next candidate is elected at once."""
        self._end_leadership("the store is closed")
        self.locator.stop()
        await self._revoke()
        await self._client.close()

    # --- the election

    async def _hold_lease(self) -> EtcdLease:
        """Return the lease, or a new one if it has expired. Raises StoreFailed."""
        if self._lease is None or not self._lease.is_valid:
            try:
                self._lease = await EtcdLease.grant(
                    self._client,
                    self._session_timeout_ms,
                    self._nursery,
                    within_s=self.locator.connect_timeout_s,
                )
            except EtcdRefused as e:
                raise self._store_error(e) from e
            self._lease.on_lost.append(self._lease_lost)
        return self._lease

    async def _revoke(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None and lease.is_valid:
            with trio.move_on_after(CLOSE_S, shield=True):
                await lease.revoke(within_s=CLOSE_S)

    async def _wait_for_other_candidates(self) -> None:
        self._had_no_append = False
        await self._revoke()
        with trio.move_on_after(OTHER_CANDIDATES_S):
            while True:
                again = self._check_again = trio.Event()
                key = await self.locator.read(within_s=self.locator.connect_timeout_s)
                if key.modified_at and not self._is_ours(key):
                    return
                await again.wait()

    def _is_ours(self, key: LeaderKey) -> bool:
        """Return whether this node is the leader, by a campaign of this store or of an earlier
        process."""
        return key.read() == (self.controller_id, self._endpoint)

    def _may_take(self, key: LeaderKey) -> bool:
        """Return whether the leadership is free."""
        deposed, self._deposed = self._deposed, None
        if key.modified_at == 0 or self._is_ours(key):
            return True
        if deposed is None or key.read() != deposed:
            return False
        logger.warning("controller %d no longer listens; this node takes its place", deposed[0])
        return True

    async def _take_leadership(self, key: LeaderKey, lease: EtcdLease) -> _Leadership | None:
        """Raise the epoch and take `leader`. Returns None if another candidate was faster."""
        data, epoch_modified_at = await self._get("epoch")
        with DOCUMENTS.damage():
            last = DOCUMENTS.read_epoch(data)
        ours = Leader(self.controller_id, last.epoch + 1 if last is not None else 1)
        body = {
            "compare": [
                self._compare("epoch", epoch_modified_at),
                self._compare("leader", key.modified_at),
            ],
            "success": [
                self._put("epoch", DOCUMENTS.epoch(ours)),
                self._put("leader", DOCUMENTS.leader(ours, self._endpoint), lease.id),
            ],
        }
        answer = await self._client.call(
            "/v3/kv/txn", body, within_s=self.locator.connect_timeout_s
        )
        if not answer.body.get("succeeded"):
            return None
        leadership = _Leadership(ours.epoch, answer.revision, lease)
        leadership.end = await self._find_end()
        if not lease.is_valid or self._has_ended(leadership, self._last_read):
            return None
        self._leadership = leadership
        return leadership

    async def _find_end(self) -> int:
        """Return the log end offset."""
        data, _ = await self._get("snapshot")
        last = {"limit": "1", "sort_order": "DESCEND", "sort_target": "KEY"}
        answer = await self._range("log/", "log0", last)
        with DOCUMENTS.damage():
            pointer = DOCUMENTS.read_snapshot(data)
            end = pointer["offset"] if pointer is not None else 0
            for kv in answer.body.get("kvs", []):
                count = DOCUMENTS.read_append(decoded(kv["value"]))["count"]
                end = max(end, self._offset_of(kv) + count)
        return end

    def _leader_read(self, key: LeaderKey) -> None:
        """Handle a value that the locator read. A candidate checks again after any value: between
        two reads of the locator, another controller may have been elected and deposed, and the
        candidate may have seen that one."""
        self._last_read = key
        self._check_again.set()
        leadership = self._leadership
        if leadership is not None and self._has_ended(leadership, key):
            self._end_leadership("another node campaigned", notify=True)

    @staticmethod
    def _has_ended(leadership: _Leadership, key: LeaderKey) -> bool:
        """Return whether the key was read with a later leader, or without a leader."""
        return key.seen_at >= leadership.revision and key.modified_at != leadership.revision

    def _lease_lost(self) -> None:
        self._check_again.set()
        self._end_leadership("its lease may have expired", notify=True)

    def _end_leadership(self, why: str, *, notify: bool = False) -> None:
        leadership, self._leadership = self._leadership, None
        if leadership is None:
            return
        self._ended_reason, self._had_no_append = why, not leadership.used
        if notify:
            for call in list(self.lost):
                call(leadership.epoch, why)

    def _current(self, epoch: int) -> _Leadership:
        """Return the leadership of `epoch`. Raises Fenced if it is, or may be, over."""
        leadership = self._leadership
        if leadership is None:
            raise Fenced(f"epoch {epoch} is over: {self._ended_reason}")
        if leadership.epoch != epoch:
            raise Fenced(f"epoch {epoch} is over: this store has {leadership.epoch}")
        if not leadership.lease.is_valid:
            raise Fenced(f"epoch {epoch} is over: its lease may have expired")
        return leadership

    # --- writing

    async def _append(self, leadership: _Leadership, events: Sequence[Event]) -> int:
        """Append one value to the log. Returns how many bytes to count for it."""
        large = len(events) > 1000
        data = await offload(DOCUMENTS.append, events) if large else DOCUMENTS.append(events)
        size, offset = len(data), leadership.end
        if size > VALUE_BYTES_MAX:
            folder, pieces = await self._write_pieces(leadership, "parts", offset, data)
            data = DOCUMENTS.pieces_of_append(len(events), folder, pieces, zlib.crc32(data))
        put = self._put(f"log/{offset:020d}", data)
        await self._write(leadership, [put], f"an append at {offset}")
        return size

    async def _write_pieces(
        self, leadership: _Leadership, where: str, offset: int, data: bytes
    ) -> tuple[str, int]:
        """Write `data` to a new folder below `where`. Returns the folder's name and the number of
        values."""
        self._folders += 1
        folder = f"{offset:020d}-{leadership.epoch}-{self._folders}"
        for number, first in enumerate(range(0, len(data), VALUE_BYTES_MAX)):
            piece = data[first : first + VALUE_BYTES_MAX]
            put = self._put(f"{where}/{folder}/{number:010d}", piece)
            await self._write(leadership, [put], where)
        return folder, -(-len(data) // VALUE_BYTES_MAX)

    async def _write(
        self, leadership: _Leadership, operations: list[dict[str, Any]], what: str
    ) -> None:
        """Run a fenced transaction. Raises Fenced, StoreFailed, StoreFull."""
        fence = self._compare("leader", leadership.revision)
        body = {"compare": [fence], "success": operations}
        try:
            answer = await self._client.call("/v3/kv/txn", body, within_s=WRITE_S)
        except EtcdRefused as e:
            raise self._store_error(e) from e
        except EtcdUnreachable as e:
            raise StoreFailed(f"{what}: {e}") from e
        if answer.body.get("succeeded"):
            return
        self._end_leadership("another node campaigned", notify=True)
        over = f"epoch {leadership.epoch} is over: {what} was refused"
        if answer.may_have_applied:
            raise StoreFailed(f"{over}, but it may have taken effect before")
        raise Fenced(over)

    @staticmethod
    def _store_error(refused: EtcdRefused) -> StoreFailed:
        """Return the store's own error for a refusal by etcd."""
        if not refused.is_full:
            return refused
        kind = StoreFailed if refused.may_have_applied else StoreFull
        return kind(f"{refused}: {HOW_TO_MAKE_ROOM}")

    def _compare(self, name: str, modified_at: int) -> dict[str, Any]:
        """Return the condition that a key was last changed at a revision; 0: that the key does not
        exist."""
        return {
            "key": self._key(name),
            "target": "MOD",
            "mod_revision": str(modified_at),
            "result": "EQUAL",
        }

    def _put(self, name: str, value: bytes, lease: str = "0") -> dict[str, Any]:
        put = {"key": self._key(name), "value": encoded(value), "lease": lease}
        return {"request_put": put}

    def _delete(self, first: str, end: str) -> dict[str, Any]:
        """Return the operation that deletes the keys from `first` on and before `end`."""
        return {"request_delete_range": {"key": self._key(first), "range_end": self._key(end)}}

    def _key(self, name: str) -> str:
        return encoded(f"{self.locator.root}/{name}")

    # --- reading

    async def _load(self) -> MetadataImage:
        answer = await self._range("snapshot")
        at = answer.revision
        with DOCUMENTS.damage():
            pointer = DOCUMENTS.read_snapshot(_only_value(answer))
            data = await self._read_pieces("snapshots", pointer, at) if pointer else None
            first = pointer["offset"] if pointer is not None else 0
            offsets: list[int] = []
            documents: list[bytes] = []
            for kv in await self._all(f"log/{first:020d}", "log0", at):
                document = decoded(kv["value"])
                body = DOCUMENTS.read_append(document) if len(document) < 1000 else {}
                if "folder" in body:
                    document = await self._read_pieces("parts", body, at)
                offsets.append(self._offset_of(kv))
                documents.append(document)
            image = await offload(DOCUMENTS.image_of, data, offsets, documents)
        self.bytes_since_snapshot = sum(max(len(d), APPEND_COST_BYTES) for d in documents)
        return image

    async def _read_pieces(self, where: str, body: dict[str, Any], at: int) -> bytes:
        folder = f"{where}/{body['folder']}"
        pieces = await self._all(f"{folder}/", f"{folder}0", at)
        data = b"".join(decoded(kv["value"]) for kv in pieces)
        if len(pieces) != body["pieces"] or zlib.crc32(data) != body["crc"]:
            raise StoreFailed(f"etcd at {self._client.hosts}: {folder} is damaged")
        return data

    async def _all(self, first: str, end: str, at: int) -> list[dict[str, Any]]:
        """Return the keys from `first` on and before `end`, with their values, as of a revision."""
        found: list[dict[str, Any]] = []
        key, limit = self._key(first), PAGE_KEYS
        while True:
            page = {"key": key, "range_end": self._key(end)}
            page |= {"limit": str(limit), "revision": str(at)}
            answer = await self._ask(page)
            kvs: list[dict[str, Any]] = answer.body.get("kvs", [])
            found += kvs
            if not answer.body.get("more"):
                return found
            key = encoded(decoded(kvs[-1]["key"]) + b"\0")
            average = sum(len(kv["value"]) for kv in kvs) // len(kvs) + 1
            limit = min(max(1, PAGE_BYTES // average), 1000)

    async def _get(self, name: str) -> tuple[bytes | None, int]:
        """Return a key's value and the revision of its last change; None and 0 if the key does not
        exist."""
        answer = await self._range(name)
        kvs: list[dict[str, Any]] = answer.body.get("kvs", [])
        return _only_value(answer), int(kvs[0]["mod_revision"]) if kvs else 0

    async def _range(
        self, first: str, end: str | None = None, more: dict[str, str] | None = None
    ) -> Answer:
        body = {"key": self._key(first), **(more or {})}
        return await self._ask(body if end is None else body | {"range_end": self._key(end)})

    async def _ask(self, body: dict[str, Any]) -> Answer:
        return await self._client.call(
            "/v3/kv/range", body, within_s=self.locator.connect_timeout_s, try_s=PAGE_S
        )

    @staticmethod
    def _offset_of(kv: dict[str, Any]) -> int:
        return int(decoded(kv["key"]).rpartition(b"/")[2])


def _only_value(answer: Answer) -> bytes | None:
    """Return the value of the only requested key; None if it does not exist."""
    kvs: list[dict[str, Any]] = answer.body.get("kvs", [])
    return decoded(kvs[0].get("value", "")) if kvs else None
