"""Authorized operations (KIP-430): a bitmap of the operations that the client may do. Without an
authorizer, the client may do all of them."""

from collections.abc import Iterable
from typing import Final

from pk.core.auth.acls import Operation


def _bits(operations: Iterable[Operation]) -> int:
    return sum(1 << operation for operation in operations)


NOT_ASKED: Final = -(1 << 31)
"""The bitmap for a client that did not ask for its authorized operations."""

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
