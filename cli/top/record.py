"""A record in `pk top`: a row, and the whole record as lines for a terminal of any width. Pure."""

from typing import Annotated, Any, Final, TypedDict

from pk.cli.output.amounts import show_bytes
from pk.cli.positions.resolve import now_ms
from pk.cli.positions.times import show_clock, show_time
from pk.cli.records.json_text import fault, indented
from pk.cli.records.range_reader import Pair
from pk.cli.records.row import TIMESTAMP_TYPES
from pk.cli.records.writers import visible
from pk.cli.terminal.full_screen import Line
from pk.cli.terminal.text import cut, folded, printable
from pk.cli.top.rows import Drawn

_KEY_MAX: Final = 20
"""The most columns of a key in a table."""
_DATA_MAX: Final = 500
"""The most bytes of a key or a value in a table."""
_MOST: Final = 256 << 10
"""The most bytes of a value that are shown."""
_HEX_MOST: Final = 16 << 10
_NAME_WIDTH: Final = 10


def _show_moment(ms: int) -> str:
    """The time of a record, without the date if it is today."""
    text = show_time(ms)
    if text[:10] == show_time(now_ms())[:10]:
        return text[11:23]
    return show_clock(text) or "-"


def _show_data(data: bytes | None) -> str:
    return visible(data if data is None else data[:_DATA_MAX])


def _show_key(key: bytes | None) -> str:
    return cut(_show_data(key), _KEY_MAX)


class RecordOnScreen(TypedDict):
    """A record of the open topic."""

    time: Annotated[int, Drawn(show=_show_moment, right=True, falling=True)]
    partition: int
    offset: Annotated[int, Drawn(falling=True)]
    size: Annotated[int | None, Drawn(show=show_bytes, drop_rank=2, falling=True)]
    """The bytes of the value."""

    key: Annotated[bytes | None, Drawn(show=_show_key, null="null", right=False)]
    value: Annotated[bytes | None, Drawn(show=_show_data, null="null", flexible=True)]
    pair: Annotated[Any, Drawn(only_snapshot=True, sorts=False)]
    """The source and the record of the row."""


def record_lines(pair: Pair, width: int) -> list[Line]:
    """The whole record: its position, key, headers and value."""
    source, record = pair
    kind = TIMESTAMP_TYPES[source.timestamp_type].replace("_", " ")
    where = f"{source.topic}/{source.partition} @ {record.offset}"
    lines: list[Line] = [
        _field("record", f"{where}  (leader epoch {source.leader_epoch})", width),
        _field("time", f"{show_time(record.timestamp) or '-'}  ({kind})", width),
    ]
    if source.producer_id is not None and source.producer_id >= 0:
        by = f"{source.producer_id}, epoch {source.producer_epoch}"
        lines.append(_field("producer", by, width))
    lines += _part("key", record.key, width)
    lines.append(_field("headers", f"{len(record.headers)}" if record.headers else "none", width))
    for name, data in record.headers:
        text = "null" if data is None else visible(data[:_HEX_MOST])
        lines += [
            [(f"  {line}", "")] for line in folded(f"{printable(name)}: {text}", max(width - 2, 1))
        ]
    return lines + _part("value", record.value, width)


def _field(name: str, text: str, width: int) -> Line:
    return [(f"{name:<{_NAME_WIDTH}}", "bold"), (cut(printable(text), width - _NAME_WIDTH), "")]


def _part(name: str, data: bytes | None, width: int) -> list[Line]:
    """The key or the value: as JSON, as text, or as bytes."""
    if data is None:
        return [_field(name, "null", width)]
    if not data:
        return [_field(name, "empty", width)]
    try:
        text = data[:_MOST].decode()
        kind = "text"
    except UnicodeDecodeError as e:
        # The cut may have split the last character.
        if e.start < _MOST - 3 or len(data) <= _MOST:
            return [_field(name, f"{show_bytes(len(data))}, not UTF-8", width), *_dump(data, width)]
        text, kind = data[: e.start].decode(), "text"
    if name == "key" and "\n" not in text and len(text) <= width - _NAME_WIDTH:
        return [_field(name, text, width)]
    if len(data) <= _MOST and text[:1] in "{[" and fault(text) is None:
        text, kind = indented(text), "JSON"
    lines = [_field(name, f"{show_bytes(len(data))}, {kind}", width)]
    for line in text.split("\n"):
        lines += [[(one, "")] for one in folded(printable(line.expandtabs(4)), max(width, 1))]
    if len(data) > _MOST:
        lines.append([(f"… the first {show_bytes(_MOST)} of {show_bytes(len(data))}", "dim")])
    return lines


def _dump(data: bytes, width: int) -> list[Line]:
    """Offsets, bytes and characters, as many in a line as fit."""
    lines: list[Line] = []
    size = next((size for size in (16, 8) if 9 + 4 * size <= width), 4)
    for at in range(0, min(len(data), _HEX_MOST), size):
        row = data[at : at + size]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append([(f"{at:06x}  ", "dim"), (f"{row.hex(' '):<{3 * size}} {text}", "")])
    if len(data) > _HEX_MOST:
        lines.append([(f"… the first {show_bytes(_HEX_MOST)} of {show_bytes(len(data))}", "dim")])
    return lines
