"""Slices of files on their way out: served, or the connection ends; never bytes that were not asked
for."""

import os
import socket
import threading
from array import array
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
import trio
import trio.testing
from nodes import trio_test

from pk.core.log.disk import RealDisk, RealFile
from pk.core.log.file_slices import FileSlice, SliceFile
from pk.core.log.non_blocking import WouldBlock, reads
from pk.core.wire.types import Part
from pk.net import transport as transport_module
from pk.net.transport import (
    CHUNK_BYTES,
    JOINED_BYTES,
    READ_BYTES,
    SocketTransport,
    Transport,
)

SMALL, LARGE = READ_BYTES // 2, 2 * CHUNK_BYTES
SIZES = [SMALL, READ_BYTES + 1, CHUNK_BYTES + 1, CHUNK_BYTES + JOINED_BYTES, LARGE]


@asynccontextmanager
async def pair() -> AsyncIterator[tuple[Transport, trio.abc.ReceiveStream]]:
    """A transport, and the peer's end of it."""
    here, there = socket.socketpair()
    peer = trio.SocketStream(trio.socket.from_stdlib_socket(there))
    transport = SocketTransport(here)
    try:
        yield transport, peer
    finally:
        await transport.aclose()
        await peer.aclose()


def content(size: int) -> bytes:
    """Bytes of which no two pieces that may be mixed up are alike."""
    return array("Q", range(size // 8 + 1)).tobytes()[:size]


def made(disk: RealDisk, path: Path, size: int) -> FileSlice:
    """A slice of `size` bytes behind the first ten of a file."""
    file = disk.open(str(path))
    file.pwrite(b"?" * 10 + content(size), 0)
    return FileSlice(file, 10, size)


async def sent(part: FileSlice) -> tuple[bytes, bool]:
    """The bytes that the peer receives of a slice between two words, and whether the sender could
    send them all."""
    got, whole = bytearray(), False

    async def receive(peer: trio.abc.ReceiveStream) -> None:
        async for data in peer:
            got.extend(data)

    async with pair() as (transport, peer), trio.open_nursery() as nursery:
        nursery.start_soon(receive, peer)
        try:
            await transport.send([b"before", part, b"behind"])
            whole = True
        except (trio.BrokenResourceError, OSError):
            pass
        await transport.finish()
        await transport.aclose()
    return bytes(got), whole


@pytest.mark.parametrize("size", SIZES)
def test_a_slice_is_sent_between_what_is_around_it(size: int, tmp_path: Path) -> None:
    @trio_test
    async def run() -> None:
        part = made(RealDisk(), tmp_path / "a", size)
        assert await sent(part) == (b"before" + content(size) + b"behind", True)

    run()


@pytest.mark.parametrize("size", SIZES)
def test_nothing_takes_the_place_of_what_was_cut_off(size: int, tmp_path: Path) -> None:
    @trio_test
    async def run() -> None:
        part = made(RealDisk(), tmp_path / "a", size)
        os.truncate(tmp_path / "a", size)
        got, whole = await sent(part)
        assert not whole
        assert (b"before" + content(size - 10)).startswith(got)

    run()


@pytest.mark.parametrize("size", SIZES)
def test_a_file_that_was_removed_is_not_another_one(size: int, tmp_path: Path) -> None:
    """Its descriptor was closed, and another file may have got the same number."""

    @trio_test
    async def run() -> None:
        disk = RealDisk(open_files_max=1)
        part = made(disk, tmp_path / "a", size)
        other = made(disk, tmp_path / "b", size)
        other.file.pread(1, 0)
        other.file.pread(1, 0)
        os.unlink(tmp_path / "a")
        got, whole = await sent(part)
        assert not whole and b"before".startswith(got)

    run()


def test_a_file_that_is_removed_while_it_is_sent_is_sent_to_its_end(tmp_path: Path) -> None:
    @trio_test
    async def run() -> None:
        disk = RealDisk(open_files_max=1)
        part, other = made(disk, tmp_path / "a", 8 * LARGE), made(disk, tmp_path / "b", 1)
        async with pair() as (transport, peer), trio.open_nursery() as nursery:
            nursery.start_soon(transport.send, [part])
            got = bytearray(await peer.receive_some(10))
            os.unlink(tmp_path / "a")
            assert isinstance(part.file, RealFile)
            part.file.close()  # as who drops the segment does
            for _ in range(3):
                other.read()
            while len(got) < part.length:
                got += await peer.receive_some(1 << 20)
            assert got == content(part.length)

    run()


class Noting(socket.socket):
    """A socket that records the data sent through it from memory."""

    sent: list[bytes]

    def send(self, data: Any, flags: int = 0, /) -> int:
        size = super().send(data, flags)
        self.sent.append(bytes(data[:size]))
        return size


def test_what_follows_a_slice_is_sent_with_its_end(tmp_path: Path) -> None:
    """Three bytes in a segment of their own cost the kernel as much as the slice before them."""

    @trio_test
    async def run() -> None:
        here, there = socket.socketpair()
        noting = Noting(fileno=here.detach())
        noting.sent = []
        there.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        part = made(RealDisk(), tmp_path / "a", 2 * READ_BYTES)
        transport = SocketTransport(noting)
        with there:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(transport.send, [b"before", part, b"end"])
                nursery.start_soon(trio.to_thread.run_sync, drained, there, part.length + 9)
            await transport.aclose()
        assert noting.sent == [b"before", content(part.length)[-JOINED_BYTES:] + b"end"]

    run()


def test_what_does_not_go_at_once_is_given_back(tmp_path: Path) -> None:
    """All but a large slice, and what the peer has no room for; sent later, it follows."""

    @trio_test
    async def run() -> None:
        here, there = socket.socketpair()
        transport, disk = SocketTransport(here), RealDisk()
        small, large = made(disk, tmp_path / "a", 100), made(disk, tmp_path / "b", 1 << 18)
        with there:
            assert transport.send_at_once([b"head", small, b"tail"]) == []
            sent = b"head" + content(100) + b"tail"
            assert transport.send_at_once([b"x", large, b"y"]) == [large, b"y"]
            sent += b"x"
            rest: list[Part] = [large, b"y"]
            filled = 0
            while not (left := transport.send_at_once([b"z" * 60_000])):
                filled += 60_000
            assert transport.send_at_once([b"more"]) == [b"more"]
            sent += b"z" * (filled + 60_000) + content(large.length) + b"y"
            got = bytearray()

            def read_all() -> None:
                while len(got) < len(sent):
                    got.extend(there.recv(1 << 16))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(transport.send, [*left, *rest])
                nursery.start_soon(trio.to_thread.run_sync, read_all)
            assert bytes(got) == sent
        with pytest.raises(trio.BrokenResourceError):
            for _ in range(2):
                transport.send_at_once([b"to nobody"])
        await transport.aclose()

    run()


def drained(sock: socket.socket, count: int) -> None:
    """Read this many bytes."""
    while count:
        count -= len(sock.recv(count))


class AskedFile:
    """A file that counts how often somebody asks whether pages of it are in memory."""

    def __init__(self, file: SliceFile) -> None:
        self._file = file
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def resident(self, position: int, length: int) -> bool:
        self.asked += 1
        return self._file.resident(position, length)


def test_a_peer_that_takes_little_at_a_time_has_no_page_looked_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport_module, "IN_MEMORY_S", float("inf"))

    @trio_test
    async def run() -> None:
        part = made(RealDisk(), tmp_path / "a", LARGE)
        file = AskedFile(part.file)
        got = bytearray()

        async def receive(peer: trio.abc.ReceiveStream) -> None:
            while len(got) < LARGE + 3:
                got.extend(await peer.receive_some(4096))

        async with pair() as (transport, peer), trio.open_nursery() as nursery:
            nursery.start_soon(receive, peer)
            asked = FileSlice(cast("SliceFile", file), part.position, part.length)
            await transport.send([asked, b"end"])
        assert got == content(LARGE) + b"end"
        assert file.asked == LARGE // CHUNK_BYTES

    run()


class ColdFile:
    """A file that is not in memory until a thread has read it."""

    def __init__(self, file: SliceFile) -> None:
        self._file = file
        self.read_in: list[bool] = []
        """For each read that may wait, whether it ran in a thread."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def resident(self, position: int, length: int) -> bool:
        return bool(self.read_in)

    def pread(self, length: int, position: int) -> bytes:
        if not self.read_in:
            if reads.non_blocking:
                raise WouldBlock
            self.read_in.append(threading.current_thread() is not threading.main_thread())
        return self._file.pread(length, position)


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_what_is_cold_is_read_in_a_thread(size: int, tmp_path: Path) -> None:
    @trio_test
    async def run() -> None:
        part = made(RealDisk(), tmp_path / "a", size)
        file = ColdFile(part.file)
        cold = FileSlice(cast("SliceFile", file), part.position, part.length)
        assert await sent(cold) == (b"before" + content(size) + b"behind", True)
        assert file.read_in == [True]

    run()
