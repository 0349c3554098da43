"""What is remembered of clusters from one run of a program to the next: their brokers, to be tried
when no address given answers.

A program that wants this sets `RECALL`; clients opened in that context use it. The addresses of a
cluster's brokers are no secret, but may belong to another cluster by now: a broker reached this way
must name the remembered cluster's id.
"""

from collections.abc import Iterable
from contextvars import ContextVar
from typing import NamedTuple, Protocol

from pk.net.client.node import Node


class Remembered(NamedTuple):
    """The brokers of a cluster."""

    nodes: tuple[Node, ...] = ()
    cluster_id: str | None = None
    """The id that such a broker must have; None if the source of the addresses knows that they are
    the cluster's now."""


class Recall(Protocol):
    """Where brokers are remembered."""

    def brokers(self, given: Iterable[Node]) -> Remembered:
        """The brokers of the cluster that the addresses `given` belong to."""
        ...

    def learned(self, given: Iterable[Node], found: Remembered) -> None:
        """Called with the brokers that a cluster has named; may be called often."""
        ...


RECALL: ContextVar[Recall | None] = ContextVar("RECALL", default=None)
