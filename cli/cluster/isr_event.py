"""The row of a change of in-sync replicas."""

from typing import Annotated, TypedDict

from pk.cli.cluster.replica_lag import ReplicaLag, show_lag
from pk.cli.output.rows import Shown
from pk.cli.positions.times import show_span


class IsrEvent(TypedDict):
    """A change of a partition. `event` is made, deleted, shrink, expand, leader, offline, or, for
    the state when the watch begins, out."""

    time: Annotated[str | None, Shown(show=lambda time: time[11:23])]
    topic: str
    partition: int
    event: Annotated[str, Shown(word=True)]
    brokers: list[int]
    leader: int | None
    isr: Annotated[list[int], Shown("ISR")]
    out_for_ms: Annotated[int | None, Shown("OUT FOR", show=show_span, right=False)]
    behind: Annotated[ReplicaLag | None, Shown(show=show_lag)]
