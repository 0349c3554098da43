"""A share partition on the leader of its partition: the machine of core/share/partition_state.py,
connected to the broker.

It loads the state that the share coordinator has stored, under the leader's epoch, which fences
earlier leaders. It stores changes, reports the results to the state machine, and expires locks. A
fetch that waits for records waits for this object (a key of the purgatory) as well as for the
partition, since released records can be acquired again.

It ends when the partition's leadership changes, or when a share coordinator answers that a newer
leader is in charge. The next request then loads a new one.

A group without a start offset starts where `share.auto.offset.reset` says, and that offset is
stored at once. (Apache Kafka 4.3.1 stores it with the first acknowledgement: if the leader dies
before that, the next leader starts elsewhere.)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import trio

from pk.core.broker.clock import Clock
from pk.core.broker.coordinator.share_state_client import ShareStateClient
from pk.core.broker.coordinator.timers import Timers
from pk.core.broker.offload import offload
from pk.core.broker.purgatory import Purgatory
from pk.core.broker.replication.partition import Partition
from pk.core.errors import ErrorCode, KafkaError, without_frames
from pk.core.share.partition_state import (
    Acknowledgement,
    SharePartitionSettings,
    SharePartitionState,
    StateWrite,
)
from pk.core.share.records import ShareKey
from pk.core.values import NO_OFFSET

logger = logging.getLogger("pk.share")

LOCKS: Final = "locks"
"""The key of the timer of a share partition's locks."""

_FENCED: Final = frozenset({ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH})
_NOT_AVAILABLE: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class Reset:
    """The start offset of a group without a stored one (`share.auto.offset.reset`)."""

    __slots__ = ("after_ms", "earliest")

    def __init__(self, *, earliest: bool = False, after_ms: int | None = None) -> None:
        """The earliest record if `earliest`, else the first record whose timestamp is at least
        `after_ms` (ms since 1970), else the log end."""
        self.earliest = earliest
        self.after_ms = after_ms


class SharePartitionOwner(Protocol):
    """The services that a share partition uses, and to which it reports."""

    timers: Timers[SharePartition]

    clock: Clock
    purgatory: Purgatory
    start_soon: Callable[..., None]

    def settings_of(self, group_id: str) -> SharePartitionSettings:
        """Return the group's current settings."""
        ...

    def reset_of(self, group_id: str) -> Reset:
        """Return the position at which the group would start now (`share.auto.offset.reset`)."""
        ...

    def dropped(self, share_partition: SharePartition) -> None:
        """Note that the share partition has ended."""
        ...


