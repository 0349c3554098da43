"""The interface of all stores of the metadata log, and of the election of its writer.

A store holds events by offset from 0, a snapshot that replaces the events before it, and an
*epoch*: each campaign raises it, and only the last campaigner may append. An append with an older
epoch is refused whole, so a controller that lost its leadership without noticing (a paused process,
a lost session) cannot write a word.

Consensus is the store's work, never the controller's: a directory has one owner by its lock,
ZooKeeper votes.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from pk.core.meta.events import Endpoint, Event
from pk.core.meta.image import MetadataImage


class Fenced(Exception):
    """Somebody else campaigned since: this epoch can no longer append."""


class StoreFailed(Exception):
    """The store could not do it. Whether an append happened is unknown until the log is loaded
    again."""


class StoreFull(StoreFailed):
    """There was no room for an append. Nothing of it happened, and the leadership is as it was."""


class MetadataLost(StoreFailed):
    """The store is empty although it must have held data."""


class Leader(Struct, frozen=True):
    """The controller that may append."""

    controller_id: int
    epoch: int


class MetadataStore(Protocol):
    """A metadata log. Every method raises StoreFailed if the store cannot be reached or is
    damaged."""

    lost: list[Callable[[int, str], None]]
    """Each is called, on the loop, with an epoch that this store campaigned for and the reason, as
    soon as that epoch is over or may be over (a session that may have expired): the node that had
    it decides nothing more, whether or not there is something to append. Stores that learn of it
    only when they append never call."""

    async def campaign(self, controller_id: int) -> int:
        """Become the leader, waiting while another controller is; return the new epoch."""
        ...

    async def leader(self) -> Leader | None:
        """The last campaigner, or None before the first."""
        ...

    async def load(self) -> MetadataImage:
        """The image of everything appended: the snapshot, and the events after it."""
        ...

    async def append(self, epoch: int, offset: int, events: Sequence[Event]) -> None:
        """Append `events` as the records from `offset` on, all or none, and return once they
        survive a crash.

        `offset` is the caller's view of the log end. Raises Fenced if `epoch` is no longer the last
        one, or the log ends elsewhere because another controller has written; StoreFull if there is
        no room.
        """
        ...

    async def save_snapshot(self, epoch: int, image: MetadataImage) -> None:
        """Keep `image`, the result of the events before `image.offset`. Raises Fenced."""
        ...

    async def trim(self, epoch: int) -> None:
        """Delete events that the last snapshot covers. Raises Fenced."""
        ...

    @property
    def bytes_since_snapshot(self) -> int:
        """How much was appended after the last snapshot, as far as this process knows."""
        ...

    def depose(self, controller_id: int, endpoint: Endpoint) -> None:
        """Report that no process listens at this controller's address anymore. If a session holds
        the leadership, the next candidate then need not wait for its timeout: appends of the old
        controller are refused once there is a new one. Never blocks."""
        ...

    async def close(self) -> None:
        """Release what the store holds open."""
        ...
