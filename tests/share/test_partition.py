"""Deliveries of a share partition: which records, to which member, how often, and what the next
leader knows."""

from __future__ import annotations

from random import Random

import pytest
from effort import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pk.core.errors import ErrorCode, KafkaError, ProtocolError
from pk.core.share.batches import StateBatch, combine
from pk.core.share.partition_state import (
    Acknowledgement,
    AcknowledgeType,
    Acquired,
    AcquireMode,
    FetchedBatches,
    OffsetRange,
    ShareFetchParams,
    SharePartitionSettings,
    SharePartitionState,
    StateWrite,
)

E = ErrorCode
ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
GAP, RENEW = AcknowledgeType.GAP, AcknowledgeType.RENEW
BATCHES, RECORDS = AcquireMode.BATCH_OPTIMIZED, AcquireMode.RECORD_LIMIT
LOCK_MS = 30_000


def partition(start_offset: int = 0, **keys: int | bool) -> SharePartitionState:
    """A group that begins at `start_offset`."""
    return SharePartitionState(SharePartitionSettings(**keys), 0, start_offset)  # pyright: ignore[reportArgumentType]


def acquire(
    p: SharePartitionState,
    *batches: tuple[int, int],
    member: str = "a",
    mode: AcquireMode = BATCHES,
    most: int = 500,
    batch_size: int = 500,
    fetch_offset: int | None = None,
    aborted: tuple[tuple[int, int], ...] = (),
    now_ms: int = 0,
) -> list[tuple[int, int, int]]:
    """Acquire records by a fetch that finds `batches`. Returns what was acquired."""
    fetched = FetchedBatches(
        p.next_fetch_offset if fetch_offset is None else fetch_offset,
        [OffsetRange(*one) for one in batches],
        [OffsetRange(*one) for one in aborted],
    )
    found = p.acquire(ShareFetchParams(member, mode, batch_size), fetched, most, now_ms)
    return [(one.first_offset, one.last_offset, one.delivery_count) for one in found]


def say(
    p: SharePartitionState,
    first: int,
    last: int,
    *types: AcknowledgeType,
    member: str = "a",
    now_ms: int = 0,
) -> StateWrite | None:
    """Acknowledge, and store it."""
    write = p.acknowledge(member, [Acknowledgement(first, last, types)], now_ms)
    if write is not None:
        p.written(write.write_id, stored=True)
    return write


def refused(
    p: SharePartitionState, first: int, last: int, *types: int, member: str = "a"
) -> ErrorCode:
    """The error of an acknowledgement that is refused. Checks that it changes nothing."""
    before = p.states()
    with pytest.raises(KafkaError) as e:
        p.acknowledge(member, [Acknowledgement(first, last, types)], 0)
    assert p.states() == before
    return ErrorCode(e.value.code)


# --- acquire ---


def test_each_record_goes_to_one_member() -> None:
    p = partition()
    assert acquire(p, (0, 9)) == [(0, 9, 1)]
    assert p.next_fetch_offset == 10
    assert acquire(p, (0, 9), member="b", fetch_offset=0) == []
    assert acquire(p, (10, 14), member="b") == [(10, 14, 1)]


@pytest.mark.parametrize(("mode", "last"), [(BATCHES, 9), (RECORDS, 6)])
def test_the_limit_takes_whole_batches_or_is_strict(mode: AcquireMode, last: int) -> None:
    p = partition()
    assert acquire(p, (0, 4), (5, 9), (10, 14), most=7, mode=mode) == [(0, last, 1)]
    assert p.next_fetch_offset == last + 1


def test_a_strict_limit_holds_for_records_that_are_delivered_again() -> None:
    p = partition()
    acquire(p, (0, 9))
    say(p, 0, 9, RELEASE)
    assert acquire(p, (0, 9), (10, 14), most=4, mode=RECORDS) == [(0, 3, 2)]
    assert acquire(p, (0, 9), (10, 14), most=8, mode=RECORDS, member="b") == [
        (4, 9, 2),
        (10, 11, 1),
    ]


