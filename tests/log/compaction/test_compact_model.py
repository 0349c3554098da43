"""Any history of writes, transactions, rolls, compactions and crashes, held against a plain
dictionary."""

from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from effort import STRIDE, examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from log.compaction.support import ALWAYS, Write, compact, keyed, records_of, small_log
from log.cutting import CuttingDisk, PowerCut
from log.support import NOW, append, durable, end_transaction, headers_of

from pk.core.log.log import Log
from pk.core.record.compress import Codec

KEYS = [b"a", b"b", b"c", b"a long key that is hashed", b"another long key"]
PRODUCERS = [7, 8]
WISHES = st.lists(st.tuples(st.sampled_from(KEYS), st.booleans()), min_size=1, max_size=4)
CODECS = st.sampled_from(list(Codec))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), WISHES, CODECS, st.sampled_from([-1, *PRODUCERS])),
        st.tuples(st.just("transact"), WISHES, st.sampled_from(PRODUCERS), st.booleans()),
        st.tuples(st.just("end"), st.sampled_from(PRODUCERS), st.booleans()),
        st.tuples(st.just("roll")),
        st.tuples(st.just("compact"), st.sampled_from([1000, 3])),
        st.tuples(st.just("round")),
        st.tuples(st.just("wait"), st.sampled_from([1, 500, 1000])),
        st.tuples(st.just("restart")),
        st.tuples(st.just("flush")),
        st.tuples(
            st.just("crash"), st.integers(0, 40), st.sampled_from(["lost", "kept"]), st.booleans()
        ),
    ),
    max_size=25,
)


@dataclass
class World:
    """A log, and the records that it must hold."""

    disk: CuttingDisk
    log: Log
    now_ms: int = NOW
    written: list[tuple[int, bytes, bytes | None, int]] = field(default_factory=list)
    """(offset, key, value, when) of every record there ever was, in order."""
    open: dict[int, list[int]] = field(default_factory=dict)
    """Producer id → the offsets of its open transaction."""
    senders: dict[int, int] = field(default_factory=dict)
    """Offset of a record → the producer whose transaction it belongs to."""
    aborted: set[int] = field(default_factory=set)
    """The offsets of records that no reader of committed ones may see."""
    number: int = 0
    noted: int = 0
    """The recovery point on the disk."""

    def restart(self, *, clean: bool) -> None:
        noted = self.log.durability.recovery_point if clean else self.noted
        dirty = self.log.segments.first_dirty_offset
        self.log = small_log(self.disk, recovery_point=noted)
        self.noted = noted
        self.log.segments.first_dirty_offset = None if dirty is None else min(dirty, noted)

    def write(self, wishes: list[tuple[bytes, bool]], codec: Codec, producer_id: int = -1) -> None:
        writes = []
        for key, has_value in wishes:
            self.number += 1
            writes.append(Write(key, b"%d" % self.number if has_value else None))
        state = self.log.state.producers.get(producer_id)
        batch = keyed(
            writes,
            timestamp=self.now_ms,
            codec=codec,
            producer_id=producer_id,
            sequence=-1 if producer_id < 0 else 0 if state is None else state.last_sequence + 1,
            transactional=producer_id >= 0,
        )
        base = append(self.log, batch).base_offset
        self.written += [(base + i, w.key, w.value, self.now_ms) for i, w in enumerate(writes)]
        if producer_id >= 0:
            self.senders |= {base + i: producer_id for i in range(len(writes))}
            self.open.setdefault(producer_id, []).extend(range(base, base + len(writes)))

    def end(self, producer_id: int, *, commit: bool) -> None:
        """End the producer's transaction, if it has one."""
        if offsets := self.open.pop(producer_id, []):
            end_transaction(self.log, producer_id, commit=commit)
            self.aborted.update(() if commit else offsets)

    def compact(self, keys_max: int) -> None:
        self.log.durability.flush()
        self.noted = self.log.durability.recovery_point  # the cleaner writes that down first
        limit = self.log.state.last_stable_offset(self.log.state.log_end_offset)
        compact(self.log, self.disk, now_ms=self.now_ms, keys_max=keys_max, limit=limit)

    def check(self) -> None:
        log = self.log
        end = log.state.log_end_offset
        written = [w for w in self.written if w[0] < end]
        found = records_of(log)
        offsets = [r.offset for r in found]
        assert offsets == sorted(set(offsets)), "in order, nothing twice"
        known = {w[0]: w for w in written}
        for r in found:
            assert (r.key, r.value) == known[r.offset][1:3], "nothing was made up or moved"
            assert r.timestamp >= NOW
        undecided = {offset for offsets in self.open.values() for offset in offsets}
        committed = [w for w in written if w[0] not in self.aborted | undecided]
        assert undecided & known.keys() <= set(offsets), "an open transaction is left alone"
        last: dict[bytes, tuple[int, bytes, bytes | None, int]] = {w[1]: w for w in committed}
        for offset, key, value, when in last.values():
            if value is not None:
                assert offset in offsets, f"the last value of {key!r} is lost"
            elif self.now_ms < when + ALWAYS.delete_retention_ms:
                assert offset in offsets, f"the tombstone of {key!r} is gone too early"
            else:
                later = [o for o, k, *_ in committed if k == key and o in offsets]
                assert later in ([], [offset]) or max(later) == offset, "a deleted key is back"
        clean = [r for r in found if r.offset < (log.segments.first_dirty_offset or 0)]
        assert not self.aborted.intersection(r.offset for r in clean), "an aborted record is left"
        assert len({r.key for r in clean}) == len(clean), "a key is left twice"
        self.check_aborted(offsets)
        headers = headers_of(log)
        assert all(a.next_offset <= b.base_offset for a, b in pairwise(headers))
        self.check_readable(offsets)

    def check_aborted(self, offsets: list[int]) -> None:
        """A read_committed reader gets a list of the aborted transactions to skip."""
        log = self.log
        for offset in self.aborted.intersection(offsets):
            fetched = log.reader.read(offset, 1 << 20, log.state.log_end_offset)
            told = log.reader.aborted_transactions(offset, fetched)
            assert any(t.first_offset <= offset < t.last_offset for t in told)

    def check_readable(self, offsets: list[int]) -> None:
        log = self.log
        for offset in range(log.state.log_start_offset, log.state.log_end_offset):
            fetched = log.reader.read(offset, 1 << 20, log.state.log_end_offset)
            following = next((o for o in offsets if o >= offset), None)
            assert following is None or fetched.base_offset <= following
        bases = [s.base_offset for s in log.state.segments]
        assert bases == sorted(set(bases))


