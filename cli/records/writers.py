"""The output formats of `pk consume`, except %-tokens (`pk.cli.records.percent_format`).

A `Writer` gets the records of one batch at a time, so their common properties (topic, partition,
timestamp type) are formatted once. The loops in this module run for every record and so do as
little as possible.
"""

import base64
import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from json.encoder import encode_basestring
from typing import Any, Protocol, TypeGuard

from pk.cli.exits import Unusable
from pk.cli.options.known_values import FORMATS
from pk.cli.output.formats import check_format, template, yaml
from pk.cli.positions.times import show_time
from pk.cli.records.csv import csv_line
from pk.cli.records.row import (
    RECORD_FIELDS,
    ROW_FIELDS,
    TIMESTAMP_TYPES,
    RecordRow,
    header_value,
)
from pk.cli.records.source import Source
from pk.cli.terminal.text import cut, width_of
from pk.core.record.batch import Record

RECORD_FORMATS = ("value", *FORMATS)
Values = Callable[[Sequence[bytes | None]], bytes]


class Writer(Protocol):
    """Formats records. `begin` and `end` enclose the output, even if there are no records."""

    def begin(self) -> bytes: ...

    def batch(self, source: Source, records: Sequence[Record], /) -> bytes: ...

    def end(self) -> bytes: ...


class Simple:
    """A writer whose output needs no end. `values`, if given, writes records from their values
    alone."""

    def __init__(
        self,
        batch: Callable[[Source, Sequence[Record]], bytes],
        head: bytes = b"",
        values: Values | None = None,
    ) -> None:
        self.batch = batch
        self.values = values
        self._head = head

    def begin(self) -> bytes:
        return self._head

    def end(self) -> bytes:
        return b""


def value_lines(end: bytes, null: bytes) -> Simple:
    """Write only values, each followed by `end`; write `null` for a null value."""

    def lines(values: Sequence[bytes | None]) -> bytes:
        if not values:
            return b""
        try:
            return end.join(values) + end  # pyright: ignore[reportArgumentType, reportCallIssue] - looks for no null
        except TypeError:  # one of them is null
            return end.join([null if v is None else v for v in values]) + end

    return Simple(lambda _, records: lines([r.value for r in records]), values=lines)


def record_dict(source: Source, record: Record) -> dict[str, Any]:
    """All fields of a record, as in `jsonl`."""
    row = RecordRow(source, record)
    return {name: row[name] for name in RECORD_FIELDS if name in row}


def _json_field(name: str, data: bytes | None) -> str:
    if data is None:
        return f'"{name}": null'
    try:
        return f'"{name}": {encode_basestring(data.decode())}'
    except UnicodeDecodeError:
        return f'"{name}_b64": "{base64.b64encode(data).decode()}"'


