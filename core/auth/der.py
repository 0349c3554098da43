"""A minimal parser for DER, the encoding of certificates and keys."""

from __future__ import annotations


class DerError(ValueError):
    """The bytes are not DER."""


def element(data: bytes, position: int = 0) -> tuple[int, bytes, int]:
    """Parse the element at `position`. Returns its tag, its content and the position of the next
    element. Raises DerError."""
    try:
        tag, length = data[position], data[position + 1]
    except IndexError as e:
        raise DerError("it is cut off") from e
    start = position + 2
    if length & 0x80:
        count = length & 0x7F
        length = int.from_bytes(data[start : start + count], "big")
        start += count
    end = start + length
    if end > len(data):
        raise DerError("it is cut off")
    return tag, data[start:end], end
