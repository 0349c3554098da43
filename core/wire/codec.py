"""Messages to bytes and back: the only codec, compiled when a message and version is first used.

`decode` raises ProtocolError for whatever is wrong with the bytes, and makes nothing of a size that
was only claimed. `encode` raises EncodeError for whatever is wrong with the message. A version
outside `cls.VERSIONS` is the caller's mistake: ValueError. What is decoded holds copies, but for
records: those are views of `buffer`.
"""

from struct import error as StructError
from typing import TypeVar

from pk.core.errors import ProtocolError
from pk.core.wire.decoder import compile_decoder
from pk.core.wire.encoder import compile_encoder, part_bytes
from pk.core.wire.schema import Message
from pk.core.wire.types import EncodeError, Part

__all__ = [
    "EncodeError",
    "decode",
    "decode_small",
    "decode_whole",
    "encode",
    "encode_onto",
    "encode_parts",
    "join",
    "part_bytes",
]

M = TypeVar("M", bound=Message)
Buffer = bytes | bytearray | memoryview


def encode_onto(message: Message, version: int, out: bytearray) -> list[Part]:
    """Append `message` to `out`; the pieces of the whole, of which `out` is the first.

    Records are pieces of their own, not copied. Raises EncodeError.
    """
    cls = type(message)
    try:
        encoder = cls.ENCODERS[version]
    except KeyError:
        encoder = cls.ENCODERS[version] = compile_encoder(cls, version)
    parts: list[Part] = []
    try:
        last = encoder(message, out, parts)
    except (StructError, TypeError, AttributeError, UnicodeEncodeError) as e:
        raise EncodeError(f"{cls.__name__} version {version}: {e}") from e
    if last or not parts:
        parts.append(last)
    return parts


def encode_parts(message: Message, version: int) -> list[Part]:
    """The body of `message` in pieces: records are not copied, slices not read.

    Raises EncodeError.
    """
    return encode_onto(message, version, bytearray())


def encode(message: Message, version: int) -> bytes:
    """The body of `message`. Raises EncodeError."""
    return join(encode_onto(message, version, bytearray()))


def join(parts: list[Part]) -> bytes:
    """The pieces as one, slices read."""
    if len(parts) == 1 and type(parts[0]) is bytearray:
        return bytes(parts[0])
    return b"".join(
        [p if isinstance(p, (bytes, bytearray, memoryview)) else p.read() for p in parts]
    )


def decode(cls: type[M], buffer: Buffer, version: int, position: int = 0) -> tuple[M, int]:
    """The message that begins at `position`, and the position after it. Raises ProtocolError."""
    try:
        decoder = cls.DECODERS[version]
    except KeyError:
        decoder = cls.DECODERS[version] = compile_decoder(cls, version)
    try:
        return decoder(buffer, position)
    except (StructError, IndexError) as e:
        raise ProtocolError(f"{cls.__name__} version {version}: ends too soon") from e
    except UnicodeDecodeError as e:
        raise ProtocolError(f"{cls.__name__} version {version}: a string is not UTF-8") from e


def decode_small(
    cls: type[M], buffer: Buffer, version: int, position: int, elements_max: int
) -> tuple[M, int]:
    """The request that begins at `position`, and the position after it. Raises ProtocolError, of
    which TooManyElements for one whose arrays have more elements than that together."""
    try:
        decoder = cls.DECODERS[version]
    except KeyError:
        decoder = cls.DECODERS[version] = compile_decoder(cls, version)
    try:
        return decoder(buffer, position, elements_max)
    except (StructError, IndexError) as e:
        raise ProtocolError(f"{cls.__name__} version {version}: ends too soon") from e
    except UnicodeDecodeError as e:
        raise ProtocolError(f"{cls.__name__} version {version}: a string is not UTF-8") from e


def decode_whole(cls: type[M], buffer: Buffer, version: int, position: int = 0) -> M:
    """The message that is all of `buffer` from `position` on.

    Raises ProtocolError, also for bytes after it.
    """
    message, end = decode(cls, buffer, version, position)
    if end != len(buffer):
        raise ProtocolError(
            f"{cls.__name__} version {version}: {len(buffer) - end} bytes after its end"
        )
    return message
