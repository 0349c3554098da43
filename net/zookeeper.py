"""The metadata store on ZooKeeper: one of several machines is the controller, and ZooKeeper decides
which.

```
<path>/
  epoch                        CBOR: the last candidate that campaigned, and its epoch; each
                               campaign raises the node's version
  leader                       ephemeral; CBOR: the controller's id, epoch and address
  candidates/                  ephemeral and sequential: the candidates, in order
    2-5f3a…-0000000007
  log/                         the events, a bucket for each thousand offsets
    0000000000000000012/
      00000000000000012345     CBOR: the events of one append, from this offset on
  parts/                       pieces of appends that are too large for one node; they count once a
                               node of the log names them
    00000000000000012999-0000000004/
      0000000000, 0000000001, …
  snapshots/                   one folder for each attempt; one counts
    00000000000000012000-0000000001/
      0000000000, 0000000001, …
  snapshot                     CBOR: which of them
```

**Election.** A candidate creates an ephemeral sequential node and waits until the one before it is
deleted (each watches only one other, so there is no herd effect). The first in the queue sets
`epoch`, conditional on the version it read, and creates `leader`, both in one multi. From then on
only its writes are accepted:

**Fencing.** Every write of a controller is a multi that begins with two checks: `epoch` has the
version of its own campaign, and `leader` is there. ZooKeeper applies a multi completely or not at
all. So a controller that was paused, partitioned or replaced is refused, even if it still believes
that it leads. With these checks the election affects only speed, never safety.

**Offsets.** Since only the holder of the epoch can add to the log, it knows where the log ends
without asking; an append at any other offset is refused locally. The campaign's own write, in this
session, is the barrier for reading that end. `load` also begins with a `sync`, for stores that do
not lead.

**Deposing.** A session outlives its process by `zookeeper.session.timeout.ms`. A candidate that
finds nothing listening at the controller's address (`depose`) does not wait until the session
expires. It removes the controller's candidate from the queue, and the next candidate is elected. If
the old controller is alive after all, it is fenced like any other.

**Size.** ZooKeeper rejects requests and responses above 1 MB (jute.maxbuffer). A node holds less
than 512 kB, a bucket at most a thousand children. Larger data goes into `parts` or `snapshots` in
pieces, each fenced; then one multi makes it valid. So an append of any size is atomic.

**Doubt.** If the connection breaks during an append, its outcome is unknown: the store raises
StoreFailed and gives up the leadership. The same happens as soon as the session is suspended,
before another node can have been elected; `lost` tells the controller. The controller may
campaign again at once. If its session is still alive, it has kept its place in the queue, and it is
elected again.

Nodes are open to every client of that ZooKeeper (its ACL is the default): protect it like the
brokers' listeners.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import trio
from kazoo.exceptions import (  # pyright: ignore[reportMissingTypeStubs]
    BadVersionError,
    KazooException,
    NodeExistsError,
    NoNodeError,
)
from msgspec import Struct

from pk.core.broker.offload import offload
from pk.core.meta import snapshot
from pk.core.meta.events import Endpoint, Event
from pk.core.meta.image import MetadataImage
from pk.core.meta.store import Fenced, Leader, StoreFailed
from pk.net.store_address import parse_address
from pk.net.store_documents import EventsMissing
from pk.net.zookeeper_locator import ZooKeeperLocator
from pk.net.zookeeper_nodes import DOCUMENTS, failures, place_in_queue, refusal
from pk.net.zookeeper_session import SessionLost, Zk, ZooKeeperSession

logger = logging.getLogger("pk.controller")

NODE_BYTES_MAX: Final = 480 << 10
"""The maximum size of a node: two nodes with their paths fit into one request."""

Transaction: TypeAlias = Any
"""A TransactionRequest of kazoo, whose methods have no types."""

BUCKET: Final = 1000
"""The number of offsets in a bucket of the log."""

DELETES_PER_MULTI: Final = 500

NODE_COST_BYTES: Final = 4096
"""The least that a node adds to `bytes_since_snapshot`: ZooKeeper keeps each node in memory, and a
load requests each of them."""

LOADS_MAX: Final = 5
"""How often a load restarts because a controller has trimmed the events that it was about to
read."""

CAMPAIGN_PAUSE_S: Final = 0.05


class _Leadership(Struct, eq=False):
    """The state of a leadership."""

    epoch: int
    version: int
    """The version of the epoch node."""

    age: int
    """The `age` of the session when it won the campaign."""

    end: int = 0
    """The log end offset."""

    bucket: int = -1
    """The last existing bucket."""

    used: bool = False
    """Whether anything was appended."""


class ZooKeeperStore:
    """The metadata store on ZooKeeper; see the top of this file. It implements `MetadataStore`."""

    def __init__(
        self,
        address: str,
        controller_id: int,
        endpoint: Endpoint,
        *,
        session_timeout_ms: int = 6000,
        connect_timeout_ms: int = 15_000,
    ) -> None:
        """Initialize the store. `address` is `[zookeeper://]h:p,h:p[/path]`; `endpoint` is this
        controller's address, for `ZooKeeperLocator`. Raises ValueError if the address is invalid.
        """
        hosts, self._root = parse_address(address)
        self.session = ZooKeeperSession(
            hosts, session_timeout_ms=session_timeout_ms, connect_timeout_ms=connect_timeout_ms
        )
        self.session.on_lost.append(
            lambda: self._end_leadership("the session may be lost", notify=True)
        )
        self.controller_id = controller_id
        self._endpoint = endpoint
        self._prefix = f"{controller_id}-{secrets.token_hex(8)}-"
        """The prefix of the names of this store's candidates, unique to this store."""
        self._leadership: _Leadership | None = None
        self._ended_reason = "there was no campaign"
        self._had_no_append = False
        """Whether the last leadership ended without an append."""
        self._deposed: tuple[int, Endpoint] | None = None
        """The address of a controller where nothing listens anymore."""
        self._check_again = trio.Event()
        """Set when the queue may have changed, or a candidate should check for another reason."""
        self._writing = trio.Lock()
        self.lost: list[Callable[[int, str], None]] = []
        self.bytes_since_snapshot = 0

    @property
    def locator(self) -> ZooKeeperLocator:
        """Return a locator of the controller that uses this store's session."""
        return ZooKeeperLocator(self.session, self._root)

    async def campaign(self, controller_id: int) -> int:
        """See `MetadataStore`. Returns when this store is first in the queue, and keeps waiting if
        the session is lost. Raises StoreFailed if ZooKeeper is unreachable for longer than the
        connect timeout.

        After a leadership without appends, this store goes to the end of the queue: a controller
        that cannot take over (for example because it is too old for the events in the log) must not
        block the others.
        """
        assert controller_id == self.controller_id
        self._end_leadership("this controller campaigns again")
        self._deposed = None
        with failures():
            while True:
                age = await self.session.ready()
                try:
                    for name in ("epoch", "candidates", "log", "parts", "snapshots", "snapshot"):
                        await self._ensure(f"{self._root}/{name}")
                    await self._wait_first(await self._enter_queue(), age)
                    leadership = await self._take_leadership(age)
                    if leadership is not None:
                        return leadership.epoch
                except SessionLost as e:
                    logger.info("campaigning again: %s", e)
                await trio.sleep(CAMPAIGN_PAUSE_S)

    async def leader(self) -> Leader | None:
        """See `MetadataStore`."""
        with failures():
            await self.session.ready()
            found = await self._get(f"{self._root}/epoch")
        return DOCUMENTS.read_epoch(found)

    async def load(self) -> MetadataImage:
        """See `MetadataStore`."""
        with failures():
            await self.session.ready()
            missing: Exception | None = None
            for _ in range(LOADS_MAX):
                try:
                    return await self._load()
                except (NoNodeError, EventsMissing) as e:
                    missing = e
                    logger.info("the data to load was trimmed; loading again")
            assert missing is not None
            raise missing

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
                with failures():
                    size = await self._append(leadership, events)
            except BaseException as e:
                self._end_leadership(f"an append failed: {e}")
                raise
            leadership.used = True
            leadership.end += len(events)
            leadership.bucket = max(leadership.bucket, offset // BUCKET)
            self.bytes_since_snapshot += max(size, NODE_COST_BYTES)

    async def save_snapshot(self, epoch: int, image: MetadataImage) -> None:
        """See `MetadataStore`."""
        with failures():
            leadership = self._current(epoch)
            covered = self.bytes_since_snapshot
            data = await offload(snapshot.dump, image)
            folder, pieces = await self._write_pieces(leadership, "snapshots", image.offset, data)
            document = DOCUMENTS.snapshot(image.offset, folder, pieces, zlib.crc32(data))
            await self._multi(
                leadership, lambda t: t.set_data(f"{self._root}/snapshot", document), "a snapshot"
            )
            self.bytes_since_snapshot -= covered

    async def trim(self, epoch: int) -> None:
        """See `MetadataStore`. Also deletes parts that never became valid."""
        with failures():
            leadership = self._current(epoch)
            pointer = DOCUMENTS.read_snapshot(await self._get(f"{self._root}/snapshot"))
            if pointer is None:
                return
            offset = pointer["offset"]
            for folder in await self._children("snapshots"):
                if folder != pointer["folder"]:
                    await self._delete_folder(leadership, f"snapshots/{folder}")
            for folder in await self._children("parts"):
                if int(folder.partition("-")[0]) < offset:
                    await self._delete_folder(leadership, f"parts/{folder}")
            for bucket in await self._children("log"):
                number = int(bucket)
                if number * BUCKET >= offset:
                    break
                names = await self._children(f"log/{bucket}")
                whole = (number + 1) * BUCKET <= offset and number < leadership.bucket
                gone = [f"log/{bucket}/{name}" for name in names if int(name) < offset]
                await self._delete(leadership, gone + ([f"log/{bucket}"] if whole else []))

    async def close(self) -> None:
        """See `MetadataStore`. Ends the session, so that the next candidate is elected at once."""
        self._end_leadership("the store is closed")
        await self.session.close()

    # --- the election

    async def _enter_queue(self) -> str:
        """Return the name of this store's candidate, which is created unless this session already
        has one."""
        for name in await self._children("candidates"):
            if name.startswith(self._prefix):
                path = f"{self._root}/candidates/{name}"
                stat = await self.session.call(lambda zk, path=path: zk.exists_async(path))
                ours = stat is not None and stat.ephemeralOwner == self.session.session_id
                if ours and not self._had_no_append:
                    return name
                if stat is not None:
                    await self._ignoring(NoNodeError, lambda zk, path=path: zk.delete_async(path))
        self._had_no_append = False
        path = f"{self._root}/candidates/{self._prefix}"
        made = await self.session.call(
            lambda zk: zk.create_async(path, b"", ephemeral=True, sequence=True)
        )
        return made.rpartition("/")[2]

    async def _wait_first(self, name: str, age: int) -> None:
        """Wait until no candidate comes before `name`."""
        while True:
            queue = sorted(await self._children("candidates"), key=place_in_queue)
            if name not in queue:
                raise SessionLost("the candidate is gone")
            at = queue.index(name)
            if at == 0:
                return
            again = self._check_again = trio.Event()
            watch = self.session.watcher(again.set)
            path = f"{self._root}/candidates/{queue[at - 1]}"
            there = await self.session.call(lambda zk: zk.exists_async(path, watch=watch))  # noqa: B023
            if there is not None and self._deposed is None:
                await self.session.wait(again, age)
            await self._remove_deposed(queue[0])

    def depose(self, controller_id: int, endpoint: Endpoint) -> None:
        """See `MetadataStore`."""
        self._deposed = controller_id, endpoint
        self._check_again.set()

    async def _remove_deposed(self, first: str) -> None:
        """Remove the first candidate from the queue if it is the deposed controller."""
        deposed, self._deposed = self._deposed, None
        if deposed is None or not first.startswith(f"{deposed[0]}-"):
            return
        data = await self._get(f"{self._root}/leader")
        if data is not None and DOCUMENTS.read_leader(data) == deposed:
            logger.warning("controller %d no longer listens; this node takes its place", deposed[0])
            path = f"{self._root}/candidates/{first}"
            await self._ignoring(NoNodeError, lambda zk: zk.delete_async(path))

    async def _take_leadership(self, age: int) -> _Leadership | None:
        """Raise the epoch and register as leader. Returns None if another candidate was faster."""
        path, leader_path = f"{self._root}/epoch", f"{self._root}/leader"
        data, stat = await self.session.call(lambda zk: zk.get_async(path))
        last = DOCUMENTS.read_epoch(data)
        epoch = last.epoch + 1 if last is not None else 1
        ours = Leader(self.controller_id, epoch)
        old = await self.session.call(lambda zk: zk.exists_async(leader_path))

        def start(zk: Zk) -> Any:
            t = zk.transaction()
            t.set_data(path, DOCUMENTS.epoch(ours), version=stat.version)
            if old is not None:
                # The node's owner was before us in the queue, or it is our own from a leadership
                # that we gave up.
                t.delete(leader_path)
            t.create(leader_path, DOCUMENTS.leader(ours, self._endpoint), ephemeral=True)
            return t.commit_async()

        results = await self.session.call(start)
        refused = refusal(results)
        if refused is not None:
            if isinstance(refused[1], BadVersionError | NodeExistsError | NoNodeError):
                return None
            raise refused[1]
        leadership = _Leadership(epoch, results[0].version, age)
        watch = self.session.watcher(lambda: self._epoch_changed(leadership))
        seen = await self.session.call(lambda zk: zk.exists_async(path, watch=watch))
        if seen is None or seen.version != leadership.version:
            return None
        leadership.end, leadership.bucket = await self._find_end()
        if self.session.age != age:
            raise SessionLost("the session may be lost")
        self._leadership = leadership
        return leadership

    async def _find_end(self) -> tuple[int, int]:
        """Return the log end offset, and the last bucket (-1 if there is none)."""
        pointer = DOCUMENTS.read_snapshot(await self._get(f"{self._root}/snapshot"))
        end = pointer["offset"] if pointer is not None else 0
        buckets = await self._children("log")
        for bucket in reversed(buckets):
            names = await self._children(f"log/{bucket}")
            if names:
                data = await self._get(f"{self._root}/log/{bucket}/{names[-1]}")
                end = max(end, int(names[-1]) + DOCUMENTS.read_append(data or b"")["count"])
                break
        return end, int(buckets[-1]) if buckets else -1

    def _epoch_changed(self, leadership: _Leadership) -> None:
        if self._leadership is leadership and self.session.age == leadership.age:
            self._end_leadership("another node campaigned", notify=True)

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
        if self.session.age != leadership.age:
            raise Fenced(f"epoch {epoch} is over: the session may be lost")
        return leadership

    # --- writing

    async def _append(self, leadership: _Leadership, events: Sequence[Event]) -> int:
        """Append one node to the log. Returns how many bytes to count for it."""
        data = (
            await offload(DOCUMENTS.append, events)
            if len(events) > BUCKET
            else DOCUMENTS.append(events)
        )
        size, offset = len(data), leadership.end
        if size > NODE_BYTES_MAX:
            folder, pieces = await self._write_pieces(leadership, "parts", offset, data)
            data = DOCUMENTS.pieces_of_append(len(events), folder, pieces, zlib.crc32(data))
        bucket = f"{self._root}/log/{offset // BUCKET:019d}"

        def build(t: Transaction) -> None:
            if offset // BUCKET > leadership.bucket:
                t.create(bucket)
            t.create(f"{bucket}/{offset:020d}", data)

        await self._multi(leadership, build, f"an append at {offset}")
        return size

    async def _write_pieces(
        self, leadership: _Leadership, where: str, offset: int, data: bytes
    ) -> tuple[str, int]:
        """Write `data` to a new folder below `where`. Returns the folder's name and the number of
        nodes."""
        path = f"{self._root}/{where}/{offset:020d}-"
        made = await self._multi(leadership, lambda t: t.create(path, sequence=True), f"{where}")
        for number, first in enumerate(range(0, len(data), NODE_BYTES_MAX)):
            piece = data[first : first + NODE_BYTES_MAX]
            name = f"{made[0]}/{number:010d}"
            await self._multi(leadership, lambda t, n=name, p=piece: t.create(n, p), where)
        return made[0].rpartition("/")[2], -(-len(data) // NODE_BYTES_MAX)

    async def _multi(
        self, leadership: _Leadership, build: Callable[[Transaction], None], what: str
    ) -> list[Any]:
        """Run the operations that `build` adds, in a fenced multi. Returns their results. Raises
        Fenced, StoreFailed."""
        if self.session.age != leadership.age:
            raise Fenced(f"epoch {leadership.epoch} is over: the session may be lost")

        def start(zk: Zk) -> Any:
            t = zk.transaction()
            t.check(f"{self._root}/epoch", leadership.version)
            t.check(f"{self._root}/leader", -1)
            build(t)
            return t.commit_async()

        results = await self.session.call(start)
        refused = refusal(results)
        if refused is None:
            return results[2:]
        at, error = refused
        if at < 2:
            self._end_leadership("another node campaigned", notify=True)
            raise Fenced(f"epoch {leadership.epoch} is over: {what} was refused")
        raise StoreFailed(f"ZooKeeper refused {what}: {type(error).__name__}")

    async def _delete_folder(self, leadership: _Leadership, folder: str) -> None:
        names = await self._children(folder)
        await self._delete(leadership, [f"{folder}/{name}" for name in names] + [folder])

    async def _delete(self, leadership: _Leadership, names: list[str]) -> None:
        for first in range(0, len(names), DELETES_PER_MULTI):
            some = names[first : first + DELETES_PER_MULTI]

            def build(t: Transaction, some: list[str] = some) -> None:
                for name in some:
                    t.delete(f"{self._root}/{name}")

            await self._multi(leadership, build, "a trim")

    # --- reading

    async def _load(self) -> MetadataImage:
        await self._ignoring(NoNodeError, lambda zk: zk.sync_async(self._root))
        pointer = DOCUMENTS.read_snapshot(await self._get(f"{self._root}/snapshot"))
        data = await self._read_pieces("snapshots", pointer) if pointer is not None else None
        first = pointer["offset"] if pointer is not None else 0
        paths: list[str] = []
        offsets: list[int] = []
        for bucket in await self._children("log"):
            for name in await self._children(f"log/{bucket}"):
                if int(name) >= first:
                    offsets.append(int(name))
                    paths.append(f"{self._root}/log/{bucket}/{name}")
        documents: list[bytes] = []
        for content, _ in await self.session.call_all(
            [lambda zk, path=path: zk.get_async(path) for path in paths]
        ):
            body = DOCUMENTS.read_append(content)
            if "folder" in body:
                content = await self._read_pieces("parts", body)
            documents.append(content)
        image = await offload(DOCUMENTS.image_of, data, offsets, documents)
        self.bytes_since_snapshot = sum(max(len(d), NODE_COST_BYTES) for d in documents)
        return image

    async def _read_pieces(self, where: str, body: dict[str, Any]) -> bytes:
        folder = f"{self._root}/{where}/{body['folder']}"
        paths = [f"{folder}/{number:010d}" for number in range(body["pieces"])]
        found = await self.session.call_all(
            [lambda zk, path=path: zk.get_async(path) for path in paths]
        )
        data = b"".join(content for content, _ in found)
        if zlib.crc32(data) != body["crc"]:
            raise StoreFailed(f"ZooKeeper at {self.session.hosts}: {folder} is damaged")
        return data

    async def _get(self, path: str) -> bytes | None:
        """Return the data of a node; None if it does not exist."""
        try:
            data, _ = await self.session.call(lambda zk: zk.get_async(path))
        except NoNodeError:
            return None
        return data

    async def _children(self, name: str) -> list[str]:
        """Return the sorted names of a node's children; empty if the node does not exist."""
        path = f"{self._root}/{name}"
        try:
            return sorted(await self.session.call(lambda zk: zk.get_children_async(path)))
        except NoNodeError:
            return []

    async def _ensure(self, path: str) -> None:
        """Create a node and its parents if missing."""
        if await self._get(path) is not None:
            return
        parent = path.rpartition("/")[0]
        if parent:
            await self._ensure(parent)
        await self._ignoring(NodeExistsError, lambda zk: zk.create_async(path, b""))

    async def _ignoring(self, error: type[KazooException], start: Callable[[Zk], Any]) -> None:
        with contextlib.suppress(error):
            await self.session.call(start)
