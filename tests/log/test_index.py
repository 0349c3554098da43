"""The sparse indexes against a list, in memory and on disk."""

from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pk.core.log.disk import MemoryDisk
from pk.core.log.index import OFFSET_ENTRY, OffsetIndex, TimeIndex, is_sane

BASE = 1000
ENTRIES = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 5000)), max_size=700).map(
    lambda steps: (
        [
            (BASE + sum(s[0] for s in steps[: i + 1]), sum(s[1] for s in steps[:i]))
            for i in range(len(steps))
        ]
        if len(steps) < 40
        else [(BASE + 7 * (i + 1), 4096 * i) for i in range(len(steps))]
    )
)


def both_kinds(entries: list[tuple[int, int]]) -> list[OffsetIndex]:
    disk = MemoryDisk()
    in_memory = OffsetIndex(disk.open("/i"), BASE, 0)
    in_memory.start()
    for offset, position in entries:
        in_memory.append(offset, position)
    in_memory.write()
    on_disk = OffsetIndex(disk.open("/i"), BASE, disk.open("/i").size())
    loaded = OffsetIndex(disk.open("/i"), BASE, disk.open("/i").size())
    loaded.load()
    return [in_memory, on_disk, loaded]


@given(ENTRIES, st.integers(BASE - 10, BASE + 6000), st.integers(0, 3_000_000))
def test_offset_index(entries: list[tuple[int, int]], offset: int, position: int) -> None:
    below = [p for o, p in entries if o <= offset]
    after = [(o, p) for o, p in entries if p >= position]
    for index in both_kinds(entries):
        assert index.entries == len(entries)
        assert index.lookup(offset) == (below[-1] if below else 0)
        assert index.entry_after(position) == (after[0] if after else None)
        assert index.last() == (entries[-1] if entries else (BASE, 0))


@given(
    st.lists(st.integers(0, 10**15), max_size=600, unique=True).map(sorted), st.integers(0, 10**15)
)
def test_time_index(timestamps: list[int], wanted: int) -> None:
    disk = MemoryDisk()
    first = TimeIndex(disk.open("/t"), BASE, 0)
    first.start()
    for i, timestamp in enumerate(timestamps):
        first.maybe_append(timestamp, BASE + i)
        first.maybe_append(timestamp, BASE + i + 1)
    first.write()
    size = disk.open("/t").size()
    loaded = TimeIndex(disk.open("/t"), BASE, size)
    loaded.load()
    found = bisect_left(timestamps, wanted)
    before = (timestamps[found - 1], BASE + found - 1) if found else None
    expected = (timestamps[found], BASE + found) if found < len(timestamps) else None
    for index in (first, loaded, TimeIndex(disk.open("/t"), BASE, size)):
        assert index.entries == len(timestamps)
        assert index.around(wanted) == (before, expected)
        assert index.last() == (
            (timestamps[-1], BASE + len(timestamps) - 1) if timestamps else (-1, BASE)
        )


@given(ENTRIES, st.integers(BASE - 10, BASE + 3000))
def test_truncation_reaches_the_file(entries: list[tuple[int, int]], offset: int) -> None:
    index = both_kinds(entries)[2]
    index.truncate(offset)
    index.write()
    kept = [e for e in entries if e[0] < offset]
    again = OffsetIndex(index.file, BASE, index.file.size())
    assert again.entries == len(kept)
    assert again.last() == (kept[-1] if kept else (BASE, 0))


def test_a_rebuilt_index_replaces_the_file() -> None:
    disk = MemoryDisk()
    disk.open("/i").pwrite(bytes(800), 0)
    index = OffsetIndex(disk.open("/i"), BASE, 800)
    index.start()
    index.append(BASE + 5, 70)
    index.write()
    assert disk.read("/i").hex() == "00000005" + "00000046"
    index.start()
    index.write()
    assert disk.read("/i") == b""


def test_the_file_has_its_length_from_the_beginning_and_what_it_needs_at_the_end() -> None:
    disk = MemoryDisk()
    index = OffsetIndex(disk.open("/i"), BASE, 0)
    index.start()
    index.allocate(100)
    assert disk.read("/i") == bytes(96), "whole entries"
    for number in range(1, 4):
        index.append(BASE + number, 10 * number)
    index.write()
    assert disk.open("/i").size() == 96 and disk.read("/i")[24:] == bytes(72)
    index.truncate(BASE + 3)
    assert disk.open("/i").size() == 96 and disk.read("/i")[16:] == bytes(80)
    index.trim()
    assert disk.open("/i").size() == 16
    index.append(BASE + 9, 90)
    index.write()
    assert disk.open("/i").size() == 24, "nothing is allocated any more"


@pytest.mark.parametrize("count", [0, 1, 2, 7, 8])
def test_entries_are_told_from_the_hole_that_a_crash_left(count: int) -> None:
    disk = MemoryDisk()
    offsets, times = OffsetIndex(disk.open("/i"), BASE, 0), TimeIndex(disk.open("/t"), BASE, 0)
    for index, length in ((offsets, 64), (times, 96)):
        index.start()
        index.allocate(length)
    for number in range(count):
        offsets.append(BASE + number, 10 * number + 5)
        times.maybe_append(number, BASE + number)
    offsets.write()
    times.write()
    offsets, times = OffsetIndex(disk.open("/i"), BASE, 64), TimeIndex(disk.open("/t"), BASE, 96)
    assert is_sane(offsets, times, 64, 96) == (count > 1), "the first could have been meant"
    if count > 1:
        assert (offsets.entries, times.entries) == (count, count)
        assert offsets.last() == (BASE + count - 1, 10 * count - 5)
        assert times.last() == (count - 1, BASE + count - 1)
        offsets.load()
        offsets.append(BASE + 100, 1000)
        offsets.write()
        assert OFFSET_ENTRY.unpack_from(disk.read("/i"), 8 * count) == (100, 1000)


@pytest.mark.parametrize(
    ("index", "time_index", "sane"),
    [
        (b"", b"", True),
        (bytes(8), bytes(12), True),
        (bytes(16), bytes(24), False),
        (bytes(9), b"", False),
        (b"", bytes(13), False),
        (b"\xff" * 8, b"", False),
        (b"", b"\x00" * 8 + b"\xff" * 4, False),
    ],
)
def test_what_cannot_be_an_index_is_reported(index: bytes, time_index: bytes, sane: bool) -> None:
    disk = MemoryDisk()
    disk.open("/i").pwrite(index, 0)
    disk.open("/t").pwrite(time_index, 0)
    offsets = OffsetIndex(disk.open("/i"), BASE, len(index))
    times = TimeIndex(disk.open("/t"), BASE, len(time_index))
    assert is_sane(offsets, times, len(index), len(time_index)) is sane


def test_every_entry_of_a_large_index_on_disk_is_found() -> None:
    entries = [(BASE + 7 * (i + 1), 4096 * i) for i in range(2000)]
    on_disk = both_kinds(entries)[1]
    for offset, position in entries:
        assert on_disk.lookup(offset) == position
        assert on_disk.lookup(offset + 6) == position
        assert on_disk.entry_after(position) == (offset, position)
