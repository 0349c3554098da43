"""The controller's runtime: decisions, one after another, into the log; then, and only then, into
the world.

`submit(decide)` decides on the newest image, that is with every decision before it already made,
though perhaps not yet on the disk. Decisions that queue up while an append is under way go out
together in the next one (group commit), and each is answered when its own events are safe and the
broker has reacted to them. A reader of `image` never sees an event that a crash could take back.

If an append fails nobody knows what the store has. So the state is dropped: everything in the queue
fails, the log is loaded again, and those who asked may ask again. If the append was refused because
somebody else is the controller now, the controller closes, and answers NOT_CONTROLLER from then on.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import trio

from pk.core.errors import ErrorCode, KafkaError
from pk.core.machine import Decision
from pk.core.meta.controller import take_over
from pk.core.meta.events import Event
from pk.core.meta.image import MetadataImage
from pk.core.meta.store import Fenced, MetadataStore, StoreFailed

logger = logging.getLogger("pk.controller")

Decide = Callable[[MetadataImage], Decision[Event]]
Publish = Callable[[MetadataImage], Awaitable[None]]

EVENTS_PER_APPEND_MAX = 20_000
"""Beyond this, queued decisions wait for the next append: one must not grow without end."""


@dataclass(slots=True, eq=False)
class _Submitted:
    decide: Decide
    done: trio.Event = field(default_factory=trio.Event)
    reply: Any = None
    error: Exception | None = None


class Controller:
    """The one who decides for a cluster. Made by `open`; `run` must run while it is used."""

    def __init__(
        self, store: MetadataStore, controller_id: int, *, snapshot_bytes: int = 20 << 20
    ) -> None:
        """`snapshot_bytes`: how much may be appended until a snapshot is made."""
        self.controller_id = controller_id
        self.epoch = -1
        self.image = MetadataImage()
        """The cluster as far as it is safe on the disk."""
        self._store = store
        self._snapshot_bytes = snapshot_bytes
        self._queue: deque[_Submitted] = deque()
        self._wake = trio.Event()
        self._publish: Publish | None = None
        self._closed: str | None = "the controller has not been elected"

    @property
    def active(self) -> bool:
        """Whether this is the controller."""
        return self._closed is None

    async def open(self, cluster_id: str) -> None:
        """Campaign, load the log, and write that this controller took over. An empty log becomes
        that of `cluster_id`.

        Raises StoreFailed, and KafkaError(INCONSISTENT_CLUSTER_ID).
        """
        self.epoch = await self._store.campaign(self.controller_id)
        image = await self._store.load()
        decision = take_over(image, cluster_id, self.controller_id, self.epoch)
        await self._store.append(self.epoch, image.offset, decision.records)
        self.image = image.apply(decision.records)
        self._closed = None

    async def run(
        self, publish: Publish, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Append what is submitted and hand each new image to `publish`, until cancelled or
        fenced."""
        self._publish = publish
        try:
            await publish(self.image)
            task_status.started()
            while self._closed is None:
                while not self._queue:
                    self._wake = trio.Event()
                    await self._wake.wait()
                await self._commit()
                await self._snapshot()
        finally:
            self._close(self._closed or "the controller has stopped")

    async def submit(self, decide: Decide) -> Any:
        """Have `decide(image)` decided, its events made safe and acted upon; its reply.

        Cancelling the wait does not undo a decision that is in the queue. Raises what `decide`
        raises; NOT_CONTROLLER where this is not the controller (any more); UNKNOWN_SERVER_ERROR
        where the store failed, and then the decision may or may not have happened.
        """
        if self._closed is not None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, self._closed)
        submitted = _Submitted(decide)
        self._queue.append(submitted)
        self._wake.set()
        await submitted.done.wait()
        if submitted.error is not None:
            raise submitted.error
        return submitted.reply

    async def _commit(self) -> None:
        """Decide what is queued, append all of it at once, publish, answer."""
        batch: list[_Submitted] = []
        events: list[Event] = []
        image = self.image
        while self._queue and len(events) < EVENTS_PER_APPEND_MAX:
            one = self._queue.popleft()
            batch.append(one)
            try:
                decision = one.decide(image)
                # A decision that contradicts the image is a fault of ours: it fails alone, and
                # before it is on the disk.
                image = image.apply(decision.records)
            except Exception as e:  # noqa: BLE001 - it is its submitter's
                one.error = e
                continue
            one.reply = decision.reply
            events += decision.records
        try:
            if events:
                await self._append(events, image)
        except BaseException as e:
            why = e if isinstance(e, KafkaError) else _gone("the controller has stopped")
            for one in batch:
                one.error = one.error or why
            if not isinstance(e, KafkaError):
                raise
        finally:
            for one in batch:
                one.done.set()

    async def _append(self, events: list[Event], image: MetadataImage) -> None:
        assert self._publish is not None
        try:
            await self._store.append(self.epoch, self.image.offset, events)
        except Fenced as e:
            self._close(str(e))
            raise KafkaError(ErrorCode.NOT_CONTROLLER, str(e)) from e
        except StoreFailed as e:
            logger.error("the metadata log failed: %s", e)
            await self._reload()
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the metadata log failed: {e}") from e
        self.image = image
        await self._publish(image)

    async def _reload(self) -> None:
        """Drop what is believed and read what is there; the queue's decisions are made anew on
        that."""
        assert self._publish is not None
        try:
            # A new epoch, so that an append of ours that is still on its way somewhere is refused.
            self.epoch = await self._store.campaign(self.controller_id)
            self.image = await self._store.load()
        except (Fenced, StoreFailed) as e:
            self._close(f"the metadata log failed and could not be read again: {e}")
            return
        await self._publish(self.image)

    async def _snapshot(self) -> None:
        if self._closed is not None or self._store.bytes_since_snapshot < self._snapshot_bytes:
            return
        try:
            await self._store.save_snapshot(self.epoch, self.image)
            await self._store.trim(self.epoch)
        except Fenced as e:
            self._close(str(e))
        except StoreFailed as e:
            # Nothing is lost: the log is longer than it needs to be.
            logger.error("no snapshot of the metadata log could be made: %s", e)

    def _close(self, why: str) -> None:
        self._closed = why
        queue, self._queue = self._queue, deque()
        for one in queue:
            one.error = _gone(why)
            one.done.set()


def _gone(why: str) -> KafkaError:
    return KafkaError(ErrorCode.NOT_CONTROLLER, why)
