"""The records of the topic `_schemas`, in Confluent's own format, so that one registry can take
over from another.

    SCHEMA          subject and version -> the schema, or nothing once it is permanently deleted
    CONFIG, MODE    subject, or none for the whole registry -> its settings
    DELETE_SUBJECT  subject -> every version up to the given one is deleted softly
    CLEAR_SUBJECT   subject -> the settings of a permanently deleted subject are deleted too
    NOOP            written to find the end of the log

Keys and values are JSON; a key's `magic` is 1 for SCHEMA, else 0. The log is compacted, so a key
must always have the same bytes: its parts are in this order, without white space.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from msgspec import Struct

from pk.core.schemas.schema import Schema, canonical_json

SCHEMA: Final = "SCHEMA"
CONFIG: Final = "CONFIG"
MODE: Final = "MODE"
DELETE_SUBJECT: Final = "DELETE_SUBJECT"
CLEAR_SUBJECT: Final = "CLEAR_SUBJECT"
NOOP: Final = "NOOP"


class Record(Struct, frozen=True):
    """One record of `_schemas`."""

    kind: str
    subject: str | None = None
    version: int = 0
    value: Mapping[str, Any] | None = None
    """None for a tombstone."""

    @property
    def key_bytes(self) -> bytes:
        """The encoded key of the record."""
        key: dict[str, Any] = {"keytype": self.kind}
        if self.kind == SCHEMA:
            key |= {"subject": self.subject, "version": self.version, "magic": 1}
        elif self.kind == NOOP:
            key["magic"] = 0
        else:
            key |= {"subject": self.subject, "magic": 0}
        return canonical_json(key).encode()

    @property
    def value_bytes(self) -> bytes | None:
        """The encoded value of the record."""
        return None if self.value is None else canonical_json(self.value).encode()


def schema_record(
    subject: str, version: int, schema_id: int, schema: Schema, *, deleted: bool
) -> Record:
    """Build the record of a version of a subject, which may be softly deleted."""
    value = {
        "subject": subject,
        "version": version,
        "id": schema_id,
        **schema.to_json(),
        "deleted": deleted,
    }
    return Record(SCHEMA, subject, version, value)


def read(key: bytes | None, value: bytes | None) -> Record | None:
    """Parse a record. Returns None for one that this registry does not know and ignores."""
    if key is None:
        return None
    try:
        parsed: Any = json.loads(key)
        body: Any = None if value is None else json.loads(value)
    except ValueError:
        return None
    if not isinstance(parsed, dict) or not (body is None or isinstance(body, dict)):
        return None
    found = cast("dict[str, Any]", parsed)
    kind, subject, version = found.get("keytype"), found.get("subject"), found.get("version", 0)
    if kind not in (SCHEMA, CONFIG, MODE, DELETE_SUBJECT, CLEAR_SUBJECT, NOOP):
        return None
    if not (subject is None or isinstance(subject, str)) or not isinstance(version, int):
        return None
    if kind in (SCHEMA, DELETE_SUBJECT, CLEAR_SUBJECT) and subject is None:
        return None
    return Record(kind, subject, version, cast("dict[str, Any] | None", body))
