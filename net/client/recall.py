"""Remembers the brokers of clusters from one run of a program to the next, to try them when no
bootstrap address answers.

A program turns this on by setting `RECALL`; clients opened in that context use it. The addresses of
a cluster's brokers are not secret, but may belong to another cluster by now, so a broker reached
this way must have the remembered cluster id.
"""

from collections.abc import Iterable
from contextvars import ContextVar
from typing import NamedTuple, Protocol

from pk.net.client.node import Node


class Remembered(NamedTuple):
    """The remembered brokers of a cluster."""

    nodes: tuple[Node, ...] = ()
    cluster_id: str | None = None
    """The id that these brokers must have; None if the addresses come from a source that knows that
    they still belong to the cluster."""


class Recall(Protocol):
    """A store of remembered brokers."""

    def brokers(self, given: Iterable[Node]) -> Remembered:
        """Return the brokers of the cluster that the `given` addresses belong to."""
        ...

    def learned(self, given: Iterable[Node], found: Remembered) -> None:
        """Store the brokers of a cluster. May be called often."""
        ...


RECALL: ContextVar[Recall | None] = ContextVar("RECALL", default=None)
