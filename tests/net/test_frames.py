"""Frames out of a stream of bytes, and what a peer can make us allocate."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pk.core.errors import ProtocolError
from pk.net.frames import FREE_BYTES, FrameBuffer, RequestMemory


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def drain(buffer: FrameBuffer) -> list[bytes]:
    found = []
    while (span := buffer.next_frame()) is not None:
        found.append(bytes(buffer.data[slice(*span)]))
    return found


def fill(buffer: FrameBuffer, data: bytes) -> None:
    """Receive `data` as a socket would: into whatever room there is."""
    while data:
        room = buffer.room()
        assert room is not None
        count = min(len(room), len(data))
        room[:count] = data[:count]
        room.release()
        buffer.received(count)
        data = data[count:]


@given(
    st.lists(st.binary(max_size=300), max_size=20),
    st.lists(st.integers(1, 500), min_size=1, max_size=50),
)
def test_frames_come_out_whole_however_they_are_cut(bodies: list[bytes], cuts: list[int]) -> None:
    stream, found = b"".join(map(frame, bodies)), []
    buffer = FrameBuffer(RequestMemory(1 << 20), 1000)
    turn = 0
    while stream:
        size = cuts[turn % len(cuts)]
        turn += 1
        fill(buffer, stream[:size])
        stream = stream[size:]
        found += drain(buffer)
        buffer.release()
    assert found == bodies
    assert len(buffer) == 0


def test_a_frame_one_byte_at_a_time() -> None:
    buffer = FrameBuffer(RequestMemory(1 << 20), 1000)
    data = frame(b"hello")
    for i in range(len(data) - 1):
        fill(buffer, data[i : i + 1])
        assert drain(buffer) == []
    fill(buffer, data[-1:])
    assert drain(buffer) == [b"hello"]


@pytest.mark.parametrize("size", [b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\0\x03\xe9"])
def test_a_size_that_is_negative_or_too_large_is_refused_before_its_bytes_come(size: bytes) -> None:
    buffer = FrameBuffer(RequestMemory(1 << 20), 1000)
    fill(buffer, size)
    with pytest.raises(ProtocolError):
        buffer.next_frame()


def test_a_claim_allocates_nothing() -> None:
    memory = RequestMemory(1 << 30)
    buffer = FrameBuffer(memory, 100 << 20)
    fill(buffer, (100 << 20).to_bytes(4, "big") + bytes(1000))
    assert drain(buffer) == []
    assert len(buffer.data) == FREE_BYTES
    assert memory.used == 0


def test_a_buffer_is_at_most_twice_what_came() -> None:
    memory = RequestMemory(1 << 30)
    buffer = FrameBuffer(memory, 100 << 20)
    fill(buffer, (100 << 20).to_bytes(4, "big"))
    sent = 4
    while sent < 3 << 20:
        fill(buffer, bytes(10_000))
        sent += 10_000
        assert drain(buffer) == []
        assert len(buffer.data) <= max(2 * sent, FREE_BYTES)
    assert memory.used == len(buffer.data) - FREE_BYTES


@pytest.mark.parametrize("viewed", [False, True])
def test_a_large_frame_comes_whole_while_its_buffer_grows(viewed: bool) -> None:
    """Beyond 4 MB the buffer is mapped, and grows in place, unless somebody still looks at it."""
    memory = RequestMemory(1 << 30)
    buffer = FrameBuffer(memory, 100 << 20)
    small, large = b"small", random.Random(1).randbytes(20 << 20)
    sent = frame(small) + frame(large) + frame(small)
    views: list[tuple[memoryview, bytes]] = []
    got: list[bytes] = []
    for start in range(0, len(sent), 1 << 20):
        fill(buffer, sent[start : start + (1 << 20)])
        if viewed:
            view = memoryview(buffer.data)[:1000]
            views.append((view, bytes(view)))
        got += drain(buffer)
    assert got == [small, large, small]
    if viewed:
        view, before = views[-1]
        assert view == before
    del views
    buffer.release()
    assert not buffer.data and memory.used == 0, "it is not kept"


def test_the_memory_of_all_together_is_bounded_and_given_back() -> None:
    memory = RequestMemory(3 * FREE_BYTES)
    big, other = FrameBuffer(memory, 100 << 20), FrameBuffer(memory, 100 << 20)
    head = (50 << 20).to_bytes(4, "big")
    fill(big, head + bytes(4 * FREE_BYTES - 4))
    fill(other, head + bytes(FREE_BYTES - 4))
    assert other.room() is None, "there is no memory for a second large frame"
    big.close()
    assert memory.used == 0
    assert other.room() is not None


def test_small_requests_pass_when_memory_is_spent() -> None:
    memory = RequestMemory(0)
    buffer = FrameBuffer(memory, 100 << 20)
    fill(buffer, frame(b"x" * (FREE_BYTES - 4)))
    assert drain(buffer) == [b"x" * (FREE_BYTES - 4)]


def test_an_empty_buffer_is_given_away_while_its_connection_waits() -> None:
    buffer = FrameBuffer(RequestMemory(1 << 20), 1000)
    fill(buffer, frame(b"a") + b"\0")
    assert drain(buffer) == [b"a"]
    buffer.release()
    assert buffer.data, "half a frame is in it"
    fill(buffer, b"\0\0\1b")
    assert drain(buffer) == [b"b"]
    buffer.release()
    assert not buffer.data