def test_new_records_come_in_entries_of_whole_batches() -> None:
    p = partition()
    batches = [(n, n + 4) for n in range(0, 30, 5)]
    assert acquire(p, *batches, batch_size=8) == [(0, 9, 1), (10, 19, 1), (20, 29, 1)]


def test_a_fetch_in_the_middle_of_a_batch_begins_at_the_start_offset() -> None:
    assert acquire(partition(7), (0, 9)) == [(7, 9, 1)]
    assert acquire(partition(7), (0, 6)) == []


def test_the_window_has_a_size() -> None:
    p = partition(record_locks_max=10)
    assert acquire(p, (0, 4), (5, 9)) == [(0, 9, 1)]
    assert not p.can_acquire
    assert acquire(p, (10, 14)) == []
    say(p, 5, 6, RELEASE)
    assert p.can_acquire and p.next_fetch_offset == 5
    assert acquire(p, (5, 9), (10, 14), member="b") == [(5, 6, 2)]
    say(p, 0, 4, ACCEPT)
    assert p.can_acquire
    assert acquire(p, (10, 14), (15, 19), mode=RECORDS) == [(10, 14, 1)]


def test_offsets_that_the_log_does_not_have_do_not_hold_up_the_window() -> None:
    p = partition()
    acquire(p, (0, 9))
    say(p, 0, 9, RELEASE)
    assert acquire(p, (6, 9)) == [(6, 9, 2)]
    assert p.start_offset == 6
    assert acquire(p, (20, 24)) == [(20, 24, 1)]
    say(p, 6, 9, ACCEPT)
    assert p.start_offset == 20


def test_records_of_aborted_transactions_are_not_delivered() -> None:
    p = partition()
    assert acquire(p, (0, 4), (5, 9), (10, 14), aborted=((3, 4), (10, 14))) == [
        (0, 2, 1),
        (5, 9, 1),
    ]
    say(p, 0, 2, ACCEPT)
    say(p, 5, 9, ACCEPT)
    assert p.start_offset == 15


# --- acknowledge ---


def test_accepted_and_rejected_records_are_done_with() -> None:
    p = partition()
    acquire(p, (0, 9))
    write = say(p, 0, 9, *[ACCEPT] * 4, *[REJECT] * 2, *[RELEASE] * 3, GAP)
    assert write is not None
    assert write.batches == (
        StateBatch(0, 3, 2, 1),
        StateBatch(4, 5, 4, 1),
        StateBatch(6, 8, 0, 1),
        StateBatch(9, 9, 4, 1),
    )
    assert write.start_offset == 0 and write.delivery_complete_count == 7
    assert p.start_offset == 6 and p.delivery_complete_count == 1
    assert acquire(p, (0, 9), member="b") == [(6, 8, 2)]


def test_what_is_refused_changes_nothing() -> None:
    p = partition()
    assert refused(p, 0, 0, ACCEPT) == E.INVALID_RECORD_STATE
    acquire(p, (0, 9))
    acquire(p, (10, 19), member="b")
    assert refused(p, 5, 12, ACCEPT) == E.INVALID_RECORD_STATE
    assert refused(p, 10, 10, ACCEPT) == E.INVALID_RECORD_STATE
    assert refused(p, 15, 20, ACCEPT, member="b") == E.INVALID_REQUEST
    assert refused(p, 20, 20, ACCEPT) == E.INVALID_REQUEST
    for types in ((), (9,), (-1,), (ACCEPT, ACCEPT)):
        assert refused(p, 0, 4, *types) == E.INVALID_REQUEST
    assert refused(p, 4, 3, ACCEPT) == E.INVALID_REQUEST
    overlapping = [Acknowledgement(0, 4, (ACCEPT,)), Acknowledgement(4, 5, (ACCEPT,))]
    with pytest.raises(KafkaError):
        p.acknowledge("a", overlapping, 0)
    say(p, 5, 5, ACCEPT)
    assert refused(p, 5, 5, ACCEPT) == E.INVALID_RECORD_STATE


