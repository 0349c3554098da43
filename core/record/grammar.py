"""The grammar of Kafka's record: the fields of a record inside a batch of format v2 (KIP-98),
declared once, and the functions that are derived from them.

- `parse_record` reads one record by the grammar, field by field. It is slow and careful, and only
  it raises the errors of a record.
- `compile_loop` compiles a function that loops over many records, as core/wire compiles a codec
  from the declaration of a message. A few lines of source define the use of each field, and the
  function skips all other fields. Most numbers have up to three bytes and are read in place, since
  a call for each would take longer than all the rest.

A compiled loop accepts only records that it understands. At any other record, valid or not, it
stops; then `parse_record` decides. So no loop can accept what the grammar refuses, as long as its
own few checks are those of the grammar; tests/record/test_walk.py and test_bulk_read.py compare
them on good and on damaged bytes.
"""

import linecache
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from pk.core.errors import ErrorCode, KafkaError
from pk.core.record.varint import INT_BYTES_MAX, LONG_BYTES_MAX, read_code, read_varint

NULL: Final = -1
"""The length that means null."""


class Kind(Enum):
    """The encoding of a field."""

    BYTE = 0
    NUMBER = 1
    """A zigzag varint."""
    BYTES = 2
    """A length, which is a number, and that many bytes."""
    ARRAY = 3
    """A count, which is a number, and that many elements."""


class Field(NamedTuple):
    """A field of a record."""

    name: str
    kind: Kind
    bytes_max: int = INT_BYTES_MAX
    """The maximum size of the number in bytes."""
    least: int = 0
    """The minimum length: `NULL` if the field may be null."""
    elements: tuple[Any, ...] = ()
    """The fields of each element of an array."""


LENGTH: Final = Field("length", Kind.NUMBER)
ATTRIBUTES: Final = Field("attributes", Kind.BYTE)
"""Unused in format v2, and ignored."""
TIMESTAMP: Final = Field("timestamp delta", Kind.NUMBER, LONG_BYTES_MAX)
OFFSET: Final = Field("offset delta", Kind.NUMBER)
KEY: Final = Field("key", Kind.BYTES, least=NULL)
VALUE: Final = Field("value", Kind.BYTES, least=NULL)
HEADER_KEY: Final = Field("header key", Kind.BYTES)
HEADER_VALUE: Final = Field("header value", Kind.BYTES, least=NULL)
HEADERS: Final = Field("headers", Kind.ARRAY, elements=(HEADER_KEY, HEADER_VALUE))

RECORD: Final = (LENGTH, ATTRIBUTES, TIMESTAMP, OFFSET, KEY, VALUE, HEADERS)
"""The fields of a record, in order."""

RECORD_BYTES_MIN: Final = len(RECORD)
"""The size of a record without key, value or headers: each of its fields takes one byte."""


class RecordError(KafkaError):
    """INVALID_RECORD because of one record. `batch_index` is its number in the batch."""

    def __init__(self, batch_index: int, message: str) -> None:
        super().__init__(ErrorCode.INVALID_RECORD, message)
        self.batch_index = batch_index


def invalid_record(index: int, what: str) -> RecordError:
    """Return the error for record number `index`. `what` completes the sentence."""
    return RecordError(index, f"record {index} {what}")


class Part(NamedTuple):
    """One field of one record."""

    number: int
    """The number, length or count."""
    start: int
    """The position after the number, at which the bytes of a field begin."""
    stop: int
    """The position after the bytes."""


class Parsed(NamedTuple):
    """The fields of a record, as `parse_record` read them."""

    timestamp: int
    """The timestamp delta."""
    offset: int
    """The offset delta."""
    key: Part
    value: Part
    headers: list[tuple[Part, Part]]
    stop: int
    """The position after the record."""


def parse_record(data: bytes | memoryview, start: int, index: int) -> Parsed:
    """Parse the record at `start`, which is number `index` of its batch. Raises RecordError."""
    parts: list[Part] = []

    def read(field: Field, position: int) -> int:
        if field.kind is Kind.BYTE:
            data[position]
            parts.append(Part(0, position, position + 1))
            return position + 1
        number, at = read_varint(data, position, field.bytes_max)
        stop = at
        if field.kind is Kind.BYTES:
            if number < field.least:
                raise invalid_record(index, f"has a length of {number}")
            stop += max(number, 0)
        parts.append(Part(number, at, stop))
        if field.kind is Kind.ARRAY:
            if not 0 <= number <= end - stop:
                raise invalid_record(index, f"claims {number} headers")
            for _ in range(number):
                for element in field.elements:
                    stop = read(element, stop)
        return stop

    end = len(data)
    try:
        position = read(LENGTH, start)
        size = parts[0].number
        if size < RECORD_BYTES_MIN - 1 or size > end - position:
            raise invalid_record(index, f"claims {size} bytes, {end - position} are left")
        end = position + size
        for field in RECORD[1:]:
            position = read(field, position)
    except IndexError:
        raise invalid_record(index, "is cut off") from None
    except RecordError:
        raise
    except KafkaError as e:
        raise invalid_record(index, f"has {e.message}") from None
    if position != end:
        raise invalid_record(index, f"claims {end - start} bytes but has {position - start}")
    _, _, timestamp, offset, key, value, _, *headers = parts
    pairs = list(zip(headers[::2], headers[1::2], strict=True))
    return Parsed(timestamp.number, offset.number, key, value, pairs, end)


# --- compiled loops ---


class Unusual(Exception):
    """A record is unusual: a compiled loop does not understand it."""


Lines = Sequence[str]


def signed(code: str = "code") -> str:
    """Return the source of the number whose zigzag code is the variable `code`."""
    return f"({code} >> 1) ^ -({code} & 1)"


