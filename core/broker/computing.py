"""Long computations in a thread, at a pace that leaves the loop its time.

A thread that computes and the loop share one interpreter. The loop gives it away with each system
call, some five for each small request that it answers, and has it back when the thread's turn is
over (net/interpreter_switches.py). With a thousand clients that poll, this alone keeps the loop
busy: their requests queue up, and another client waits for a tenth of a second. Shorter turns make
it worse, since each hand-over takes time.

So such a thread works for two milliseconds, and then sleeps for one, in which nobody takes
anything from the loop. The computation knows nothing of it: the interpreter calls a profile
function at each call that this thread makes, and that function sleeps when it is time. Where the
rest of the process hardly did anything meanwhile, the next turn is longer.
"""

import sys
from collections.abc import Callable
from time import perf_counter, process_time, sleep
from types import FrameType
from typing import Any, Final, TypeVar, TypeVarTuple

from pk.core.broker.offload import is_inline, offload

T = TypeVar("T")
Args = TypeVarTuple("Args")

TURN_S: Final = 0.002
TURN_ALONE_S: Final = 0.01
"""Where the others did nothing."""
REST_S: Final = 0.001
BUSY_S: Final = 0.2 * REST_S
"""The others are busy when they take more of the processor's time during a rest."""


async def compute(fn: Callable[[*Args], T], *args: *Args, directory: str = "") -> T:
    """As `offload`, for what computes for long: at a pace that leaves the loop its time."""
    if is_inline():
        return await offload(fn, *args)
    return await offload(paced, fn, *args, directory=directory)


def paced(fn: Callable[[*Args], T], *args: *Args) -> T:
    """What `fn` comes to, computed in this thread in turns."""
    turn_ends = perf_counter() + TURN_S

    def rest_if_due(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal turn_ends
        if perf_counter() < turn_ends:
            return
        used_before = process_time()
        sleep(REST_S)
        busy = process_time() - used_before > BUSY_S
        turn_ends = perf_counter() + (TURN_S if busy else TURN_ALONE_S)

    before = sys.getprofile()
    sys.setprofile(rest_if_due)
    try:
        return fn(*args)
    finally:
        sys.setprofile(before)
