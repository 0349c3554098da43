"""The types a field of a message may have, and the two errors of the codec.

`str` and `bytes` are themselves, `list[T]` is an array, a `Struct` is a struct; the rest carries
its width in an annotation, which type checkers read as `int`, `float` or `bytes`, and the compiler
as a letter of the struct module.
"""

from typing import Annotated, Any, NamedTuple, Protocol, runtime_checkable


class EncodeError(ValueError):
    """A message that cannot be written: a field has a value that the version cannot carry, or one
    out of its range.
    """


class Fixed(NamedTuple):
    """A type of fixed width: its letter in the struct module, and its bytes."""

    letter: str
    size: int


class Variable(NamedTuple):
    """A type whose length comes before it: "string", "bytes" or "records"."""

    name: str


@runtime_checkable
class Slice(Protocol):
    """A stretch of a log that has not been read yet. The codec counts it and passes it through."""

    @property
    def length(self) -> int:
        """Its bytes."""
        ...

    def read(self) -> bytes:
        """Its content: what `encode` puts in place of it."""
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
"""Whole record batches: decoded a memoryview of the frame, or None; to encode, any buffer or a
`Slice`.
"""

Part = bytes | bytearray | memoryview | Slice
"""A piece of an encoded message."""
