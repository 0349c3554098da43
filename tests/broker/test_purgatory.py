"""Waiting by key: which operations are woken, which time out, and that nothing is left behind."""

from collections.abc import Awaitable, Callable

import trio
import trio.testing

from pk.core.broker.purgatory import (
    SPARE_DEADLINES,
    TRIED_A_ROUND,
    TRIED_AT_ONCE,
    DelayedOperation,
    OffsetWaiters,
    Purgatory,
)

FAR_S = 1e6


def test_waiters_wake_by_key_and_look_again() -> None:
    async def main() -> None:
        purgatory, mark = Purgatory(), 0
        got: list[tuple[int, bool, int]] = []

        async def wait(n: int) -> None:
            done = await purgatory.until(lambda: mark >= n, ["a", "b"], start + 30)
            got.append((n, done, round(trio.current_time() - start)))

        start = trio.current_time()
        async with trio.open_nursery() as nursery:
            for n in (1, 2, 99):
                nursery.start_soon(wait, n)
            await trio.sleep(5)
            mark = 1
            purgatory.touch("a")
            await trio.sleep(5)
            mark = 2
            purgatory.touch("b")
        assert got == [(1, True, 5), (2, True, 10), (99, False, 30)]
        assert purgatory.size == 0

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_cancelled_waiter_leaves_nothing_behind() -> None:
    async def main() -> None:
        purgatory = Purgatory()
        with trio.move_on_after(1):
            await purgatory.until(lambda: False, ["a"], trio.current_time() + 30)
        assert purgatory.size == 0

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_what_is_ready_does_not_wait() -> None:
    async def main() -> None:
        purgatory = Purgatory()
        assert await purgatory.until(lambda: True, ["a"], trio.current_time())

    trio.run(main)


def test_who_waits_for_a_number_is_woken_when_it_is_reached_and_no_sooner() -> None:
    async def main() -> None:
        held, woken = OffsetWaiters(), []

        async def wait(number: int) -> None:
            await held.wait(number)
            woken.append(number)

        async with trio.open_nursery() as nursery:
            for number in (5, 1, 3, 3, 9):
                nursery.start_soon(wait, number)
            await trio.testing.wait_all_tasks_blocked()
            for reached, expected in ((2, [1]), (3, [1, 3, 3]), (3, [1, 3, 3])):
                held.release(reached)
                await trio.testing.wait_all_tasks_blocked()
                assert woken == expected
            with trio.move_on_after(1):
                await held.wait(4)  # given up: a wait for more is not harmed
            held.release(5)
            await trio.testing.wait_all_tasks_blocked()
            assert woken == [1, 3, 3, 5]
            held.release_all()
        assert woken == [1, 3, 3, 5, 9]

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


