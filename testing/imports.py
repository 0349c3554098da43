"""Imports the broker before the first test needs it, without garbage collection."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


def preload() -> None:
    """Import the broker, and the modules that it otherwise imports when a producer or a group's
    first member needs them.

    The plugin does it for pytest, and `KafkaTestCase` for its tests. Elsewhere, the first test that
    uses a broker waits for the import: a quarter of a second, during which clients may time out and
    back off.
    """
    with collections_off():
        from pk.core.api.index import import_apis
        from pk.testing import broker_thread

        import_apis(broker_thread.FIRST_APIS)


@contextmanager
def collections_off() -> Generator[None]:
    """Turn garbage collection off during an import. The imported objects stay, and collections
    would scan them several times, which takes a tenth of the import's time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
