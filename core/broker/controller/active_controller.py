"""What the duties of a controller see of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from pk.core.broker.controller.quorum_observers import QuorumObservers
from pk.core.machine import Decision
from pk.core.meta.events import Event
from pk.core.meta.image import MetadataImage

Decide = Callable[[MetadataImage], Decision[Event]]
"""What makes a decision on the newest image."""


class OffLoopDecision:
    """A decision that a thread may make where the image is large: about every partition of a
    broker, say. Also a `Decide`."""

    def __init__(self, ask: Callable[[], Decide], *, large: bool = False) -> None:
        """`ask` is called on the loop when it is this decision's turn; what it gives looks at
        nothing but the image. `large`: it takes long whatever the image."""
        self.ask = ask
        self.large = large

    def __call__(self, image: MetadataImage) -> Decision[Event]:
        return self.ask()(image)


Follow = Callable[[MetadataImage, MetadataImage], None]
"""(image before, image after)."""


class ActiveController(Protocol):
    """A controller while it is active."""

    controller_id: int
    predecessor: int
    """Who was the controller before; NO_NODE where there was none, or this node."""

    observers: QuorumObservers
    committed: list[Follow]

    @property
    def image(self) -> MetadataImage:
        """The cluster as far as it is safe in the store."""
        ...

    async def submit(self, decide: Decide) -> Any:
        """See `Controller.submit`."""
        ...
