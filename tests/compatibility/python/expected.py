"""The records that the programs of this folder write and expect to read: the same records as every
other language's (`../scenarios.py` has the list of scenarios)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

COUNT: Final = 100
FIRST_MS: Final = 1_700_000_000_000
PARTITIONS: Final = 4
IN_GROUP: Final = 400
MORE: Final = [b"more %d" % n for n in range(PARTITIONS)]
"""The records written to each partition of the group's topic while it has two members."""

WAIT_S: Final = 60.0


class Row(NamedTuple):
    """One record."""

    key: bytes | None
    value: bytes | None
    header: bytes
    timestamp_ms: int


def row(n: int) -> Row:
    """Record `n`: every tenth has no key, another tenth is a tombstone."""
    key = None if n % 10 == 0 else b"key %d" % n
    value = None if n % 10 == 5 else b"value %d " % n * 20
    return Row(key, value, b"%d" % n, FIRST_MS + n)


ROWS: Final = [row(n) for n in range(COUNT)]


def check(name: str, found: object, wanted: object) -> None:
    """Raises AssertionError, with both in its message, if they differ."""
    if found != wanted:
        raise AssertionError(f"{name}: {found!r} instead of {wanted!r}")


def all_read(values: Iterable[bytes | None]) -> bool:
    """Whether every record of the group's topic was read at least once."""
    return len(set(values)) == IN_GROUP
