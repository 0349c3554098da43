"""Remembers the brokers of clusters from one run of a program to the next, to try them when no
bootstrap address answers.

A program turns this on by setting `BROKER_STORE`; clients opened in that context use it. The
addresses of a cluster's brokers are not secret, but may belong to another cluster by now, so a
broker reached this way must have the remembered cluster id.
"""

from collections.abc import Iterable
from contextvars import ContextVar
from typing import NamedTuple, Protocol

from pk.net.client.node import Node


class RememberedBrokers(NamedTuple):
    """The remembered brokers of a cluster."""

    nodes: tuple[Node, ...] = ()
    cluster_id: str | None = None
    """The id that these brokers must have; None if the addresses come from a source that knows that
    they still belong to the cluster."""


class BrokerStore(Protocol):
    """A store of remembered brokers."""

    def brokers(self, given: Iterable[Node]) -> RememberedBrokers:
        """Return the brokers of the cluster that the `given` addresses belong to."""
        ...

    def store(self, given: Iterable[Node], found: RememberedBrokers) -> None:
        """Store the brokers of a cluster. May be called often."""
        ...


BROKER_STORE: ContextVar[BrokerStore | None] = ContextVar("BROKER_STORE", default=None)