def new_world() -> World:
    disk = CuttingDisk()
    log = small_log(disk)
    durable(disk)
    log.durability.flush(force=True)
    return World(disk, log)


def crash(world: World, keep: int, names: str, zeroed: bool) -> None:
    """The power fails. Synced data is there afterwards."""
    promised = world.log.durability.recovery_point
    world.disk.left = None
    world.disk.crash(keep, names=names, zeroed=zeroed)  # type: ignore[arg-type]
    world.restart(clean=False)
    assert world.log.state.log_end_offset >= promised
    end = world.log.state.log_end_offset
    world.written = [w for w in world.written if w[0] < end]
    world.aborted = {offset for offset in world.aborted if offset < end}
    world.senders = {o: sender for o, sender in world.senders.items() if o < end}
    world.open = {}
    for state in list(world.log.state.producers):
        # The coordinator aborts open transactions; a transaction whose marker was lost is open
        # again.
        if (first := state.txn_first_offset) >= 0:
            world.open[state.producer_id] = [
                o
                for o, sender in world.senders.items()
                if o >= first and sender == state.producer_id
            ]
            world.end(state.producer_id, commit=False)


def step(world: World, what: tuple) -> None:  # type: ignore[type-arg]
    match what:
        case ("write", wishes, codec, producer_id):
            world.write(wishes, codec, producer_id)
        case ("transact", wishes, producer_id, commit):
            world.write(wishes, Codec.NONE, producer_id)
            world.end(producer_id, commit=commit)
        case ("end", producer_id, commit):
            world.end(producer_id, commit=commit)
        case ("roll",):
            world.log.segments.roll(world.now_ms)
        case ("compact", keys_max):
            world.compact(keys_max)
        case ("round",):
            world.log.segments.roll(world.now_ms)
            world.compact(1000)
        case ("wait", ms):
            world.now_ms += ms
        case ("flush",):
            world.log.durability.flush()
            world.noted = world.log.durability.recovery_point
        case ("restart",):
            world.log.close()
            world.restart(clean=True)
        case ("crash", keep, names, zeroed):
            crash(world, keep, names, zeroed)


ABORTED_BEFORE = [
    ("write", [(b"a", True)], Codec.NONE, -1),
    ("transact", [(b"b", True)], 7, False),
    ("round",),
    ("transact", [(b"a", False)], 7, True),
    ("round",),
    ("wait", 1000),
    ("write", [(b"c", True)], Codec.NONE, -1),
    ("round",),
]
"""A producer that aborted a transaction in the compacted part deletes a key later."""


@settings(max_examples=examples(100), deadline=None)
@example(ABORTED_BEFORE)
@given(STEPS)
def test_a_compacted_log_is_a_dictionary(steps: list) -> None:  # type: ignore[type-arg]
    world = new_world()
    for what in steps:
        step(world, what)
        world.check()


@pytest.mark.slow
@settings(max_examples=3000, deadline=None)
@given(STEPS)
def test_a_compacted_log_is_a_dictionary_for_long(steps: list) -> None:  # type: ignore[type-arg]
    world = new_world()
    for what in steps:
        step(world, what)
        world.check()


def history() -> World:
    world = new_world()
    for i in range(14):
        world.write([(KEYS[i % 3], True), (KEYS[(i * 2) % 5], i % 4 != 3)], Codec(i % 5))
        if i % 2:
            world.log.segments.roll(world.now_ms)
    world.log.durability.flush()
    world.noted = world.log.durability.recovery_point
    return world


@pytest.mark.parametrize("names", ["lost", "kept"])
@pytest.mark.parametrize("keep", [0, 7, 1 << 20])
def test_the_power_goes_at_every_operation_of_a_compaction(names: str, keep: int) -> None:
    at = [0, 7, 1 << 20].index(keep) % STRIDE
    while True:
        world = history()
        world.now_ms += 2000
        world.disk.left = at
        try:
            world.compact(1000)
        except PowerCut:
            crash(world, keep, names, zeroed=False)
            world.check()
            left = world.disk.list("/data/t-0")
            assert not [n for n in left if n.endswith((".swap", ".cleaned", ".deleted"))]
            world.compact(1000)
            world.check()
            at += STRIDE
            continue
        break
    assert at > 20, "the compaction changed the disk more often than that"