def _no_json(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


_PARSE = json.JSONDecoder(parse_constant=_no_json).decode
"""Parses JSON without NaN and Infinity, which Python would accept as numbers."""


def _is_document(data: bytes | None) -> TypeGuard[bytes]:
    """Whether bytes are a JSON object or array in UTF-8."""
    if data is None or data.lstrip()[:1] not in (b"{", b"["):
        return False
    try:
        _PARSE(data.decode())
    except (ValueError, RecursionError):
        return False
    return True


def _parsed_field(name: str, data: bytes | None) -> str:
    """A field of jsonl. A JSON document is included as it was written, on one line; anything else
    is formatted by `_json_field`."""
    if not _is_document(data):
        return _json_field(name, data)
    # Line ends occur only between the parts of a document: within a text they are escaped.
    return f'"{name}": {data.decode().strip().translate(_ONE_LINE)}'


_ONE_LINE = {ord("\n"): " ", ord("\r"): " "}
Field = Callable[[str, bytes | None], str]


def _json_lines(source: Source, records: Sequence[Record], field: Field = _json_field) -> list[str]:
    """The jsonl objects, one per record. Built without json.dumps, which takes three times as
    long."""
    head = (
        f'{{"topic": {encode_basestring(source.topic)}, "partition": {source.partition}, "offset": '
    )
    kind = f', "timestamp_type": "{TIMESTAMP_TYPES[source.timestamp_type]}", '
    lines: list[str] = []
    for offset, timestamp, key, value, headers in records:
        pairs = (
            json.dumps([[n, header_value(v)] for n, v in headers], ensure_ascii=False)
            if headers
            else "[]"
        )
        lines.append(
            f'{head}{offset}, "timestamp": {timestamp}{kind}'
            f'{field("key", key)}, {field("value", value)}, "headers": {pairs}}}'
        )
    return lines


def _jsonl(source: Source, records: Sequence[Record], field: Field = _json_field) -> bytes:
    lines = _json_lines(source, records, field)
    return ("\n".join(lines) + "\n").encode() if lines else b""


class _JsonArray:
    """A JSON array of all records, written as they arrive."""

    def __init__(self, field: Field = _json_field) -> None:
        self._first = True
        self._field = field

    def begin(self) -> bytes:
        return b"["

    def batch(self, source: Source, records: Sequence[Record], /) -> bytes:
        lines = _json_lines(source, records, self._field)
        if not lines:
            return b""
        start = "\n  " if self._first else ",\n  "
        self._first = False
        return (start + ",\n  ".join(lines)).encode()

    def end(self) -> bytes:
        return b"]\n" if self._first else b"\n]\n"


def _csv(source: Source, records: Sequence[Record]) -> bytes:
    lines: list[str] = []
    for record in records:
        row = record_dict(source, record)
        row["headers"] = json.dumps(row["headers"], ensure_ascii=False)
        lines.append(csv_line(row.get(f) for f in RECORD_FIELDS))
    return "".join(lines).encode()


def _cbor(source: Source, records: Sequence[Record]) -> bytes:
    from pk.core import cbor

    return b"".join(
        cbor.dumps_plain(
            {
                "topic": source.topic,
                "partition": source.partition,
                "offset": r.offset,
                "timestamp": r.timestamp,
                "timestamp_type": TIMESTAMP_TYPES[source.timestamp_type],
                "key": r.key,
                "value": r.value,
                "headers": [list(h) for h in r.headers],
            }
        )
        for r in records
    )


def _yaml(source: Source, records: Sequence[Record]) -> bytes:
    if not records:
        return b""
    return (yaml([record_dict(source, r) for r in records]) + "\n").encode()


def _names(source: Source, records: Sequence[Record]) -> bytes:
    return b"".join(
        b"%b-%d@%d\n" % (source.topic.encode(), source.partition, r.offset) for r in records
    )


class _Table:
    """A table whose columns are at first as wide as the first batch needs, and become wider. The
    value is in the last column, and is cut only on a terminal."""

    def __init__(self, *, wide: bool, terminal: bool, width: int) -> None:
        self._wide = wide
        self._cut = width if terminal and not wide else 0
        self._room = width if terminal and wide else 0
        self._heads = ["TOPIC", "PARTITION", "OFFSET", "TIME", "KEY"]
        if wide:
            self._heads += ["TIME TYPE" if terminal else "TIME-TYPE", "EPOCH", "HEADERS"]
        self._widths = [len(head) for head in self._heads]
        self._headed = False

    def begin(self) -> bytes:
        return b""

    def end(self) -> bytes:
        return b"" if self._headed else self._line([*self._heads, "VALUE"])

    def _line(self, cells: list[str]) -> bytes:
        padded = [c + " " * (w - width_of(c)) for c, w in zip(cells, self._widths, strict=False)]
        if self._room:
            return ("\n".join(self._lines([*padded, cells[-1]])) + "\n").encode(errors="replace")
        line = "  ".join([*padded, cells[-1]]).rstrip()
        if self._cut:
            line = cut(line, self._cut)
        return (line + "\n").encode(errors="replace")

    def _lines(self, cells: list[str]) -> list[str]:
        """The lines of a wide row: a cell that the terminal would break continues on the next line,
        indented. Widths are those of the columns, so headings break at the same places as their
        cells."""
        lines, room = [cells[0]], self._room
        for cell in cells[1:]:
            if width_of(lines[-1]) + 2 + width_of(cell) <= room:
                lines[-1] += f"  {cell}"
            else:
                lines.append(f"    {cell}")
        return [line.rstrip() for line in lines]

    def _cells(self, source: Source, r: Record) -> list[str]:
        cells = [
            source.topic,
            str(source.partition),
            str(r.offset),
            show_time(r.timestamp),
            visible(r.key),
        ]
        if self._wide:
            headers = ",".join(f"{n}={visible(v)}" for n, v in r.headers)
            epoch = str(source.leader_epoch)
            cells += [TIMESTAMP_TYPES[source.timestamp_type], epoch, headers or "-"]
        return [*cells, visible(r.value)]

    def batch(self, source: Source, records: Sequence[Record], /) -> bytes:
        rows = [self._cells(source, r) for r in records]
        for cells in rows:
            self._widths = [max(w, width_of(c)) for w, c in zip(self._widths, cells, strict=False)]
        if rows and not self._headed:
            self._headed = True
            rows.insert(0, [*self._heads, "VALUE"])
        return b"".join(self._line(cells) for cells in rows)


def visible(data: bytes | None) -> str:
    """`data` on one line, with control characters escaped."""
    if data is None:
        return "null"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return "0x" + data.hex()
    return (
        text
        if text.isprintable()
        else "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    )


def _filled(text: str) -> Callable[[Source, Sequence[Record]], bytes]:
    fill = template(text, ROW_FIELDS)
    return lambda source, records: "".join(fill(RecordRow(source, r)) for r in records).encode(
        errors="surrogateescape"
    )


_SIMPLE: dict[str, Callable[[Source, Sequence[Record]], bytes]] = {
    "jsonl": _jsonl,
    "cbor": _cbor,
    "yaml": _yaml,
    "name": _names,
}


def writer(form: str, *, terminal: bool = False, width: int = 80) -> Writer:
    """The writer for a format by name, a template, or %-tokens. Raises Unusable."""
    if form == "value":
        return value_lines(b"\n", b"null")
    if form in _SIMPLE:
        return Simple(_SIMPLE[form])
    if form == "json":
        return _JsonArray()
    if form == "csv":
        return Simple(_csv, (",".join(RECORD_FIELDS) + "\n").encode())
    if form in ("table", "wide"):
        return _Table(wide=form == "wide", terminal=terminal, width=width)
    if "%" in form and not form.startswith("template="):
        from pk.cli.records.percent_format import only_value_then, token_writer

        end = only_value_then(form)
        return Simple(token_writer(form)) if end is None else value_lines(end, b"")
    return Simple(_filled(check_format(form, RECORD_FORMATS)))


def _parsed_yaml(source: Source, records: Sequence[Record]) -> bytes:
    rows: list[dict[str, Any]] = []
    for record in records:
        row = record_dict(source, record)
        documents = [("key", record.key), ("value", record.value)]
        rows.append(row | {n: json.loads(data) for n, data in documents if _is_document(data)})
    return (yaml(rows) + "\n").encode() if rows else b""


def parsing_writer(form: str | None) -> Writer:
    """The writer for a format in which keys and values that are JSON documents appear as such.
    Raises Unusable."""
    if form == "json":
        return _JsonArray(_parsed_field)
    if form == "jsonl":
        return Simple(partial(_jsonl, field=_parsed_field))
    if form == "yaml":
        return Simple(_parsed_yaml)
    raise Unusable("--parse-json is for -f json, jsonl and yaml.")


# Apache's formatters, by their class names and properties.

_DECODING = {
    "OffsetsMessageFormatter": ("offset_commit",),
    "GroupMetadataMessageFormatter": ("group_metadata",),
    "TransactionLogMessageFormatter": ("transaction_log",),
    "ShareGroupStateMessageFormatter": ("share_snapshot", "share_update"),
}
"""Formatter of an internal topic → the types of the records that it prints."""


def formatter(name: str, properties: Iterable[tuple[str, str]]) -> Writer:
    """The writer for one of Apache's formatter classes, in any package. Raises Unusable."""
    short = re.split(r"[.$]", name)[-1]
    if short == "DefaultMessageFormatter":
        return apache_writer(properties)
    if short == "NoOpMessageFormatter":
        return Simple(lambda _, records: b"", values=lambda values: b"")
    if short not in _DECODING:
        known = ("DefaultMessageFormatter", "NoOpMessageFormatter", *_DECODING)
        raise Unusable(
            f"--formatter: unknown formatter {name!r}; the formatters are {', '.join(known)}."
        )
    starts = tuple(b'{"type": "%b"' % kind.encode() for kind in _DECODING[short])

    def batch(_: Source, records: Sequence[Record]) -> bytes:
        shown = [r for r in records if r.key is not None and r.key.startswith(starts)]
        return b"".join(b'{"key": %b, "value": %b}\n' % (r.key, r.value or b"null") for r in shown)

    return Simple(batch)


_TRUE = frozenset(("true", "1", "yes"))
_PROPERTIES: dict[str, str] = {
    "print.timestamp": "false",
    "print.key": "false",
    "print.offset": "false",
    "print.partition": "false",
    "print.epoch": "false",
    "print.headers": "false",
    "print.delivery": "false",
    "print.value": "true",
    "key.separator": "\t",
    "line.separator": "\n",
    "headers.separator": ",",
    "null.literal": "null",
    "key.deserializer": "",
    "value.deserializer": "",
    "headers.deserializer": "",
}
_INTEGERS = {"Long": 8, "Integer": 4, "Short": 2}


def deserializer(name: str) -> Callable[[bytes], bytes]:
    """A function that converts bytes to text like one of Apache's deserializer classes. Raises
    Unusable."""
    short = name.rpartition(".")[2].removesuffix("Deserializer")
    if short in ("", "String", "ByteArray", "Bytes", "ByteBuffer"):
        return bytes
    if short in _INTEGERS:
        return lambda data: _integer(data, _INTEGERS[short], short)
    if short in ("Double", "Float"):
        import struct

        shape, size = (">d", 8) if short == "Double" else (">f", 4)

        def number(data: bytes) -> bytes:
            if len(data) != size:
                raise ValueError(f"{len(data)} bytes are not a {short}")
            return repr(struct.unpack(shape, data)[0]).encode()

        return number
    if short == "UUID":
        return bytes
    if short == "Boolean":
        return lambda data: b"true" if data == b"\x01" else b"false"
    raise Unusable(
        f"Unknown deserializer {name!r}; the deserializers are String, Long, Integer, Short, "
        "Double, Float, UUID, Boolean."
    )


def _integer(data: bytes, size: int, name: str) -> bytes:
    if len(data) != size:
        raise ValueError(f"{len(data)} bytes are not a {name}")
    return b"%d" % int.from_bytes(data, "big", signed=True)


def apache_writer(pairs: Iterable[tuple[str, str]]) -> Writer:
    """A writer like Apache's DefaultMessageFormatter with these properties. Raises Unusable."""
    from pk.cli.output.formats import unescape
    from pk.core.nearest import did_you_mean

    given = dict(pairs)
    for name in given:
        if name not in _PROPERTIES:
            hint = did_you_mean(
                name, _PROPERTIES, f"; the properties are {', '.join(_PROPERTIES)}."
            )
            raise Unusable(f"--property: the formatter has no property {name!r}{hint}")
    values = {**_PROPERTIES, **given}
    on = {
        name[6:]
        for name, value in values.items()
        if name.startswith("print.") and value.lower() in _TRUE
    }
    field = unescape(values["key.separator"]).encode(errors="surrogateescape")
    line = unescape(values["line.separator"]).encode(errors="surrogateescape")
    between = unescape(values["headers.separator"]).encode(errors="surrogateescape")
    null = values["null.literal"].encode(errors="surrogateescape")
    read_key = deserializer(values["key.deserializer"])
    read_value = deserializer(values["value.deserializer"])
    read_header = deserializer(values["headers.deserializer"])

    def show(data: bytes | None, read: Callable[[bytes], bytes]) -> bytes:
        return null if data is None else read(data)

    def batch(source: Source, records: Sequence[Record]) -> bytes:
        kind = b"LogAppendTime:" if source.timestamp_type else b"CreateTime:"
        common = b"Partition:%d" % source.partition
        out: list[bytes] = []
        for r in records:
            parts: list[bytes] = []
            if "timestamp" in on:
                parts.append(kind + b"%d" % r.timestamp if r.timestamp >= 0 else b"NO_TIMESTAMP")
            if "partition" in on:
                parts.append(common)
            if "offset" in on:
                parts.append(b"Offset:%d" % r.offset)
            if "delivery" in on:
                parts.append(b"Delivery:NOT_PRESENT")
            if "epoch" in on:
                known = source.leader_epoch >= 0
                parts.append(b"Epoch:%d" % source.leader_epoch if known else b"Epoch:NOT_PRESENT")
            if "headers" in on:
                pairs = [n.encode() + b":" + show(v, read_header) for n, v in r.headers]
                parts.append(between.join(pairs) if pairs else b"NO_HEADERS")
            if "key" in on:
                parts.append(show(r.key, read_key))
            if "value" in on:
                parts.append(show(r.value, read_value))
            out.append(field.join(parts) + line)
        return b"".join(out)

    if on == {"value"} and read_value is bytes:
        return value_lines(line, null)
    return Simple(batch)
