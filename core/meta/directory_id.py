"""Reserved directory ids, which no log directory of a broker has (KIP-858)."""

from typing import Final

from pk.core.values import ZERO_UUID, Uuid

UNASSIGNED: Final[Uuid] = ZERO_UUID
"""The directory of a replica of which none is known yet."""
LOST: Final[Uuid] = bytes(15) + b"\x01"
"""The directory of a replica that failed before its id was known."""
MIGRATING: Final[Uuid] = bytes(15) + b"\x02"
"""The directory of a replica whose cluster migrates from ZooKeeper to KRaft."""
UNKNOWN_DIRECTORIES: Final = frozenset({UNASSIGNED, MIGRATING})
"""Directories that are not known, and believed to work."""
