"""The row of a partition in which a group has an offset, or that is assigned to a member."""

from typing import Annotated, TypedDict

from pk.cli.output.amounts import show_count
from pk.cli.output.rows import Shown
from pk.cli.positions.times import show_span


def show_lag_time(ms: int | None) -> str:
    """Show a lag in time, in milliseconds: `3 min`; `0` if nothing is unread, `-` if unknown."""
    return "-" if ms is None else "0" if ms == 0 else show_span(ms)


class OffsetOfGroup(TypedDict):
    """A partition in the description of its group."""

    topic: str
    partition: int
    committed: int | None
    start_offset: int | None
    """A share group's start offset, named as in Kafka's own tool: such a group commits no
    offsets."""

    end: int | None
    lag: Annotated[int | None, Shown(show=show_count)]
    time_lag_ms: Annotated[int | None, Shown("TIME LAG", show=show_lag_time)]
    """The age of the next record that the group has not read."""

    client_id: str | None
    host: Annotated[str | None, Shown(wide=True)]
    member_id: Annotated[str | None, Shown(wide=True)]
    instance_id: Annotated[str | None, Shown(wide=True)]
    start: Annotated[int | None, Shown("LOG START", wide=True)]
    metadata: Annotated[str | None, Shown(wide=True)]
    error: Annotated[str | None, Shown(wide=True)]


class _OfGroup(TypedDict):
    group: str


class OffsetRow(_OfGroup, OffsetOfGroup):
    """A partition in a list of several groups."""
