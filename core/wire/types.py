"""The types that a field of a message may have, and the error for a message that cannot be encoded.

`str` and `bytes` are used directly, `list[T]` is an array, and a `Struct` is a struct. Other types
have their width in an annotation, which type checkers see as `int`, `float` or `bytes`, and the
compiler as a letter of the struct module.
"""

from typing import Annotated, Any, NamedTuple, Protocol, runtime_checkable


class EncodeError(ValueError):
    """A message cannot be encoded: a field has a value that is out of range or that the version
    does not support."""


class Fixed(NamedTuple):
    """A type of fixed width: its letter in the struct module, and its size in bytes."""

    letter: str
    size: int


class Variable(NamedTuple):
    """A type preceded by its length: "string", "bytes" or "records"."""

    name: str


@runtime_checkable
class Slice(Protocol):
    """A section of a log that has not been read yet. The codec includes its size in the frame and
    does not read it."""

    @property
    def length(self) -> int:
        """The size in bytes."""
        ...

    def read(self) -> bytes:
        """Read the content. `encode` does so to include the bytes."""
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
"""Whole record batches. A decoded field is a memoryview of the frame, or None. For encoding it may
be any buffer or a `Slice`."""

Part = bytes | bytearray | memoryview | Slice
"""A piece of an encoded message."""
