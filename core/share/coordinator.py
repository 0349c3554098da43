"""The share coordinator's machine: the state of the share partitions of one partition of
`__share_group_state`.

The leader of a partition keeps the records in flight in memory, and stores here the state that its
successor needs: the offset where delivery begins, and the states of the records after it. Five
requests come from other brokers:

- *Initialize*, from the group's coordinator: the group begins (again) at an offset, under a new
  state epoch.
- *Read*, from a new leader of the partition: returns the state. The new leader epoch fences earlier
  leaders.
- *Write*, from the leader: the changes made by acknowledgements.
- *ReadSummary* and *Delete*, from the group's coordinator.

A write becomes a small update. After `updates_per_snapshot` updates, the next one becomes a
snapshot of the whole state. The log can then be deleted up to the oldest snapshot that a share
partition still needs (`PruneLog`). A share partition without writes would delay that, so it gets a
new snapshot once its last one is old enough.

Errors and records are those of Apache Kafka 4.3.1, with one exception: in 4.3.1, a write that
arrives late moves the start offset and the delivery-complete count back (later versions fix that).
Here it moves neither. A request of the protocol may name many share partitions; here each is a
separate decision, because each succeeds or fails by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple

from msgspec import Struct

from pk.core.errors import ErrorCode, KafkaError
from pk.core.machine import Decision, Effect
from pk.core.meta.image import Changes, MetadataImage
from pk.core.share.batches import StateBatch, combine
from pk.core.share.records import (
    Record,
    ShareKey,
    Snapshot,
    Update,
    decode_record,
    encode_record,
)
from pk.core.values import NO_EPOCH, NO_OFFSET, NO_PRODUCER_ID

PRUNING: Final = "pruning"
COLD_SNAPSHOTS: Final = "cold snapshots"

UNKNOWN_COUNT: Final = -1


class PruneLog(Effect, frozen=True):
    """Delete the coordinator's own log up to this offset. No share partition needs those
    records."""

    before_offset: int


class ShareCoordinatorSettings(Struct, frozen=True):
    """The broker configs of the share coordinator. The defaults are Kafka's."""

    updates_per_snapshot: int = 500
    """`share.coordinator.snapshot.update.records.per.snapshot`."""
    prune_interval_ms: int = 300_000
    """`share.coordinator.state.topic.prune.interval.ms`."""
    cold_snapshot_interval_ms: int = 300_000
    """`share.coordinator.cold.partition.snapshot.interval.ms`."""


class ShareState(NamedTuple):
    """The immutable state of one share partition."""

    snapshot: Snapshot
    """The last snapshot, with all later updates applied."""
    snapshot_offset: int
    """The log offset of the last snapshot."""
    updates: int
    """The number of updates since the last snapshot."""
    leader_epoch_max: int
    """The highest leader epoch so far. Lower ones are fenced."""
    state_epoch_max: int
    """The highest state epoch so far. Lower ones are fenced."""


class ReadState(NamedTuple):
    """The reply to a ReadShareGroupState."""

    state_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...]


class StateSummary(NamedTuple):
    """The reply to a ReadShareGroupStateSummary."""

    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = NO_OFFSET
    delivery_complete_count: int = UNKNOWN_COUNT


UNINITIALIZED: Final = StateSummary()


