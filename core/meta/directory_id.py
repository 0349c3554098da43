"""Reserved directory ids, which are never the id of a log directory (KIP-858)."""

from typing import Final

from pk.core.values import ZERO_UUID, Uuid

UNASSIGNED: Final[Uuid] = ZERO_UUID
"""The directory of a replica has not been reported."""
LOST: Final[Uuid] = bytes(15) + b"\x01"
"""The directory of a replica failed before its id was reported."""
MIGRATING: Final[Uuid] = bytes(15) + b"\x02"
"""The directory of a replica in a cluster that migrates from ZooKeeper to KRaft."""
UNKNOWN_DIRECTORIES: Final = frozenset({UNASSIGNED, MIGRATING})
"""Unknown directories, which are assumed to work."""
