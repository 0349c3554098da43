"""Waits for changes: of a high watermark, a log end, a group, an image.

Kafka's purgatory is an object with callbacks: try, watch, try again, complete once. Here it is
mostly an await (`until`). A waiter checks, registers, and sleeps until one of its keys is touched;
then it checks again. Nothing awaits between the check and the registration, so no touch can be
missed, which is the purpose of Kafka's second try.

A fetch at the end of a log waits for each record, and a task for each wait costs as much as reading
the record. Therefore such a fetch is a `DelayedOperation`, as in Kafka: it is tried when one of its
keys is touched, and when its deadline passes. The first few operations touched within `with
purgatory:` are tried at its end, before another task runs, so that a record is sent to a consumer
before its producer gets the response. `serve` tries all others.
"""

import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Hashable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Protocol

import trio

TRIED_AT_ONCE = 4
"""The number of operations tried at once: enough for a partition's two followers and some
consumers."""

TRIED_A_ROUND = 64
"""The number of operations that `serve` tries, and ends, between two checkpoints: a few
milliseconds of work."""

SPARE_DEADLINES = 64
"""The number by which the deadlines of completed operations may exceed those of waiting
operations."""


class _Waiter(Protocol):
    """An event, or an operation."""

    def set(self) -> None:
        """Note that one of the waiter's keys was touched."""
        ...


class DelayedOperation:
    """An operation that waits in a purgatory without a task. A subclass defines how to try it."""

    __slots__ = ("deadline", "is_over", "is_touched", "keys", "purgatory")

    def __init__(self, purgatory: "Purgatory", keys: Collection[Hashable], deadline: float) -> None:
        """`deadline` is in seconds of trio's clock. The operation waits from `Purgatory.delay`
        on."""
        self.purgatory = purgatory
        self.keys = keys
        self.deadline = deadline
        self.is_touched = False
        """Whether it is queued to be tried."""
        self.is_over = False

    def attempt(self, *, expired: bool) -> bool:
        """Complete the operation if possible, or if it has `expired`. Returns whether it is
        complete. Must not raise."""
        raise NotImplementedError

    def set(self) -> None:
        """Note that one of the operation's keys was touched."""
        self.purgatory.touched(self)


