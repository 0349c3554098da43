"""The row of a partition that is being reassigned."""

from typing import Annotated, TypedDict

from pk.cli.output.amounts import show_bytes
from pk.cli.output.rows import Shown


def _show_percent(percent: float) -> str:
    return f"{percent:.0f}%"


class ReassignmentRow(TypedDict):
    """A partition that moves. `replicas` are those before the move; `copied` and `total` are
    bytes."""

    topic: str
    partition: int
    replicas: list[int]
    adding: list[int]
    removing: list[int]
    copied: Annotated[int | None, Shown(show=show_bytes)]
    total: Annotated[int | None, Shown("OF", show=show_bytes)]
    percent: Annotated[float | None, Shown("%", show=_show_percent)]
    note: str | None
