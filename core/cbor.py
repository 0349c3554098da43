"""CBOR, for formats that are private in Kafka: metadata events, snapshots and small state files. No
other file uses cbor2.

Every document is an array [format name, version, body], so that a file identifies itself and its
version.
"""

from typing import Any, cast

import cbor2


class CborError(ValueError):
    """The bytes are not a document of the requested kind and version."""


def dumps(kind: str, version: int, body: Any) -> bytes:
    """Encode `body` as a document of this kind and version."""
    return cbor2.dumps([kind, version, body], canonical=True)


def loads(kind: str, data: bytes | memoryview, version_max: int) -> tuple[int, Any]:
    """Decode (version, body) of a document. Raises CborError if it is damaged, of another kind, or
    newer than the known version."""
    try:
        document: object = loads_plain(bytes(data))
    except CborError as e:
        raise CborError(f"{kind}: {e}") from e
    if not isinstance(document, list):
        raise CborError(f"not a {kind} document")
    parts = cast(list[Any], document)
    if len(parts) != 3 or parts[0] != kind:
        raise CborError(f"not a {kind} document")
    version = parts[1]
    if not isinstance(version, int) or not 0 <= version <= version_max:
        raise CborError(
            f"{kind}: version {version!r} is newer than this program knows ({version_max})"
        )
    return version, parts[2]


def dumps_plain(value: Any) -> bytes:
    """Encode `value` as plain CBOR, without kind and version, for output to other programs or for a
    part of a document."""
    return cbor2.dumps(value)


def loads_plain(data: bytes) -> Any:
    """Decode plain CBOR. Raises CborError if it is damaged."""
    try:
        return cbor2.loads(data)
    except (cbor2.CBORDecodeError, ValueError, EOFError, RecursionError, OverflowError) as e:
        raise CborError(f"damaged: {e}") from e
