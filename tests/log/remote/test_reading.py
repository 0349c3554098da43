"""A remote segment is read as the local one that was copied."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from log.remote.copies import a_log, copy_all
from log.support import (
    NOW,
    headers_of,
)

from pk.core.log.file_slices import BytesSlice
from pk.core.log.lookup import FetchSlice
from pk.core.log.non_blocking import WouldBlock, non_blocking
from pk.core.log.remote import reading, segment_object
from pk.core.log.remote.memory_storage import MemoryStorage
from pk.core.log.remote.reading import RemoteReader
from pk.core.log.remote.segment_object import (
    TAIL_BYTES_FIRST,
    find_tail,
    format_tail,
    parse_tail,
)
from pk.core.log.remote.storage import RemoteStorageError, SegmentName
from pk.core.record.batch import CorruptBatch, iter_headers


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


@pytest.fixture
def reader(storage: MemoryStorage) -> RemoteReader:
    return RemoteReader(storage, lambda: "c", index_bytes_max=1 << 20)


def test_every_offset_reads_the_same_bytes(storage: MemoryStorage, reader: RemoteReader) -> None:
    log = a_log()
    copied = copy_all(log, storage)
    assert len(copied) == len(log.state.segments) - 1 > 3
    for remote in copied:
        for offset in range(remote.start_offset, remote.end_offset + 1):
            for bytes_max in (1, 300, 1 << 20):
                local = log.reader.read(offset, bytes_max, remote.end_offset + 1)
                found = reader.read(remote, offset, log.state.log_end_offset, bytes_max)
                data = found.slice.read()
                assert data, "whole batches, and at least one"
                assert data == local.slice.read()[: len(data)]
                assert found.base_offset == local.base_offset


def test_a_read_ends_before_the_offset_that_it_must_not_pass(
    storage: MemoryStorage, reader: RemoteReader
) -> None:
    log = a_log()
    remote = copy_all(log, storage)[0]
    end = remote.start_offset + 10
    found = reader.read(remote, remote.start_offset, end, 1 << 20).slice.read()
    headers = [header for _, header in iter_headers(found)]
    following = next(h for h in headers_of(log) if h.last_offset >= end)
    assert headers[-1].next_offset == following.base_offset


def test_times_and_aborted_transactions(storage: MemoryStorage, reader: RemoteReader) -> None:
    log = a_log()
    for remote in copy_all(log, storage):
        for timestamp in range(NOW, NOW + 600, 7):
            local = log.reader.offset_for_time(timestamp)
            found = reader.offset_for_time(remote, timestamp, remote.start_offset)
            if local is not None and remote.start_offset <= local.offset <= remote.end_offset:
                assert found == local
            elif found is not None:
                assert local is not None and local.offset < remote.start_offset
        read = log.reader.read(remote.start_offset, 1 << 20, remote.end_offset + 1)
        ours = log.reader.aborted_transactions(remote.start_offset, read)
        _, end = reader.read_beyond(remote, remote.start_offset, remote.end_offset + 1, 1 << 20)
        assert end == remote.end_offset + 1
        theirs, _ = reader.aborted_within(remote, remote.start_offset, end)
        assert [a for a in ours if a.last_offset <= remote.end_offset] == theirs


def test_a_segment_takes_one_request_for_its_tail_and_one_for_each_chunk(
    storage: MemoryStorage,
) -> None:
    asked: list[int] = []
    log = a_log(segment_bytes=6000)
    copied = copy_all(log, storage)
    get = storage.get

    def counting(name: str, start: int = 0, length: int | None = None) -> bytes:
        asked.append(start)
        return get(name, start, length)

    storage.get = counting
    reader = RemoteReader(storage, lambda: "c", index_bytes_max=1 << 20)
    for offset in range(copied[0].start_offset, copied[0].end_offset + 1):
        reader.read(copied[0], offset, 1 << 40, 100)
    assert asked == [copied[0].size, 0]


def test_what_follows_is_fetched_ahead_of_a_reader_in_sequence(
    storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "CHUNK_BYTES", 1000)
    log = a_log(segment_bytes=6000)
    segment = copy_all(log, storage)[0]
    assert segment.size > 5000
    asked: list[int] = []
    get = storage.get

    def counting(name: str, start: int = 0, length: int | None = None) -> bytes:
        asked.append(start)
        return get(name, start, length)

    storage.get = counting
    reader = RemoteReader(storage, lambda: "c", index_bytes_max=1 << 20)

    def consume(number: int) -> None:
        reader._load(segment.id, reader.name_of(segment), number, segment.size)
        end_position = number * 1000 + 900
        reader._note_read(segment.id, FetchSlice(BytesSlice(bytes(100)), 0, 0, end_position))

    assert reader.ahead(segment) == [], "nobody reads it"
    consume(0)
    assert reader.ahead(segment) == [1, 2]
    reader.load_ahead(segment, 1)
    reader.load_ahead(segment, 2)
    assert reader.ahead(segment) == [], "a reader that goes gets no more"
    consume(1)
    assert reader.ahead(segment) == [3]
    consume(5)
    assert reader.ahead(segment) == [], "it jumped"
    consume(2)
    assert asked == [0, 1000, 2000, 5000]


def test_two_threads_that_need_a_chunk_fetch_it_once(storage: MemoryStorage) -> None:
    segment = copy_all(a_log(segment_bytes=6000), storage)[0]
    begun, go = threading.Event(), threading.Event()
    asked: list[int] = []
    get = storage.get

    def waiting(name: str, start: int = 0, length: int | None = None) -> bytes:
        asked.append(start)
        begun.set()
        assert go.wait(10)
        return get(name, start, length)

    reader = RemoteReader(storage, lambda: "c", index_bytes_max=1 << 20)
    storage.get = waiting
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(reader.load_ahead, segment, 0)
        assert begun.wait(10)
        second = pool.submit(reader.load_ahead, segment, 0)
        go.set()
        first.result(10)
        second.result(10)
    assert asked == [0]


def test_a_damaged_record_is_not_given_to_readers(
    storage: MemoryStorage, reader: RemoteReader
) -> None:
    remote = copy_all(a_log(), storage)[0]
    name = reader.name_of(remote)
    content = bytearray(storage.objects[name])
    content[100] ^= 1
    storage.objects[name] = bytes(content)
    with pytest.raises(CorruptBatch):
        reader.read(remote, remote.start_offset, 1 << 40, 1 << 20)


def test_only_the_first_read_of_a_chunk_needs_a_thread(
    storage: MemoryStorage, reader: RemoteReader
) -> None:
    segment = copy_all(a_log(segment_bytes=6000), storage)[0]

    def read_nowait(offset: int) -> bytes:
        with non_blocking():
            return bytes(reader.read(segment, offset, 1 << 40, 300).slice.read())

    with pytest.raises(WouldBlock):
        read_nowait(segment.start_offset)
    reader.load_ahead(segment, 0)
    with pytest.raises(WouldBlock):
        read_nowait(segment.start_offset)  # the indexes are not there, the CRCs not checked
    reader.read(segment, segment.start_offset, 1 << 40, 300)
    stored = storage.objects[reader.name_of(segment)][: segment.size]
    for position, header in iter_headers(stored):
        found = read_nowait(header.base_offset)
        assert found == stored[position : position + max(300, header.size)]


def test_damage_further_on_fails_only_the_read_that_reaches_it(
    storage: MemoryStorage, reader: RemoteReader
) -> None:
    remote = copy_all(a_log(segment_bytes=6000), storage)[0]
    name = reader.name_of(remote)
    content = bytearray(storage.objects[name])
    *_, (_, last) = iter_headers(bytes(content[: remote.size]))
    content[remote.size - 1] ^= 1
    storage.objects[name] = bytes(content)
    assert reader.read(remote, remote.start_offset, 1 << 40, 1).length
    assert reader.read(remote, last.base_offset - 1, last.base_offset, 1).length
    with pytest.raises(CorruptBatch):
        reader.read(remote, last.base_offset, 1 << 40, 1)


def test_a_damaged_segment_is_not_copied(storage: MemoryStorage) -> None:
    log = a_log()
    segment = log.state.segments[0]
    segment.file.pwrite(b"!", segment.size // 2)
    with pytest.raises(CorruptBatch):
        copy_all(log, storage)
    assert not storage.objects


def test_a_batch_at_a_wrong_offset_is_not_copied(storage: MemoryStorage) -> None:
    log = a_log()
    segment = log.state.segments[0]
    second = next(at for at, _ in segment.headers(0) if at)
    segment.file.pwrite(bytes(8), second)  # its offset, which no CRC covers
    with pytest.raises(CorruptBatch, match="do not belong"):
        copy_all(log, storage)


@pytest.mark.parametrize("read_bytes", [100, 1 << 10])
def test_a_segment_is_copied_in_pieces_of_whole_batches(
    storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch, read_bytes: int
) -> None:
    monkeypatch.setattr(segment_object, "READ_BYTES", read_bytes)
    log = a_log()
    for remote, segment in zip(copy_all(log, storage), log.state.segments, strict=False):
        name = str(SegmentName("c", remote.partition, remote.start_offset, remote.id))
        assert storage.get(name, 0, remote.size) == segment.file.pread(segment.size, 0)


def test_part_of_a_range_is_refused_and_not_kept(storage: MemoryStorage) -> None:
    remote = copy_all(a_log(), storage)[0]
    get, whole = storage.get, False

    def partial(name: str, start: int = 0, length: int | None = None) -> bytes:
        data = get(name, start, length)
        return data if whole or length is None else data[: length // 2]

    storage.get = partial
    reader = RemoteReader(storage, lambda: "c", index_bytes_max=1 << 20)
    with pytest.raises(RemoteStorageError, match="bytes at 0 were received"):
        reader.read(remote, remote.end_offset, 1 << 40, 1 << 20)
    whole = True
    assert reader.read(remote, remote.end_offset, 1 << 40, 1 << 20).length


@pytest.mark.parametrize("at", [-1, -10, -14, -30, -100])
def test_a_damaged_tail_is_refused(storage: MemoryStorage, reader: RemoteReader, at: int) -> None:
    remote = copy_all(a_log(), storage)[0]
    name = reader.name_of(remote)
    content = bytearray(storage.objects[name])
    content[at] ^= 1
    storage.objects[name] = bytes(content)
    with pytest.raises(RemoteStorageError):
        reader.read(remote, remote.start_offset, 1 << 40, 1 << 20)


@pytest.mark.parametrize("cut", [1, 16, 17, 100])
def test_part_of_an_object_is_refused(
    storage: MemoryStorage, reader: RemoteReader, cut: int
) -> None:
    remote = copy_all(a_log(), storage)[0]
    name = reader.name_of(remote)
    storage.objects[name] = storage.objects[name][:-cut]
    with pytest.raises(RemoteStorageError):
        reader.tail(remote)


def test_the_tail_is_found_without_metadata(storage: MemoryStorage, reader: RemoteReader) -> None:
    remote = copy_all(a_log(), storage)[1]
    name = reader.name_of(remote)
    tail = find_tail(storage, name, len(storage.objects[name]))
    assert tail == reader.tail(remote)
    assert (tail.start_offset, tail.end_offset) == (remote.start_offset, remote.end_offset)
    large = format_tail(type(tail)(0, 1, 2, 3, b"", bytes(TAIL_BYTES_FIRST), b"", b"", b"", ()))
    storage.objects["large"] = b"xyz" + large
    assert find_tail(storage, "large", len(large) + 3) == parse_tail("large", large)


def test_the_tail_has_the_producers_at_the_end_of_the_segment(
    storage: MemoryStorage, reader: RemoteReader
) -> None:
    from pk.core.log.producers import Producers

    for remote in copy_all(a_log(), storage):
        tail = reader.tail(remote)
        producers = Producers.from_snapshot(tail.snapshot, remote.end_offset + 1, NOW)
        assert producers.get(7) is not None
        assert tail.epochs[-1].start_offset <= remote.end_offset
