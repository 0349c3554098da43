"""The interface of all stores of the metadata log, and of the election of its writer.

A store holds events by offset from 0, a snapshot that replaces the events before it, and an
*epoch*. Each campaign raises the epoch, and only the last campaigner may append. An append with an
older epoch is refused as a whole, so a controller that lost its leadership without noticing (a
paused process, an expired session) cannot write anything.

Consensus is the task of the store, never of the controller: a directory has a lock, and so one
owner; ZooKeeper and etcd vote.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from pk.core.meta.events import Endpoint, Event
from pk.core.meta.image import MetadataImage


class Fenced(Exception):
    """Another controller has campaigned since, so this epoch can no longer append."""


class StoreFailed(Exception):
    """The store has failed. Whether an append took effect is unknown until the log is loaded
    again."""


class StoreFull(StoreFailed):
    """The store has no room for an append. Nothing was appended, and the leadership is
    unchanged."""


class MetadataLost(StoreFailed):
    """The store is empty although it must have contained data."""


class Leader(Struct, frozen=True):
    """The controller that may append."""

    controller_id: int
    epoch: int


class MetadataStore(Protocol):
    """A metadata log. Every method raises StoreFailed if the store is unreachable or damaged."""

    lost: list[Callable[[int, str], None]]
    """Callbacks, called on the loop with an epoch that this store campaigned for and a reason, as
    soon as that epoch has ended or may have ended (for example, because a session may have
    expired). The controller of that epoch then stops deciding, even if it has nothing to append. A
    store that learns of it only when it appends never calls them."""

    async def campaign(self, controller_id: int) -> int:
        """Wait until no other controller leads, and become the leader. Returns the new epoch."""
        ...

    async def leader(self) -> Leader | None:
        """Return the last campaigner, or None before the first."""
        ...

    async def load(self) -> MetadataImage:
        """Load the image: the snapshot with the events after it applied."""
        ...

    async def append(self, epoch: int, offset: int, events: Sequence[Event]) -> None:
        """Append `events` as the records from `offset` on, all or none, and return once they
        survive a crash.

        `offset` is the log end that the caller knows. Raises Fenced if `epoch` is no longer the
        last one, or if the log end differs because another controller has written; StoreFull if
        there is no room.
        """
        ...

    async def save_snapshot(self, epoch: int, image: MetadataImage) -> None:
        """Store `image` as the snapshot of the events before `image.offset`. Raises Fenced."""
        ...

    async def trim(self, epoch: int) -> None:
        """Delete events that the last snapshot covers. Raises Fenced."""
        ...

    @property
    def bytes_since_snapshot(self) -> int:
        """Return how many bytes were appended after the last snapshot, as far as this process
        knows."""
        ...

    def depose(self, controller_id: int, endpoint: Endpoint) -> None:
        """Report that no process listens at this controller's address anymore. If a session holds
        the leadership, the next candidate then need not wait for its timeout, because appends of
        the old controller are refused once there is a new one. Never blocks."""
        ...

    async def close(self) -> None:
        """Release the store's resources."""
        ...
