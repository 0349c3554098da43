"""The nodes of the ZooKeeper store, and what kazoo's answers mean."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from kazoo.exceptions import KazooException, RolledBackError, RuntimeInconsistency  # pyright: ignore[reportMissingTypeStubs]

from pk.core.meta.store import StoreFailed
from pk.net.store_documents import Documents

DOCUMENTS: Final = Documents("pk.zookeeper", "ZooKeeper")
"""What they hold."""


def place_in_queue(name: str) -> int:
    """The number that ZooKeeper gave a sequential node."""
    return int(name.rpartition("-")[2])


@contextmanager
def failures() -> Generator[None]:
    """What kazoo and a damaged node raise, as the store's own errors."""
    try:
        with DOCUMENTS.damage():
            yield
    except KazooException as e:
        raise StoreFailed(f"ZooKeeper: {type(e).__name__} {e}".rstrip()) from e


def refusal(results: list[Any]) -> tuple[int, Exception] | None:
    """Which operation of a multi was refused, and why; None if the multi was taken."""
    undone = (RolledBackError, RuntimeInconsistency)
    for at, result in enumerate(results):
        if isinstance(result, Exception) and not isinstance(result, undone):
            return at, result
    return None
