"""Compiles a message and version into the function that encodes it.

The function is `encode(m, out, parts, left) -> out`: it appends to the bytearray `out`. If the
message has records, it moves the output so far and the records to `parts`, without copying them,
and continues with a new bytearray, which it returns. It raises struct.error, TypeError,
AttributeError and UnicodeEncodeError for invalid values; `codec` converts them all to EncodeError.
It raises TooManyElements once the arrays have more than `left` elements in total: such a message
needs `encode_in_steps(rest, m, out, parts)`.
"""

from collections.abc import Callable
from struct import pack
from typing import Any, Final

from pk.core.errors import TooManyElements
from pk.core.values import STRING_BYTES_MAX
from pk.core.wire.emit import FIXED_IN_A_STEP, Source, append_uvarint, fields_of
from pk.core.wire.schema import MISSING, Array, Field, Kind, Message, Struct
from pk.core.wire.types import UUID, EncodeError, Fixed, Variable

NO_BOUND: Final = 1 << 62
"""No limit on the number of elements."""


def compile_encoder(
    cls: type[Message], version: int, *, in_steps: bool = False
) -> Callable[..., Any]:
    """Compile the encoder of `version`. With `in_steps` it is a coroutine function
    (core/wire/emit.py).

    Raises ValueError for a version that the message does not have.
    """
    source = _Encoder(cls, version, in_steps=in_steps)
    source.write_struct(cls, "m")
    source.flush()
    source.line("return out")
    return source.finish("encode", "m, out, parts" if in_steps else "m, out, parts, left")


def part_bytes(part: Any) -> int:
    """Return the size in bytes of a buffer, or of a slice that has not been read."""
    if isinstance(part, (bytes, bytearray)):
        return len(part)
    if isinstance(part, memoryview):
        return part.nbytes
    return part.length


def differs(kind: Kind, f: Field, value: str) -> str:
    """Return the condition, as source, under which `value` is not the field's default."""
    if f.default_factory is MISSING:
        return f"{value} is not None" if f.default is None else f"{value} != {f.default!r}"
    null = f"{value} is None or " if f.nullable is not None else ""
    if not isinstance(kind, type):
        return f"({null}len({value}) > 0)"
    inner = " or ".join(differs(k, g, f"{value}.{name}") for name, k, g in fields_of(kind))
    return f"({null}{inner})"


