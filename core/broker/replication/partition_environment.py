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
    """The partition's environment: does work that must not run on the loop, or not now, and knows
    the other brokers."""

    lag_s: float
    """`replica.lag.time.max.ms`, in seconds."""

    def now(self) -> float:
        """Seconds of trio's clock."""
        ...

    def broker(self, node_id: int) -> BrokerImage | None:
        """A registered broker."""
        ...

    def propose(self, partition: P_contra) -> None:
        """Ask the controller for the partition's `proposal`."""
        ...

    def flush(self, partition: P_contra) -> None:
        """Start a sync of the log; `partition.flushed` is called when it is through."""
        ...

    def dropped(self, partition: P_contra) -> None:
        """Segments were dropped: remove their files after `file.delete.delay.ms`."""
        ...

    def failed(self, partition: P_contra, error: StorageError) -> None:
        """The disk failed in a way that could not be taken back."""
        ...
