"""The metadata store on etcd: any of several machines may be the controller, and etcd's votes say
which.

```
<path>/
  epoch                        CBOR: who campaigned last, and its epoch
  leader                       CBOR: the controller's id, epoch, and where it listens; hangs on a
                               lease of the controller's
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

**Election.** A candidate that finds no `leader` raises `epoch` and creates `leader`, both in one
transaction that compares both keys with the values it read. All candidates watch the same key;
there are only a few of them.

**Fencing.** Every write of a controller is a transaction that compares one thing: the last change
of `leader` is its own campaign. etcd takes a transaction whole or not at all. A controller that was
paused, cut off or replaced is refused, whatever it believes. So the election is a matter of speed,
never of safety.

**Offsets.** Only the holder of `leader` can add to the log, so it knows where the log ends: an
append at another offset is refused without asking etcd. It reads that end after the transaction of
its campaign, behind which no earlier controller can write.

**Repeats.** Each write means the same however often it is sent, since the same controller writes
the same value to the same key. So when a server of etcd dies or hangs, the next one is asked (see
etcd_client.py), and the controller keeps its leadership as long as its lease lasts.

**Doubt.** If no server answers in time, the fate of an append is unknown: it fails with
StoreFailed, and the leadership is given up. The same holds if a first try got no answer and the
second one is refused.

**Deposing.** A lease outlives its process by `pk.etcd.session.timeout.ms`. A candidate that finds
nothing listening where the controller did (`depose`) does not wait for that: it takes `leader` over
while it is still there. Were the old controller alive after all, it would be fenced like any other.

**Loading** reads everything at the revision of its first answer, so a trim does not disturb it; if
etcd has compacted that revision away, the load begins again. Reads are linearizable.

**Size.** etcd takes no request above 1.5 MB (`--max-request-bytes`). A value holds 512 kB at most;
what is larger goes into `parts` or `snapshots` piece by piece, each fenced, and then one
transaction makes it count. So an append of any size is all or nothing. etcd keeps what was deleted
until it compacts its history, which is its operator's to schedule (`--auto-compaction-retention`).
When its quota is used up, an append is refused whole, and the leadership stays as it is.
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
"""What an append counts for at least in `bytes_since_snapshot`: etcd holds each key in memory."""

PAGE_KEYS: Final = 16
PAGE_BYTES: Final = 4 << 20
"""How much one answer of a load holds: the first as many keys, the next ones about as many
bytes."""

PAGE_S: Final = 5.0
"""How long one server may take for a page."""

LOADS_MAX: Final = 5
"""How often a load starts again because etcd compacted its revision."""

WRITE_S: Final = 15.0
"""How long a write may take in all, for a cluster of etcd's that elects or has a slow disk."""

OTHERS_S: Final = 1.0
"""How long others may try first after a leadership that came to nothing."""

CLOSE_S: Final = 3.0

CONNECT_TIMEOUT_MS: Final = 15_000
"""How long etcd may be out of reach until that is said."""

HOW_TO_MAKE_ROOM: Final = (
    "compact its history, defragment its members and disarm the alarm (etcdctl compact, defrag, "
    "alarm disarm)"
)


class _Leadership(Struct, eq=False):
    """The state of a won campaign."""

    epoch: int
    revision: int
    """Of the campaign's transaction, and so of the last change of `leader`."""

    lease: EtcdLease

    end: int = 0
    """Where the log ends."""

    used: bool = False
    """Whether anything was appended."""


