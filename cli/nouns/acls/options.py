"""Options of `pk acls`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pk.cli.options.parameters import Option

_OPERATION = "Read, write, create, delete, alter, describe, all, …; repeatable"


@dataclass(frozen=True, kw_only=True)
class Resources:
    """The resources that ACLs concern."""

    topic: Annotated[
        tuple[str, ...],
        Option(
            "-t",
            "--topic",
            value="TOPIC",
            help="A topic, or '*' for all; repeatable.",
            complete="topic",
        ),
    ] = ()
    group: Annotated[
        tuple[str, ...],
        Option(
            "-g",
            "--group",
            value="GROUP",
            help="A group, or '*' for all; repeatable.",
            complete="group",
        ),
    ] = ()
    transactional_id: Annotated[
        tuple[str, ...],
        Option(
            "--transactional-id",
            value="ID",
            help="A transactional id, or '*' for all; repeatable.",
        ),
    ] = ()
    delegation_token: Annotated[
        tuple[str, ...],
        Option(
            "--delegation-token", value="ID", help="A delegation token, or '*' for all; repeatable."
        ),
    ] = ()
    user_principal: Annotated[
        tuple[str, ...],
        Option(
            "--user-principal",
            value="PRINCIPAL",
            help="The user that owns the tokens, such as User:bob; repeatable.",
        ),
    ] = ()
    cluster: Annotated[bool, Option("--cluster", help="The cluster itself.")] = False


@dataclass(frozen=True, kw_only=True)
class Parties:
    """The principals that are allowed or denied, and their hosts."""

    allow: Annotated[
        tuple[str, ...],
        Option(
            "--allow",
            "--allow-principal",
            value="PRINCIPAL",
            help="The principal to allow, such as User:alice or 'User:*'; a name alone is a "
            "user's; repeatable.",
        ),
    ] = ()
    deny: Annotated[
        tuple[str, ...],
        Option(
            "--deny",
            "--deny-principal",
            value="PRINCIPAL",
            help="Deny this principal; repeatable. Deny takes precedence over allow.",
        ),
    ] = ()
    host: Annotated[
        tuple[str, ...],
        Option(
            "--host",
            value="ADDRESS",
            help="Only from this IP address; repeatable.",
        ),
    ] = ()
    allow_host: Annotated[
        tuple[str, ...],
        Option("--allow-host", value="ADDRESS", help="Same as --host, for --allow.", hidden=True),
    ] = ()
    deny_host: Annotated[
        tuple[str, ...],
        Option("--deny-host", value="ADDRESS", help="Same as --host, for --deny.", hidden=True),
    ] = ()
    operation: Annotated[
        tuple[str, ...],
        Option(
            "--operation",
            value="OPERATION",
            help=f"{_OPERATION} (default: all).",
        ),
    ] = ()


@dataclass(frozen=True, kw_only=True)
class Conveniences:
    """ACLs that are commonly needed together."""

    producer: Annotated[
        bool,
        Option(
            "--producer",
            help=(
                "What a producer needs: write, describe and create --topic; write and describe "
                "--transactional-id."
            ),
        ),
    ] = False
    consumer: Annotated[
        bool,
        Option(
            "--consumer",
            help="What a consumer needs: read and describe --topic; read --group.",
        ),
    ] = False
    idempotent: Annotated[
        bool,
        Option(
            "--idempotent",
            help="With --producer: also idempotent-write on the cluster, for brokers before 2.8.",
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class AddAcls(Conveniences, Resources, Parties):
    """Options of `pk acls add`."""

    pattern: Annotated[
        Literal["literal", "prefixed"],
        Option(
            "--pattern",
            "--resource-pattern-type",
            value="PATTERN",
            help=("The pattern type: literal (default), or prefixed (the name is a prefix)."),
        ),
    ] = "literal"


@dataclass(frozen=True, kw_only=True)
class FilterAcls(Resources, Parties):
    """Options of `pk acls list`."""

    principal: Annotated[
        tuple[str, ...],
        Option(
            "--principal",
            value="PRINCIPAL",
            help="Only ACLs that allow or deny this principal; repeatable.",
        ),
    ] = ()
    pattern: Annotated[
        Literal["any", "match", "literal", "prefixed"] | None,
        Option(
            "--pattern",
            "--resource-pattern-type",
            value="PATTERN",
            help="The pattern type: any (default), literal or prefixed; match: all that apply to "
            "a resource of that name.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class DeleteAcls(Conveniences, FilterAcls):
    """Options of `pk acls delete`."""

    pattern: Annotated[
        Literal["any", "match", "literal", "prefixed"] | None,
        Option(
            "--pattern",
            "--resource-pattern-type",
            value="PATTERN",
            help="The pattern type: literal (that exact name; default), prefixed or any; match: "
            "all that apply to a resource of that name.",
        ),
    ] = None
