"""The types a field of a message may have, and the two errors of the codec.

`str` and `bytes` are used directly, `list[T]` is an array, a `Struct` is a struct. Other types have
their width in an annotation, which type checkers see as `int`, `float` or `bytes`, and the compiler
as a letter of the struct module.
"""

from typing import Annotated, Any, NamedTuple, Protocol, runtime_checkable


class EncodeError(ValueError):
    """A message that cannot be encoded: a field has a value that the version does not support, or
    one out of range."""


class Fixed(NamedTuple):
    """A type of fixed width: its letter in the struct module, and its size in bytes."""

    letter: str
    size: int


class Variable(NamedTuple):
    """A type preceded by its length: "string", "bytes" or "records"."""

    name: str


@runtime_checkable
class Slice(Protocol):
    """A section of a log that has not been read yet. The codec counts its size and passes it
    through."""

    @property
    def length(self) -> int:
        """Its size in bytes."""
        ...

    def read(self) -> bytes:
        """Its content, which `encode` puts in its place."""
        ...


BOOL = Fixed("?", 1)
UUID = Fixed("16s", 16)
STRING = Variable("string")
BYTES = Variable("bytes")
RECORDS = Variable("records")

Int8 = Annotated[int, Fixed("b", 1)]
Int16 = Annotated[int, Fixed("h", 2)]
Int32 = Annotated[int, Fixed("i", 4)]
Int64 = Annotated[int, Fixed("q", 8)]
Uint16 = Annotated[int, Fixed("H", 2)]
Float64 = Annotated[float, Fixed("d", 8)]
Uuid = Annotated[bytes, UUID]
Records = Annotated[Any, RECORDS]
"""Whole record batches: when decoded, a memoryview of the frame, or None; for encoding, any buffer
or a `Slice`."""

Part = bytes | bytearray | memoryview | Slice
"""A piece of an encoded message."""
