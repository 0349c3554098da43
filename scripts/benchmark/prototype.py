"""The prototype of the broker's hot path: one partition, Produce 3 to 7, Fetch 4 to 10, no
features.

    python -m benchmark.prototype PORT LOGFILE

It says what Python and trio are able to: a third column of the benchmark, of which pk is to stay
within two times. It is a sketch, kept as it was measured when pk was designed: it allocates what a
frame claims, never yields within a buffer, and does not look inside a batch. Any topic name means
the same log. What makes it fast:

- one `recv_into` a large buffer, then every complete frame in it handled without a checkpoint
  between;
- answers collected and sent once, when the buffer has no complete frame left;
- CRC-32C over a memoryview, base offset and leader epoch patched in place (outside the CRC), one
  pwrite a produce;
- fetch: header by send_all, records by sendfile.
"""

from __future__ import annotations

import bisect
import os
import socket
import struct
import sys

import trio
from crc32c import crc32c

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS = 0, 1, 2, 3, 18
APIS = [
    (PRODUCE, 3, 7),
    (FETCH, 4, 10),
    (LIST_OFFSETS, 1, 1),
    (METADATA, 1, 4),
    (API_VERSIONS, 0, 0),
]
UNSUPPORTED_VERSION = 35
EARLIEST = -2
BUFFER_BYTES, SPARE_BYTES = 1 << 18, 1 << 16

i16, i32, i64 = (struct.Struct(code).unpack_from for code in (">h", ">i", ">q"))
header = struct.Struct(">hhi").unpack_from
Buffer = bytearray | bytes


def string(value: bytes) -> bytes:
    """As requests up to the flexible versions have it."""
    return struct.pack(">h", len(value)) + value


