"""The rows of `pk doctor`."""

from typing import Annotated, TypedDict

from pk.cli.output.rows import Shown


class FindingRow(TypedDict):
    """A problem that a check found."""

    severity: Annotated[str, Shown(word=True)]
    check: Annotated[str, Shown(word=True)]
    what: str
    why: Annotated[str, Shown(wide=True)]
    fix: str | None
    subjects: Annotated[list[str], Shown(wide=True)]


class CheckRow(TypedDict):
    """A check."""

    check: Annotated[str, Shown(word=True)]
    help: str