class Noted(DelayedOperation):
    """Notes the time of each attempt. Completes if `on_attempt` allows it, or when its time is
    up."""

    __slots__ = ("on_attempt", "tried")

    def __init__(
        self,
        purgatory: Purgatory,
        keys: list[str],
        deadline: float,
        on_attempt: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__(purgatory, keys, deadline)
        self.tried: list[tuple[float, bool]] = []
        self.on_attempt = on_attempt

    def attempt(self, *, expired: bool) -> bool:
        self.tried.append((trio.current_time(), expired))
        return self.on_attempt() or expired


def with_served(test: Callable[[Purgatory], Awaitable[None]]) -> None:
    """Run `test` beside `Purgatory.serve`."""

    async def main() -> None:
        purgatory = Purgatory()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(purgatory.serve)
            await trio.testing.wait_all_tasks_blocked()
            await test(purgatory)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_what_is_touched_within_is_tried_at_the_end_before_any_other_task() -> None:
    async def test(purgatory: Purgatory) -> None:
        both, other = Noted(purgatory, ["a", "b"], FAR_S), Noted(purgatory, ["c"], FAR_S)
        purgatory.delay(both)
        purgatory.delay(other)
        with purgatory:
            purgatory.touch("a")
            purgatory.touch("b")
            assert not both.tried
        assert (len(both.tried), both.is_over) == (1, True)
        assert (len(other.tried), purgatory.size) == (0, 1)
        purgatory.touch("a")
        await trio.testing.wait_all_tasks_blocked()
        assert len(both.tried) == 1, "it is over"

    with_served(test)


def test_a_task_tries_what_is_touched_elsewhere_and_what_is_too_much() -> None:
    async def test(purgatory: Purgatory) -> None:
        many = [Noted(purgatory, ["a"], FAR_S) for _ in range(3 * TRIED_AT_ONCE)]
        for each in many:
            purgatory.delay(each)
        with purgatory:
            purgatory.touch("a")
        assert [len(each.tried) for each in many[: TRIED_AT_ONCE + 1]] == [1] * TRIED_AT_ONCE + [0]
        await trio.testing.wait_all_tasks_blocked()
        assert all(each.is_over for each in many)
        late = Noted(purgatory, ["b"], FAR_S)
        purgatory.delay(late)
        purgatory.touch("b")
        assert not late.tried
        await trio.testing.wait_all_tasks_blocked()
        assert late.is_over

    with_served(test)


def test_what_is_touched_while_it_is_tried_is_tried_again() -> None:
    async def test(purgatory: Purgatory) -> None:
        def touch_once() -> bool:
            if len(operation.tried) == 1:
                purgatory.touch("a")
            return len(operation.tried) == 3

        operation = Noted(purgatory, ["a"], FAR_S, touch_once)
        purgatory.delay(operation)
        with purgatory:
            purgatory.touch("a")
        await trio.testing.wait_all_tasks_blocked()
        assert (len(operation.tried), operation.is_over) == (2, False)
        purgatory.touch("a")
        await trio.testing.wait_all_tasks_blocked()
        assert operation.is_over

    with_served(test)


def test_each_is_tried_when_its_time_is_up() -> None:
    async def test(purgatory: Purgatory) -> None:
        began, far, near = trio.current_time(), 30.0, 10.0
        slow = Noted(purgatory, ["a"], began + far, lambda: False)
        purgatory.delay(slow)
        await trio.sleep(1)
        quick = Noted(purgatory, ["a"], began + near, lambda: False)  # due before `serve` wakes
        purgatory.delay(quick)
        purgatory.touch("a")
        await trio.sleep(60)
        assert [(at - began, expired) for at, expired in quick.tried] == [(1, False), (near, True)]
        assert [(at - began, expired) for at, expired in slow.tried] == [(1, False), (far, True)]
        assert purgatory.size == 0

    with_served(test)


def test_what_has_ended_leaves_nothing_behind() -> None:
    async def test(purgatory: Purgatory) -> None:
        left = Noted(purgatory, ["a"], trio.current_time() + 5)
        purgatory.delay(left)
        for _ in range(10 * SPARE_DEADLINES):
            operation = Noted(purgatory, ["a"], FAR_S)
            purgatory.delay(operation)
            purgatory.touch("a")
            purgatory.end(operation)
            purgatory.end(operation)  # a second time does nothing
            assert not operation.tried
        assert len(purgatory._deadlines) <= SPARE_DEADLINES + 2
        await trio.testing.wait_all_tasks_blocked()
        assert left.is_over
        assert (purgatory.size, len(purgatory._touched)) == (0, 0)

    with_served(test)


def test_what_is_touched_within_comes_before_what_waits_to_be_tried() -> None:
    async def test(purgatory: Purgatory) -> None:
        for _ in range(500):
            purgatory.delay(Noted(purgatory, ["busy"], FAR_S, lambda: False))
        follower = Noted(purgatory, ["a", "busy"], FAR_S)
        purgatory.delay(follower)
        purgatory.touch("busy")
        with purgatory:
            purgatory.touch("a")
        assert follower.is_over
        await trio.testing.wait_all_tasks_blocked()
        assert len(follower.tried) == 1

    with_served(test)


def test_time_runs_out_also_while_others_are_touched_without_end() -> None:
    async def test(purgatory: Purgatory) -> None:
        began = trio.current_time()
        for _ in range(3 * TRIED_A_ROUND):
            purgatory.delay(Noted(purgatory, ["busy"], FAR_S, lambda: False))
        touched = Noted(purgatory, ["busy"], began + 5, lambda: False)
        idle = [Noted(purgatory, ["idle"], began + 5) for _ in range(TRIED_A_ROUND)]
        for each in (touched, *idle):
            purgatory.delay(each)
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, trio.testing.MockClock)
        for turn in range(20):
            if turn == 3:
                clock.jump(6)
            purgatory.touch("busy")
            await trio.lowlevel.checkpoint()
        assert touched.is_over
        assert all(each.is_over for each in idle)
        assert touched.keys == ()

    with_served(test)


def test_what_is_touched_again_and_again_waits_to_be_tried_once() -> None:
    async def test(purgatory: Purgatory) -> None:
        for _ in range(10):
            purgatory.delay(Noted(purgatory, ["busy"], FAR_S, lambda: False))
        for _ in range(50):
            with purgatory:
                purgatory.touch("busy")
        assert len(purgatory._touched) <= 10

    with_served(test)
