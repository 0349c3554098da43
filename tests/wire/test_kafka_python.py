"""Byte for byte what kafka-python 3 reads and writes, for all messages and versions that it has.

It carries its own compiler of Kafka's schemas. Each message of ours is decoded there, its values
compared, and encoded again to the same bytes.
"""

import importlib
import io
import pkgutil
import uuid
import warnings
from typing import Any

from each import for_each
from wire.values import Maker, all_messages, default, versions

from pk.core.values import ZERO_UUID
from pk.core.wire.codec import encode
from pk.core.wire.emit import fields_of
from pk.core.wire.schema import Message, Struct

BIT_FIELDS = (
    "authorized_operations",
    "topic_authorized_operations",
    "cluster_authorized_operations",
)
"""Integers that kafka-python makes sets of, under other names: of these only the bytes are
compared.
"""


def theirs() -> dict[str, Any]:
    """kafka-python's class for each message, by its name."""
    with warnings.catch_warnings(action="ignore"):
        protocol = importlib.import_module("kafka.protocol")
        for info in pkgutil.walk_packages(protocol.__path__, "kafka.protocol."):
            if ".old" not in info.name and "generate" not in info.name:
                importlib.import_module(info.name)
    messages = importlib.import_module("kafka.protocol.api_message").ApiMessage
    data = importlib.import_module("kafka.protocol.api_data").ApiData
    found: dict[str, Any] = {}
    pending: list[Any] = [messages, data]
    while pending:
        for cls in pending.pop().__subclasses__():
            if cls.__name__ not in found and cls.__module__.startswith("kafka.protocol."):
                found[cls.__name__] = cls
                pending.append(cls)
    return found


THEIRS = theirs()
OURS = [cls for cls in all_messages() if cls.__name__ in THEIRS]


def test_most_apis_are_there() -> None:
    assert len(OURS) >= 104


def values(ours: Any, other: Any, version: int, where: str) -> None:
    """Compare every field that `version` has; a tagged one only if it is set, since kafka-python's
    is None otherwise.
    """
    if isinstance(ours, list):
        assert len(ours) == len(other), where
        for i, (a, b) in enumerate(zip(ours, other, strict=True)):
            values(a, b, version, f"{where}[{i}]")
    elif isinstance(ours, Struct):
        for name, _, f in fields_of(type(ours)):
            value = getattr(ours, name)
            shown = f.within(version) and name not in BIT_FIELDS
            if shown and (f.tag is None or value != default(f)):
                values(value, getattr(other, name), version, f"{where}.{name}")
    elif isinstance(other, uuid.UUID):
        assert other.bytes == ours, where
    else:
        assert other == (None if ours == ZERO_UUID else ours), where


@for_each("cls", OURS, ids=lambda c: c.__name__)
def test_same_bytes(cls: type[Message]) -> None:
    other = THEIRS[cls.__name__]
    lowest = other.valid_versions[0]
    for version in versions(cls):
        if version < lowest:
            continue
        flexible = cls.FLEXIBLE_SINCE is not None and version >= cls.FLEXIBLE_SINCE
        options = {"version": version, "compact": flexible, "tagged": flexible}
        for seed in range(5):
            message = Maker(seed * 100 + version).message(cls, version)
            data = encode(message, version)
            read = other._struct.decode(io.BytesIO(data), **options)
            assert other._struct.encode(read, **options) == data, (version, seed)
            values(message, read, version, f"{cls.__name__} version {version}")
