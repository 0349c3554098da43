"""The commands of `pk acls`, with their options."""

from typing import TYPE_CHECKING

from pk.cli.cluster.acl_rows import AclRow, ChangedAclRow
from pk.cli.command_line.declare import Noun, Running
from pk.cli.command_line.option_sets import (
    AskedOperation,
    AskedResource,
    AskingHost,
    AskingPrincipal,
    Change,
    Connection,
    Listing,
    Watch,
)
from pk.cli.nouns.acls.options import AddAcls, DeleteAcls, FilterAcls
from pk.cli.nouns.acls.rows import CheckedRow

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

ACLS = Noun("acls")


@ACLS.command(
    "list",
    "ls",
    takes=(Listing, Watch, Connection),
    examples=(
        "pk acls list",
        "pk acls list --principal alice",
        "pk acls list --topic orders --pattern match",
    ),
    notes="An ACL is shown if it matches one value of each option that is given.",
    shows=AclRow,
)
def list_acls(context: "Context", options: FilterAcls) -> Running:
    """List ACLs: all, or those that the options select."""
    from pk.cli.nouns.acls.acls import list_acls

    return list_acls(context, options)


@ACLS.command(
    "add",
    "create",
    takes=(Change, Listing, Connection),
    examples=(
        "pk acls add --allow alice --operation write --topic orders",
        "pk acls add --allow alice --consumer --topic orders --group billing",
        "pk acls add --allow User:app --producer --topic app- --pattern prefixed",
    ),
    notes=(
        "Adds an ACL for each principal, host, operation and resource. Once an ACL is about a "
        "resource, only those whom one allows may use it, and super users."
    ),
    shows=ChangedAclRow,
)
def add(context: "Context", options: AddAcls) -> Running:
    """Add ACLs: allow or deny principals to do something to resources."""
    from pk.cli.nouns.acls.acls import add

    return add(context, options)


@ACLS.command(
    "delete",
    "rm",
    "remove",
    takes=(Change, Listing, Connection),
    examples=(
        "pk acls delete --allow alice --operation write --topic orders",
        "pk acls delete --principal alice",
    ),
    notes=(
        "Deletes what `pk acls list` shows with the same options. So without --operation it "
        "deletes ACLs of every operation and without --pattern those of every pattern, while "
        "kafka-acls deletes literal ones of operation All only."
    ),
    shows=ChangedAclRow,
)
def delete(context: "Context", options: DeleteAcls) -> Running:
    """Delete the ACLs that the options select."""
    from pk.cli.nouns.acls.acls import delete

    return delete(context, options)


@ACLS.command(
    "check",
    takes=(Listing, Watch, Connection),
    examples=(
        "pk acls check User:alice write topic:orders",
        "pk acls check alice read group:billing --host 192.0.2.7",
    ),
    notes=(
        "Exits with 0 if it is allowed, with 1 if not. Super users and "
        "allow.everyone.if.no.acl.found are known to the brokers only. `pk why denied` also shows "
        "the ACLs in question, and what would help."
    ),
    shows=CheckedRow,
)
def check(
    context: "Context",
    principal: AskingPrincipal,
    operation: AskedOperation,
    resource: AskedResource,
    host: AskingHost = None,
) -> Running:
    """Check whether the cluster's ACLs allow something."""
    from pk.cli.nouns.acls.acls import check

    return check(context, principal, operation, resource, host)
