"""The row of a change of a committed offset."""

from typing import Annotated, TypedDict

from pk.cli.output.rows import Shown


def _show_delta(delta: int) -> str:
    """The distance that the offset moves, and what that means for the group."""
    return f"{delta:+,} {'skip' if delta > 0 else 're-read'}" if delta else "0"


def _to_the_minute(time: str) -> str:
    return time[:16].replace("T", " ")


class OffsetChangeRow(TypedDict):
    """A change of a committed offset, for `pk groups reset-offsets` and for undoing such a
    change."""

    group: str
    topic: str
    partition: int
    committed: int | None
    start_offset: int | None
    """The current start offset of a share group, which commits no offsets."""

    target: int | None
    delta: Annotated[int | None, Shown("Δ RECORDS", show=_show_delta)]
    target_time: Annotated[str | None, Shown("TIME AT TARGET", show=_to_the_minute, right=True)]
    note: str | None
    result: Annotated[str, Shown(word=True)]
    effect: Annotated[str | None, Shown(wide=True, word=True)]
    """re-read, skip, stay or delete; None if no offset was committed."""

    error: Annotated[str | None, Shown(wide=True)]
