"""Rows of ACLs, for `pk acls` and for undoing a change of ACLs. The names are Kafka's."""

from typing import Annotated, TypedDict

from pk.cli.output.rows import Shown


class AclRow(TypedDict):
    """An ACL: allows or denies a principal an operation on resources, from a host."""

    principal: str
    permission: str
    """ALLOW or DENY."""

    operation: str
    resource_type: Annotated[str, Shown("TYPE")]
    resource: str
    """The resource's name or, if `pattern` is PREFIXED, the start of it; `*` for all of them."""

    pattern: str
    """LITERAL or PREFIXED."""

    host: str
    """An IP address, or `*` for every host."""


class ChangedAclRow(AclRow):
    """The result of adding or deleting an ACL."""

    result: Annotated[str, Shown(word=True)]
    error: Annotated[str | None, Shown(wide=True)]
    """The name of Kafka's error."""