def test_what_is_being_stored_has_no_owner() -> None:
    p = partition()
    acquire(p, (0, 9))
    write = p.acknowledge("a", [Acknowledgement(0, 9, (RELEASE,))], 0)
    assert write is not None
    assert refused(p, 0, 9, ACCEPT) == E.INVALID_RECORD_STATE
    assert p.next_fetch_offset == 10
    assert p.expire(LOCK_MS) is None
    p.written(write.write_id, stored=False)
    assert say(p, 0, 4, ACCEPT, now_ms=LOCK_MS) is not None
    assert p.expire(LOCK_MS) is not None
    assert p.next_fetch_offset == 5


def test_late_words_about_records_before_the_window_are_skipped() -> None:
    p = partition()
    acquire(p, (0, 9))
    p.log_start_moved(5)
    write = say(p, 0, 9, ACCEPT)
    assert write is not None and write.batches == (StateBatch(5, 9, 2, 1),)
    assert p.start_offset == 10
    assert say(p, 0, 9, ACCEPT) is None


# --- locks ---


def test_a_lock_runs_out_and_the_record_goes_to_another() -> None:
    p = partition()
    acquire(p, (0, 4), now_ms=5)
    assert p.next_expiry_ms == 5 + LOCK_MS
    assert p.expire(4 + LOCK_MS) is None
    write = p.expire(5 + LOCK_MS)
    assert write is not None and write.batches == (StateBatch(0, 4, 0, 1),)
    assert p.next_expiry_ms is None
    assert refused(p, 0, 4, ACCEPT) == E.INVALID_RECORD_STATE
    assert acquire(p, (0, 4), member="b", now_ms=LOCK_MS) == [(0, 4, 2)]


def test_a_renewed_lock_begins_again() -> None:
    p = partition()
    acquire(p, (0, 4))
    assert say(p, 1, 2, RENEW, now_ms=100) is None
    p.expire(LOCK_MS)
    assert p.next_expiry_ms == LOCK_MS + 100
    assert [one.delivery_state for one in p.states()] == [0, 1, 0]
    assert say(p, 1, 2, ACCEPT) is not None


def test_a_group_may_forbid_renewal() -> None:
    p = partition(renewal=False)
    acquire(p, (0, 4))
    assert refused(p, 0, 4, RENEW) == E.INVALID_RECORD_STATE


def test_renewing_again_and_again_keeps_no_trace() -> None:
    p = partition()
    acquire(p, (0, 4))
    for now_ms in range(1000):
        say(p, 0, 4, RENEW, now_ms=now_ms)
    assert len(p._locks) < 100  # pyright: ignore[reportPrivateUsage]
    assert p.next_expiry_ms == LOCK_MS + 999


def test_who_leaves_releases_what_it_holds() -> None:
    p = partition()
    acquire(p, (0, 4))
    acquire(p, (5, 9), member="b")
    write = p.release("a")
    assert write is not None and write.batches == (StateBatch(0, 4, 0, 1),)
    p.written(write.write_id, stored=True)
    assert p.next_fetch_offset == 0
    assert p.release("a") is None


# --- delivery counts ---


def test_after_the_last_delivery_a_record_is_archived() -> None:
    p = partition(delivery_count_limit=2)
    for count in (1, 2):
        assert acquire(p, (0, 4)) == [(0, 4, count)]
        say(p, 0, 4, RELEASE)
    assert p.start_offset == 5 and acquire(p, (0, 4)) == []


def test_records_that_fail_again_and_again_are_isolated() -> None:
    p = partition(delivery_count_limit=6)
    sizes: list[int] = []
    for _ in range(5):
        [(first, last, _count), *_more] = acquire(p, (0, 7), mode=RECORDS)
        sizes.append(last - first + 1)
        say(p, first, last, RELEASE)
    assert sizes == [8, 8, 8, 4, 1]
    assert acquire(p, (0, 7), mode=RECORDS) == [(0, 0, 6)]
    assert acquire(p, (0, 7), (8, 9), mode=RECORDS) == [(1, 1, 5)]


def test_a_lower_limit_counts_at_once() -> None:
    p = partition()
    for _ in range(2):
        acquire(p, (0, 4))
        say(p, 0, 4, RELEASE)
    p.settings = SharePartitionSettings(delivery_count_limit=2)
    assert acquire(p, (0, 4), (5, 9)) == [(5, 9, 1)]
    assert p.start_offset == 5


