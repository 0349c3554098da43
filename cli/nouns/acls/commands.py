"""The commands of `pk acls`, with their options."""

from dataclasses import dataclass

from pk.cli.cluster.acl_rows import AclRow, ChangedAclRow
from pk.cli.command_line.declare import Noun
from pk.cli.nouns.acls.options import AddAcls, DeleteAcls, FilterAcls
from pk.cli.nouns.acls.rows import CheckedRow
from pk.cli.options.option_sets import (
    AskedOperation,
    AskedResource,
    AskingHost,
    AskingPrincipal,
    Change,
    Connection,
    Listing,
    Watch,
)

ACLS = Noun("acls")


ACLS.command(
    "list",
    "ls",
    help="List ACLs: all, or those that the options select.",
    worker="acls:list_acls",
    options=FilterAcls,
    takes=(Listing, Watch, Connection),
    examples=(
        "pk acls list",
        "pk acls list --principal alice",
        "pk acls list --topic orders --pattern match",
    ),
    notes="An ACL is shown if it matches one value of each option that is given.",
    shows=AclRow,
)


ACLS.command(
    "add",
    "create",
    help="Add ACLs: allow or deny principals to do something to resources.",
    worker="acls:add",
    options=AddAcls,
    takes=(Change, Listing, Connection),
    examples=(
        "pk acls add --allow alice --operation write --topic orders",
        "pk acls add --allow alice --consumer --topic orders --group billing",
        "pk acls add --allow User:app --producer --topic app- --pattern prefixed",
    ),
    notes=(
        "Adds an ACL for each principal, host, operation and resource. Once a resource has an "
        "ACL, only super users and principals that an ACL allows may use it."
    ),
    shows=ChangedAclRow,
)


ACLS.command(
    "delete",
    "rm",
    "remove",
    help="Delete the ACLs that the options select.",
    worker="acls:delete",
    options=DeleteAcls,
    takes=(Change, Listing, Connection),
    examples=(
        "pk acls delete --allow alice --operation write --topic orders",
        "pk acls delete --principal alice",
    ),
    notes=(
        "Deletes what `pk acls list` shows with the same options. For a named resource it deletes "
        "only the ACLs of that exact name, not those of prefixes, unless --pattern says otherwise. "
        "Without --operation it deletes ACLs of every operation, while kafka-acls deletes only "
        "those of operation All."
    ),
    shows=ChangedAclRow,
)


@dataclass(frozen=True, kw_only=True)
class CheckAcl:
    """Arguments of `pk acls check`."""

    principal: AskingPrincipal
    operation: AskedOperation
    resource: AskedResource
    host: AskingHost = None


ACLS.command(
    "check",
    help="Check whether the cluster's ACLs allow something.",
    worker="acls:check",
    arguments=CheckAcl,
    takes=(Listing, Watch, Connection),
    examples=(
        "pk acls check User:alice write topic:orders",
        "pk acls check alice read group:billing --host 192.0.2.7",
    ),
    notes=(
        "Exits with 0 if it is allowed, with 1 if not. Only the brokers know their super users "
        "and allow.everyone.if.no.acl.found. `pk why denied` also shows the ACLs that apply, and "
        "how to fix it."
    ),
    shows=CheckedRow,
)
