"""Authorized operations (KIP-430): a bitmap of what the asker may do. Without an authorizer that is
all there is."""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final


class Operation(IntEnum):
    """What an API does to a resource, as ACLs name it."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


def _bits(operations: Iterable[Operation]) -> int:
    return sum(1 << operation for operation in operations)


NOT_ASKED: Final = -(1 << 31)
"""The bitmap of who did not ask for it."""

TOPIC_OPERATIONS: Final = _bits(
    (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    )
)

CLUSTER_OPERATIONS: Final = _bits(
    (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    )
)

GROUP_OPERATIONS: Final = _bits(
    (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    )
)
