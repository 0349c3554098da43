"""The controller's runtime: decisions are made one after another, written to the log, and only then
published.

`submit(decide)` decides on the newest image, which includes all earlier decisions, although they
may not be on the disk yet. Decisions that queue up during an append are written together in the
next one (group commit). Once the store has them, they are in `feed`, from which all other nodes
fetch them, and in `image`. The broker of this process applies them in a task of its own, so it may
be behind (to see them there, wait for the broker's image). A reader of `image` never sees an event
that a crash could undo.

`open` takes the leadership and `run` uses it. `run` returns when the leadership is lost: another
node has it (the store raises Fenced), the store cannot tell whether this node still has it, or an
append failed, after which the content of the store is unknown. (A full disk is not such a failure:
decisions without space are refused with KAFKA_STORAGE_ERROR, and had no effect.) Then every queued
decision is refused with NOT_CONTROLLER, which means that it had no effect; decisions being appended
raise `OutcomeUnknown`. `open` may be called again: it campaigns, which may take long, and trusts
only the contents of the store.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Generic, NamedTuple, TypeGuard

import msgspec
import trio
from msgspec import field

from pk.core.broker.controller.active_controller import (
    CommitListener,
    Decide,
    OffLoopDecision,
    Reply,
)
from pk.core.broker.controller.controller_client import OutcomeUnknown
from pk.core.broker.controller.heartbeat_manager import HeartbeatManager
from pk.core.broker.controller.leader_balance import LeaderBalance
from pk.core.broker.controller.metadata_feed import EventBatch, MetadataFeed
from pk.core.broker.controller.quorum_observers import QuorumObservers
from pk.core.broker.controller.token_expiry import TokenExpiry
from pk.core.broker.controller.unclean_recovery import UncleanRecovery
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.offload import offload
from pk.core.broker.peers import Peers
from pk.core.broker.state import BrokerState
from pk.core.errors import ErrorCode, KafkaError, storable
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
"""The number of events beyond which queued decisions wait for the next append, so that an append
does not grow without limit."""

EVENTS_PER_APPLY_MAX = 1000
"""The number of events applied to an image at once: a few milliseconds."""

LARGE_IMAGE = 1000
"""The number of partitions above which scanning them blocks the event loop for milliseconds."""
THREADS = "decisions"
"""Threads of their own, so that a slow disk does not delay decisions."""


class Committed(NamedTuple, Generic[Reply]):
    """A decision that is safe in the store."""

    reply: Reply
    image_offset: int
    """The offset of the image that contains its events."""


class _Submitted(msgspec.Struct, eq=False):
    decide: Decide[Any] | None
    """None once the decision has been made."""
    done: trio.Event = field(default_factory=trio.Event)
    reply: Any = None
    error: Exception | None = None
    offset: int = 0
    """The offset of the image that contains the decision's events."""


