"""Parses pushed metrics: the part of OpenTelemetry's MetricsData in protobuf that Kafka's clients
use, gauges and sums.

Only a few fields of a few messages are needed, so the bytes are parsed directly; unknown fields are
skipped. Everything is limited by the size of the input, and by `SERIES_MAX`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

SERIES_MAX: Final = 2_000
"""The maximum number of values in one push."""
TEXT_MAX: Final = 255
"""The maximum length of names and attributes; longer ones are truncated."""
DELTA: Final = 1
"""AGGREGATION_TEMPORALITY_DELTA."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
Value = int | memoryview
Attributes = tuple[tuple[str, str], ...]


class Malformed(ValueError):
    """Bytes that are not MetricsData."""


class Pushed(Struct, frozen=True):
    """One value pushed by a client."""

    name: str
    attributes: Attributes
    value: float
    is_counter: bool
    is_delta: bool
    """Whether a counter's value is added to previous ones."""


def read_metrics(data: bytes) -> list[Pushed]:
    """Return the gauges and sums in a MetricsData message; histograms are skipped. Raises
    Malformed."""
    found: list[Pushed] = []
    for resource_metrics in _messages(memoryview(data), 1):
        for scope_metrics in _messages(resource_metrics, 2):
            for metric in _messages(scope_metrics, 2):
                for one in _metric(metric):
                    if len(found) >= SERIES_MAX:
                        raise Malformed(f"more than {SERIES_MAX} values")
                    found.append(one)
    return found


def _metric(data: memoryview) -> Iterator[Pushed]:
    name, points = "", list[tuple[memoryview, bool, bool]]()
    for number, value in _fields(data):
        if number == 1:
            name = _text(value)
        elif number == 5:
            points += [(point, False, False) for point in _messages(_message(value), 1)]
        elif number == 7:
            temporality = monotonic = 0
            inner = list(_fields(_message(value)))
            for field, flag in inner:
                if field == 2 and isinstance(flag, int):
                    temporality = flag
                elif field == 3 and isinstance(flag, int):
                    monotonic = flag
            for field, point in inner:
                if field == 1:
                    points.append((_message(point), bool(monotonic), temporality == DELTA))
    for point, is_counter, is_delta in points:
        attributes, number = _point(point)
        yield Pushed(name, attributes, number, is_counter, is_delta)


def _point(data: memoryview) -> tuple[Attributes, float]:
    """Parse a NumberDataPoint."""
    attributes: list[tuple[str, str]] = []
    number = 0.0
    for field, value in _fields(data):
        if field == 4:
            number = _double(value)
        elif field == 6 and isinstance(value, int):
            number = float(value - (1 << 64) if value >> 63 else value)
        elif field == 7:
            attributes.append(_attribute(_message(value)))
    return tuple(sorted(attributes)), number


def _attribute(data: memoryview) -> tuple[str, str]:
    """Parse a KeyValue whose AnyValue is not a list or a map."""
    key, text = "", ""
    for field, value in _fields(data):
        if field == 1:
            key = _text(value)
        elif field == 2:
            for kind, inner in _fields(_message(value)):
                if kind == 1:
                    text = _text(inner)
                elif kind == 2:
                    text = "true" if inner else "false"
                elif kind == 3 and isinstance(inner, int):
                    text = str(inner - (1 << 64) if inner >> 63 else inner)
                elif kind == 4:
                    text = f"{_double(inner):g}"
    return key, text


def _messages(data: memoryview, wanted: int) -> Iterator[memoryview]:
    for number, value in _fields(data):
        if number == wanted:
            yield _message(value)


def _message(value: Value) -> memoryview:
    if isinstance(value, int):
        raise Malformed("expected a message, found a number")
    return value


def _text(value: Value) -> str:
    return str(bytes(_message(value)[: 4 * TEXT_MAX]), "utf-8", "replace")[:TEXT_MAX]


def _double(value: Value) -> float:
    if not isinstance(value, int):
        raise Malformed("expected a number, found bytes")
    return struct.unpack("<d", value.to_bytes(8, "little"))[0]


def _fields(data: memoryview) -> Iterator[tuple[int, Value]]:
    """Yield the fields of one message. Raises Malformed."""
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, position = _varint(data, position)
            yield number, value
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
            if position + size > end:
                raise Malformed("a number is incomplete")
            yield number, int.from_bytes(data[position : position + size], "little")
            position += size
        elif kind == _BYTES:
            size, position = _varint(data, position)
            if size > end - position:
                raise Malformed("a field is incomplete")
            yield number, data[position : position + size]
            position += size
        else:
            raise Malformed(f"unknown wire type {kind}")


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    number = shift = 0
    while position < len(data) and shift < 70:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & 0xFFFFFFFFFFFFFFFF, position
        shift += 7
    raise Malformed("a number is incomplete")
