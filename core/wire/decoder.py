"""Compiles a message and version into the function that decodes it.

The function is `decode(buf, p) -> (message, position)`. In addition to ProtocolError it raises
struct.error, IndexError and UnicodeDecodeError for bytes that end too soon or are not text;
`codec.decode` converts them all to ProtocolError. struct calls and indexing check the end
themselves; a slice does not, so every length is compared with the end first. A count is checked
against the remaining bytes before anything is allocated.

An array element may take one byte on the wire, but a hundred in memory and a few microseconds of
the event loop, which serves all clients. So the arrays of one request may have at most ELEMENTS_MAX
elements in total, or the caller's limit. Responses contain data that the client requested, and are
not limited here.
"""

from collections.abc import Callable
from struct import unpack_from
from typing import Any, Final

from pk.core.errors import ProtocolError, TooManyElements
from pk.core.values import STRING_BYTES_MAX
from pk.core.wire.emit import FIXED_IN_A_STEP, Source, bytes_min, fields_of, uvarint_tail
from pk.core.wire.schema import MISSING, Array, Field, Kind, Message, Request, Struct
from pk.core.wire.types import UUID, Fixed, Variable

ELEMENTS_MAX: Final = 100_000
"""The default of `pk.request.elements.max`."""


def compile_decoder(
    cls: type[Message], version: int, *, in_steps: bool = False
) -> Callable[..., Any]:
    """Compile the decoder of `version`. With `in_steps` it is a coroutine function
    (core/wire/emit.py).

    Raises ValueError for a version that the message does not have.
    """
    source = _Decoder(cls, version, in_steps=in_steps)
    source.line("end = len(buf)")
    source.read_struct(cls, "m")
    source.flush()
    source.line("return m, p")
    return source.finish("decode", f"buf, p, left={ELEMENTS_MAX}" if source.bounded else "buf, p")


