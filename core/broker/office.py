"""What the duties of a controller see of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from pk.core.broker.observers import Observers
from pk.core.machine import Decision
from pk.core.meta.events import Event
from pk.core.meta.image import MetadataImage

Decide = Callable[[MetadataImage], Decision[Event]]
"""What makes a decision on the newest image."""

Follow = Callable[[MetadataImage, MetadataImage], None]
"""(image before, image after)."""


class Office(Protocol):
    """A controller while it is active."""

    controller_id: int
    predecessor: int
    """Who was the controller before; NO_NODE where nobody was, or this node."""

    observers: Observers
    committed: list[Follow]

    @property
    def image(self) -> MetadataImage:
        """The cluster as far as it is safe in the store."""
        ...

    async def submit(self, decide: Decide, *, shown: bool = True) -> Any:
        """See `Controller.submit`."""
        ...
