"""Options of `pk quotas`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pk.cli.options.parameters import Argument, Option


@dataclass(frozen=True, kw_only=True)
class QuotaOf:
    """The entity of a quota: a name, or all names without a quota of their own. Includes the
    options of Apache's kafka-configs."""

    user: Annotated[
        str | None, Option("--user", value="USER", help="A user's name, without User:.")
    ] = None
    client_id: Annotated[
        str | None, Option("--client-id", "--client", value="ID", help="A client id.")
    ] = None
    ip: Annotated[str | None, Option("--ip", value="ADDRESS", help="An IP address.")] = None
    user_defaults: Annotated[
        bool,
        Option("--default-user", "--user-defaults", help="Users without a quota of their own."),
    ] = False
    client_defaults: Annotated[
        bool,
        Option(
            "--default-client-id",
            "--client-defaults",
            help="Client ids without a quota of their own.",
        ),
    ] = False
    ip_defaults: Annotated[
        bool,
        Option("--default-ip", "--ip-defaults", help="Addresses without a quota of their own."),
    ] = False
    entity_type: Annotated[
        tuple[Literal["users", "clients", "ips", "user", "client-id", "ip"], ...],
        Option(
            "--entity-type",
            value="TYPE",
            help="The entity's type, as in Apache's tool.",
            hidden=True,
        ),
    ] = ()
    entity_name: Annotated[
        tuple[str, ...],
        Option("--entity-name", value="NAME", help="The name of the entity.", hidden=True),
    ] = ()
    entity_default: Annotated[
        bool, Option("--entity-default", help="The default entity of that type.", hidden=True)
    ] = False


@dataclass(frozen=True, kw_only=True)
class ListQuotas(QuotaOf):
    """Options of `pk quotas list`."""

    strict: Annotated[
        bool,
        Option("--strict", help="Only quotas for exactly the entities named."),
    ] = False


@dataclass(frozen=True, kw_only=True)
class SetQuota(QuotaOf):
    """Options of `pk quotas set`."""

    values: Annotated[
        tuple[str, ...],
        Argument(
            "KEY=VALUE",
            help="The quota and its limit; bytes may have a unit (producer_byte_rate=10MB).",
        ),
    ] = ()
    add_config: Annotated[
        tuple[str, ...],
        Option(
            "-c",
            "--config",
            "--add-config",
            value="K=V,K=V",
            separated=True,
            help="Same as KEY=VALUE.",
            hidden=True,
        ),
    ] = ()


@dataclass(frozen=True, kw_only=True)
class DeleteQuota(QuotaOf):
    """Options of `pk quotas delete`."""

    keys: Annotated[
        tuple[str, ...], Argument("KEY", help="The quotas to delete (default: all).")
    ] = ()
    delete_config: Annotated[
        tuple[str, ...],
        Option(
            "--delete-config",
            value="K,K",
            separated=True,
            help="Delete several keys, as in Apache's tool.",
            hidden=True,
        ),
    ] = ()
