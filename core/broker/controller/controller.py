"""The controller's runtime: decisions, one after another, into the log; then, and only then, into
the world.

`submit(decide)` decides on the newest image, that is with every decision before it already made,
though it may not be on the disk yet. Decisions that queue up while an append is under way go out
together in the next one (group commit). When the store has them they are in `feed`, from which
every other node takes them, and in `image`; the broker of this process reacts at its own pace, in a
task of its own (who wants to see it there waits for the broker's image). A reader of `image` never
sees an event that a crash could take back.

`open` takes the leadership and `run` uses it. `run` returns when it is lost: another node has it
(the store says Fenced), the store cannot say any more whether it is still held, or an append
failed, after which the content of the store is unknown. (A disk that is full is no such failure:
what it has no room for is refused with KAFKA_STORAGE_ERROR, and did not happen.) Then everything in
the queue is refused with NOT_CONTROLLER, which promises that it did not happen; what was being
appended gets `FateUnknown`. `open` may be called again: it campaigns, which may wait for long, and
believes nothing but what the store has.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec
import trio
from msgspec import field

from pk.core.broker.controller.active_controller import Decide, Follow, OffLoopDecision
from pk.core.broker.controller.controller_link import FateUnknown
from pk.core.broker.controller.heartbeat_manager import HeartbeatManager
from pk.core.broker.controller.leader_balance import LeaderBalance
from pk.core.broker.controller.metadata_feed import Appended, MetadataFeed
from pk.core.broker.controller.quorum_observers import QuorumObservers
from pk.core.broker.controller.token_expiry import TokenExpiry
from pk.core.broker.controller.unclean_recovery import UncleanRecovery
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.offload import offload
from pk.core.broker.peers import Peers
from pk.core.broker.state import BrokerState
from pk.core.errors import ErrorCode, KafkaError, kept
from pk.core.machine import Decision
from pk.core.meta.controller import take_over
from pk.core.meta.events import Event
from pk.core.meta.image import MetadataImage
from pk.core.meta.store import Fenced, MetadataLost, MetadataStore, StoreFailed, StoreFull
from pk.core.values import NO_NODE, NO_TIMESTAMP

logger = logging.getLogger("pk.controller")

Publish = Callable[[MetadataImage], Awaitable[None]]
Duty = Callable[[], Awaitable[None]]

EVENTS_PER_APPEND_MAX = 20_000
"""Beyond this, queued decisions wait for the next append: one must not grow without end."""

EVENTS_PER_APPLY_MAX = 1000
"""Events that an image takes in at once: a few milliseconds."""

LARGE_IMAGE = 1000
"""Partitions: to look at more of them takes the loop milliseconds."""
AT_WORK = "decisions"
"""Threads of their own: no disk that is slow holds up a decision."""


class Committed(NamedTuple):
    """A decision that is safe in the store."""

    reply: Any
    image_offset: int
    """The offset of the image that has its events."""


class _Submitted(msgspec.Struct, eq=False):
    decide: Decide | None
    """None once it has decided."""
    done: trio.Event = field(default_factory=trio.Event)
    reply: Any = None
    error: Exception | None = None
    offset: int = 0
    """Of the image that has its events."""


class Controller:
    """What decides for a cluster, or would. `open` takes the leadership, `run` must run while it
    is used."""

    def __init__(
        self,
        store: MetadataStore,
        state: BrokerState,
        peers: Peers,
        *,
        snapshot_bytes: int = 20 << 20,
        now_ms: Callable[[], int] = lambda: NO_TIMESTAMP,
    ) -> None:
        """`state` and `peers` are this process's broker's: its config, its connections to others.
        `snapshot_bytes`: how much may be appended until a snapshot is made; `now_ms`: the time of
        day that the feed's records carry."""
        self.controller_id = state.node_id
        self.epoch = -1
        self.predecessor = NO_NODE
        """The previous controller's node id; NO_NODE if there was none."""
        self.image = MetadataImage()
        """The cluster as far as it is safe in the store."""
        self.feed = MetadataFeed()
        """The log that other nodes follow; it starts again with each controller epoch."""
        self.observers = QuorumObservers()
        """How far they are."""
        self.committed: list[Follow] = []
        """Called with the image before and after, right after each append."""
        self.heartbeats = HeartbeatManager(self, state, peers)
        """Tracks which brokers are alive."""
        self.unclean_recovery = UncleanRecovery(self, state)
        """Compares logs where nobody in sync is left."""
        self.duties: list[Duty] = [
            self.heartbeats.run,
            LeaderBalance(self, state).run,
            TokenExpiry(self, state, now_ms).run,
            self.unclean_recovery.run,
        ]
        """What runs while this is the controller (liveness, balance): started by `run` with the
        first image, cancelled at its end."""
        self._store = store
        self._snapshot_bytes = self._snapshot_due_bytes = snapshot_bytes
        self._now_ms = now_ms
        self._queue: deque[_Submitted] = deque()
        self._full = False
        """Whether the last append was refused for want of room, and said so."""
        self._wake = trio.Event()
        self._grown = trio.Event()
        self._closed: str | None = "the controller has not been elected"
        store.lost.append(self._lose)

    @property
    def active(self) -> bool:
        """Whether this is the controller."""
        return self._closed is None

    def disconnected(self, connection_id: int) -> None:
        """A connection of this process's listeners has ended."""
        self.heartbeats.disconnected(connection_id)

    async def open(self, cluster_id: str, new_cluster_id: str = "", *, logs_held: int = 0) -> None:
        """Campaign, load the log, and write that this controller took over. May be called again
        after `run` has returned.

        `cluster_id` is that of the cluster which this node belongs to, "" if it belongs to none
        yet: then it is the log's, and that of an empty log becomes `new_cluster_id`. `logs_held` is
        how many partitions this node holds logs of: where there are any, an empty metadata log is
        not the beginning of a cluster but one that was lost, and starting again would make strays
        of them all.

        Raises StoreFailed, also where the leadership was lost again meanwhile, and
        KafkaError(INCONSISTENT_CLUSTER_ID).
        """
        assert not self.active
        self._closed = "the controller has not been elected"
        epoch = self.epoch = await self._store.campaign(self.controller_id)
        self._closed = opening = f"the controller of epoch {epoch} is taking over"
        image = await self._store.load()
        if logs_held and not image.cluster_id:
            raise MetadataLost(
                f"it is empty, and this node holds the logs of {logs_held} partitions: put the "
                "metadata back that belongs to them, or move them away"
            )
        wanted = cluster_id or image.cluster_id or new_cluster_id
        decision = take_over(image, wanted, self.controller_id, epoch)
        try:
            await self._store.append(epoch, image.offset, decision.records)
        except Fenced as e:
            raise StoreFailed(str(e)) from e
        if self._closed is not opening:
            raise StoreFailed(self._closed)
        before = image.controller_id
        self.predecessor = before if before != self.controller_id else NO_NODE
        self.feed.restart(image)
        self.observers.clear()
        taken_over = image.apply(decision.records)
        self.feed.add(decision.records, taken_over, self._now_ms())
        self._commit_image(image, taken_over)
        self._closed = None

    async def run(
        self, publish: Publish, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Append what is submitted and hand images to `publish`, the first before it is started;
        until cancelled, or until the leadership is lost, whose reason is logged."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._show, publish, task_status)
                async with trio.open_nursery() as duties:
                    for duty in self.duties:
                        duties.start_soon(duty)
                    while self.active:
                        if self._queue:
                            await self._commit()
                            await self._snapshot()
                        else:
                            self._wake = trio.Event()
                            await self._wake.wait()
                    duties.cancel_scope.cancel()
        finally:
            self._close("the controller has stopped")

    async def submit(self, decide: Decide) -> Any:
        """The reply of `submit_with_offset`."""
        return (await self.submit_with_offset(decide)).reply

    async def submit_with_offset(self, decide: Decide) -> Committed:
        """Have `decide(image)` decided and its events made safe; its reply, and the offset of the
        image with these events. The broker of this process may not have that image yet.

        Cancelling the wait does not undo a decision that is in the queue. Raises what `decide`
        raises; KafkaError(NOT_CONTROLLER) where this is not the controller (any more), or
        KafkaError(KAFKA_STORAGE_ERROR) where the disk is full, and nothing happened; FateUnknown
        where it may have.
        """
        if self._closed is not None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, self._closed)
        submitted = _Submitted(decide)
        del decide
        self._queue.append(submitted)
        self._wake.set()
        await submitted.done.wait()
        if submitted.error is not None:
            raise kept(submitted.error)
        return Committed(submitted.reply, submitted.offset)

    async def _commit(self) -> None:
        """Decide what is queued, append all of it at once, and answer."""
        batch: list[_Submitted] = []
        events = Appended()
        before = image = self.image
        error: Exception | None = FateUnknown("the controller stopped while it appended")
        try:
            image = await self._decide(batch, events)
            if self._closed is not None:
                raise Fenced(self._closed)  # lost while it decided: nothing more is appended
            if events:
                await self._store.append(self.epoch, before.offset, events)
                self._full = False
            error = None
        except Fenced as e:
            self._close(str(e))
            error = _refusal(str(e))
        except StoreFull as e:
            if not self._full:
                logger.error("no room for the metadata log: %s", e)
            self._full = True
            error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room for the metadata log")
        except StoreFailed as e:
            why = f"the metadata log failed: {e}"
            logger.error("%s", why)
            self._close(why)
            error = FateUnknown(why)
        finally:
            if error is None and events:
                # What was appended has happened, whatever becomes of the leadership.
                self.feed.add(events, image, self._now_ms())
                self._commit_image(before, image)
            _answer(batch, error, before)

    async def _decide(self, batch: list[_Submitted], events: Appended) -> MetadataImage:
        """Decide what is queued, which goes into `batch`, and its events into `events`; the image
        with all of them.

        What takes long is done in a thread, or piece by piece: only this task takes from the queue,
        and no reader sees what is not in the store.
        """
        image = self.image
        while self._queue and len(events) < EVENTS_PER_APPEND_MAX:
            one = self._queue.popleft()
            batch.append(one)
            one.error = _refusal("the controller stopped before it decided")
            try:
                decide, one.decide = one.decide, None
                assert decide is not None
                if isinstance(decide, OffLoopDecision) and (
                    decide.large or image.partition_count > LARGE_IMAGE
                ):
                    decision = await offload(_whole, decide.ask(), image, directory=AT_WORK)
                else:
                    decision = decide(image)
                del decide
                records = decision.records
                # A decision that contradicts the image is a fault of ours: it fails alone, and
                # before it is in the store.
                image = await _apply(image, records)
                await trio.lowlevel.checkpoint_if_cancelled()  # nothing has been appended yet
            except Exception as e:  # noqa: BLE001 - it is its submitter's
                one.error = kept(e)
                continue
            one.error, one.reply, one.offset = None, decision.reply, image.offset
            events += records
        return image

    def _commit_image(self, before: MetadataImage, image: MetadataImage) -> None:
        """The store and the feed have what led from `before` to `image`: other nodes may have it
        before this one's broker reacts."""
        self.image = image
        self._grown.set()
        for follow in self.committed:
            follow(before, image)

    async def _show(self, publish: Publish, task_status: trio.TaskStatus[None]) -> None:
        """Let this process's broker react to the newest image, again and again. What was appended
        while it did so comes with the next one, all at once. When the leadership is lost it may
        still finish: half a reaction is nothing that it could go on from."""
        shown = None
        while True:
            image = self.image
            if shown is not image:
                await publish(image)
                if shown is None:
                    task_status.started()
                shown = image
            elif not self.active:
                return
            else:
                self._grown = trio.Event()
                await self._grown.wait()

    async def _snapshot(self) -> None:
        since = self._store.bytes_since_snapshot
        if not self.active or since < self._snapshot_due_bytes:
            return
        try:
            await self._store.save_snapshot(self.epoch, self.image)
            await self._store.trim(self.epoch)
            self._snapshot_due_bytes = self._snapshot_bytes
        except Fenced as e:
            self._close(str(e))
        except StoreFailed as e:
            # Nothing is lost: the log is longer than it needs to be. To try with every append would
            # hold up all of them.
            self._snapshot_due_bytes = since + self._snapshot_bytes
            logger.error("no snapshot of the metadata log could be made: %s", e)

    def _lose(self, epoch: int, why: str) -> None:
        """The store cannot vouch for `epoch` any more, which may be one that is just being
        taken."""
        if epoch == self.epoch:
            self._close(why)
            self._closed = why

    def _close(self, why: str) -> None:
        """Give up the leadership, if it is held; nothing is decided from here on."""
        if self._closed is None:
            logger.info("no longer the controller of epoch %d: %s", self.epoch, why)
            self._closed = why
        self.feed.close()
        self._wake.set()
        self._grown.set()
        queue, self._queue = self._queue, deque()
        for one in queue:
            one.error = _refusal(why)
            one.done.set()


def _whole(decide: Decide, image: MetadataImage) -> Decision[Event]:
    return decide(image)


async def _apply(image: MetadataImage, events: list[Event]) -> MetadataImage:
    """The image after `events`. Raises ContradictoryEvent."""
    for first in range(0, len(events), EVENTS_PER_APPLY_MAX):
        await let_others_run()
        image = image.apply(events[first : first + EVENTS_PER_APPLY_MAX])
    return image


def _answer(batch: list[_Submitted], error: Exception | None, before: MetadataImage) -> None:
    """Wake those who wait for a decision. One with events has failed with the append."""
    for one in batch:
        if one.error is None and error is not None and one.offset > before.offset:
            one.error = error
        one.done.set()


def _refusal(why: str) -> KafkaError:
    return KafkaError(ErrorCode.NOT_CONTROLLER, why)