class EtcdStore:
    """See the top of this file. It implements `MetadataStore`."""

    def __init__(
        self,
        client: EtcdClient,
        root: str,
        controller_id: int,
        endpoint: Endpoint,
        nursery: trio.Nursery,
        *,
        session_timeout_ms: int = 6000,
        connect_timeout_ms: int = CONNECT_TIMEOUT_MS,
    ) -> None:
        """`root` is the path; `endpoint` is where this controller listens, for others' locators.
        Tasks that keep the lease and follow the leader run in the nursery, and end with it. `close`
        closes the client too."""
        self.controller_id = controller_id
        self.locator = EtcdLeader(client, root, nursery, connect_timeout_ms=connect_timeout_ms)
        """Who the controller is."""
        self.locator.changed.append(self._leader_read)
        self.lost: list[Callable[[int, str], None]] = []
        self.bytes_since_snapshot = 0
        self._client = client
        self._root = root
        self._endpoint = endpoint
        self._nursery = nursery
        self._session_timeout_ms = session_timeout_ms
        self._connect_timeout_s = connect_timeout_ms / 1000
        self._lease: EtcdLease | None = None
        self._leadership: _Leadership | None = None
        self._why = "there was no campaign"
        self._barren = False
        """Whether the last leadership ended before anything was appended."""
        self._deposed: tuple[int, Endpoint] | None = None
        """An address where nothing listens any more."""
        self._look_again = trio.Event()
        """Set when the leader may have changed, or should."""
        self._seen = LeaderKey(0)
        """The leader as last read by the locator."""
        self._writing = trio.Lock()
        self._folders = 0

    async def campaign(self, controller_id: int) -> int:
        """See `MetadataStore`. It returns when this store has the leadership, and waits for that
        through losses of its lease; raises StoreFailed when etcd is out of reach for longer than a
        connection may take.

        A store that returns without having appended anything lets others try first: a controller
        that cannot take over (it is too old for the events of the log, say) must not keep the
        others from it.
        """
        assert controller_id == self.controller_id
        self._give_up("it campaigns again")
        self._deposed = None
        self.locator.follow()
        if self._barren:
            await self._let_others_try()
        while True:
            lease = await self._hold_lease()
            again = self._look_again = trio.Event()
            key = await self.locator.read(within_s=self._connect_timeout_s)
            if not self._may_take(key):
                await again.wait()
                continue
            try:
                leadership = await self._take_leadership(key, lease)
            except EtcdRefused as e:
                if e.code != NOT_FOUND:
                    raise self._said(e) from e
                lease.lose()
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
                logger.info("what was being loaded was compacted; loading again")
        return await self._load()

    async def append(self, epoch: int, offset: int, events: Sequence[Event]) -> None:
        """See `MetadataStore`. After a failure the leadership is given up: the next campaign shows
        whether the append happened."""
        async with self._writing:
            leadership = self._held(epoch)
            if offset != leadership.end:
                raise Fenced(f"the log ends at {leadership.end}, not at {offset}")
            if not events:
                return
            try:
                size = await self._append(leadership, events)
            except StoreFull:
                raise
            except BaseException as e:
                self._give_up(f"an append failed: {e}")
                raise
            leadership.used = True
            leadership.end += len(events)
            self.bytes_since_snapshot += max(size, APPEND_COST_BYTES)

    async def save_snapshot(self, epoch: int, image: MetadataImage) -> None:
        """See `MetadataStore`."""
        leadership = self._held(epoch)
        covered = self.bytes_since_snapshot
        data = await offload(snapshot.dump, image)
        folder, pieces = await self._write_pieces(leadership, "snapshots", image.offset, data)
        document = DOCUMENTS.snapshot(image.offset, folder, pieces, zlib.crc32(data))
        await self._write(leadership, [self._put("snapshot", document)], "a snapshot")
        self.bytes_since_snapshot -= covered

    async def trim(self, epoch: int) -> None:
        """See `MetadataStore`. Pieces that never came to count go with what they were for."""
        leadership = self._held(epoch)
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
        self._look_again.set()

    async def close(self) -> None:
        """See `MetadataStore`. It ends the lease: the next candidate is elected at once."""
        self._give_up("the store is closed")
        self.locator.stop()
        await self._revoke()
        await self._client.close()

    # --- the election

    async def _hold_lease(self) -> EtcdLease:
        """The lease, or a new one if it is over. Raises StoreFailed."""
        if self._lease is None or not self._lease.lasts:
            try:
                self._lease = await EtcdLease.grant(
                    self._client,
                    self._session_timeout_ms,
                    self._nursery,
                    within_s=self._connect_timeout_s,
                )
            except EtcdRefused as e:
                raise self._said(e) from e
            self._lease.on_lost.append(self._lease_lost)
        return self._lease

    async def _revoke(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None and lease.lasts:
            with trio.move_on_after(CLOSE_S, shield=True):
                await lease.revoke(within_s=CLOSE_S)

    async def _let_others_try(self) -> None:
        self._barren = False
        await self._revoke()
        with trio.move_on_after(OTHERS_S):
            while True:
                again = self._look_again = trio.Event()
                key = await self.locator.read(within_s=self._connect_timeout_s)
                if key.modified_at and not self._is_ours(key):
                    return
                await again.wait()

    def _is_ours(self, key: LeaderKey) -> bool:
        """Whether this node is the leader, by a campaign of this store or of a process before this
        one."""
        return key.read() == (self.controller_id, self._endpoint)

    def _may_take(self, key: LeaderKey) -> bool:
        """Whether nobody is in the way."""
        deposed, self._deposed = self._deposed, None
        if key.modified_at == 0 or self._is_ours(key):
            return True
        if deposed is None or key.read() != deposed:
            return False
        logger.warning("controller %d no longer listens; it is deposed", deposed[0])
        return True

    async def _take_leadership(self, key: LeaderKey, lease: EtcdLease) -> _Leadership | None:
        """Raise the epoch and take `leader`; None if another candidate was quicker."""
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
        answer = await self._client.call("/v3/kv/txn", body, within_s=self._connect_timeout_s)
        if not answer.body.get("succeeded"):
            return None
        leadership = _Leadership(ours.epoch, answer.revision, lease)
        leadership.end = await self._find_end()
        if not lease.lasts or self._is_over(leadership, self._seen):
            return None
        self._leadership = leadership
        return leadership

    async def _find_end(self) -> int:
        """Where the log ends."""
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
        """What the locator read. A candidate looks again whatever that was: between two reads of
        the locator another controller may have come and gone, and the candidate seen that one."""
        self._seen = key
        self._look_again.set()
        leadership = self._leadership
        if leadership is not None and self._is_over(leadership, key):
            self._give_up("somebody else campaigned", tell=True)

    @staticmethod
    def _is_over(leadership: _Leadership, key: LeaderKey) -> bool:
        """Whether the key as it was read is that of a later leader, or of none."""
        return key.seen_at >= leadership.revision and key.modified_at != leadership.revision

    def _lease_lost(self) -> None:
        self._look_again.set()
        self._give_up("its lease may be over", tell=True)

    def _give_up(self, why: str, *, tell: bool = False) -> None:
        leadership, self._leadership = self._leadership, None
        if leadership is None:
            return
        self._why, self._barren = why, not leadership.used
        if tell:
            for call in list(self.lost):
                call(leadership.epoch, why)

    def _held(self, epoch: int) -> _Leadership:
        """The leadership of `epoch`. Raises Fenced if it is over, or may be."""
        leadership = self._leadership
        if leadership is None:
            raise Fenced(f"epoch {epoch} is over: {self._why}")
        if leadership.epoch != epoch:
            raise Fenced(f"epoch {epoch} is over: this store has {leadership.epoch}")
        if not leadership.lease.lasts:
            raise Fenced(f"epoch {epoch} is over: its lease may be over")
        return leadership

    # --- writing

    async def _append(self, leadership: _Leadership, events: Sequence[Event]) -> int:
        """One value of the log; how many bytes it stands for."""
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
        """`data` in a new folder below `where`: its name, and how many values it took."""
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
        """A transaction, fenced. Raises Fenced, StoreFailed, StoreFull."""
        fence = self._compare("leader", leadership.revision)
        body = {"compare": [fence], "success": operations}
        try:
            answer = await self._client.call("/v3/kv/txn", body, within_s=WRITE_S)
        except EtcdRefused as e:
            raise self._said(e) from e
        except EtcdUnreachable as e:
            raise StoreFailed(f"{what}: {e}") from e
        if answer.body.get("succeeded"):
            return
        self._give_up("somebody else campaigned", tell=True)
        over = f"epoch {leadership.epoch} is over: {what} was refused"
        if answer.doubt:
            raise StoreFailed(f"{over}, but may have happened before that")
        raise Fenced(over)

    @staticmethod
    def _said(refused: EtcdRefused) -> StoreFailed:
        """The store's own error for what etcd refuses."""
        if not refused.is_full:
            return refused
        kind = StoreFailed if refused.doubt else StoreFull
        return kind(f"{refused}: {HOW_TO_MAKE_ROOM}")

    def _compare(self, name: str, modified_at: int) -> dict[str, Any]:
        """The condition that a key was last changed at a revision; 0: that it does not exist."""
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
        """The deletion of the keys from `first` on and before `end`."""
        return {"request_delete_range": {"key": self._key(first), "range_end": self._key(end)}}

    def _key(self, name: str) -> str:
        return encoded(f"{self._root}/{name}")

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
        """The keys from `first` on and before `end`, with their values, as they were at a
        revision."""
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
        """A key's value, and the revision of its last change; None and 0 if there is no such
        key."""
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
            "/v3/kv/range", body, within_s=self._connect_timeout_s, try_s=PAGE_S
        )

    @staticmethod
    def _offset_of(kv: dict[str, Any]) -> int:
        return int(decoded(kv["key"]).rpartition(b"/")[2])


def _only_value(answer: Answer) -> bytes | None:
    """The value of the only key that was asked for, None if there is no such key."""
    kvs: list[dict[str, Any]] = answer.body.get("kvs", [])
    return decoded(kvs[0].get("value", "")) if kvs else None