class _Encoder(Source):
    """Emits the source of an encoder.

    Writes of fixed width are collected in `pending`. `out` is the bytearray to which the emitted
    code writes.
    """

    def __init__(self, cls: type[Message], version: int, *, in_steps: bool) -> None:
        super().__init__(cls, version, in_steps=in_steps)
        self.out = "out"
        self.pending: list[tuple[str, str]] = []

        def absent(owner: str, field: str) -> EncodeError:
            return EncodeError(f"{cls.__name__} version {version} has no {field} in {owner}")

        def fault(field: str, what: str) -> EncodeError:
            return EncodeError(f"{cls.__name__} version {version}: {field} {what}")

        self.scope |= {
            "uvarint": append_uvarint,
            "part_bytes": part_bytes,
            "pack": pack,
            "absent": absent,
            "fault": fault,
            "TooManyElements": TooManyElements,
        }

    def flush(self) -> None:
        """Emit the write of the pending fields, in one call."""
        if not self.pending:
            return
        letters = "".join(letter for letter, _ in self.pending)
        values = ", ".join(value for letter, value in self.pending if letter != "x")
        self.pending.clear()
        if values:
            self.line(f"{self.out} += {self.layout('pack', letters)}({values})")
        else:
            self.line(f"{self.out} += {bytes(len(letters))!r}")

    def uvarint(self, n: str) -> None:
        """Emit the write of the variable `n` as an unsigned varint."""
        self.flush()
        with self.block(f"if {n} < 128:"):
            self.line(f"{self.out}.append({n})")
        with self.block("else:"):
            self.line(f"uvarint({self.out}, {n})")

    def length(self, n: str, wide: bool) -> None:
        """Emit the write of the variable `n`, a length or -1, in the version's format."""
        if self.flexible:
            self.line(f"{n} += 1")
            self.uvarint(n)
        else:
            self.pending.append(("i" if wide else "h", n))
            self.flush()

    def write(
        self, kind: Kind, nullable: bool, value: str, field: str, *, tagged: bool = False
    ) -> None:
        """Emit the write of the expression `value`.

        A nullable struct is preceded by -1 for null, or by 0 if it is a tagged field.
        """
        if isinstance(kind, Fixed):
            if kind == UUID:
                with self.block(f"if len({value}) != 16:"):
                    self.line(f"raise fault({field!r}, 'is not of 16 bytes')")
            self.pending.append((kind.letter, value))
        elif isinstance(kind, Variable):
            if kind.name == "records":
                self.write_records(nullable, value, field)
            else:
                self.write_variable(kind, nullable, value, field)
        elif isinstance(kind, Array):
            self.write_array(kind, nullable, value, field)
        else:
            local = self.name("o")
            self.line(f"{local} = {value}")
            if not nullable:
                self.write_struct(kind, local)
                return
            self.flush()
            with self.block(f"if {local} is None:"):
                self.line(f"{self.out}.append({0 if tagged else 255})")
            with self.block("else:"):
                self.pending.append(("b", "1"))
                self.write_struct(kind, local)
                self.flush()

    def write_variable(self, kind: Variable, nullable: bool, value: str, field: str) -> None:
        """Emit the write of a string or bytes."""
        v, n = self.name("v"), self.name("n")
        self.line(f"{v} = {value}")
        if nullable:
            with self.block(f"if {v} is None:"):
                self.line(f"{n} = -1")
                self.line(f"{v} = b''")
            self.line("else:")
            self.depth += 1
        if kind.name == "string":
            self.line(f"{v} = {v}.encode()")
        self.line(f"{n} = len({v})")
        if self.flexible and kind.name == "string":
            with self.block(f"if {n} > {STRING_BYTES_MAX}:"):
                said = f"is longer than {STRING_BYTES_MAX} bytes"
                self.line(f"raise fault({field!r}, {said!r})")
        if nullable:
            self.depth -= 1
        self.length(n, wide=kind.name != "string")
        self.line(f"{self.out} += {v}")

    def write_records(self, nullable: bool, value: str, field: str) -> None:
        """Emit the code that passes records on without copying them."""
        v, n = self.name("v"), self.name("n")
        self.line(f"{v} = {value}")
        with self.block(f"if {v} is None:"):
            self.line(f"{n} = -1" if nullable else f"raise fault({field!r}, 'is null')")
        with self.block("else:"):
            self.line(f"{n} = part_bytes({v})")
        self.length(n, wide=True)
        with self.block(f"if {n} > {1 if self.flexible else 0}:"):
            self.line(f"parts.append({self.out})")
            self.line(f"parts.append({v})")
            self.line(f"{self.out} = bytearray()")

    def write_array(self, kind: Array, nullable: bool, value: str, field: str) -> None:
        """Emit the write of an array: of fixed width in one call, of anything else in a loop."""
        v, n = self.name("v"), self.name("n")
        self.line(f"{v} = {value}")
        if nullable:
            with self.block(f"if {v} is None:"):
                self.line(f"{n} = -1")
                self.line(f"{v} = ()")
            with self.block("else:"):
                self.line(f"{n} = len({v})")
        else:
            self.line(f"{n} = len({v})")
        if not self.in_steps:
            self.line(f"left -= {n}")
            with self.block("if left < 0:"):
                self.line(f"raise TooManyElements({self.cls.__name__!r})")
        self.length(n, wide=True)
        if isinstance(kind.element, Fixed) and kind.element != UUID:
            self.write_fixed(kind.element, v)
            return
        item = self.name("o")
        with self.block(f"for {item} in {v}:"):
            if isinstance(kind.element, type):
                self.write_struct(kind.element, item)
            else:
                self.write(kind.element, False, item, field)
            self.flush()
            self.end_element()

    def write_fixed(self, element: Fixed, v: str) -> None:
        """Emit the write of elements of fixed width: all in one call, or some in each step."""
        packed = "pack(f'>{{len({v})}}{letter}', *{v})"
        if not self.in_steps:
            self.line(f"{self.out} += {packed.format(v=v, letter=element.letter)}")
            return
        at, some = self.name("i"), self.name("k")
        with self.block(f"for {at} in range(0, len({v}), {FIXED_IN_A_STEP}):"):
            with self.block(f"if {at}:"):
                self.line("await rest()")
            self.line(f"{some} = {v}[{at}:{at} + {FIXED_IN_A_STEP}]")
            self.line(f"{self.out} += {packed.format(v=some, letter=element.letter)}")

    def write_struct(self, cls: type[Struct], local: str) -> None:
        """Emit the writes of the fields of a struct and its tagged ones. A field that the version
        does not have must have its default, or be ignorable."""
        tagged: list[tuple[str, Kind, Field]] = []
        for name, kind, f in fields_of(cls):
            value = f"{local}.{name}"
            if not f.within(self.version):
                if not f.ignorable:
                    with self.block(f"if {differs(kind, f, value)}:"):
                        self.line(f"raise absent({cls.__name__!r}, {name!r})")
            elif f.tag is not None:
                tagged.append((name, kind, f))
            else:
                self.write(kind, f.nullable_in(self.version), value, name)
        if not self.flexible:
            return
        if tagged:
            self.write_tags(sorted(tagged, key=lambda t: t[2].tag or 0), local)
        else:
            self.pending.append(("x", ""))

    def write_tags(self, tagged: list[tuple[str, Kind, Field]], local: str) -> None:
        """Emit the writes of the tagged fields that differ from their defaults, in the order of
        their tags."""
        self.flush()
        conditions: list[str] = []
        for name, kind, f in tagged:
            condition = self.name("c")
            self.line(f"{condition} = 1 if {differs(kind, f, f'{local}.{name}')} else 0")
            conditions.append(condition)
        self.line(f"{self.out}.append({' + '.join(conditions)})")
        for (name, kind, f), condition in zip(tagged, conditions, strict=True):
            with self.block(f"if {condition}:"):
                body, outer = self.name("s"), self.out
                self.line(f"{body} = bytearray()")
                self.out = body
                nullable = f.nullable_in(self.version)
                self.write(kind, nullable, f"{local}.{name}", name, tagged=True)
                self.flush()
                self.out = outer
                n = self.name("n")
                self.line(f"{n} = len({body})")
                self.line(f"{self.out}.append({f.tag})")
                self.uvarint(n)
                self.line(f"{self.out} += {body}")