class ShareCoordinatorMachine:
    """The state machine of one partition of `__share_group_state`. Every method that decides takes
    `now_ms` last and returns a Decision."""

    log_is_compacted: ClassVar[bool] = False
    """Updates depend on earlier records, so compaction would lose state."""

    def __init__(self, settings: ShareCoordinatorSettings) -> None:
        self.settings = settings
        self._states: dict[ShareKey, ShareState] = {}
        self._image = MetadataImage()
        self._end_offset = 0
        self._pruned_before = 0

    @property
    def states(self) -> Mapping[ShareKey, ShareState]:
        """The state of each share partition."""
        return MappingProxyType(self._states)

    # --- the five requests ---

    def initialize(
        self, key: ShareKey, state_epoch: int, start_offset: int, now_ms: int
    ) -> Decision[Record, bool]:
        """Decide InitializeShareGroupState 0: the group begins at `start_offset`, or, if that is
        -1, at an offset that the leader chooses. A new state epoch discards the record states; so
        does the current one if a start offset is given (AlterShareGroupOffsets). Replies True.

        A request with the current state epoch and no start offset is a repetition, and changes
        nothing. It may arrive long after the first, from a group coordinator that was partitioned
        away and has been replaced. Starting over would redeliver records that were accepted since.

        Raises INVALID_REQUEST, FENCED_STATE_EPOCH, UNKNOWN_TOPIC_OR_PARTITION.
        """
        _check_partition(key)
        known = self._states.get(key)
        if known is not None:
            _check_state_epoch(known, state_epoch)
        self._check_exists(key)
        if (
            known is not None
            and known.snapshot.state_epoch == state_epoch
            and start_offset == NO_OFFSET
        ):
            return Decision(reply=True)
        snapshot = Snapshot(
            snapshot_epoch=0 if known is None else known.snapshot.snapshot_epoch + 1,
            state_epoch=state_epoch,
            leader_epoch=0,
            start_offset=start_offset,
            delivery_complete_count=UNKNOWN_COUNT if start_offset == NO_OFFSET else 0,
            created_ms=now_ms,
            written_ms=now_ms,
        )
        return Decision([Record(key, snapshot)], reply=True)

    def read(self, key: ShareKey, leader_epoch: int, now_ms: int) -> Decision[Record, ReadState]:
        """Decide ReadShareGroupState 0: replies with a `ReadState`. A higher `leader_epoch` is
        stored, and fences writes of earlier leaders from then on; -1 means that the reader is not a
        leader.

        Raises INVALID_REQUEST, FENCED_LEADER_EPOCH, UNKNOWN_TOPIC_OR_PARTITION.
        """
        _check_partition(key)
        known = self._initialized(
            key, "Read operation on uninitialized share partition not allowed."
        )
        _check_leader_epoch(known, leader_epoch)
        self._check_exists(key)
        state = known.snapshot
        reply = ReadState(state.state_epoch, state.start_offset, state.batches)
        if leader_epoch in (NO_EPOCH, known.leader_epoch_max):
            return Decision(reply=reply)
        record = self._record(
            key,
            known,
            Update(
                state.snapshot_epoch,
                leader_epoch,
                state.start_offset,
                state.delivery_complete_count,
            ),
            now_ms,
        )
        return Decision([record], reply)

    def write(
        self,
        key: ShareKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Iterable[StateBatch],
        now_ms: int,
    ) -> Decision[Record, bool]:
        """Decide WriteShareGroupState 0–1: merges `batches` into the state. A start offset of -1,
        or one below the stored start offset, changes nothing. A count of -1 is unknown (version 0).
        A count below the stored one is ignored if the write changes nothing else, because a later
        write has overtaken it. Replies True.

        Raises INVALID_REQUEST, FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH, UNKNOWN_TOPIC_OR_PARTITION.
        """
        _check_partition(key)
        known = self._initialized(
            key, "Write operation on uninitialized share partition not allowed."
        )
        _check_leader_epoch(known, leader_epoch)
        _check_state_epoch(known, state_epoch)
        self._check_exists(key)
        written = tuple(batches)
        if any(not 0 <= one.first_offset <= one.last_offset for one in written):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "A state batch has no valid offset range.")
        state = known.snapshot
        overtaken = NO_OFFSET < start_offset < state.start_offset
        if overtaken:
            start_offset = NO_OFFSET
        elif UNKNOWN_COUNT < delivery_complete_count < state.delivery_complete_count:
            overtaken = start_offset <= state.start_offset and _adds_nothing(state, written)
        if overtaken:
            # Going back would redeliver records that are done, or show a lag that does not exist.
            delivery_complete_count = state.delivery_complete_count
        clip = max(start_offset, state.start_offset)
        update = Update(
            state.snapshot_epoch,
            state.leader_epoch,
            start_offset,
            delivery_complete_count,
            tuple(combine((), written, clip)),
        )
        return Decision([self._record(key, known, update, now_ms)], reply=True)

    def read_summary(self, key: ShareKey, now_ms: int) -> Decision[Record, StateSummary]:
        """Decide ReadShareGroupStateSummary 0–1: replies with a `StateSummary`, or `UNINITIALIZED`
        if the share partition has no state.

        Raises INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION.
        """
        _check_partition(key)
        self._check_exists(key)
        known = self._states.get(key)
        if known is None:
            return Decision(reply=UNINITIALIZED)
        state = known.snapshot
        return Decision(
            reply=StateSummary(
                state.state_epoch,
                state.leader_epoch,
                state.start_offset,
                state.delivery_complete_count,
            )
        )

    def delete(self, key: ShareKey, now_ms: int) -> Decision[Record, bool]:
        """Decide DeleteShareGroupState 0: deletes the state of the share partition, if there is
        one. Replies True.

        Raises INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION.
        """
        _check_partition(key)
        self._check_exists(key)
        records = [Record(key, None)] if key in self._states else []
        return Decision(records, reply=True)

    def _initialized(self, key: ShareKey, message: str) -> ShareState:
        known = self._states.get(key)
        if known is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        return known

    def _check_exists(self, key: ShareKey) -> None:
        topic = self._image.topic_by_id(key.topic_id)
        if topic is None or topic.partition(key.partition) is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                "This server does not host this topic-partition.",
            )

    def _record(self, key: ShareKey, known: ShareState, update: Update, now_ms: int) -> Record:
        """Return a record of `update`, or, if a snapshot is due, of a snapshot that includes it."""
        if known.updates < self.settings.updates_per_snapshot:
            return Record(key, update)
        after = _updated(known.snapshot, update)
        return Record(
            key,
            after._replace(
                snapshot_epoch=after.snapshot_epoch + 1, created_ms=now_ms, written_ms=now_ms
            ),
        )

    # --- time and the cluster ---

    def follow(self, image: MetadataImage, delta: Changes, now_ms: int) -> Decision[Record, None]:
        """Delete the state of share partitions whose topics were deleted."""
        self._image = image
        deleted = {topic.topic_id for topic in delta.topics_deleted}
        if not deleted:
            return Decision()
        return Decision(
            [Record(key, None) for key in self._states if key.topic_id in deleted], atomic=False
        )

    def loaded(self, now_ms: int) -> Decision[Record, None]:
        """Start the timers. The log has been replayed to its end."""
        return Decision(
            timers=[
                (PRUNING, now_ms + self.settings.prune_interval_ms),
                (COLD_SNAPSHOTS, now_ms + self.settings.cold_snapshot_interval_ms),
            ]
        )

    def fire(self, key: Any, now_ms: int) -> Decision[Record, None]:
        """Handle a timer that `loaded` has set: prune the log, or write snapshots for share
        partitions without writes."""
        return self._prune(now_ms) if key == PRUNING else self._snapshot_cold(now_ms)

    def _prune(self, now_ms: int) -> Decision[Record, None]:
        decision: Decision[Record, None] = Decision(
            timers=[(PRUNING, now_ms + self.settings.prune_interval_ms)]
        )
        needed = min(
            (state.snapshot_offset for state in self._states.values()), default=self._end_offset
        )
        if needed > self._pruned_before:
            self._pruned_before = needed
            decision.effects.append(PruneLog(needed))
        return decision

    def _snapshot_cold(self, now_ms: int) -> Decision[Record, None]:
        interval_ms = self.settings.cold_snapshot_interval_ms
        decision: Decision[Record, None] = Decision(
            timers=[(COLD_SNAPSHOTS, now_ms + interval_ms)], atomic=False
        )
        states = [(key, known.snapshot) for key, known in self._states.items()]
        if all(state.created_ms != state.written_ms for _, state in states):
            # No snapshot was written since the last round, so a new one would not let the log be
            # pruned.
            return decision
        decision.records = [
            Record(
                key,
                state._replace(snapshot_epoch=state.snapshot_epoch + 1, written_ms=now_ms),
            )
            for key, state in states
            if now_ms - state.written_ms >= interval_ms
        ]
        return decision

    # --- the log ---

    encode = staticmethod(encode_record)
    decode = staticmethod(decode_record)

    def replay(self, record: Record, record_offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """Apply a record of the log, at `record_offset`. Only this method changes durable state."""
        key, value = record
        self._end_offset = record_offset + 1
        known = self._states.get(key)
        if value is None:
            self._states.pop(key, None)
        elif isinstance(value, Snapshot):
            self._states[key] = ShareState(
                value,
                record_offset,
                0,
                value.leader_epoch if known is None else max(known[3], value.leader_epoch),
                value.state_epoch if known is None else max(known[4], value.state_epoch),
            )
        elif known is not None:
            self._states[key] = known._replace(
                snapshot=_updated(known.snapshot, value),
                updates=known.updates + 1,
                leader_epoch_max=max(known.leader_epoch_max, value.leader_epoch),
            )
        # An update without a snapshot before it precedes one that is later in the log, so it is not
        # needed.

    def replay_end_marker(self, producer_id: int, *, committed: bool) -> None:
        """Do nothing: no producer writes to this topic in a transaction."""


def _updated(state: Snapshot, update: Update) -> Snapshot:
    start_offset = state.start_offset if update.start_offset == NO_OFFSET else update.start_offset
    return state._replace(
        leader_epoch=state.leader_epoch if update.leader_epoch == NO_EPOCH else update.leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=update.delivery_complete_count,
        batches=tuple(combine(state.batches, update.batches, start_offset)),
    )


def _adds_nothing(state: Snapshot, written: Iterable[StateBatch]) -> bool:
    return combine(state.batches, written, state.start_offset) == list(state.batches)


def _check_partition(key: ShareKey) -> None:
    if key.partition < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number.")


def _check_leader_epoch(known: ShareState, leader_epoch: int) -> None:
    if leader_epoch != NO_EPOCH and known.leader_epoch_max > leader_epoch:
        raise KafkaError(
            ErrorCode.FENCED_LEADER_EPOCH,
            "The leader epoch in the request is older than the epoch on the broker.",
        )


def _check_state_epoch(known: ShareState, state_epoch: int) -> None:
    if state_epoch != NO_EPOCH and known.state_epoch_max > state_epoch:
        raise KafkaError(
            ErrorCode.FENCED_STATE_EPOCH,
            (
                "The share coordinator rejected the request because the share-group state epoch "
                "did not match."
            ),
        )
