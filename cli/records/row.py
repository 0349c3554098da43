"""A record for conditions and templates: fields by name, computed when needed. JSON is parsed
once."""

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any

from pk.cli.records.source import Source
from pk.core.record.batch import Record

TIMESTAMP_TYPES = ("create_time", "log_append_time")
RECORD_FIELDS = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestamp_type",
    "key",
    "key_b64",
    "value",
    "value_b64",
    "headers",
)
"""The fields that the formats show, and that `pk produce` reads."""

ROW_FIELDS = (*RECORD_FIELDS, "time", "link", "leader_epoch")
"""The fields of conditions and templates, which include the ISO time, the permalink and the batch's
leader epoch."""

_INVALID = object()


def text_or_b64(name: str, data: bytes | None) -> tuple[str, str | None]:
    """`name` and the text of `data` or, if that is not UTF-8, `name_b64` and its base64."""
    if data is None:
        return name, None
    try:
        return name, data.decode()
    except UnicodeDecodeError:
        return f"{name}_b64", base64.b64encode(data).decode()


def header_value(data: bytes | None) -> Any:
    """A header's value in JSON: its text, null, or {"b64": …} if it is not UTF-8."""
    name, text = text_or_b64("", data)
    return {"b64": text} if name else text


class RecordRow(Mapping[str, Any]):
    """The fields of a record. A key or value that is null or UTF-8 is in `key` or `value`,
    otherwise in `key_b64` or `value_b64`."""

    __slots__ = ("_opened", "_record", "_source")

    def __init__(self, source: Source, record: Record) -> None:
        self._source = source
        self._record = record
        self._opened: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        record, source = self._record, self._source
        match name:
            case "key" | "value" | "key_b64" | "value_b64":
                plain = name.removesuffix("_b64")
                is_called, text = text_or_b64(plain, getattr(record, plain))
                if is_called != name:
                    raise KeyError(name)
                return text
            case "offset" | "timestamp":
                return getattr(record, name)
            case "topic" | "partition" | "leader_epoch":
                return getattr(source, name)
            case "headers":
                return [[name, header_value(data)] for name, data in record.headers]
            case "timestamp_type":
                return TIMESTAMP_TYPES[source.timestamp_type]
            case "time":
                from pk.cli.positions.times import show_time

                return show_time(record.timestamp) or None
            case "link":
                from pk.cli.records.permalinks import link_to

                return link_to(source.profile, source.topic, source.partition, record.offset)
            case _:
                raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for name in ROW_FIELDS if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def opened(self, name: str) -> Any:
        """The field's text, parsed as JSON. Raises ValueError if it is not JSON."""
        found = self._opened.get(name)
        if found is None:
            try:
                found = json.loads(self[name])
            except (ValueError, RecursionError):
                found = _INVALID
            self._opened[name] = found
        if found is _INVALID:
            raise ValueError(f"{name} is not JSON")
        return found
