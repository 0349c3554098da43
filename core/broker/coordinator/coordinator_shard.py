"""One shard of the coordinators: a state machine, and the partition of an internal topic that is
its log.

A request is decided without an await: decide, append the decision's records as one batch, replay
them, set timers. The reply waits until the high watermark has passed everything written so far,
because it may depend on records that are not yet safe, its own or an earlier request's. With one
replica the high watermark has passed them by then, and the reply is returned without a checkpoint.

A new leader first reads the partition to its end, in slices, off the event loop. Until then,
requests get COORDINATOR_LOAD_IN_PROGRESS. When the broker loses leadership, it drops the state, and
waiting requests get NOT_COORDINATOR. If an append fails, nothing has been replayed, and the machine
stays. A machine that raised an unexpected exception is dropped and loaded again.

The effects of a decision, which happen outside, wait for the same high watermark, so that a
failover cannot undo an effect that was already visible. The result of an effect becomes another
decision, if this is still the coordinator.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from enum import Enum
from itertools import islice, starmap
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NamedTuple, Protocol, TypeVar, cast

import trio

from pk.core.broker.loop_time import let_others_run
from pk.core.broker.offload import offload
from pk.core.errors import ErrorCode, KafkaError, ProtocolError, without_frames
from pk.core.machine import Compute, Decision, Effect
from pk.core.meta.image import Changes
from pk.core.record.batch import CorruptBatch, iter_headers, records
from pk.core.record.build import (
    BATCH_BYTES_MAX,
    BatchBuilder,
    ControlType,
    control_type,
    end_transaction_batch,
    frame_record,
)
from pk.core.record.compress import Codec
from pk.core.values import NO_PRODUCER_ID, NO_SEQUENCE

if TYPE_CHECKING:
    from pk.core.broker.clock import Clock
    from pk.core.broker.coordinator.timers import Timers
    from pk.core.broker.replication.partition import Partition
    from pk.core.log.log import Log
    from pk.core.meta.image import MetadataImage

logger = logging.getLogger("pk.coordinator")

COORDINATOR_SEQUENCE = 0
"""The sequence of every batch that a coordinator writes in a transaction, as in Kafka; unused."""

TIMER_RETRY_S: Final = 0.5
"""If the log has refused the decision of a timer, the timer expires again after this time in
seconds, as in Apache Kafka."""

REPAIR_WAIT_S: Final = 1.0
"""The pause before a damaged batch is read again, in seconds. The broker repairs it from a
follower."""


class Machine(Protocol):
    """The machine that a coordinator runs (core/machine.py has the contract). It also has the
    methods that decide requests.

    After its log is replayed, a machine gets the image of the cluster (`follow` without changes),
    then a call of `loaded`. From then on, `follow` brings each change of the cluster once,
    including those during the load, with the current image. If several changes had to wait, each
    comes with that same image. No image comes after a newer one.
    """

    log_is_compacted: ClassVar[bool]
    """Whether the log cleaner compacts the log, so that only the last record of each key counts."""

    def encode(self, record: Any, /) -> tuple[bytes, bytes | None]: ...
    def decode(self, key: bytes, value: bytes | None, /) -> Any | None: ...
    def replay(self, record: Any, record_offset: int, producer_id: int) -> None: ...
    def replay_end_marker(self, producer_id: int, *, committed: bool) -> None: ...
    def follow(self, image: MetadataImage, delta: Changes, now_ms: int) -> Decision[Any, Any]: ...
    def loaded(self, now_ms: int) -> Decision[Any, Any]: ...
    def fire(self, key: Any, now_ms: int) -> Decision[Any, Any]: ...


M = TypeVar("M", bound=Machine)
Reply = TypeVar("Reply")


class State(Enum):
    """The states of a coordinator."""

    LOADING = "loading"
    ACTIVE = "active"
    CLOSED = "closed"
    """The broker is no longer the coordinator, or could not load it."""


class Waiter:
    """The token of a request whose reply may have to wait."""

    __slots__ = ("_answered", "answer", "error", "offset", "ready")

    def __init__(self) -> None:
        self.ready = False
        self.answer: Any = None
        self.error: KafkaError | None = None
        self.offset = 0
        """The offset that the high watermark must reach before the reply is returned."""
        self._answered: trio.Event | None = None

    def complete(self, answer: Any, offset: int, error: KafkaError | None = None) -> None:
        """Set the reply, unless it is already set."""
        if not self.ready:
            self.ready, self.answer, self.offset, self.error = True, answer, offset, error
            if self._answered is not None:
                self._answered.set()

    async def wait(self) -> None:
        """Wait for the reply."""
        if not self.ready:
            self._answered = trio.Event()
            await self._answered.wait()


class _LoadedSlice(NamedTuple):
    """A slice of the log: the records to replay, and the start of the next slice."""

    items: list[tuple[int, int, Any]]
    """(offset, producer id, record). For the end of a transaction, the record is a bool: whether
    the transaction was committed."""
    next_offset: int


class ShardEnvironment(NamedTuple):
    """The parts of its broker that a coordinator needs."""

    clock: Clock
    timers: Timers[Any]
    start_soon: Callable[..., None]
    commit_timeout_ms: int
    """How long a reply may wait for the high watermark, in ms."""
    load_bytes: int
    """The size of one read of the log while it loads, in bytes."""
    codec: Codec
    image: Callable[[], MetadataImage]
    """Returns the current image."""
    carry_out: Callable[[CoordinatorShard[Any], Effect], None]
    """Begins to carry out an effect of this kind of machine. It makes no decision before it
    returns."""


class CoordinatorShard(Generic[M]):
    """The coordinator of one partition, for as long as this broker leads it in one epoch."""

    def __init__(
        self, partition: Partition, make_machine: Callable[[], M], environment: ShardEnvironment
    ) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.machine = make_machine()
        self.state = State.LOADING
        self.written = 0
        """The offset below which all records are replayed. The next reply depends on them."""
        self._make_machine = make_machine
        self._environment = environment
        self._waiting: set[Waiter] = set()
        self._loading: trio.CancelScope | None = None
        self._after_load: list[Callable[[M, int], Decision[Any, Any]]] = []

    # --- requests ---

    async def submit(self, decide: Callable[[M, Hashable, int], Decision[Any, Reply]]) -> Reply:
        """Decide with `decide(machine, token, now_ms)`, append the records, and replay them.
        Returns the reply, once all records on which it depends are safe.

        Raises KafkaError: the errors of `decide`, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR,
        COORDINATOR_NOT_AVAILABLE (the append was refused, or not replicated in time).
        """
        answer: Any = self.submit_nowait(decide)
        return cast("Reply", await answer if isinstance(answer, Awaitable) else answer)

    def submit_nowait(
        self, decide: Callable[[M, Hashable, int], Decision[Any, Reply]]
    ) -> Reply | Awaitable[Reply]:
        """Decide, append and replay like `submit`, at once and without a checkpoint, so that
        requests take effect in the order of their arrival. Returns the reply, or an awaitable of it
        if the reply must wait. Both may raise the errors of `submit`."""
        if self.state is not State.ACTIVE:
            raise self._unavailable()
        waiter = Waiter()
        reply = self._run(decide, waiter)
        if reply is None:
            if not waiter.ready:
                self._waiting.add(waiter)
                return self._wait_for_reply(waiter)
            if waiter.error is not None:
                raise without_frames(waiter.error)
            reply = waiter.answer
        offset = self.written
        if self.partition.high_watermark >= offset:
            return reply
        return self._reply_when_safe(reply, offset)

    @property
    def is_active(self) -> bool:
        """Whether the coordinator has loaded its log and serves requests."""
        return self.state is State.ACTIVE

    def when_active(self, decide: Callable[[M, int], Decision[Any, Any]]) -> bool:
        """Run `decide(machine, now_ms)` now, or after loading, without returning its reply. Returns
        False if the log refused its records."""
        if self.state is State.LOADING:
            self._after_load.append(decide)
        elif self.state is State.ACTIVE:
            return self._run_logged(lambda machine, _, now_ms: decide(machine, now_ms))
        return True

    def follow(self, delta: Changes) -> None:
        """Give the machine the current image, whose difference from the last one is `delta`."""
        image = self._environment.image  # called after loading, for the then current image
        self.when_active(lambda machine, now_ms: machine.follow(image(), delta, now_ms))

    def append_marker(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int, *, committed: bool
    ) -> int:
        """Write the marker that ends a producer's transaction in this partition, and replay it.
        Returns the offset that the high watermark must reach before the marker is safe.

        Raises KafkaError: COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, and the errors of
        `Partition.append`.
        """
        if self.state is not State.ACTIVE:
            raise self._unavailable()
        now_ms = self._environment.clock.now_ms()
        batch = end_transaction_batch(
            committed, coordinator_epoch, producer_id, producer_epoch, now_ms
        )
        appended = self.partition.append(batch, now_ms=now_ms)
        self.written = appended.last_offset + 1
        try:
            self.machine.replay_end_marker(producer_id, committed=committed)
        except Exception:
            self._restart()
            raise
        return self.written

    def fire(self, key: Hashable) -> None:
        """Handle an expired timer."""
        if self.state is State.ACTIVE:
            self._run_logged(lambda machine, _, now_ms: machine.fire(key, now_ms), timer=key)

    def _run_logged(
        self, decide: Callable[[M, Hashable, int], Decision[Any, Any]], timer: Hashable = None
    ) -> bool:
        """Run a decision that does not answer a request, and log its exceptions. Returns False if
        the log refused its records. `timer` is the timer that caused the decision, if any."""
        try:
            self._run(decide, None)
        except KafkaError as e:
            logger.warning("%s: %s", self.partition.tp, e)
            self._retry_timer(timer)
            return False
        except Exception:
            logger.exception("%s: a coordinator's own decision failed", self.partition.tp)
        return True

    def _retry_timer(self, timer: Hashable) -> None:
        """Set `timer` again after the log refused the decision that it caused. Otherwise a member
        whose session has expired would stay. (Loading a coordinator sets its timers.)"""
        environment = self._environment
        if (
            timer is not None
            and self.state is State.ACTIVE
            and not environment.timers.has(self, timer)
        ):
            environment.timers.set(self, timer, environment.clock.time() + TIMER_RETRY_S)

    def _run(
        self, decide: Callable[[M, Hashable, int], Decision[Any, Any]], token: Hashable
    ) -> Any:
        """Run a decision, and return its reply. Raises the errors of `decide`, and KafkaError if
        the log refused the records."""
        now_ms = self._environment.clock.now_ms()
        try:
            decision = decide(self.machine, token, now_ms)
            self._commit(decision, now_ms)
        except KafkaError:
            raise
        except Exception:
            self._restart()
            raise
        return decision.reply

    def _commit(self, decision: Decision[Any, Any], now_ms: int) -> None:
        """Append, replay, set timers, and give the waiting requests their replies. Raises
        KafkaError if the log refused the records."""
        refusal = self._append(decision, now_ms) if decision.records else None
        for waiter, answer in decision.answers:
            if isinstance(waiter, Waiter):
                waiter.complete(answer, self.written, refusal)
        if refusal is not None and decision.revert is not None:
            decision.revert()
            raise refusal
        self._set_timers(decision, now_ms)
        if refusal is not None:
            raise refusal
        if decision.effects:
            if self.partition.high_watermark >= self.written:
                self._carry_out(decision.effects)
            else:
                self._environment.start_soon(
                    self._carry_out_when_safe, decision.effects, self.written
                )

    def _append(self, decision: Decision[Any, Any], now_ms: int) -> KafkaError | None:
        """Append and replay the records. Returns the error if the log refused them, in which case
        nothing is written. Of a decision that is not atomic, the batches before the refused one are
        written."""
        records, framed = decision.records, decision.framed
        limit = self.partition.config.max_message_bytes
        bytes_max, useless_above = limit, BATCH_BYTES_MAX
        if decision.atomic:
            # The log refuses a larger batch, so building more of it would be useless.
            bytes_max = BATCH_BYTES_MAX
            if self._environment.codec is Codec.NONE:
                useless_above = limit
        first = 0
        while first < len(records):
            batch = BatchBuilder(self._environment.codec, bytes_max=bytes_max)
            batch.extend(
                now_ms,
                islice(framed, first, None)
                if framed
                else starmap(frame_record, map(self.machine.encode, islice(records, first, None))),
                useless_above,
            )
            try:
                appended = self.partition.append(
                    batch.build(
                        producer_id=decision.producer_id,
                        producer_epoch=decision.producer_epoch,
                        base_sequence=NO_SEQUENCE
                        if decision.producer_id == NO_PRODUCER_ID
                        else COORDINATOR_SEQUENCE,
                        transactional=decision.producer_id != NO_PRODUCER_ID,
                    ),
                    now_ms=now_ms,
                )
            except KafkaError as e:
                return error_for_client(e)
            end = first + batch.count
            replay, producer_id = self.machine.replay, decision.producer_id
            for offset, record in enumerate(records[first:end], appended.base_offset):
                replay(record, offset, producer_id)
            self.written = appended.last_offset + 1
            first = end
        return None

    async def _carry_out_when_safe(self, effects: list[Effect], offset: int) -> None:
        if not await self.partition.wait_until_safe(offset, self.leader_epoch):
            return
        try:
            self._carry_out(effects)
        except Exception:
            # An exception here must not end the broker. The log still has the unfinished work.
            logger.exception("%s: a decision cannot be carried out", self.partition.tp)
            if self.state is State.ACTIVE:
                self._restart()

    def _carry_out(self, effects: list[Effect]) -> None:
        if self.state is not State.ACTIVE:
            return  # the next load, here or on another broker, finds the work in the log
        for effect in effects:
            if isinstance(effect, Compute):
                self._environment.start_soon(self._compute, effect, self.machine)
            else:
                self._environment.carry_out(self, effect)

    async def _compute(self, effect: Compute, machine: M) -> None:
        try:
            result = await offload(effect.work)
        except Exception:
            logger.exception("%s: a computation off the loop failed", self.partition.tp)
            if self.state is State.ACTIVE and self.machine is machine:
                self._restart()
            return
        if self.state is State.ACTIVE and self.machine is machine:
            self._run_logged(lambda machine, _, now_ms: effect.then(machine, result, now_ms))

    def _set_timers(self, decision: Decision[Any, Any], now_ms: int) -> None:
        timers = self._environment.timers
        if decision.timers:
            now = self._environment.clock.time()
            for key, when_ms in decision.timers:
                if when_ms is None:
                    timers.cancel(self, key)
                else:
                    timers.set(self, key, now + (when_ms - now_ms) / 1000)

    async def _wait_for_reply(self, waiter: Waiter) -> Any:
        try:
            await waiter.wait()
        finally:
            self._waiting.discard(waiter)
        if waiter.error is not None:
            raise without_frames(waiter.error)
        return await self._reply_when_safe(waiter.answer, waiter.offset)

    async def _reply_when_safe(self, reply: Any, offset: int) -> Any:
        """Return `reply` once the high watermark has passed the records it depends on, in the
        epoch in which they were written."""
        clock = self._environment.clock
        deadline = clock.time() + self._environment.commit_timeout_ms / 1000
        try:
            if await self.partition.wait_for_high_watermark(offset, deadline, self.leader_epoch):
                return reply
        except KafkaError as e:
            raise error_for_client(e) from e
        raise KafkaError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self.partition.tp} was not replicated in time"
        )

    def _unavailable(self) -> KafkaError:
        if self.state is State.LOADING:
            return KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return KafkaError(ErrorCode.NOT_COORDINATOR)

    # --- loading and closing ---

    async def load(self) -> None:
        """Read the partition to its end, then serve. If a batch is damaged, wait until it is
        repaired. If the partition cannot be read, close the coordinator and log the reason."""
        with trio.CancelScope() as self._loading:
            try:
                await self._load()
            except Exception:
                logger.exception("%s cannot be loaded", self.partition.tp)
                self.close()

    async def _load(self) -> None:
        partition, machine = self.partition, self.machine
        log = partition.log
        directory = log.log_dir.path
        offset, end = log.state.log_start_offset, log.state.log_end_offset
        logged: set[str | None] = set()
        while offset < end and self.state is State.LOADING:
            args = (log, machine, offset, end, self._environment.load_bytes)
            try:
                items, offset = await offload(_read, *args, directory=directory)
            except CorruptBatch as e:
                if e.message not in logged:
                    logged.add(e.message)
                    logger.warning("%s cannot be loaded until it is repaired: %s", partition.tp, e)
                await trio.sleep(REPAIR_WAIT_S)
                continue
            except KafkaError as e:
                if e.code != ErrorCode.OFFSET_OUT_OF_RANGE or offset >= log.state.log_start_offset:
                    raise
                offset = log.state.log_start_offset  # compacted or trimmed during the load
                continue
            for item in items:
                await let_others_run()
                _replay(machine, *item)
            await trio.lowlevel.checkpoint()
        if self.state is not State.LOADING:
            return  # closed, perhaps before the load began
        self.written = end
        self.state = State.ACTIVE
        now_ms = self._environment.clock.now_ms()
        self._commit_logged(machine.follow(self._environment.image(), Changes(), now_ms), now_ms)
        self._commit_logged(machine.loaded(now_ms), now_ms)
        pending, self._after_load = self._after_load, []
        for decide in pending:
            self.when_active(decide)

    def _commit_logged(self, decision: Decision[Any, Any], now_ms: int) -> None:
        try:
            self._commit(decision, now_ms)
        except KafkaError as e:
            logger.warning("%s: %s", self.partition.tp, e)

    def close(self) -> None:
        """Stop being the coordinator: drop the state; waiting requests get NOT_COORDINATOR."""
        self.state = State.CLOSED
        self._discard_state()
        # Timers that would have expired much later still refer to this coordinator, and must not
        # keep its state in memory.
        self.machine = self._make_machine()

    def _restart(self) -> None:
        """Load the log again, because the state may differ from it."""
        self._discard_state()
        self.machine = self._make_machine()
        self.state = State.LOADING
        self._environment.start_soon(self.load)

    def _discard_state(self) -> None:
        if self._loading is not None:
            self._loading.cancel()
        self._environment.timers.forget(self)
        waiting, self._waiting = self._waiting, set()
        for waiter in waiting:
            waiter.complete(None, 0, KafkaError(ErrorCode.NOT_COORDINATOR))


def _read(log: Log, machine: Machine, offset: int, end: int, bytes_max: int) -> _LoadedSlice:
    """Read the next slice of the log, in a thread. In a log that may be compacted, records that a
    later one in the slice replaces are left out: most records of a busy group's coordinator are
    offsets that were committed again."""
    data = log.reader.read_bytes(offset, bytes_max, end)
    found: list[tuple[int, int, bytes, bytes | None]] = []
    markers: dict[int, tuple[int, int, Any]] = {}
    last: dict[bytes, int] = {}
    """Key → the offset of its last record outside transactions."""
    view = memoryview(data)
    next_offset = offset
    for position, header in iter_headers(data):
        next_offset = header.next_offset
        producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
        for record in records(view[position : position + header.size], header):
            if record.offset < offset:
                continue
            if header.is_control:
                marker = control_type(record)
                if marker in (ControlType.ABORT, ControlType.COMMIT):
                    committed = marker is ControlType.COMMIT
                    markers[len(found)] = (record.offset, header.producer_id, committed)
                    found.append((record.offset, header.producer_id, b"", None))
                continue
            if record.key is None:
                raise ProtocolError(f"offset {record.offset}: the record has no key")
            found.append((record.offset, producer_id, record.key, record.value))
            if producer_id == NO_PRODUCER_ID:
                last[record.key] = record.offset
    if next_offset == offset:
        raise ProtocolError(f"offset {offset}: no complete batch, although one is expected")
    items: list[tuple[int, int, Any]] = []
    compacted = machine.log_is_compacted
    for index, (at, producer_id, key, value) in enumerate(found):
        if index in markers:
            items.append(markers[index])
        elif not compacted or producer_id != NO_PRODUCER_ID or last[key] == at:
            decoded = machine.decode(key, value)
            if decoded is not None:
                items.append((at, producer_id, decoded))
    return _LoadedSlice(items, next_offset)


def _replay(machine: Machine, offset: int, producer_id: int, item: Any) -> None:
    if isinstance(item, bool):
        machine.replay_end_marker(producer_id, committed=item)
    else:
        machine.replay(item, offset, producer_id)


def error_for_client(error: KafkaError) -> KafkaError:
    """Return the error that a client gets if the coordinator's log fails with `error`, as in
    Kafka."""
    match error.code:
        case (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            | ErrorCode.NOT_ENOUGH_REPLICAS
            | ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            | ErrorCode.REQUEST_TIMED_OUT
        ):
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        case ErrorCode.NOT_LEADER_OR_FOLLOWER | ErrorCode.KAFKA_STORAGE_ERROR:
            code = ErrorCode.NOT_COORDINATOR
        case (
            ErrorCode.MESSAGE_TOO_LARGE
            | ErrorCode.RECORD_LIST_TOO_LARGE
            | ErrorCode.INVALID_FETCH_SIZE
        ):
            code = ErrorCode.UNKNOWN_SERVER_ERROR
        case _:
            return error
    return KafkaError(code, error.message)


async def gather_replies(answers: list[Any]) -> list[Any]:
    """Return the replies of several coordinators, and await those that are awaitables one after
    another. Raises the first error."""
    results: list[Any] = []
    try:
        for answer in answers:
            await let_others_run()
            results.append(await answer if isinstance(answer, Awaitable) else answer)
    finally:
        for answer in answers[len(results) :]:
            if isinstance(answer, Coroutine):
                answer.close()
    return results