class _Decoder(Source):
    """Emits the source of a decoder.

    Reads of fixed width are collected in `pending` until the position after them is needed.
    """

    def __init__(self, cls: type[Message], version: int, *, in_steps: bool) -> None:
        super().__init__(cls, version, in_steps=in_steps)
        self.pending: list[tuple[str, Fixed]] = []
        self.bounded = issubclass(cls, Request)

        def fault(field: str, what: str) -> ProtocolError:
            return ProtocolError(f"{cls.__name__} version {version}: {field} {what}")

        def too_many(field: str, what: str) -> TooManyElements:
            return TooManyElements(f"{cls.__name__} version {version}: {field} {what}")

        self.scope |= {
            "too_many": too_many,
            "uvarint": uvarint_tail,
            "unpack": unpack_from,
            "view": memoryview,
            "fault": fault,
        }

    def flush(self) -> None:
        """Emit the read of the pending fields, in one call."""
        if not self.pending:
            return
        targets = ", ".join(target for target, _ in self.pending)
        if [kind.letter for _, kind in self.pending] == ["B"]:
            self.line(f"{targets} = buf[p]")
        else:
            unpack = self.layout("unpack", "".join(kind.letter for _, kind in self.pending))
            comma = "," if len(self.pending) == 1 else ""
            self.line(f"{targets}{comma} = {unpack}(buf, p)")
        self.line(f"p += {sum(kind.size for _, kind in self.pending)}")
        self.pending.clear()

    def uvarint(self) -> str:
        """Emit the read of an unsigned varint. Returns the name of its variable."""
        n = self.name("n")
        self.pending.append((n, Fixed("B", 1)))
        self.flush()
        with self.block(f"if {n} > 127:"):
            self.line(f"{n}, p = uvarint(buf, p, {n})")
        return n

    def length(self, wide: bool) -> tuple[str, str]:
        """Emit the read of a length. Returns the name of its variable, and the condition under
        which the value is not null."""
        if self.flexible:
            n = self.uvarint()
            return n, n
        n = self.name("n")
        self.pending.append((n, Fixed("i", 4) if wide else Fixed("h", 2)))
        self.flush()
        return n, f"{n} >= 0"

    def read(
        self, kind: Kind, nullable: bool, target: str, field: str, *, tagged: bool = False
    ) -> None:
        """Emit the read of a value of `kind` into `target`.

        A nullable struct is preceded by -1 for null, or by 0 if it is a tagged field.
        """
        if isinstance(kind, Fixed):
            self.pending.append((target, kind))
        elif isinstance(kind, Variable):
            self.read_variable(kind, nullable, target, field)
        elif isinstance(kind, Array):
            self.read_array(kind, nullable, target, field)
        elif nullable:
            n = self.name("n")
            self.pending.append((n, Fixed("b", 1)))
            self.flush()
            with self.block(f"if {n} {'<=' if tagged else '<'} 0:"):
                self.line(f"{target} = None")
            with self.block("else:"):
                self.read_struct(kind, target)
        else:
            self.read_struct(kind, target)

    def read_variable(self, kind: Variable, nullable: bool, target: str, field: str) -> None:
        """Emit the read of a string, bytes or records."""
        n, present = self.length(wide=kind.name != "string")
        with self.block(f"if {present}:"):
            q = self.name("q")
            if self.flexible and kind.name == "string":
                with self.block(f"if {n} > {STRING_BYTES_MAX + 1}:"):
                    said = f"is longer than {STRING_BYTES_MAX} bytes"
                    self.line(f"raise fault({field!r}, {said!r})")
            self.line(f"{q} = p + {n}{' - 1' if self.flexible else ''}")
            with self.block(f"if {q} > end:"):
                self.line(f"raise fault({field!r}, 'ends beyond the message')")
            made = {
                "string": f"str(buf[p:{q}], 'utf-8')",
                "bytes": f"bytes(buf[p:{q}])",
                "records": f"view(buf)[p:{q}]",
            }[kind.name]
            self.line(f"{target} = {made}")
            self.line(f"p = {q}")
        self.read_null(nullable, target, field)

    def read_null(self, nullable: bool, target: str, field: str) -> None:
        """Emit the branch for a null length."""
        with self.block("else:"):
            if nullable:
                self.line(f"{target} = None")
            else:
                self.line(f"raise fault({field!r}, 'is null')")

    def read_array(self, kind: Array, nullable: bool, target: str, field: str) -> None:
        """Emit the read of an array: of fixed width in one call, of anything else in a loop."""
        least = bytes_min(kind.element, self.version, self.flexible)
        if not least:
            raise TypeError(f"{field} of {self.cls.__name__} would be an array of nothing")
        n, present = self.length(wide=True)
        with self.block(f"if {present}:"):
            if self.flexible:
                self.line(f"{n} -= 1")
            with self.block(f"if {n} * {least} > end - p:"):
                self.line(f"raise fault({field!r}, 'counts more than the bytes that are left')")
            if self.bounded:
                self.line(f"left -= {n}")
                with self.block("if left < 0:"):
                    self.line(f"raise too_many({field!r}, 'counts more than one request may')")
            if kind.element == UUID and not self.in_steps:
                self.line(f"{target} = [bytes(buf[i:i+16]) for i in range(p, p + {n} * 16, 16)]")
                self.line(f"p += {n} * 16")
            elif isinstance(kind.element, Fixed) and kind.element != UUID:
                self.read_fixed(kind.element, n, target)
            else:
                self.read_elements(kind.element, n, target, field)
        self.read_null(nullable, target, field)

    def read_fixed(self, element: Fixed, n: str, target: str) -> None:
        """Emit the read of elements of fixed width: all in one call, or some in each step."""
        if not self.in_steps:
            self.line(f"{target} = list(unpack(f'>{{{n}}}{element.letter}', buf, p))")
            self.line(f"p += {n} * {element.size}")
            return
        items, some = self.name("a"), self.name("k")
        self.line(f"{target} = {items} = []")
        with self.block(f"while {n}:"):
            self.line(f"{some} = min({n}, {FIXED_IN_A_STEP})")
            self.line(f"{items} += unpack(f'>{{{some}}}{element.letter}', buf, p)")
            self.line(f"p += {some} * {element.size}")
            self.line(f"{n} -= {some}")
            with self.block(f"if {n}:"):
                self.line("await rest()")

    def read_elements(self, element: Kind, n: str, target: str, field: str) -> None:
        """Emit the loop over the elements of an array."""
        items, item = self.name("a"), self.name("o")
        self.line(f"{target} = {items} = []")
        with self.block(f"for _ in range({n}):"):
            self.read(element, False, item, field)
            self.flush()
            self.line(f"{items}.append({item})")
            self.end_element()

    def read_struct(self, cls: type[Struct], target: str) -> None:
        """Emit the reads of the fields of a struct, then of its tagged ones, and create the
        struct."""
        values: dict[str, str] = {}
        tagged: list[tuple[str, Kind, Field]] = []
        for name, kind, f in fields_of(cls):
            if not f.within(self.version):
                continue
            values[name] = self.name("v")
            if f.tag is None:
                self.read(kind, f.nullable_in(self.version), values[name], name)
            else:
                tagged.append((name, kind, f))
        if self.flexible:
            for name, kind, f in tagged:
                self.line(f"{values[name]} = {self.default(kind, f)}")
            self.read_tags(tagged, values)
        self.flush()
        made = self.constant(cls)
        self.line(f"{target} = {made}({', '.join(f'{n}={v}' for n, v in values.items())})")

    def default(self, kind: Kind, f: Field) -> str:
        """Return the default of a field, as source."""
        if f.default_factory is MISSING:
            return repr(f.default)
        return f"{self.constant(kind)}()" if isinstance(kind, type) else "[]"

    def constant(self, cls: type[Struct]) -> str:
        """Return the name of the constant for a class."""
        self.scope[cls.__name__] = cls
        return cls.__name__

    def read_tags(self, tagged: list[tuple[str, Kind, Field]], values: dict[str, str]) -> None:
        """Emit the read of tagged fields in any order. Unknown ones are skipped."""
        n = self.name("n")
        self.pending.append((n, Fixed("B", 1)))
        self.flush()
        with self.block(f"if {n}:"):
            with self.block(f"if {n} > 127:"):
                self.line(f"{n}, p = uvarint(buf, p, {n})")
            with self.block(f"for _ in range({n}):"):
                tag = self.uvarint()
                size = self.uvarint()
                q = self.name("q")
                self.line(f"{q} = p + {size}")
                with self.block(f"if {q} > end:"):
                    self.line(f"raise fault('tagged field', f'{{{tag}}} ends beyond the message')")
                for name, kind, f in tagged:
                    with self.block(f"if {tag} == {f.tag}:"):
                        nullable = f.nullable_in(self.version)
                        self.read(kind, nullable, values[name], name, tagged=True)
                        self.flush()
                        with self.block(f"if p != {q}:"):
                            self.line(f"raise fault({name!r}, 'has another size than it says')")
                self.line(f"p = {q}")
