"""Zigzag varints, the encoding of every number in the records of a batch.

A signed number is folded so that small magnitudes have small codes (0, -1, 1, -2 become 0, 1, 2,
3), and the code is written in groups of seven bits, lowest first, one in each byte, whose high bit
says that another byte follows (`ByteUtils` in Apache Kafka).
"""

from typing import Final

from pk.core.errors import ErrorCode, KafkaError

INT_BYTES_MAX: Final = 5
"""The maximum size in bytes of a varint of 32 bits: lengths, counts and offset deltas."""

LONG_BYTES_MAX: Final = 10
"""The maximum size in bytes of a varint of 64 bits: timestamp deltas."""


def encode_varint(number: int) -> bytes:
    """Encode `number`, which must fit in 64 signed bits, as a zigzag varint."""
    code = (number << 1) ^ (number >> 63)
    if code < 0x80:
        return bytes((code,))
    if code < 0x4000:
        return bytes((code & 0x7F | 0x80, code >> 7))
    if code < 0x20_0000:
        return bytes((code & 0x7F | 0x80, code >> 7 & 0x7F | 0x80, code >> 14))
    out = bytearray()
    while code > 0x7F:
        out.append((code & 0x7F) | 0x80)
        code >>= 7
    out.append(code)
    return bytes(out)


_RUN: Final = 64
"""This many numbers, from a multiple of it on, differ only in the first byte of their varints."""

_REMEMBERED: Final = range(-_RUN, 1 << 15)
"""The numbers whose varints are kept: the usual lengths and deltas."""

_FIRST_BYTES: Final = [bytes((number << 1 | 0x80,)) for number in range(_RUN)]


class _Varints(dict[int, bytes]):
    """Number → its varint, filled at the first use of each number. A lookup takes a tenth of the
    time of encoding. The records of a batch are numbered from 0, so a run of 64 numbers is filled
    at once, which takes as long as encoding six of them."""

    def __missing__(self, number: int) -> bytes:
        data = encode_varint(number)
        if len(data) == 1:
            self[number] = data
        elif number in _REMEMBERED:
            rest = data[1:]
            run = enumerate([first + rest for first in _FIRST_BYTES], number - number % _RUN)
            self.update(run)
        return data


VARINTS: Final = _Varints()
"""`VARINTS[n]` is `encode_varint(n)`, kept for the usual values of n."""


def read_varint(buffer: bytes | memoryview, position: int, bytes_max: int) -> tuple[int, int]:
    """Read the number at `position`. Returns it and the position after it. As in Java, the encoding
    may be longer than necessary.

    Raises KafkaError(INVALID_RECORD) if it is longer than `bytes_max`, and IndexError if it is cut
    off.
    """
    code, position = read_code(buffer, position, bytes_max)
    return (code >> 1) ^ -(code & 1), position


def read_code(buffer: bytes | memoryview, position: int, bytes_max: int) -> tuple[int, int]:
    """Like `read_varint`, but returns the number's code: 0, 1, 2, 3 for 0, -1, 1, -2."""
    code = shift = 0
    for _ in range(bytes_max):
        byte = buffer[position]
        position += 1
        code |= (byte & 0x7F) << shift
        if byte < 0x80:
            code &= 0xFFFFFFFF if bytes_max == INT_BYTES_MAX else 0xFFFFFFFFFFFFFFFF
            return code, position
        shift += 7
    raise KafkaError(ErrorCode.INVALID_RECORD, f"a number of more than {bytes_max} bytes")
