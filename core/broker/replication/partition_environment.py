"""The services that a partition needs from its broker, and its proposals to the controller."""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeVar

from pk.core.log.failures import StorageError
from pk.core.meta.image import BrokerImage

P_contra = TypeVar("P_contra", contravariant=True)


class Proposal(NamedTuple):
    """A change of the ISR that the leader requests from the controller."""

    isr: tuple[tuple[int, int], ...]
    """(node id, broker epoch) of each member; the epoch is -1 if unknown."""
    leader_epoch: int
    partition_epoch: int
    joining: int | None
    """The replica to add; None if one must be removed."""


class PartitionEnvironment(Protocol[P_contra]):
    """The environment of a partition: it does work that must not run on the event loop, or not now,
    and knows the other brokers."""

    lag_s: float
    """`replica.lag.time.max.ms`, in seconds."""

    def now(self) -> float:
        """Return the time of trio's clock, in seconds."""
        ...

    def broker(self, node_id: int) -> BrokerImage | None:
        """Return a registered broker, or None."""
        ...

    def propose(self, partition: P_contra) -> None:
        """Request the partition's `proposal` from the controller."""
        ...

    def flush(self, partition: P_contra) -> None:
        """Start a sync of the log, which calls `partition.flushed` when it has finished."""
        ...

    def dropped(self, partition: P_contra) -> None:
        """Remove the files of dropped segments after `file.delete.delay.ms`."""
        ...

    def failed(self, partition: P_contra, error: StorageError) -> None:
        """Handle a failure of the disk that could not be undone."""
        ...