class Prototype:
    """One log, and what is served of it."""

    def __init__(self, port: int, path: str) -> None:
        self.port = port
        self.log = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        self.size = self.end_offset = 0
        self.batches: list[tuple[int, int]] = []
        """Base offset and position in the file."""
        self.waiting: list[trio.Event] = []
        """Of long polls."""

    def append(self, records: memoryview) -> int:
        """One or more v2 batches, in place. Returns the base offset."""
        position, first = 0, self.end_offset
        while position < len(records):
            end = position + 12 + i32(records, position + 8)[0]
            (crc,) = struct.unpack_from(">I", records, position + 17)
            if crc32c(records[position + 21 : end]) != crc:
                raise ValueError("CRC")
            struct.pack_into(">q", records, position, self.end_offset)
            struct.pack_into(">i", records, position + 12, 0)
            self.batches.append((self.end_offset, self.size + position))
            self.end_offset += i32(records, position + 23)[0] + 1
            position = end
        os.pwrite(self.log, records, self.size)
        self.size += len(records)
        for event in self.waiting:
            event.set()
        self.waiting.clear()
        return first

    def produce(self, buf: bytearray, p: int, version: int) -> bytes | None:
        """The answer; None where none is wanted."""
        p += 2 + max(i16(buf, p)[0], 0)
        acks, _, _ = struct.unpack_from(">hii", buf, p)
        p += 10
        (n,) = i16(buf, p)
        topic = bytes(buf[p + 2 : p + 2 + n])
        p += 2 + n
        _, partition, length = struct.unpack_from(">iii", buf, p)
        p += 12
        with memoryview(buf) as whole, whole[p : p + length] as records:
            base = self.append(records)
        if not acks:
            return None
        body = struct.pack(">i", 1) + string(topic)
        body += struct.pack(">iihqq", 1, partition, 0, base, -1)
        return body + (struct.pack(">q", 0) if version >= 5 else b"") + struct.pack(">i", 0)

    async def fetch(self, version: int, buf: bytes, p: int) -> tuple[bytes, int, int]:
        """The answer up to the records, and the slice of the file that follows."""
        _, wait_ms, _ = struct.unpack_from(">iii", buf, p)
        p += 17 + (8 if version >= 7 else 0) + 4
        (n,) = i16(buf, p)
        topic = bytes(buf[p + 2 : p + 2 + n])
        p += 2 + n + 4
        (partition,) = i32(buf, p)
        p += 4 + (4 if version >= 9 else 0)
        (offset,) = i64(buf, p)
        p += 8 + (8 if version >= 5 else 0)
        (most,) = i32(buf, p)
        if offset >= self.end_offset:
            self.waiting.append(event := trio.Event())
            with trio.move_on_after(wait_ms / 1000):
                await event.wait()
        start = count = 0
        if offset < self.end_offset:
            start = self.batches[bisect.bisect_right(self.batches, (offset, 1 << 62)) - 1][1]
            count = min(self.size - start, most)
        end = self.end_offset
        head = struct.pack(">i", 0) + (struct.pack(">hi", 0, 0) if version >= 7 else b"")
        head += struct.pack(">i", 1) + string(topic)
        head += struct.pack(">iihqq", 1, partition, 0, end, end)
        head += struct.pack(">q", 0) if version >= 5 else b""
        return head + struct.pack(">ii", -1, count), start, count

    def other(self, key: int, version: int, buf: bytearray, p: int) -> bytes:
        """ApiVersions, Metadata and ListOffsets."""
        if key == API_VERSIONS:
            error = UNSUPPORTED_VERSION if version else 0
            return struct.pack(">hi", error, len(APIS)) + b"".join(
                struct.pack(">hhh", *api) for api in APIS
            )
        if key == METADATA:
            return self._metadata(version, buf, p)
        p += 8
        (n,) = i16(buf, p)
        topic = bytes(buf[p + 2 : p + 2 + n])
        p += 2 + n
        _, partition, when = struct.unpack_from(">iiq", buf, p)
        found = 0 if when == EARLIEST else self.end_offset
        body = struct.pack(">i", 1) + string(topic)
        return body + struct.pack(">iihqq", 1, partition, 0, -1, found)

    def _metadata(self, version: int, buf: bytearray, p: int) -> bytes:
        (n,) = i32(buf, p)
        p += 4
        names: list[bytes] = []
        for _ in range(max(n, 0)):
            (k,) = i16(buf, p)
            names.append(bytes(buf[p + 2 : p + 2 + k]))
            p += 2 + k
        out = struct.pack(">i", 0) if version >= 3 else b""
        out += struct.pack(">ii", 1, 1) + string(b"127.0.0.1") + struct.pack(">ih", self.port, -1)
        out += string(b"c") if version >= 2 else b""
        out += struct.pack(">ii", 1, len(names))
        for name in names:
            out += struct.pack(">h", 0) + string(name) + b"\0"
            out += struct.pack(">ihiiiiii", 1, 0, 0, 1, 1, 1, 1, 1)
        return out

    async def serve(self, stream: trio.SocketStream) -> None:
        """One connection, until it ends."""
        sock = stream.socket
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buf, have, pos = bytearray(BUFFER_BYTES), 0, 0
        out: list[bytes] = []
        try:
            while True:
                # No complete frame: answer, then read.
                while have - pos < 4 or have - pos < 4 + i32(buf, pos)[0]:
                    if have - pos >= 4 and len(buf) < 4 + (n := i32(buf, pos)[0]):
                        grown = bytearray(4 + n + SPARE_BYTES)
                        grown[: have - pos] = buf[pos:have]
                        buf, have, pos = grown, have - pos, 0
                    elif pos:
                        buf[: have - pos] = buf[pos:have]
                        have -= pos
                        pos = 0
                    if out:
                        await stream.send_all(b"".join(out))
                        out.clear()
                    with memoryview(buf) as view, view[have:] as room:
                        got = await sock.recv_into(room)
                    if not got:
                        return
                    have += got
                (n,) = i32(buf, pos)
                key, version, correlation = header(buf, pos + 4)
                p = pos + 14 + max(i16(buf, pos + 12)[0], 0)
                if key == FETCH:
                    if out:
                        await stream.send_all(b"".join(out))
                        out.clear()
                    head, start, count = await self.fetch(version, bytes(buf[p : pos + 4 + n]), 0)
                    size = struct.pack(">ii", len(head) + 4 + count, correlation)
                    await stream.send_all(size + head)
                    while count:
                        try:
                            sent = os.sendfile(sock.fileno(), self.log, start, count)
                            start += sent
                            count -= sent
                        except BlockingIOError:
                            await trio.lowlevel.wait_writable(sock)
                else:
                    body = (
                        self.produce(buf, p, version)
                        if key == PRODUCE
                        else self.other(key, version, buf, p)
                    )
                    if body is not None:
                        out.append(struct.pack(">ii", len(body) + 4, correlation) + body)
                pos += 4 + n
                if pos == have:
                    pos = have = 0
        except (trio.BrokenResourceError, OSError):
            return


if __name__ == "__main__":
    prototype = Prototype(int(sys.argv[1]), sys.argv[2])
    trio.run(trio.serve_tcp, prototype.serve, prototype.port)
