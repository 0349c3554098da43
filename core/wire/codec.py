"""Encodes and decodes messages, with functions that are compiled when a message and version is
first used.

`decode` raises ProtocolError for any error in the bytes, and allocates no memory for a claimed size
before checking it. `encode` raises EncodeError for any error in the message. A version outside
`cls.VERSIONS` is an error of the caller: ValueError. Decoded messages contain copies of the bytes,
except for records, which are views of `buffer`.

`decode_in_steps` and `encode_in_steps` are for messages with thousands of elements: they await
`rest()` after each step, so that other tasks can run in between. `elements_max` limits the total
number of elements in all arrays of a message.
"""

from collections.abc import Awaitable, Callable, Coroutine
from functools import cache
from struct import error as StructError
from typing import Any, TypeAlias, TypeVar

from pk.core.errors import ProtocolError
from pk.core.wire.decoder import compile_decoder
from pk.core.wire.encoder import NO_BOUND, compile_encoder, part_bytes
from pk.core.wire.schema import Message
from pk.core.wire.types import EncodeError, Part

__all__ = [
    "EncodeError",
    "check_end",
    "decode",
    "decode_in_steps",
    "decode_request",
    "decode_whole",
    "encode",
    "encode_in_steps",
    "encode_onto",
    "encode_parts",
    "join",
    "part_bytes",
]

M = TypeVar("M", bound=Message)
Buffer = bytes | bytearray | memoryview
Rest: TypeAlias = Callable[[], Awaitable[object]]
"""Awaited between two steps."""

UNWRITABLE = (StructError, TypeError, AttributeError, UnicodeEncodeError)
UNREADABLE = (StructError, IndexError, UnicodeDecodeError)
"""The exceptions of compiled functions for an invalid message, or invalid bytes."""


def encode_onto(
    message: Message, version: int, out: bytearray, elements_max: int = NO_BOUND
) -> list[Part]:
    """Append `message` to `out`. Returns all pieces, of which `out` is the first.

    Records are separate pieces, and not copied. Raises EncodeError, TooManyElements.
    """
    cls = type(message)
    try:
        encoder = cls.ENCODERS[version]
    except KeyError:
        encoder = cls.ENCODERS[version] = compile_encoder(cls, version)
    parts: list[Part] = []
    try:
        last = encoder(message, out, parts, elements_max)
    except UNWRITABLE as e:
        raise EncodeError(f"{cls.__name__} version {version}: {e}") from e
    if last or not parts:
        parts.append(last)
    return parts


async def encode_in_steps(message: Message, version: int, out: bytearray, rest: Rest) -> list[Part]:
    """Like `encode_onto`. The message must not change in the meantime."""
    cls = type(message)
    parts: list[Part] = []
    try:
        last = await _encoder_in_steps(cls, version)(rest, message, out, parts)
    except UNWRITABLE as e:
        raise EncodeError(f"{cls.__name__} version {version}: {e}") from e
    if last or not parts:
        parts.append(last)
    return parts


def encode_parts(message: Message, version: int) -> list[Part]:
    """Encode the body of `message` in pieces. Records are not copied, and slices are not read.

    Raises EncodeError.
    """
    return encode_onto(message, version, bytearray())


def encode(message: Message, version: int) -> bytes:
    """Encode the body of `message`. Raises EncodeError."""
    return join(encode_onto(message, version, bytearray()))


def join(parts: list[Part]) -> bytes:
    """Join the pieces, and read the slices among them."""
    if len(parts) == 1 and type(parts[0]) is bytearray:
        return bytes(parts[0])
    return b"".join(
        [p if isinstance(p, (bytes, bytearray, memoryview)) else p.read() for p in parts]
    )


def decode(cls: type[M], buffer: Buffer, version: int, position: int = 0) -> tuple[M, int]:
    """Decode the message that begins at `position`. Returns it and the position after it. Raises
    ProtocolError."""
    try:
        decoder = cls.DECODERS[version]
    except KeyError:
        decoder = cls.DECODERS[version] = compile_decoder(cls, version)
    try:
        return decoder(buffer, position)
    except UNREADABLE as e:
        raise _malformed(cls, version, e) from e


async def decode_in_steps(
    cls: type[M], buffer: Buffer, version: int, position: int, rest: Rest, *bound: int
) -> tuple[M, int]:
    """Like `decode`, or with a `bound` like `decode_request`. The buffer must not change in the
    meantime."""
    try:
        return await _decoder_in_steps(cls, version)(rest, buffer, position, *bound)
    except UNREADABLE as e:
        raise _malformed(cls, version, e) from e


@cache
def _encoder_in_steps(
    cls: type[Message], version: int
) -> Callable[..., Coroutine[Any, Any, bytearray]]:
    return compile_encoder(cls, version, in_steps=True)


@cache
def _decoder_in_steps(cls: type[Message], version: int) -> Callable[..., Coroutine[Any, Any, Any]]:
    return compile_decoder(cls, version, in_steps=True)


def _malformed(cls: type[Message], version: int, error: Exception) -> ProtocolError:
    text = isinstance(error, UnicodeDecodeError)
    what = "a string is not UTF-8" if text else "ends too soon"
    return ProtocolError(f"{cls.__name__} version {version}: {what}")


def decode_request(
    cls: type[M], buffer: Buffer, version: int, position: int, elements_max: int
) -> tuple[M, int]:
    """Decode the request that begins at `position`. Returns it and the position after it. Raises
    ProtocolError, and TooManyElements if its arrays have more than `elements_max` elements in
    total."""
    try:
        decoder = cls.DECODERS[version]
    except KeyError:
        decoder = cls.DECODERS[version] = compile_decoder(cls, version)
    try:
        return decoder(buffer, position, elements_max)
    except UNREADABLE as e:
        raise _malformed(cls, version, e) from e


def decode_whole(cls: type[M], buffer: Buffer, version: int, position: int = 0) -> M:
    """Decode the message that fills `buffer` from `position` on.

    Raises ProtocolError, also if bytes follow the message.
    """
    message, end = decode(cls, buffer, version, position)
    check_end(cls, buffer, version, end)
    return message


def check_end(cls: type[Message], buffer: Buffer, version: int, end: int) -> None:
    """Raise ProtocolError if bytes follow the message."""
    if end != len(buffer):
        raise ProtocolError(
            f"{cls.__name__} version {version}: {len(buffer) - end} bytes after its end"
        )