class Purgatory:
    """Requests that wait, by the keys whose changes may complete them.

    As a context manager, it tries at its end the operations that were touched within, or the first
    few of them, before any other task runs. The code within may not await, or enter it again.
    """

    def __init__(self) -> None:
        # The inner dictionaries are ordered sets: the first waiter is woken first.
        self._waiting: dict[Hashable, dict[_Waiter, None]] = {}
        self._touched = OrderedDict[DelayedOperation, None]()
        """The operations that `serve` must try."""
        self._gathered = OrderedDict[DelayedOperation, None]()
        """The operations touched since `__enter__`."""
        self._deadlines: list[tuple[float, int, DelayedOperation]] = []
        self._delayed = 0
        """The number of waiting operations."""
        self._numbers = count()
        self._gathering = False
        self._wake = trio.Event()
        """Ends the sleep of `serve`."""
        self._sleeps_until = -math.inf

    @property
    def size(self) -> int:
        """The number of keys with waiters."""
        return len(self._waiting)

    def awaits(self, key: Hashable) -> bool:
        """Return whether anything waits for `key`."""
        return key in self._waiting

    async def until(
        self,
        ready: Callable[[], bool],
        keys: Collection[Hashable],
        deadline: float,
    ) -> bool:
        """Wait until `ready()`, checked again whenever one of `keys` is touched.

        `deadline` is in seconds of trio's clock. Returns the last result of `ready()`: False means
        that the deadline passed.
        """
        with trio.CancelScope(deadline=deadline):
            while not ready():
                touched = trio.Event()
                for key in keys:
                    self._waiting.setdefault(key, {})[touched] = None
                try:
                    await touched.wait()
                finally:
                    for key in keys:
                        self._remove_waiter(key, touched)
            return True
        return ready()

    async def until_in_steps(
        self, ready: Callable[[], Awaitable[bool]], keys: Collection[Hashable], deadline: float
    ) -> bool:
        """Like `until`, for a check that lets other tasks run: if a key is touched during the
        check, the check is repeated."""
        touched = trio.Event()
        while True:
            for key in keys:
                self._waiting.setdefault(key, {})[touched] = None
            try:
                if await ready():
                    return True
                if trio.current_time() >= deadline:
                    return False
                with trio.CancelScope(deadline=deadline):
                    await touched.wait()
            finally:
                for key in keys:
                    if touched in self._waiting.get(key, ()):
                        self._remove_waiter(key, touched)
            touched = trio.Event()

    def touch(self, key: Hashable) -> None:
        """Wake every waiter for `key`, to check again."""
        waiting = self._waiting.get(key)
        if waiting:
            for waiter in waiting:
                waiter.set()

    # --- without a task ---

    def delay(self, operation: DelayedOperation) -> None:
        """Try `operation` whenever one of its keys is touched, until it ends, and when its deadline
        passes. The caller must have tried it, without a checkpoint since."""
        for key in operation.keys:
            self._waiting.setdefault(key, {})[operation] = None
        self._delayed += 1
        heappush(self._deadlines, (operation.deadline, next(self._numbers), operation))
        if operation.deadline < self._sleeps_until:
            self._wake.set()

    def end(self, operation: DelayedOperation) -> None:
        """End `operation`: it is complete, or its response is no longer wanted."""
        if operation.is_over:
            return
        operation.is_over = True
        for key in operation.keys:
            self._remove_waiter(key, operation)
        operation.keys = ()  # the entry of its deadline may stay for long
        self._delayed -= 1
        if len(self._deadlines) > 2 * self._delayed + SPARE_DEADLINES:
            self._deadlines = [entry for entry in self._deadlines if not entry[2].is_over]
            heapify(self._deadlines)

    def touched(self, operation: DelayedOperation) -> None:
        """Queue `operation`, one of whose keys was touched."""
        if self._gathering:
            operation.is_touched = True
            self._gathered[operation] = None
        elif not operation.is_touched:
            operation.is_touched = True
            self._touched[operation] = None
            self._wake.set()

    def __enter__(self) -> None:
        self._gathering = True

    def __exit__(self, *_: object) -> None:
        self._gathering = False
        if self._gathered:
            self._try(self._gathered, TRIED_AT_ONCE)
            if self._gathered:
                self._touched.update(self._gathered)  # an operation may be in both
                self._gathered.clear()
                self._wake.set()

    async def serve(self) -> None:
        """Try the operations that are not tried elsewhere, until cancelled."""
        while True:
            self._end_expired(TRIED_A_ROUND)
            self._try(self._touched, TRIED_A_ROUND)
            deadlines = self._deadlines
            first = deadlines[0][0] if deadlines else math.inf
            if self._touched or first <= trio.current_time():
                await trio.lowlevel.checkpoint()
                continue
            self._wake = trio.Event()
            self._sleeps_until = first
            with trio.CancelScope(deadline=first):
                await self._wake.wait()
            self._sleeps_until = -math.inf

    def _try(self, touched: OrderedDict[DelayedOperation, None], at_most: int) -> None:
        """Try the first operations of `touched`, and remove them from it."""
        now = trio.current_time() if touched else 0.0
        while touched and at_most:
            operation, _ = touched.popitem(last=False)
            if operation.is_over or not operation.is_touched:
                continue  # it may be in both queues
            operation.is_touched = False
            at_most -= 1
            if operation.attempt(expired=operation.deadline <= now):
                self.end(operation)

    def _end_expired(self, at_most: int) -> None:
        """Complete operations whose deadlines have passed; remove ended ones from the top of the
        heap."""
        now = trio.current_time()
        while (deadlines := self._deadlines) and at_most:
            deadline, _, operation = deadlines[0]
            if not operation.is_over:
                if deadline > now:
                    return
                at_most -= 1
                operation.attempt(expired=True)
                self.end(operation)  # this may replace the heap
            if self._deadlines and self._deadlines[0][2] is operation:
                heappop(self._deadlines)

    def _remove_waiter(self, key: Hashable, waiter: _Waiter) -> None:
        waiting = self._waiting[key]
        waiting.pop(waiter, None)
        if not waiting:
            del self._waiting[key]


class OffsetWaiters:
    """Waiters for offsets of a partition. Wakes only those whose offset is reached."""

    __slots__ = ("_count", "_waiting")

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, trio.Event]] = []
        self._count = 0

    async def wait(self, offset: int) -> None:
        """Wait until `offset` is reached, or all waiters are released."""
        released = trio.Event()
        self._count += 1
        entry = (offset, self._count, released)
        heappush(self._waiting, entry)
        try:
            await released.wait()
        finally:
            if not released.is_set():
                self._waiting.remove(entry)
                heapify(self._waiting)

    def release(self, offset: int) -> None:
        """Wake the waiters for offsets up to `offset`."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= offset:
            heappop(waiting)[2].set()

    def release_all(self) -> None:
        """Wake all waiters, so that they check again."""
        waiting, self._waiting = self._waiting, []
        for _, _, released in waiting:
            released.set()
