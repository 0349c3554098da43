"""The rows of `pk undo`."""

from typing import Annotated, TypedDict

from pk.cli.output.rows import Shown
from pk.cli.positions.times import show_span


class ChangeRow(TypedDict):
    """A change that pk made and can undo. `undone` is the time at which it was undone."""

    id: int
    age_ms: Annotated[int, Shown("AGE", show=show_span)]
    change: str
    cluster: str
    undone: Annotated[str | None, Shown(show=lambda _time: "yes")]
    time: Annotated[str, Shown(wide=True)]
    kind: Annotated[str, Shown(wide=True, word=True)]
    cluster_id: Annotated[str | None, Shown(wide=True)]


class ConfigUndoRow(TypedDict):
    """The effect on a config of undoing a change of configs."""

    resource: str
    key: str
    now: Annotated[str | None, Shown(null="(not set)")]
    then: Annotated[str | None, Shown(null="(not set)")]
    note: str | None
    result: Annotated[str, Shown(word=True)]
    error: Annotated[str | None, Shown(wide=True)]


class UserUndoRow(TypedDict):
    """The effect on a user of undoing its creation."""

    user: str
    mechanism: str
    result: Annotated[str, Shown(word=True)]
    error: Annotated[str | None, Shown(wide=True)]
