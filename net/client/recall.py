"""Remembers the brokers of clusters from one run of a program to the next, to try them when no
given address answers.

A program that wants this sets `RECALL`; clients opened in that context use it. The addresses of a
cluster's brokers are not secret, but may belong to another cluster by now, so a broker reached this
way must have the remembered cluster id.
"""

from collections.abc import Iterable
from contextvars import ContextVar
from typing import NamedTuple, Protocol

from pk.net.client.node import Node


class Remembered(NamedTuple):
    """The brokers of a cluster."""

    nodes: tuple[Node, ...] = ()
    cluster_id: str | None = None
    """The id that such a broker must have; None if the source of the addresses knows that they
    still belong to the cluster."""


class Recall(Protocol):
    """A store of remembered brokers."""

    def brokers(self, given: Iterable[Node]) -> Remembered:
        """The brokers of the cluster that the addresses `given` belong to."""
        ...

    def learned(self, given: Iterable[Node], found: Remembered) -> None:
        """Called with the brokers of a cluster, possibly often."""
        ...


RECALL: ContextVar[Recall | None] = ContextVar("RECALL", default=None)