# --- loading ---


def test_what_was_stored_comes_back() -> None:
    stored = [StateBatch(10, 14, 2, 1), StateBatch(17, 18, 0, 3), StateBatch(20, 21, 4, 5)]
    p = SharePartitionState(SharePartitionSettings(), 4, 10, stored)
    assert p.start_offset == 15 and p.next_offset == 22
    assert p.delivery_complete_count == 2
    assert acquire(p, (15, 24), most=2, mode=RECORDS) == [(15, 16, 1)]
    assert acquire(p, (15, 24), mode=RECORDS) == [(17, 17, 4)]


@pytest.mark.parametrize("state", [1, 3, 9])
def test_a_state_that_is_never_stored_is_refused(state: int) -> None:
    with pytest.raises(ProtocolError):
        SharePartitionState(SharePartitionSettings(), 0, 0, [StateBatch(0, 1, state, 1)])


def test_the_log_start_takes_records_with_it() -> None:
    p = partition()
    acquire(p, (0, 9))
    write = p.acknowledge("a", [Acknowledgement(0, 5, (ACCEPT,))], 0)
    assert write is not None
    p.log_start_moved(3)
    p.written(write.write_id, stored=True)
    assert p.start_offset == 6
    p.log_start_moved(2)
    assert p.start_offset == 6
    p.log_start_moved(50)
    assert (p.start_offset, p.next_fetch_offset, p.delivery_complete_count) == (50, 50, 0)
    assert acquire(p, (50, 59)) == [(50, 59, 1)]


# --- histories ---

MEMBERS = ("a", "b", "c")
LIMIT = 4
BATCH = 3


