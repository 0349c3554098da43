"""The nodes of the ZooKeeper store, and the interpretation of kazoo's results."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from kazoo.exceptions import KazooException, RolledBackError, RuntimeInconsistency  # pyright: ignore[reportMissingTypeStubs]

from pk.core.meta.store import StoreFailed
from pk.net.store_documents import Documents

DOCUMENTS: Final = Documents("pk.zookeeper", "ZooKeeper")
"""The encoding of the nodes."""


def place_in_queue(name: str) -> int:
    """Return the sequence number that ZooKeeper gave a node."""
    return int(name.rpartition("-")[2])


@contextmanager
def failures() -> Generator[None]:
    """Convert the exceptions of kazoo and of a damaged node to the store's own errors."""
    try:
        with DOCUMENTS.damage():
            yield
    except KazooException as e:
        raise StoreFailed(f"ZooKeeper: {type(e).__name__} {e}".rstrip()) from e


def refusal(results: list[Any]) -> tuple[int, Exception] | None:
    """Return the operation of a multi that was refused, with its error; None if the multi was
    applied."""
    undone = (RolledBackError, RuntimeInconsistency)
    for at, result in enumerate(results):
        if isinstance(result, Exception) and not isinstance(result, undone):
            return at, result
    return None
