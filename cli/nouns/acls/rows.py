"""The row of `pk acls check`."""

from typing import Annotated, TypedDict

from pk.cli.output.rows import Shown


class CheckedRow(TypedDict):
    """Whether a principal may perform an operation."""

    principal: str
    operation: str
    resource: str
    host: Annotated[str, Shown(wide=True)]
    """An IP address, or `*`, for which only ACLs for all hosts match."""

    allowed: bool
    verdict: str
    """The ACL that decides, or the missing one."""
