"""The row of `pk acls check`."""

from typing import Annotated, TypedDict

from pk.cli.output.rows import Shown


class CheckedRow(TypedDict):
    """Whether a principal may do something."""

    principal: str
    operation: str
    resource: str
    host: Annotated[str, Shown(wide=True)]
    """An IP address; `*` for a host that no ACL names."""

    allowed: bool
    verdict: str
    """The ACL that decides, or the missing one."""