class Controller:
    """The controller of a cluster, or a candidate for it. `open` takes the leadership; `run` must
    run while the controller is used."""

    def __init__(
        self,
        store: MetadataStore,
        state: BrokerState,
        peers: Peers,
        *,
        snapshot_bytes: int = 20 << 20,
        now_ms: Callable[[], int] = lambda: NO_TIMESTAMP,
    ) -> None:
        """`state` and `peers` belong to this process's broker: its config, and its connections to
        other brokers. `snapshot_bytes`: the size of the appended events after which a snapshot is
        made; `now_ms`: the wall-clock time for the feed's records."""
        self.controller_id = state.node_id
        self.epoch = -1
        self.predecessor = NO_NODE
        """The previous controller's node id; NO_NODE if there was none."""
        self.image = MetadataImage()
        """The cluster's image, with the events that are safe in the store."""
        self.feed = MetadataFeed()
        """The log that other nodes follow; it restarts with each controller epoch."""
        self.observers = QuorumObservers()
        """The progress of the metadata log's followers."""
        self.commit_listeners: list[CommitListener] = []
        """Called with the image before and after, right after each append."""
        self.heartbeats = HeartbeatManager(self, state, peers)
        """Tracks which brokers are alive."""
        self.unclean_recovery = UncleanRecovery(self, state)
        """Compares logs of partitions without in-sync replicas."""
        self.duties: list[Duty] = [
            self.heartbeats.run,
            LeaderBalance(self, state).run,
            TokenExpiry(self, state, now_ms).run,
            self.unclean_recovery.run,
        ]
        """Tasks that run while this node is the active controller (liveness, balance): `run` starts
        them with the first image, and cancels them at its end."""
        self._store = store
        self._snapshot_bytes = self._snapshot_due_bytes = snapshot_bytes
        self._now_ms = now_ms
        self._queue: deque[_Submitted] = deque()
        self._full = False
        """Whether the last append was refused for lack of space, which has been logged."""
        self._wake = trio.Event()
        self._image_changed = trio.Event()
        self._closed: str | None = "the controller has not been elected"
        store.lost.append(self._on_epoch_lost)

    @property
    def active(self) -> bool:
        """Whether this node is the active controller."""
        return self._closed is None

    def disconnected(self, connection_id: int) -> None:
        """Handle the end of a connection to this process's listeners."""
        self.heartbeats.disconnected(connection_id)

    async def open(self, cluster_id: str, new_cluster_id: str = "", *, logs_held: int = 0) -> None:
        """Campaign, load the log, and record that this controller took over. May be called again
        after `run` has returned.

        `cluster_id` is the node's cluster, or "" if it does not belong to one yet: then the log's
        id is used, and an empty log gets `new_cluster_id`. `logs_held` is the number of partitions
        with logs on this node. If there are any, an empty metadata log means not a new cluster but
        a lost log, and starting would turn all these logs into strays.

        Raises StoreFailed, even if the leadership has been lost again in the meantime, and
        KafkaError(INCONSISTENT_CLUSTER_ID).
        """
        assert not self.active
        self._closed = "the controller has not been elected"
        epoch = self.epoch = await self._store.campaign(self.controller_id)
        self._closed = opening = f"the controller of epoch {epoch} is taking over"
        image = await self._store.load()
        if logs_held and not image.cluster_id:
            raise MetadataLost(
                f"it is empty, but this node has the logs of {logs_held} partitions: restore "
                "their metadata, or move the logs away"
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
        """Append submitted decisions and pass images to `publish`, the first one before reporting
        `started`. Runs until cancelled, or until the leadership is lost, and logs the reason."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._publish_images, publish, task_status)
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

    async def submit(self, decide: Decide[Reply]) -> Reply:
        """Like `submit_with_offset`, but return only the reply."""
        return (await self.submit_with_offset(decide)).reply

    async def submit_with_offset(self, decide: Decide[Reply]) -> Committed[Reply]:
        """Queue `decide(image)`, and wait until its events are safe. Returns its reply, and the
        offset of the image with these events. The broker of this process may not have that image
        yet.

        Cancelling the wait does not undo a queued decision. Raises the errors of `decide`;
        KafkaError(NOT_CONTROLLER) if this node is not, or no longer, the controller, or
        KafkaError(KAFKA_STORAGE_ERROR) if the disk is full: in both cases the decision had no
        effect; OutcomeUnknown if it may have had one.
        """
        if self._closed is not None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, self._closed)
        submitted = _Submitted(decide)
        del decide
        self._queue.append(submitted)
        self._wake.set()
        await submitted.done.wait()
        if submitted.error is not None:
            raise storable(submitted.error)
        return Committed(submitted.reply, submitted.offset)

    async def _commit(self) -> None:
        """Make the queued decisions, append all of them at once, and wake their submitters."""
        batch: list[_Submitted] = []
        events = EventBatch()
        before = image = self.image
        error: Exception | None = OutcomeUnknown(
            "the controller stopped before the append finished"
        )
        try:
            image = await self._decide(batch, events)
            if self._closed is not None:
                raise Fenced(self._closed)  # lost during the decision: append nothing
            if events:
                await self._store.append(self.epoch, before.offset, events)
                self._full = False
            error = None
        except Fenced as e:
            self._close(str(e))
            error = _refusal(str(e))
        except StoreFull as e:
            if not self._full:
                logger.error("no disk space for the metadata log: %s", e)
            self._full = True
            error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no disk space for the metadata log")
        except StoreFailed as e:
            reason = f"the metadata log failed: {e}"
            logger.error("%s", reason)
            self._close(reason)
            error = OutcomeUnknown(reason)
        finally:
            if error is None and events:
                # The store has the events, even if the leadership is lost.
                self.feed.add(events, image, self._now_ms())
                self._commit_image(before, image)
            _answer(batch, error, before)

    async def _decide(self, batch: list[_Submitted], events: EventBatch) -> MetadataImage:
        """Make the queued decisions; add them to `batch`, and their events to `events`. Returns the
        image with all of them.

        Long work is done in a thread, or in pieces: only this task takes decisions from the queue,
        and no reader sees events that are not in the store.
        """
        image = self.image
        while self._queue and len(events) < EVENTS_PER_APPEND_MAX:
            one = self._queue.popleft()
            batch.append(one)
            one.error = _refusal("the controller stopped before the decision")
            try:
                decide, one.decide = one.decide, None
                assert decide is not None
                if _is_off_loop(decide) and (decide.large or image.partition_count > LARGE_IMAGE):
                    decision = await offload(_call, decide.prepare(), image, directory=THREADS)
                else:
                    decision = decide(image)
                del decide
                records = decision.records
                # A decision that contradicts the image is a bug: it fails alone, and before it is
                # in the store.
                image = await _apply(image, records)
                await trio.lowlevel.checkpoint_if_cancelled()  # nothing has been appended yet
            except Exception as e:  # noqa: BLE001 - it is its submitter's
                one.error = storable(e)
                continue
            one.error, one.reply, one.offset = None, decision.reply, image.offset
            events += records
        return image

    def _commit_image(self, before: MetadataImage, image: MetadataImage) -> None:
        """Publish `image`, which the store and the feed now have. Other nodes may get it before
        this node's broker applies it."""
        self.image = image
        self._image_changed.set()
        for listener in self.commit_listeners:
            listener(before, image)

    async def _publish_images(self, publish: Publish, task_status: trio.TaskStatus[None]) -> None:
        """Repeatedly publish the newest image to this process's broker. Events appended in the
        meantime are in the next image, all at once. When the leadership is lost, a publication that
        has begun may finish, since the broker could not continue from a partly applied image."""
        published = None
        while True:
            image = self.image
            if published is not image:
                await publish(image)
                if published is None:
                    task_status.started()
                published = image
            elif not self.active:
                return
            else:
                self._image_changed = trio.Event()
                await self._image_changed.wait()

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
            # Nothing is lost, but the log is longer than necessary. Retrying after every append
            # would delay the appends.
            self._snapshot_due_bytes = since + self._snapshot_bytes
            logger.error("the snapshot of the metadata log failed: %s", e)

    def _on_epoch_lost(self, epoch: int, reason: str) -> None:
        """Handle the store's loss of `epoch`, which may be an epoch that `open` is just taking."""
        if epoch == self.epoch:
            self._close(reason)
            self._closed = reason

    def _close(self, reason: str) -> None:
        """Give up the leadership, if this node has it, and refuse the queued decisions."""
        if self._closed is None:
            logger.info("no longer the controller of epoch %d: %s", self.epoch, reason)
            self._closed = reason
        self.feed.close()
        self._wake.set()
        self._image_changed.set()
        queue, self._queue = self._queue, deque()
        for one in queue:
            one.error = _refusal(reason)
            one.done.set()


def _is_off_loop(decide: Decide[Any]) -> TypeGuard[OffLoopDecision[Any]]:
    return isinstance(decide, OffLoopDecision)


def _call(decide: Decide[Any], image: MetadataImage) -> Decision[Event, Any]:
    return decide(image)


async def _apply(image: MetadataImage, events: list[Event]) -> MetadataImage:
    """Return the image after `events`. Raises ContradictoryEvent."""
    for first in range(0, len(events), EVENTS_PER_APPLY_MAX):
        await let_others_run()
        image = image.apply(events[first : first + EVENTS_PER_APPLY_MAX])
    return image


def _answer(batch: list[_Submitted], error: Exception | None, before: MetadataImage) -> None:
    """Wake the tasks that wait for decisions. If the append failed, decisions with events have
    failed too."""
    for one in batch:
        if one.error is None and error is not None and one.offset > before.offset:
            one.error = error
        one.done.set()


def _refusal(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.NOT_CONTROLLER, reason)
