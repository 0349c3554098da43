"""The common part of both compilers: source lines with indentation, unused names, and the constants
they refer to.

The generated source calls nothing but struct, bytearray and str: nested structs are inlined, arrays
are loops, and consecutive fields of fixed width are read or written by a single struct call. Each
function is in `linecache`, so a traceback shows the line that failed.

The variant in steps is a coroutine function, which awaits its parameter `rest` after some array
elements. It is for large messages: the plain function is as fast as possible, but blocks the loop
until it is done.
"""

import linecache
from collections.abc import Callable, Generator
from contextlib import contextmanager
from struct import Struct as Layout
from typing import Any, Final

from pk.core.errors import ProtocolError
from pk.core.wire.schema import Array, Field, Kind, Message, Struct, kind_of
from pk.core.wire.types import Fixed, Variable

ELEMENTS_IN_A_STEP: Final = 512
"""The number of array elements in a step, which takes about half a millisecond."""

FIXED_IN_A_STEP: Final = 16_384
"""The number of elements in a step if they are numbers, which are read and written together."""


def fields_of(cls: type[Struct]) -> list[tuple[str, Kind, Field]]:
    """Return the fields of `cls` in wire order, with their types resolved."""
    return [(name, kind_of(cls.__annotations__[name]), f) for name, f in cls.FIELDS.items()]


def bytes_min(kind: Kind, version: int, flexible: bool) -> int:
    """Return the minimum size in bytes of a value of `kind`. With it, the remaining bytes limit the
    count of an array."""
    if isinstance(kind, Fixed):
        return kind.size
    if isinstance(kind, Variable):
        return 1 if flexible else 2 if kind.name == "string" else 4
    if isinstance(kind, Array):
        return 1 if flexible else 4
    total = 1 if flexible else 0
    for _, inner, f in fields_of(kind):
        if f.within(version) and f.tag is None:
            nullable = f.nullable_in(version) and isinstance(inner, type)
            total += 1 if nullable else bytes_min(inner, version, flexible)
    return total


class Source:
    """The source of one function for one message and version, as it is built."""

    def __init__(self, cls: type[Message], version: int, *, in_steps: bool) -> None:
        low, high = cls.VERSIONS
        if not low <= version <= high:
            raise ValueError(f"{cls.__name__} has no version {version}, only {low} to {high}")
        self.cls = cls
        self.version = version
        self.in_steps = in_steps
        self.flexible = cls.FLEXIBLE_SINCE is not None and version >= cls.FLEXIBLE_SINCE
        self.scope: dict[str, Any] = {}
        self.lines: list[str] = []
        self.depth = 1
        self.names = 0
        if in_steps:
            self.line(f"step = {ELEMENTS_IN_A_STEP}")

    def line(self, text: str) -> None:
        """Add a line at the current depth."""
        self.lines.append("    " * self.depth + text)

    def name(self, stem: str) -> str:
        """Return an unused local name."""
        self.names += 1
        return f"{stem}{self.names}"

    @contextmanager
    def block(self, head: str) -> Generator[None]:
        """Add a statement that ends with a colon; inside this context, its body."""
        self.line(head)
        self.depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1

    def layout(self, prefix: str, letters: str) -> str:
        """Return the name of a constant: `pack` or `unpack_from` for these letters, big endian."""
        name = f"{prefix}_{letters.replace('?', '_')}"
        if name not in self.scope:
            made = Layout(">" + letters)
            self.scope[name] = made.pack if prefix == "pack" else made.unpack_from
        return name

    def end_element(self) -> None:
        """End the code for an array element, after which a step may be complete."""
        if self.in_steps:
            self.line("step -= 1")
            with self.block("if not step:"):
                self.line(f"step = {ELEMENTS_IN_A_STEP}")
                self.line("await rest()")

    def finish(self, purpose: str, parameters: str) -> Callable[..., Any]:
        """Compile the source as the function `purpose`."""
        kind = "def"
        if self.in_steps:
            kind, purpose, parameters = "async def", f"{purpose}_in_steps", f"rest, {parameters}"
        text = "\n".join([f"{kind} {purpose}({parameters}):", *self.lines]) + "\n"
        filename = f"<wire {self.cls.__name__} version {self.version}: {purpose}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        exec(compile(text, filename, "exec"), self.scope)  # noqa: S102
        return self.scope[purpose]


def uvarint_tail(buffer: Any, position: int, low: int) -> tuple[int, int]:
    """Read the rest of an unsigned varint whose first byte, `low`, has the continuation bit.
    Returns its value and the position after it."""
    value = low & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ProtocolError("a varint of more than five bytes")


def append_uvarint(out: bytearray, value: int) -> None:
    """Append `value` as an unsigned varint."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
