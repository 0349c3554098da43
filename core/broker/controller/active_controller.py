"""The interface of the active controller for its duties."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from pk.core.broker.controller.quorum_observers import QuorumObservers
from pk.core.machine import Decision
from pk.core.meta.events import Event
from pk.core.meta.image import MetadataImage

Reply = TypeVar("Reply")

Decide = Callable[[MetadataImage], Decision[Event, Reply]]
"""Returns a decision that is based on the newest image."""


class OffLoopDecision(Generic[Reply]):
    """A decision that is made in a thread if the image is large, for example about every partition
    of a broker. Also a `Decide`."""

    def __init__(self, prepare: Callable[[], Decide[Reply]], *, large: bool = False) -> None:
        """`prepare` is called on the event loop when it is this decision's turn; the function that
        it returns depends only on the image. `large`: the decision takes long for any image."""
        self.prepare = prepare
        self.large = large

    def __call__(self, image: MetadataImage) -> Decision[Event, Reply]:
        return self.prepare()(image)


CommitListener = Callable[[MetadataImage, MetadataImage], None]
"""(image before, image after)."""


class ActiveController(Protocol):
    """A controller while it is active."""

    controller_id: int
    predecessor: int
    """The previous controller's node id; NO_NODE if there was none, or it was this node."""

    observers: QuorumObservers
    commit_listeners: list[CommitListener]

    @property
    def image(self) -> MetadataImage:
        """The cluster's image, with the events that are safe in the store."""
        ...

    async def submit(self, decide: Decide[Reply]) -> Reply:
        """See `Controller.submit`."""
        ...
