"""Long work in turns, so that its caller may let others have the loop in between.

Such work is a generator that pauses after some elements, and returns what it comes to:

    def answer(request) -> Turns[FooResponse]:
        response, pace = FooResponse(), Pace()
        for wish in request.topics:
            response.topics.append(...)
            if pace.due():
                yield
        return response

It knows nothing of a loop: `at_once` runs it to its end, core/broker/pauses.py with a checkpoint at
each pause. What the work looks at may change while it pauses, unless the caller keeps everything
else away.
"""

from collections.abc import Generator, Hashable, Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import Any, Final, TypeAlias, TypeVar

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)

Turns: TypeAlias = Generator[None, None, T]
"""Work that pauses, and what it comes to."""

AT_ONCE: Final = 256
"""Elements between two pauses: a millisecond or two."""


COMMAND: Final = 4
"""A command to a coordinator takes as long as so many elements."""

SORTED_AT_ONCE: Final = 4096
"""Strings that are sorted between two pauses."""

FREED_AT_ONCE: Final = 4096
"""Objects that are freed between two pauses."""


class Pace:
    """Counts elements, and says when to pause."""

    __slots__ = ("_at_once", "_left")

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._at_once = self._left = at_once

    def due(self, elements: int = 1) -> bool:
        """Count so many more; whether as many as fit between two pauses have been counted since the
        last one."""
        self._left -= elements
        if self._left > 0:
            return False
        self._left = self._at_once
        return True


def once(items: Iterable[H]) -> Iterator[H]:
    """Each of `items` the first time that it comes. Of 200,000, `dict.fromkeys` takes 50 ms before
    the first."""
    seen: set[H] = set()
    for item in items:
        if item not in seen:
            seen.add(item)
            yield item


def counted(items: Iterable[H]) -> Turns[dict[H, int]]:
    """How often each of `items` comes, in the order of their first time."""
    counts: dict[H, int] = {}
    pace = Pace(FREED_AT_ONCE)
    for item in items:
        counts[item] = counts.get(item, 0) + 1
        if pace.due():
            yield
    return counts


def all_true(answers: Iterable[object]) -> Turns[bool]:
    """Whether each of `answers` is true, as `all`; they are asked until one is not."""
    pace = Pace()
    for answer in answers:
        if not answer:
            return False
        if pace.due():
            yield
    return True


def in_order(items: Iterable[str]) -> Turns[list[str]]:
    """`items` sorted. Many are sorted in runs, which are merged then: of 200,000, `sorted` takes 70
    ms, and holds up every thread meanwhile."""
    runs: list[list[str]] = []
    rest = iter(items)
    while run := sorted(islice(rest, SORTED_AT_ONCE)):
        runs.append(run)
        if len(run) == SORTED_AT_ONCE:
            yield
    if len(runs) == 1:
        return runs[0]
    merged: list[str] = []
    pace = Pace()
    for item in merge(*runs):
        merged.append(item)
        if pace.due():
            yield
    return merged


def joined(lists: list[list[T]]) -> Turns[list[T]]:
    """The elements of `lists`, which are emptied: freeing thousands of them at the end would take
    its time too."""
    elements: list[T] = []
    pace = Pace()
    lists.reverse()
    while lists:
        elements += lists.pop()
        if pace.due():
            yield
    return elements


def cleared(elements: dict[Any, Any] | set[Any]) -> Turns[None]:
    """Empty a dict or a set, as `emptied` a list. Its keys are freed too, which one tends to
    forget: tuples mostly, or the names of a request whose client has gone meanwhile."""
    pop = elements.popitem if isinstance(elements, dict) else elements.pop
    while elements:
        for _ in range(min(len(elements), FREED_AT_ONCE)):
            pop()
        if elements:
            yield


def emptied(elements: list[Any]) -> Turns[None]:
    """Empty a list: those of its elements without other references are freed, which takes as long
    as making them."""
    while elements:
        del elements[-FREED_AT_ONCE:]
        if elements:
            yield


def at_once(work: Turns[T]) -> T:
    """What `work` comes to, without a pause."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            return done.value
