"""Messages that have their own version: an int16 before the body.

This is the format of keys and values of internal topics, of the messages between consumers of
classic groups, and of the principal in an envelope. The version of a key is really the type of the
record; its body is always that of version 0.
"""

from collections.abc import Iterable, Mapping
from struct import Struct
from struct import error as StructError
from typing import Final, TypeVar

from pk.core.errors import ProtocolError
from pk.core.wire.codec import Buffer, decode, decode_whole, encode_onto, join
from pk.core.wire.schema import Message

M = TypeVar("M", bound=Message)

_INT16: Final = Struct(">h")


def encode_versioned(message: Message, version: int) -> bytes:
    """Encode `message` after its version. Raises EncodeError."""
    return join(encode_onto(message, version, bytearray(_INT16.pack(version))))


def encode_key(key: Message) -> bytes:
    """Encode the key of a record in an internal topic. Raises EncodeError."""
    return join(encode_onto(key, 0, bytearray(_INT16.pack(key.RECORD_TYPE))))


def version_of(buffer: Buffer) -> int:
    """Return the version at the start of `buffer`. The version of a key is the type of its record.

    Raises ProtocolError.
    """
    try:
        return _INT16.unpack_from(buffer)[0]
    except StructError as e:
        raise ProtocolError("too short for a version") from e


def decode_versioned(cls: type[M], buffer: Buffer, *, newer: bool = False) -> M:
    """Decode a message after its version. No bytes may follow it. Raises ProtocolError, for example
    for an unknown version.

    With `newer`, a version above the highest known one is decoded as that one, and further bytes
    are ignored. This is for consumers of classic groups, whose newer versions only append fields.
    """
    version = version_of(buffer)
    low, high = cls.VERSIONS
    if version > high and newer:
        return decode(cls, buffer, high, 2)[0]
    if not low <= version <= high:
        raise ProtocolError(f"{cls.__name__} has no version {version}")
    return decode_whole(cls, buffer, version, 2)


def by_record_type(classes: Iterable[type[M]]) -> dict[int, type[M]]:
    """Map the type of a record to its class, for classes of keys or of values."""
    return {cls.RECORD_TYPE: cls for cls in classes}


def decode_key(keys: Mapping[int, type[M]], buffer: Buffer) -> M | None:
    """Decode the key in `buffer`, whose class is in `keys` (see `by_record_type`). Returns None for
    an unknown type.

    A record of an unknown type was written by a newer program, and is skipped. Raises
    ProtocolError.
    """
    cls = keys.get(version_of(buffer))
    return None if cls is None else decode_whole(cls, buffer, 0, 2)
