"""Decodes the records of `__consumer_offsets`, `__transaction_state` and `__share_group_state` to
JSON."""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any, cast

from pk.core.errors import ProtocolError
from pk.core.record.batch import Record
from pk.core.values import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    ZERO_UUID,
    uuid_text,
)
from pk.core.wire.codec import decode
from pk.core.wire.emit import fields_of
from pk.core.wire.schema import Array, Message, Struct
from pk.core.wire.types import UUID

DECODED = frozenset((OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC))


@cache
def _types(topic: str) -> dict[int, tuple[str, type[Message], type[Message]]]:
    """The records of an internal topic: record type → name, key schema and value schemas."""
    from pk.core.wire.messages import (
        offsets_topic,
        offsets_topic_share,
        offsets_topic_streams,
        share_topic,
        transaction_topic,
    )

    modules = {
        OFFSETS_TOPIC: (offsets_topic, offsets_topic_share, offsets_topic_streams),
        TRANSACTIONS_TOPIC: (transaction_topic,),
        SHARE_STATE_TOPIC: (share_topic,),
    }[topic]
    found: dict[int, tuple[str, type[Message], type[Message]]] = {}
    for module in modules:
        for name, key in vars(module).items():
            if not name.endswith("Key") or not issubclass(key, Message):
                continue
            stem = name.removesuffix("Key")
            value = getattr(module, f"{stem}Value", None)
            if value is not None:
                found[key.RECORD_TYPE] = (_snake(stem), key, value)
    return found


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(name))


def _plain(value: Any, *, uuid: bool = False) -> Any:
    """A message as values for JSON; `uuid` says whether its bytes are a UUID."""
    if isinstance(value, Struct):
        uuids = _uuids(type(value))
        return {name: _plain(getattr(value, name), uuid=name in uuids) for name in value.FIELDS}
    if isinstance(value, (list, tuple)):
        return [_plain(v, uuid=uuid) for v in cast("Sequence[Any]", value)]
    if isinstance(value, (bytes, memoryview)):
        data = bytes(cast("bytes | memoryview", value))
        if uuid:
            return None if data == ZERO_UUID else uuid_text(data)
        return _hex(data)
    return value


@cache
def _uuids(struct: type[Struct]) -> frozenset[str]:
    """The fields of a message that are UUIDs or lists of UUIDs."""
    return frozenset(name for name, kind, _ in fields_of(struct) if kind in (UUID, Array(UUID)))


def _hex(data: bytes) -> dict[str, str]:
    return {"hex": data.hex()}


def _members(group: Any) -> list[Any]:
    """The members of a classic group, with decoded subscriptions and assignments (Java's
    ConsumerProtocol)."""
    from pk.core.wire.messages.consumer_protocol import (
        ConsumerProtocolAssignment,
        ConsumerProtocolSubscription,
    )

    def read(kind: type[Message], data: bytes) -> Any:
        version = min(int.from_bytes(data[:2], "big"), kind.VERSIONS[1])
        if group.protocol_type != "consumer" or len(data) < 2:
            return _hex(data)
        try:
            return {"version": version, **_plain(decode(kind, data, version, 2)[0])}
        except ProtocolError:
            return _hex(data)

    return [
        {
            **_plain(member),
            "subscription": read(ConsumerProtocolSubscription, bytes(member.subscription)),
            "assignment": read(ConsumerProtocolAssignment, bytes(member.assignment)),
        }
        for member in group.members
    ]


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def decoded(topic: str, found: Sequence[Record]) -> list[Record]:
    """Decode the keys and values of records to JSON. Records of unknown types and versions are
    returned unchanged."""
    return [_decoded(topic, record) for record in found]


def _decoded(topic: str, record: Record) -> Record:
    if record.key is None or len(record.key) < 2:
        return record
    kind = _types(topic).get(int.from_bytes(record.key[:2], "big"))
    if kind is None:
        return record
    name, key_type, value_type = kind
    try:
        key = {"type": name, **_plain(decode(key_type, record.key, 0, 2)[0])}
        value = None
        if record.value is not None:
            version = int.from_bytes(record.value[:2], "big")
            if not value_type.VERSIONS[0] <= version <= value_type.VERSIONS[1]:
                return record
            message = decode(value_type, record.value, version, 2)[0]
            plain = {"version": version, **_plain(message)}
            if name == "group_metadata":
                plain["members"] = _members(message)
            value = _json(plain)
    except ProtocolError:
        return record
    return record._replace(key=_json(key), value=value)


def pairs(found: Sequence[Record]) -> bytes:
    """Decoded records with their keys as JSON, one per line. Records that could not be decoded are
    in hexadecimal."""
    lines: list[bytes] = []
    for record in found:
        read = record.key is not None and record.key.startswith(b'{"type": "')
        key, value = (
            b"null" if data is None else data if read else _json(_hex(data))
            for data in (record.key, record.value)
        )
        lines.append(b'{"key": %b, "value": %b}\n' % (key, value))
    return b"".join(lines)
