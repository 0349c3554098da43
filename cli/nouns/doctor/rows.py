"""The rows of `pk doctor`."""

from typing import Annotated, TypedDict

from pk.cli.output.rows import Shown


class FindingRow(TypedDict):
    """A problem that a check found."""

    severity: str
    check: str
    what: str
    why: Annotated[str, Shown(wide=True)]
    fix: str | None
    subjects: Annotated[list[str], Shown(wide=True)]


class CheckRow(TypedDict):
    """A check."""

    check: str
    help: str
