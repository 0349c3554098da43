"""Long computations in threads: their results and errors are the function's own, and the thread is
as it was afterwards."""

import sys
import threading
from time import perf_counter

import pytest
from nodes import trio_test

from pk.core.broker import computing
from pk.core.broker.computing import compute
from pk.core.broker.offload import inline, offload


def tree(depth: int) -> int:
    return 1 if depth == 0 else tree(depth - 1) + tree(depth - 1)


@trio_test
async def test_the_result_is_the_functions() -> None:
    assert await compute(tree, 15) == 1 << 15


@trio_test
async def test_its_error_is_too_and_the_thread_is_as_it_was() -> None:
    def fail() -> None:
        tree(12)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await compute(fail)
    assert await offload(sys.getprofile) is None
    assert sys.getprofile() is None


@trio_test
async def test_another_profiler_of_the_thread_goes_on() -> None:
    seen = list[str]()

    def profile(frame: object, event: str, arg: object) -> None:
        seen.append(event)

    def within() -> object:
        sys.setprofile(profile)
        try:
            computing.paced(tree, 2)
            return sys.getprofile()
        finally:
            sys.setprofile(None)

    assert await offload(within) is profile


@trio_test
async def test_under_the_simulator_it_runs_where_it_stands() -> None:
    with inline():
        assert await compute(threading.get_ident) == threading.get_ident()
    assert await compute(threading.get_ident) != threading.get_ident()


@trio_test
async def test_it_rests_after_each_turn_and_a_short_one_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rests = list[float]()
    monkeypatch.setattr(computing, "sleep", rests.append)
    monkeypatch.setattr(computing, "TURN_ALONE_S", computing.TURN_S)

    def long() -> None:
        ends = perf_counter() + 20 * computing.TURN_S
        while perf_counter() < ends:
            tree(1)

    await compute(long)
    assert 5 < len(rests) <= 20 and set(rests) == {computing.REST_S}
    rests.clear()
    await compute(tree, 1)
    assert not rests
