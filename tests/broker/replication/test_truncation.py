"""The offset at which two logs diverge, found by epochs alone, compared with logs that know every
record's history."""

import os.path

from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from pk.core.broker.replication.truncation import Truncation, truncation_for
from pk.core.log.epochs import EpochStart, LeaderEpochs

Record = tuple[int, int]
"""(epoch, a number that no other record has)."""

STEPS = st.lists(
    st.tuples(st.sampled_from(["lead", "write", "copy"]), st.integers(0, 2), st.integers(0, 4)),
    max_size=60,
)


def epochs_of(log: list[Record], began: dict[int, int]) -> LeaderEpochs:
    """The epochs of a log; those that its owner began as a leader and wrote nothing in, too."""
    found = LeaderEpochs()
    starts: dict[int, int] = {}
    for offset, (epoch, _) in enumerate(log):
        starts.setdefault(epoch, offset)
    for epoch, start in sorted({**began, **starts}.items(), key=lambda item: item[::-1]):
        if start <= len(log):
            found.assign(epoch, start)
    return found


def align(leader: LeaderEpochs, leader_end: int, own: LeaderEpochs, end: int) -> int:
    """The exchange between a follower and its leader until they agree. Returns the end of the
    follower's log."""
    for _ in range(100):
        asked = own.latest
        if asked < 0:
            return end
        epoch, epoch_end = leader.end_offset(asked, leader_end)
        if epoch == asked and epoch_end >= end:
            return end
        cut = truncation_for(own, end, epoch, epoch_end)
        assert cut is not None
        end = min(cut.offset, end)
        own.truncate_end(end)
    raise AssertionError("they never agree")


@settings(max_examples=examples(400))
@given(STEPS)
def test_the_longest_common_beginning_is_kept(steps: list[tuple[str, int, int]]) -> None:
    logs: list[list[Record]] = [[], [], []]
    began: list[dict[int, int]] = [{}, {}, {}]
    epoch, leader, number = 0, 0, 0
    began[0][0] = 0
    for what, who, count in steps:
        if what == "lead":
            epoch, leader = epoch + 1, who
            began[who][epoch] = len(logs[who])
        elif what == "write":
            logs[leader] += [(epoch, number + i) for i in range(count)]
            number += count
        elif who != leader:
            ours, own = logs[leader], logs[who]
            common = len(os.path.commonprefix([ours, own]))
            end = align(
                epochs_of(ours, began[leader]), len(ours), epochs_of(own, began[who]), len(own)
            )
            assert end == common
            logs[who] = ours[: common + count]
            began[who] = {e: s for e, s in began[who].items() if s < common}


def epochs(*starts: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs([EpochStart(*start) for start in starts])


def test_the_epoch_that_both_know_ends_where_it_ends_sooner() -> None:
    own = epochs((1, 0), (3, 10))
    assert truncation_for(own, 20, 3, 15) == Truncation(15, True)
    assert truncation_for(own, 20, 1, 5) == Truncation(5, True)
    assert truncation_for(own, 20, 1, 12) == Truncation(10, True)


def test_an_epoch_that_only_the_leader_knows_is_asked_about_again() -> None:
    own = epochs((1, 0), (3, 10))
    assert truncation_for(own, 20, 2, 17) == Truncation(10, False)


def test_a_leader_that_knows_nothing() -> None:
    own = epochs((5, 0))
    assert truncation_for(own, 20, -1, -1) is None
    assert truncation_for(own, 20, -1, 7) == Truncation(7, True)
    assert truncation_for(own, 20, 3, 7) == Truncation(0, True), (
        "all that is here is of a later epoch"
    )
