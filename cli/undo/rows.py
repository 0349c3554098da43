"""The rows of `pk undo` and of offsets that are set."""

from typing import Annotated, TypedDict

from pk.cli.output.rows import Shown
from pk.cli.positions.times import show_span


class ChangeRow(TypedDict):
    """A change that pk made and can undo. `undone` is when that was done."""

    id: int
    age_ms: Annotated[int, Shown("AGE", show=show_span)]
    change: str
    cluster: str
    undone: Annotated[str | None, Shown(show=lambda _time: "yes")]
    time: Annotated[str, Shown(wide=True)]
    kind: Annotated[str, Shown(wide=True, word=True)]
    cluster_id: Annotated[str | None, Shown(wide=True)]


def _show_delta(delta: int) -> str:
    """How far the offset moves, and what that means for the group."""
    return f"{delta:+,} {'skip' if delta > 0 else 're-read'}" if delta else "0"


def _to_the_minute(time: str) -> str:
    return time[:16].replace("T", " ")


class OffsetChangeRow(TypedDict):
    """What becomes of a committed offset: in `pk groups reset-offsets`, and when a change of
    offsets is undone."""

    group: str
    topic: str
    partition: Annotated[int, Shown("PART")]
    committed: int | None
    start_offset: int | None
    """That of a share group, which commits nothing."""

    target: int | None
    delta: Annotated[int | None, Shown("Δ RECORDS", show=_show_delta)]
    target_time: Annotated[str | None, Shown("TIME AT TARGET", show=_to_the_minute, right=True)]
    note: str | None
    result: Annotated[str, Shown(word=True)]
    effect: Annotated[str | None, Shown(wide=True, word=True)]
    """re-read, skip, stay, delete; None where nothing was committed."""

    error: Annotated[str | None, Shown(wide=True)]


class ConfigUndoRow(TypedDict):
    """What becomes of a config when a change of configs is undone."""

    resource: str
    key: str
    now: Annotated[str | None, Shown(null="(not set)")]
    then: Annotated[str | None, Shown(null="(not set)")]
    note: str | None
    result: Annotated[str, Shown(word=True)]
    error: Annotated[str | None, Shown(wide=True)]


class UserUndoRow(TypedDict):
    """What becomes of a user when adding it is undone."""

    user: str
    mechanism: str
    result: Annotated[str, Shown(word=True)]
    error: Annotated[str | None, Shown(wide=True)]