def compile_loop(
    name: str,
    parameters: str,
    *,
    numbers: Mapping[Field, Lines] = {},
    cuts: Mapping[Field, Lines] = {},
    begin: Lines = (),
    end: Lines = (),
    null_key: str = "code != 1",
    result: str = "",
    scope: Mapping[str, Any] = {},
) -> Callable[..., Any]:
    """Compile a function that loops over the records that begin at `position` in `data`, from
    number `index` up to `until`; `parameters` are its other parameters. It returns the position and
    the index of the record that it does not understand, or of the one after the last, and then
    `result`.

    Each argument is one place in the source. The caller gives lines of it:

    - `begin` before the loop, and `end` after each record,
    - `numbers` after a field's number: `code` is its zigzag code, `at` the position of its first
      byte, `position` that of its last byte, `start` that of the record,
    - `cuts` after a field's bytes were cut out of the data, into a variable of the field's name.

    A key with a negative length is accepted only if the expression `null_key` is false. By default,
    this is so if the length is -1, whose `code` is 1.
    """
    source = _Source(numbers, cuts, null_key)
    with_result = f", {result}" if result else ""
    source.add(0, f"def {name}(data, position, index, until, {parameters}):")
    source.add(1, "end = len(data)", "start = position", *begin, "try:")
    source.add(2, "for index in range(index, until):")
    source.record(3)
    source.add(3, *end)
    source.add(2, "else:", f"    return position, until{with_result}")
    source.add(1, "except (IndexError, Unusual, KafkaError):", "    pass")
    source.add(1, f"return start, index{with_result}")
    return source.function(name, scope)


class _Source:
    """The source of a loop, as it is built."""

    def __init__(
        self, numbers: Mapping[Field, Lines], cuts: Mapping[Field, Lines], null_key: str
    ) -> None:
        self._numbers, self._cuts, self._null_key = numbers, cuts, null_key
        self._lines: list[str] = []
        self._with_at = any("at - start" in line for lines in numbers.values() for line in lines)

    def add(self, depth: int, *lines: str) -> None:
        """Add lines at this depth."""
        self._lines += ["    " * depth + line for line in lines]

    def function(self, name: str, scope: Mapping[str, Any]) -> Callable[..., Any]:
        """Compile the function that the source defines. A traceback shows its lines."""
        text = "\n".join(self._lines) + "\n"
        filename = f"<{name} of records>"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        names = {"Unusual": Unusual, "KafkaError": KafkaError, "read_code": read_code, **scope}
        exec(compile(text, filename, "exec"), names)  # noqa: S102 (made of constants, above)
        return names[name]

    def record(self, depth: int) -> None:
        """Add the code that reads a record: `position` is its beginning, and afterwards its end."""
        self.add(depth, "start = position")
        self._number(depth, LENGTH)
        self.add(depth, "stop = position + 1 + (code >> 1)", "if code & 1:", "    raise Unusual")
        step = 1
        for field in RECORD[1:]:
            if field.kind is Kind.BYTE:
                step += 1
                continue
            if step:
                self.add(depth, f"position += {step}")
            step = 0
            if field.kind is Kind.NUMBER:
                self._number(depth, field, wanted=field in self._numbers)
                step = 1
            elif field.kind is Kind.BYTES:
                self._bytes(depth, field)
            else:
                self._array(depth, field)
        self.add(depth, "if position != stop:", "    raise Unusual")

    def _number(self, depth: int, field: Field, *, wanted: bool = True) -> None:
        """Add the code that reads the number at `position` into `code`, or skips it unless
        `wanted`. Afterwards `position` is that of the number's last byte."""
        if self._with_at:
            self.add(depth, "at = position")
        self.add(depth, "code = data[position]", "if code >= 0x80:", "    position += 1")
        inner = depth + 1
        if wanted:
            self.add(inner, "if (high := data[position]) < 0x80:")
            self.add(inner, "    code = code & 0x7F | high << 7")
            self.add(inner, "elif (top := data[position + 1]) < 0x80:")
            self.add(inner, "    code = code & 0x7F | (high & 0x7F) << 7 | top << 14")
            self.add(inner, "    position += 1")
            self.add(inner, "else:")
        else:
            self.add(inner, "if data[position] >= 0x80:")
        self.add(inner, f"    code, position = read_code(data, position - 1, {field.bytes_max})")
        self.add(inner, "    position -= 1")
        self.add(depth, *self._numbers.get(field, ()))

    def _bytes(self, depth: int, field: Field) -> None:
        """Add the code that cuts out bytes, or skips them."""
        self._number(depth, field)
        unusual = "code & 1"
        if field.least == NULL:
            unusual += f" and ({self._null_key if field is KEY else 'code != 1'})"
        self.add(depth, f"if {unusual}:", "    raise Unusual")
        if field not in self._cuts:
            self.add(depth, "position += 1 + (code >> 1)")
            return
        name = field.name.replace(" ", "_")
        cut = f"{name} = data[position + 1 : (position := position + 1 + (code >> 1))]"
        if field.least == NULL:
            self.add(depth, "if code & 1:", f"    {name} = None", "    position += 1", "else:")
            self.add(depth + 1, cut)
        else:
            self.add(depth, cut)
        self.add(depth, *self._cuts[field])

    def _array(self, depth: int, field: Field) -> None:
        """Add the code that reads an array, which is usually empty. Nothing after it reads `data`,
        so its end is checked."""
        self._number(depth, field)
        self.add(depth, "position += 1", "if code:")
        self.add(depth + 1, "if code & 1:", "    raise Unusual")
        self.add(depth + 1, "for _ in range(code >> 1):")
        for element in field.elements:
            self._bytes(depth + 2, element)
        self.add(depth + 1, "if position > end:", "    raise Unusual")
