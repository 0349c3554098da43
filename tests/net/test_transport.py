"""Slices of files on their way out: served, or the connection ends; never bytes that were not asked for."""

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing
from nodes import trio_test

from pk.core.log.disk import RealDisk, RealFile
from pk.core.log.file_slices import FileSlice
from pk.net.transport import CHUNK_BYTES, READ_BYTES, SocketTransport, StreamTransport, Transport

SMALL, LARGE = READ_BYTES // 2, 2 * CHUNK_BYTES
SIZES = [SMALL, LARGE]
KINDS = ["socket", "stream"]


@asynccontextmanager
async def pair(kind: str) -> AsyncIterator[tuple[Transport, trio.abc.ReceiveStream]]:
    """A transport, and the peer's end of it."""
    if kind == "stream":
        ours, theirs = trio.testing.memory_stream_pair()
        yield StreamTransport(ours), theirs
        return
    here, there = socket.socketpair()
    peer = trio.SocketStream(trio.socket.from_stdlib_socket(there))
    transport = SocketTransport(here)
    try:
        yield transport, peer
    finally:
        await transport.aclose()
        await peer.aclose()


def made(disk: RealDisk, path: Path, size: int) -> FileSlice:
    """A slice of `size` bytes behind the first ten of a file."""
    file = disk.open(str(path))
    file.pwrite(b"?" * 10 + b"x" * size, 0)
    return FileSlice(file, 10, size)


async def sent(kind: str, part: FileSlice) -> tuple[bytes, bool]:
    """What the peer gets of a slice with a word before and behind it, and whether the sender could send it all."""
    got, whole = bytearray(), False

    async def receive(peer: trio.abc.ReceiveStream) -> None:
        async for data in peer:
            got.extend(data)

    async with pair(kind) as (transport, peer), trio.open_nursery() as nursery:
        nursery.start_soon(receive, peer)
        try:
            await transport.send([b"before", part, b"behind"])
            whole = True
        except (trio.BrokenResourceError, OSError):
            pass
        await transport.finish()
        await transport.aclose()
    return bytes(got), whole


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", SIZES)
def test_a_slice_is_sent_between_what_is_around_it(kind: str, size: int, tmp_path: Path) -> None:
    @trio_test
    async def run() -> None:
        part = made(RealDisk(), tmp_path / "a", size)
        assert await sent(kind, part) == (b"before" + b"x" * size + b"behind", True)

    run()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", SIZES)
def test_nothing_takes_the_place_of_what_was_cut_off(kind: str, size: int, tmp_path: Path) -> None:
    @trio_test
    async def run() -> None:
        part = made(RealDisk(), tmp_path / "a", size)
        os.truncate(tmp_path / "a", size)
        got, whole = await sent(kind, part)
        assert not whole
        assert (b"before" + b"x" * (size - 10)).startswith(got)

    run()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", SIZES)
def test_a_file_that_was_removed_is_not_another_one(kind: str, size: int, tmp_path: Path) -> None:
    """Its descriptor was let go for that of another file, which may well have got its number."""

    @trio_test
    async def run() -> None:
        disk = RealDisk(open_files_max=1)
        part = made(disk, tmp_path / "a", size)
        other = made(disk, tmp_path / "b", size)
        other.file.pread(1, 0)
        other.file.pread(1, 0)
        os.unlink(tmp_path / "a")
        got, whole = await sent(kind, part)
        assert not whole and b"before".startswith(got)

    run()


def test_a_file_that_is_removed_while_it_is_sent_is_sent_to_its_end(tmp_path: Path) -> None:
    @trio_test
    async def run() -> None:
        disk = RealDisk(open_files_max=1)
        part, other = made(disk, tmp_path / "a", 8 * LARGE), made(disk, tmp_path / "b", 1)
        async with pair("socket") as (transport, peer), trio.open_nursery() as nursery:
            nursery.start_soon(transport.send, [part])
            got = bytearray(await peer.receive_some(10))
            os.unlink(tmp_path / "a")
            assert isinstance(part.file, RealFile)
            part.file.close()  # as who drops the segment does
            for _ in range(3):
                other.read()
            while len(got) < part.length:
                got += await peer.receive_some(1 << 20)
            assert got == b"x" * part.length

    run()
