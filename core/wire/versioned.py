"""Messages that say their own version: an int16 before the body.

Keys and values of internal topics are written so, what consumers of classic groups tell each other,
and the principal in an envelope. The version of a key is not really
one: it says what the record is, and the body is always that of version 0.
"""

from collections.abc import Iterable, Mapping
from struct import Struct
from struct import error as StructError
from typing import Final, TypeVar

from pk.core.errors import ProtocolError
from pk.core.wire.codec import Buffer, decode, decode_whole, encode
from pk.core.wire.schema import Message

M = TypeVar("M", bound=Message)

_INT16: Final = Struct(">h")


def encode_versioned(message: Message, version: int) -> bytes:
    """`message` behind its version. Raises EncodeError."""
    return _INT16.pack(version) + encode(message, version)


def encode_key(key: Message) -> bytes:
    """The key of a record in an internal topic. Raises EncodeError."""
    return _INT16.pack(key.RECORD_TYPE) + encode(key, 0)


def version_of(buffer: Buffer) -> int:
    """The version at the beginning of `buffer`; of a key, the type of its record.

    Raises ProtocolError.
    """
    try:
        return _INT16.unpack_from(buffer)[0]
    except StructError as e:
        raise ProtocolError("too short for a version") from e


def decode_versioned(cls: type[M], buffer: Buffer, *, newer: bool = False) -> M:
    """The message behind its version, and nothing after it. Raises ProtocolError, also for a
    version not known.

    With `newer` a version above the highest known one is read as that, and what follows is ignored:
    consumers of classic groups promise each other that newer versions only append.
    """
    version = version_of(buffer)
    low, high = cls.VERSIONS
    if version > high and newer:
        return decode(cls, buffer, high, 2)[0]
    if not low <= version <= high:
        raise ProtocolError(f"{cls.__name__} has no version {version}")
    return decode_whole(cls, buffer, version, 2)


def by_record_type(classes: Iterable[type[M]]) -> dict[int, type[M]]:
    """Classes of keys, or of values, by the type of the record they belong to."""
    return {cls.RECORD_TYPE: cls for cls in classes}


def decode_key(keys: Mapping[int, type[M]], buffer: Buffer) -> M | None:
    """The key in `buffer`, whose class is among `keys` (see `by_record_type`); None for a type that
    is not.

    A record of a type that is not known was written by a newer program, and is skipped. Raises
    ProtocolError.
    """
    cls = keys.get(version_of(buffer))
    return None if cls is None else decode_whole(cls, buffer, 0, 2)
