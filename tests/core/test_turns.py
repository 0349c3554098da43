"""Long work in turns: each element once, in order, and what is freed."""

from collections.abc import Iterator
from random import Random

import pytest

from pk.core.turns import (
    AT_ONCE,
    FREED_AT_ONCE,
    SORTED_AT_ONCE,
    at_once,
    cleared,
    in_order,
    once,
)


def test_each_comes_once_in_the_order_of_its_first_time() -> None:
    assert list(once(["b", "a", "b", "c", "a"])) == ["b", "a", "c"]


def test_no_more_is_taken_than_is_given() -> None:
    taken: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(10 * AT_ONCE):
            taken.append(number)
            yield number

    given = once(numbers())
    first = [next(given) for _ in range(AT_ONCE)]
    assert taken == first


@pytest.mark.parametrize("kind", [dict, set])
def test_a_dict_or_a_set_is_emptied_in_turns(kind: type[dict[int, None]] | type[set[int]]) -> None:
    numbers = range(3 * FREED_AT_ONCE)
    elements = dict.fromkeys(numbers) if kind is dict else set(numbers)
    left = [len(elements) for _ in cleared(elements)]
    assert left == [2 * FREED_AT_ONCE, FREED_AT_ONCE]
    assert not elements


@pytest.mark.parametrize(
    "count", [0, 1, SORTED_AT_ONCE - 1, SORTED_AT_ONCE, 3 * SORTED_AT_ONCE + 1]
)
def test_names_are_sorted_in_turns(count: int) -> None:
    names = [f"topic-{i % (count - count // 8)}" for i in range(count)]  # some are there twice
    Random(1).shuffle(names)
    assert at_once(in_order(names)) == sorted(names)


def test_no_turn_sorts_more_than_a_run() -> None:
    taken: list[int] = []

    def names() -> Iterator[str]:
        for number in range(3 * SORTED_AT_ONCE):
            taken.append(number)
            yield str(number)

    turns = in_order(names())
    next(turns)
    assert len(taken) == SORTED_AT_ONCE
    pauses = sum(1 for _ in turns)
    assert pauses >= 3 * SORTED_AT_ONCE // AT_ONCE