class SharePartition:
    """The share partition of one group on the leader of its partition, in one leader epoch."""

    def __init__(
        self,
        key: ShareKey,
        partition: Partition,
        share_state_client: ShareStateClient,
        owner: SharePartitionOwner,
    ) -> None:
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.state: SharePartitionState | None = None
        """The state machine; None until the state is loaded."""
        self.error: KafkaError | None = None
        """The error with which it has ended."""
        self._share_state_client = share_state_client
        self._owner = owner
        self._loaded = trio.Event()
        self._unstored: list[tuple[StateWrite, Stored]] = []
        """The writes that wait until the current write is stored."""
        self._is_storing = False
        self._retires = False
        self._lock_timer_ms: int | None = None

    # --- loading and ending ---

    async def load(self) -> None:
        """Load the stored state, as a background task."""
        try:
            await self._load()
        except KafkaError as e:
            self.drop(_error_for_member(e))
        except Exception:
            logger.exception("%s of %s cannot be loaded", self.partition.tp, self.key.group_id)
            self.drop(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
        if self._retires:
            self.retire()

    async def _load(self) -> None:
        stored = await self._share_state_client.read(self.key, self.leader_epoch)
        start_offset = stored.start_offset
        if start_offset == NO_OFFSET:
            start_offset = await self._first_offset()
            first = StateWrite(0, stored.state_epoch, start_offset, 0, ())
            await self._share_state_client.write(self.key, self.leader_epoch, first)
        if self.error is None:
            self.state = SharePartitionState(
                self._owner.settings_of(self.key.group_id),
                stored.state_epoch,
                start_offset,
                stored.batches,
            )
            self._loaded.set()

    async def _first_offset(self) -> int:
        reset, log = self._owner.reset_of(self.key.group_id), self.partition.log
        if reset.earliest:
            return log.state.log_start_offset
        if reset.after_ms is not None:
            after_ms = reset.after_ms
            found = await offload(
                lambda: log.reader.offset_for_time(after_ms), directory=log.log_dir.path
            )
            if found is not None and found[0] < self.partition.high_watermark:
                return found[0]
        return self.partition.high_watermark

    async def wait_until_loaded(self) -> None:
        """Wait until the state is loaded. Raises KafkaError if the share partition has ended."""
        await self._loaded.wait()
        self.loaded()

    @property
    def is_loading(self) -> bool:
        """Whether the stored state is not loaded yet."""
        return not self._loaded.is_set()

    def loaded(self) -> SharePartitionState:
        """Return the state machine, with the current settings. Raises KafkaError if the share
        partition has ended."""
        if self.error is not None:
            raise without_frames(self.error)
        assert self.state is not None
        self.state.settings = self._owner.settings_of(self.key.group_id)
        return self.state

    def drop(self, error: KafkaError) -> None:
        """End the share partition: requests that wait for it get `error`."""
        if self.error is None:
            self.error = error
            self._owner.timers.forget(self)
            self._loaded.set()
            self._owner.dropped(self)
            self.touch()

    def retire(self) -> None:
        """End the share partition once it is loaded and everything is stored, since no session
        fetches from it now. `keep` cancels this."""
        self._retires = True
        if not self._is_storing and not self.is_loading:
            self.drop(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))

    def keep(self) -> None:
        """Cancel `retire`, because a session fetches from the share partition."""
        self._retires = False

    def touch(self) -> None:
        """Wake the requests that wait for records, to check again."""
        self._owner.purgatory.touch(self)

    # --- state changes ---

    def acknowledge(
        self, member_id: str, acknowledgements: Sequence[Acknowledgement]
    ) -> Stored | None:
        """Apply a member's acknowledgements. Returns the outcome of storing them, or None if
        nothing must be stored. Raises KafkaError."""
        state = self.loaded()
        write = state.acknowledge(member_id, acknowledgements, self._owner.clock.now_ms())
        self.set_timer()
        return None if write is None else self._store(write)

    def release(self, member_id: str) -> None:
        """Release the records that a member holds. The change is stored in the background."""
        if self.state is not None and self.error is None:
            write = self.state.release(member_id)
            if write is not None:
                self._store(write)

    def expire(self) -> None:
        """Release the records whose locks have expired."""
        self._lock_timer_ms = None
        if self.state is None or self.error is not None:
            return
        write = self.state.expire(self._owner.clock.now_ms())
        if write is not None:
            self._store(write)
            self.touch()
        self.set_timer()

    def set_timer(self) -> None:
        """Set the timer that calls `expire` when the next lock expires."""
        assert self.state is not None
        when_ms = self.state.next_expiry_ms
        if when_ms == self._lock_timer_ms:
            return
        self._lock_timer_ms = when_ms
        if when_ms is None:
            self._owner.timers.cancel(self, LOCKS)
        else:
            left_s = max(0, when_ms - self._owner.clock.now_ms()) / 1000
            self._owner.timers.set(self, LOCKS, self._owner.clock.time() + left_s)

    def _store(self, write: StateWrite) -> Stored:
        stored = Stored()
        self._unstored.append((write, stored))
        if not self._is_storing:
            self._is_storing = True
            self._owner.start_soon(self._store_all)
        return stored

    async def _store_all(self) -> None:
        """Store changes, one request after another, since a write that overtook an earlier one
        would store outdated state. Changes during a request are combined into the next one."""
        while self._unstored:
            unstored, self._unstored = self._unstored, []
            error = await self._write([write for write, _ in unstored])
            for write, stored in unstored:
                if self.state is not None and write.write_id:
                    self.state.written(write.write_id, stored=error is None)
                stored.done(error)
            if self.state is not None and self.error is None:
                self.set_timer()
            self.touch()
        self._is_storing = False
        if self._retires:
            self.retire()

    async def _write(self, writes: Sequence[StateWrite]) -> KafkaError | None:
        """Store these writes at the share coordinator. Returns the error for the member, if any."""
        assert self.state is not None
        try:
            await self._share_state_client.write(
                self.key, self.leader_epoch, self.state.merge(writes)
            )
        except KafkaError as e:
            error = _error_for_member(e)
            if e.code not in _NOT_AVAILABLE:
                # There is a newer leader, or the state was deleted: the records in flight here no
                # longer count.
                self.drop(error)
            return error
        return None


class Stored:
    """The outcome of a write."""

    __slots__ = ("_done", "_error")

    def __init__(self) -> None:
        self._done = trio.Event()
        self._error: KafkaError | None = None

    def done(self, error: KafkaError | None) -> None:
        """Complete the write, which is stored, or was refused with `error`."""
        self._error = error
        self._done.set()

    async def wait(self) -> None:
        """Wait until it is stored. Raises KafkaError if it was refused."""
        await self._done.wait()
        if self._error is not None:
            raise without_frames(self._error)


def _error_for_member(error: KafkaError) -> KafkaError:
    """Return the error that a member gets for a share coordinator's `error`, as in Kafka."""
    if error.code in _FENCED:
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if error.code in _NOT_AVAILABLE:
        return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message)
    if error.code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        return error
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, error.message)
