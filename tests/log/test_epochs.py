"""Leader epochs: against a list that knows the epoch of every offset, and Kafka's text."""

from itertools import pairwise

import pytest
from each import for_each
from hypothesis import given
from hypothesis import strategies as st

from pk.core.log.epochs import EpochEnd, EpochStart, LeaderEpochs

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("lead"), st.integers(1, 3)),
        st.tuples(st.just("append"), st.integers(1, 5)),
        st.tuples(st.just("cut"), st.integers(0, 30)),
        st.tuples(st.just("trim"), st.integers(0, 10)),
    ),
    max_size=40,
)


@given(STEPS)
def test_epochs_agree_with_a_list(steps: list[tuple[str, int]]) -> None:
    epochs, by_offset, start, current = LeaderEpochs(), [], 0, -1
    for what, number in steps:
        if what == "lead":
            current += number
            epochs.assign(current, len(by_offset))
        elif what == "append" and current >= 0:
            by_offset += [current] * number
        elif what == "cut":
            end = max(len(by_offset) - number, start)
            if end < len(by_offset):
                del by_offset[end:]
                epochs.truncate_end(end)
        elif what == "trim":
            start = min(start + number, len(by_offset))
            epochs.truncate_start(start)
        if what == "cut" and current >= 0:
            current += 1
            epochs.assign(current, len(by_offset))
    for offset in range(start, len(by_offset)):
        assert epochs.epoch_of(offset) == by_offset[offset]
    present = sorted(set(by_offset[start:]))
    for epoch in present:
        last = max(i for i, e in enumerate(by_offset) if e == epoch)
        assert epochs.end_offset(epoch, len(by_offset)) == (epoch, last + 1)
    entries = epochs.entries
    assert all(a.epoch < b.epoch and a.start_offset < b.start_offset for a, b in pairwise(entries))
    assert all(e.start_offset >= start for e in entries), "an epoch is wholly gone"
    assert LeaderEpochs.parse(epochs.format()).entries == entries


@for_each(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (-2, (-2, 10)),  # Kafka looks for it as for any other
        (0, (0, 10)),  # before all known epochs: ends at the start of the first
        (1, (1, 10)),
        (2, (2, 25)),
        (3, (2, 25)),  # never was here: the largest below it
        (4, (2, 25)),
        (5, (5, 30)),
        (6, (6, 100)),
        (7, (-1, -1)),  # from the future
    ],
)
def test_end_offset_for_epoch(asked: int, answer: tuple[int, int]) -> None:
    epochs = LeaderEpochs([EpochStart(2, 10), EpochStart(5, 25), EpochStart(6, 30)])
    assert epochs.end_offset(asked, 100) == EpochEnd(*answer)


@pytest.mark.parametrize(
    ("start", "left"),
    [
        (0, [(0, 0), (3, 100), (4, 200)]),
        (99, [(0, 99), (3, 100), (4, 200)]),
        (100, [(3, 100), (4, 200)]),
        (101, [(3, 101), (4, 200)]),
        (200, [(4, 200)]),
        (300, [(4, 300)]),
    ],
)
def test_what_is_left_of_epochs_behind_a_new_start(start: int, left: list[EpochStart]) -> None:
    epochs = LeaderEpochs([EpochStart(0, 0), EpochStart(3, 100), EpochStart(4, 200)])
    epochs.truncate_start(start)
    assert epochs.entries == left
    assert epochs.dirty == (start > 0)


def test_an_unclean_leaders_entries_make_room() -> None:
    epochs = LeaderEpochs([EpochStart(1, 0), EpochStart(2, 50), EpochStart(4, 90)])
    epochs.assign(3, 50)
    assert epochs.entries == [(1, 0), (3, 50)]
    assert epochs.dirty


def test_kafkas_text() -> None:
    text = b"0\n2\n0 0\n4 118\n"
    epochs = LeaderEpochs.parse(text)
    assert epochs.entries == [(0, 0), (4, 118)]
    assert epochs.format() == text
    assert LeaderEpochs().format() == b"0\n0\n"


@pytest.mark.parametrize(
    "text",
    [b"", b"1\n0\n", b"0\n2\n0 0\n", b"0\n1\n0 0\n1 1\n", b"0\n2\n3 5\n2 9\n", b"0\n1\nx y\n"],
)
def test_other_text_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError):
        LeaderEpochs.parse(text)