class History(RuleBasedStateMachine):
    """Members that acquire, acknowledge, die; writes that fail; leaders that die: against what each
    record is owed."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.settings = SharePartitionSettings(LIMIT, record_locks_max=24)
        self.p = SharePartitionState(self.settings, 0, 0)
        self.log_start, self.log_end = 0, 10 * BATCH
        self.held: dict[int, tuple[str, int]] = {}
        """Offset → (member, until when it holds the lock for sure)."""
        self.count: dict[int, int] = {}
        """Deliveries, as far as the present leader knows."""
        self.over: dict[int, AcknowledgeType] = {}
        """Accepted or rejected, and stored."""
        self.writes: list[tuple[StateWrite, dict[int, AcknowledgeType]]] = []
        self.until: dict[int, tuple[str, int]] = {}
        """The member that held a record whose state is being stored, and until when."""
        self.pending: set[int] = set()
        self.stored_start = 0
        self.stored: list[StateBatch] = []

    # what happens

    @rule(batches=st.integers(1, 5))
    def produce(self, batches: int) -> None:
        self.log_end += batches * BATCH

    @rule(
        member=st.sampled_from(MEMBERS),
        mode=st.sampled_from(AcquireMode),
        most=st.integers(1, 12),
        batches=st.integers(1, 4),
    )
    def acquire(self, member: str, mode: AcquireMode, most: int, batches: int) -> None:
        for first, last, count in self.fetch(member, mode, most, batches):
            for offset in range(first, last + 1):
                assert self.log_start <= offset < self.log_end
                assert offset not in self.held, "delivered while locked"
                assert offset not in self.pending, "delivered while it is being stored"
                assert offset not in self.over, "delivered after it was acknowledged"
                assert count == self.count.get(offset, 0) + 1 <= LIMIT
                self.count[offset] = count
                self.held[offset] = (member, self.now_ms + LOCK_MS)

    def fetch(self, member: str, mode: AcquireMode, most: int, batches: int) -> list[Acquired]:
        fetch_offset = max(self.p.next_fetch_offset, self.log_start)
        begin = fetch_offset // BATCH * BATCH
        end = min(begin + batches * BATCH, self.log_end)
        found = [OffsetRange(n, n + BATCH - 1) for n in range(begin, end, BATCH)]
        fetched = FetchedBatches(fetch_offset, found)
        taken = self.p.acquire(ShareFetchParams(member, mode, 4), fetched, most, self.now_ms)
        if mode is RECORDS:
            assert sum(one.last_offset - one.first_offset + 1 for one in taken) <= most
        return taken

    @rule(
        member=st.sampled_from(MEMBERS),
        first=st.integers(0, 40),
        size=st.integers(1, 6),
        kind=st.sampled_from(AcknowledgeType),
    )
    def acknowledge(self, member: str, first: int, size: int, kind: AcknowledgeType) -> None:
        self.acknowledge_as(member, self.p.start_offset + first, size, kind)

    def acknowledge_as(self, member: str, first: int, size: int, kind: AcknowledgeType) -> None:
        offsets = range(first, first + size)
        mine = all(self.held.get(n, ("", 0))[0] == member for n in offsets)
        said = [Acknowledgement(first, offsets[-1], [kind] * size)]
        try:
            write = self.p.acknowledge(member, said, self.now_ms)
        except KafkaError as e:
            assert e.code in (E.INVALID_RECORD_STATE, E.INVALID_REQUEST)
            assert not mine, "a member that holds the lock was refused"
            return
        assert mine, "a member acknowledged what it does not hold"
        if kind is RENEW:
            assert write is None
            self.held.update({n: (member, self.now_ms + LOCK_MS) for n in offsets})
            return
        assert write is not None
        self.began(write, dict.fromkeys(offsets, kind))

    @precondition(lambda self: self.held)
    @rule(at=st.integers(0, 20), size=st.integers(1, 6), kind=st.sampled_from(AcknowledgeType))
    def acknowledge_what_is_held(self, at: int, size: int, kind: AcknowledgeType) -> None:
        offsets = sorted(self.held)
        first = offsets[at % len(offsets)]
        member = self.held[first][0]
        through = first
        while through - first + 1 < size and self.held.get(through + 1, ("",))[0] == member:
            through += 1
        self.acknowledge_as(member, first, through - first + 1, kind)

    @rule(member=st.sampled_from(MEMBERS))
    def leave(self, member: str) -> None:
        mine = {n: RELEASE for n, (one, _) in self.held.items() if one == member}
        write = self.p.release(member)
        assert (write is None) == (not mine)
        if write is not None:
            self.began(write, mine)

    def began(self, write: StateWrite, said: dict[int, AcknowledgeType]) -> None:
        self.writes.append((write, said))
        self.until.update({n: self.held.pop(n) for n in said})
        self.pending.update(said)

    @precondition(lambda self: self.writes)
    @rule(stored=st.booleans())
    def finish(self, stored: bool) -> None:
        write, said = self.writes.pop(0)
        if stored:
            self.keep(write)
        self.p.written(write.write_id, stored=stored)
        for offset, kind in said.items():
            self.pending.discard(offset)
            if offset < self.log_start:
                continue
            if not stored:
                self.held[offset] = self.until[offset]
            elif kind is not RELEASE:
                self.over[offset] = kind

    def keep(self, write: StateWrite) -> None:
        self.stored_start = max(self.stored_start, write.start_offset)
        self.stored = combine(self.stored, write.batches, self.stored_start)

    @rule(ms=st.sampled_from([1, LOCK_MS // 2, LOCK_MS]), stored=st.booleans())
    def wait(self, ms: int, stored: bool) -> None:
        self.now_ms += ms
        write = self.p.expire(self.now_ms)
        gone = [n for n, (_, until_ms) in self.held.items() if until_ms <= self.now_ms]
        assert (write is not None) == bool(gone)
        if write is not None and stored:
            self.keep(write)
        for offset in gone:
            del self.held[offset]
        until_ms = min((u for _, u in self.held.values()), default=None)
        assert self.p.next_expiry_ms == until_ms

    @rule(share=st.integers(0, 3))
    def retain(self, share: int) -> None:
        self.log_start = max(self.log_start, self.log_end * share // 4 // BATCH * BATCH)
        self.p.log_start_moved(self.log_start)
        self.held = {n: one for n, one in self.held.items() if n >= self.log_start}

    @rule()
    def new_leader(self) -> None:
        before = {n: b for b in self.p.states() for n in range(b.first_offset, b.last_offset + 1)}
        self.p = SharePartitionState(self.settings, 0, self.stored_start, self.stored)
        self.p.log_start_moved(self.log_start)
        self.writes, self.pending, self.held = [], set(), {}
        self.count = {n: count for n, count in self.count.items() if n < self.stored_start} | {
            n: b.delivery_count
            for b in self.stored
            for n in range(b.first_offset, b.last_offset + 1)
        }
        after = {n: b for b in self.p.states() for n in range(b.first_offset, b.last_offset + 1)}
        for offset, one in after.items():
            known = before.get(offset)
            if known is not None and one.delivery_state != 0:
                assert known.delivery_state == one.delivery_state
                assert known.delivery_count == one.delivery_count

    # what always holds

    @invariant()
    def the_window_is_whole(self) -> None:
        offset = self.p.start_offset
        complete = 0
        for one in self.p.states():
            assert one.first_offset == offset <= one.last_offset
            offset = one.last_offset + 1
            if one.delivery_state in (2, 4):
                complete += one.last_offset - one.first_offset + 1
        assert complete == self.p.delivery_complete_count
        assert offset == self.p.next_offset
        if self.p.states():
            assert self.p.states()[0].delivery_state in (0, 1), "the start offset lags"

    @invariant()
    def the_states_are_as_they_should_be(self) -> None:
        for one in self.p.states():
            for n in range(one.first_offset, one.last_offset + 1):
                locked = n in self.held or n in self.pending
                assert (one.delivery_state == 1) == locked
                if n in self.over:
                    assert one.delivery_state == (2 if self.over[n] is ACCEPT else 4)
                assert one.delivery_count == self.count.get(n, 0)

    def teardown(self) -> None:
        """Every record is delivered until it is acknowledged or its deliveries are used up."""
        while self.writes:
            self.finish(stored=True)
        self.wait(2 * LOCK_MS, stored=True)
        for _ in range(20 * (self.log_end + 1)):
            taken = self.fetch("z", RECORDS, 5, 4)
            if not taken and not self.p.next_fetch_offset < self.log_end:
                break
            for first, last, _ in taken:
                write = self.p.acknowledge("z", [Acknowledgement(first, last, [ACCEPT])], 0)
                assert write is not None
                self.p.written(write.write_id, stored=True)
                self.over.update(dict.fromkeys(range(first, last + 1), ACCEPT))
        for offset in range(self.log_start, self.log_end):
            assert offset in self.over or self.count.get(offset) == LIMIT, f"{offset} is lost"


TestHistory = History.TestCase
TestHistory.settings = settings(max_examples=examples(200), stateful_step_count=50, deadline=None)


@pytest.mark.parametrize("seed", range(15))
def test_a_long_life_of_one_share_partition(seed: int) -> None:
    """Deeper than the histories above: records use up their deliveries, and locks are renewed
    late."""
    rng = Random(seed)
    h = History()
    for _ in range(600):
        member, kind = rng.choice(MEMBERS), rng.choice(list(AcknowledgeType))
        match rng.choices(range(7), (10, 8, 6, 3, 0.5, 0.5, 1))[0]:
            case 0:
                mode = rng.choice(list(AcquireMode))
                h.acquire(member, mode, rng.randint(1, 12), rng.randint(1, 4))
            case 1 if h.held:
                again = rng.choice((kind, RELEASE, RENEW))
                h.acknowledge_what_is_held(rng.randint(0, 20), rng.randint(1, 6), again)
            case 2 if h.writes:
                h.finish(stored=rng.random() < 0.8)
            case 3:
                h.wait(rng.choice((1, 7_000, LOCK_MS)), stored=rng.random() < 0.8)
            case 4:
                h.retain(rng.randint(0, 2))
            case 5:
                h.new_leader()
            case 6:
                h.produce(rng.randint(1, 3))
                h.acknowledge(member, rng.randint(0, 9), rng.randint(1, 3), kind)
            case _:
                pass
        h.the_window_is_whole()
        h.the_states_are_as_they_should_be()
    h.teardown()
