"""Waiting by key: who is woken, who times out, and that nothing is left behind."""

import trio
import trio.testing

from pk.core.broker.purgatory import Held, Purgatory


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
        assert purgatory.waiting == 0

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_cancelled_waiter_leaves_nothing_behind() -> None:
    async def main() -> None:
        purgatory = Purgatory()
        with trio.move_on_after(1):
            await purgatory.until(lambda: False, ["a"], trio.current_time() + 30)
        assert purgatory.waiting == 0

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_what_is_ready_does_not_wait() -> None:
    async def main() -> None:
        purgatory = Purgatory()
        assert await purgatory.until(lambda: True, ["a"], trio.current_time())

    trio.run(main)


def test_who_waits_for_a_number_is_woken_when_it_is_reached_and_no_sooner() -> None:
    async def main() -> None:
        held, woken = Held(), []

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


def test_a_touch_between_the_look_and_the_wait_is_not_missed() -> None:
    async def main() -> None:
        purgatory, looks = Purgatory(), 0

        def ready() -> bool:
            nonlocal looks
            looks += 1
            return True

        touched = purgatory.watch(["a", "b"])
        purgatory.touch("b")
        far = trio.current_time() + 30
        assert await purgatory.until(ready, ["a", "b"], far, touched=touched)
        assert (looks, purgatory.waiting, trio.current_time() < far) == (1, 0, True)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_who_watches_does_not_look_before_it_is_touched() -> None:
    async def main() -> None:
        purgatory = Purgatory()
        looks: list[float] = []

        def ready() -> bool:
            looks.append(trio.current_time())
            return False

        started = trio.current_time()
        touched = purgatory.watch(["a"])
        assert not await purgatory.until(ready, ["a"], started + 30, touched=touched)
        assert looks == [started + 30]  # the last look, when the time is up
        with trio.move_on_after(1):
            await purgatory.until(ready, ["a"], started + 99, touched=purgatory.watch(["a"]))
        assert purgatory.waiting == 0

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
