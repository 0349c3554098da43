"""The rows of `pk reassign`. The row of a moving partition is in
`pk.cli.cluster.reassignment_row`."""

from collections.abc import Sequence
from typing import Annotated, TypedDict

from pk.cli.cluster.reassignment_row import ReassignmentRow
from pk.cli.output.amounts import show_bytes
from pk.cli.output.rows import Shown


class PlannedMoveRow(TypedDict):
    """A partition of a plan. `bytes` is its size, if known."""

    topic: str
    partition: int
    before: Annotated[list[int], Shown("NOW")]
    after: Annotated[list[int], Shown("THEN")]
    change: str
    leader: str | None
    bytes: Annotated[int | None, Shown(show=show_bytes)]


class PlannedBroker(TypedDict):
    """The effect of a plan on a broker. `bytes_in` and `bytes_out` are its network traffic."""

    broker: int
    rack: str | None
    replicas_before: int
    replicas_after: int
    leaders_before: int
    leaders_after: int
    bytes_before: int
    bytes_after: int
    bytes_in: int
    bytes_out: int


def _show_pair(pair: Sequence[int]) -> str:
    before, after = pair
    return f"{before}" if before == after else f"{before} → {after}"


def _show_bytes_pair(pair: Sequence[int]) -> str:
    before, after = map(show_bytes, pair)
    return before if before == after else f"{before} → {after}"


class BrokerBeforeAndAfter(TypedDict):
    """The effect of a plan on a broker, for people: the values before and after are in one
    column."""

    broker: int
    rack: str | None
    replicas: Annotated[tuple[int, int], Shown(show=_show_pair, right=True)]
    leaders: Annotated[tuple[int, int], Shown(show=_show_pair, right=True)]
    bytes: Annotated[tuple[int, int], Shown(show=_show_bytes_pair, right=True)]
    bytes_in: Annotated[int, Shown("IN", show=show_bytes)]
    bytes_out: Annotated[int, Shown("OUT", show=show_bytes)]


class PlanDocument(TypedDict):
    """A plan. `throttle` is in bytes per second; `seconds` is the duration of the copies at that
    rate."""

    partitions: list[PlannedMoveRow]
    brokers: list[PlannedBroker]
    bytes: int
    throttle: int | None
    seconds: float | None
    cautions: list[str]


class MovedRow(TypedDict):
    """The result for a partition of `pk reassign apply` and `rollback`."""

    topic: str
    partition: int
    before: Annotated[list[int], Shown("FROM")]
    after: Annotated[list[int], Shown("TO")]
    result: Annotated[str, Shown(word=True)]
    error: Annotated[str | None, Shown(wide=True)]


class ThrottleRow(TypedDict):
    """A config of a broker or a topic that throttles replication."""

    resource: str
    name: Annotated[str, Shown(whole=True)]
    value: str


class StatusDocument(TypedDict):
    """The output of `pk reassign status`. Throttles are orphaned if nothing moves."""

    reassignments: list[ReassignmentRow]
    throttles: list[ThrottleRow]
    throttles_orphaned: bool


class CancelledRow(TypedDict):
    """A partition whose reassignment is cancelled: the replicas that it keeps, and those that are
    no longer added."""

    topic: str
    partition: int
    replicas: list[int]
    adding: Annotated[list[int], Shown("GIVES UP")]
    result: Annotated[str, Shown(word=True)]
    error: Annotated[str | None, Shown(wide=True)]
