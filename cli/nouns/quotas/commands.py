"""The commands of `pk quotas`, with their options."""

from typing import TYPE_CHECKING

from pk.cli.cluster.quota_rows import ChangedQuotaRow, QuotaRow
from pk.cli.command_line.declare import Noun, Running
from pk.cli.command_line.option_sets import Change, Connection, Listing, Watch
from pk.cli.nouns.quotas.options import DeleteQuota, ListQuotas, SetQuota

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

QUOTAS = Noun("quotas")


@QUOTAS.command(
    "list",
    "ls",
    "describe",
    takes=(Listing, Watch, Connection),
    examples=("pk quotas list", "pk quotas list --user alice", "pk quotas list --default-ip"),
    notes="With several options a quota is shown if it is about all that they name.",
    shows=QuotaRow,
)
def list_quotas(context: "Context", options: ListQuotas) -> Running:
    """List client quotas: all, or those about what the options name."""
    from pk.cli.nouns.quotas.quotas import list_quotas

    return list_quotas(context, options)


@QUOTAS.command(
    "set",
    "alter",
    takes=(Change, Listing, Connection),
    examples=(
        "pk quotas set --user alice producer_byte_rate=10MiB consumer_byte_rate=20MiB",
        "pk quotas set --default-client-id consumer_byte_rate=100MiB",
        "pk quotas set --user alice --client-id batch controller_mutation_rate=5",
        "pk quotas set --default-ip connection_creation_rate=1000",
    ),
    notes=(
        "Of the quotas that fit a client, the most particular counts for each key: of the user "
        "with the client id, of the user, of the client id, named before default. A quota is for "
        "each broker. Clients above it wait; none fails."
    ),
    shows=ChangedQuotaRow,
)
def set_quota(context: "Context", options: SetQuota) -> Running:
    """Limit what a user, a client id or an address may take."""
    from pk.cli.nouns.quotas.quotas import set_quota

    return set_quota(context, options)


@QUOTAS.command(
    "delete",
    "rm",
    "remove",
    takes=(Change, Listing, Connection),
    examples=(
        "pk quotas delete --user alice",
        "pk quotas delete --default-client-id consumer_byte_rate",
    ),
    shows=ChangedQuotaRow,
)
def delete(context: "Context", options: DeleteQuota) -> Running:
    """Delete quotas: those of the keys, or all of a user, a client id or an address."""
    from pk.cli.nouns.quotas.quotas import delete

    return delete(context, options)
