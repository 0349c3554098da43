"""The commands of `pk quotas`, with their options."""

from pk.cli.cluster.quota_rows import ChangedQuotaRow, QuotaRow
from pk.cli.command_line.declare import Noun
from pk.cli.nouns.quotas.options import DeleteQuota, ListQuotas, SetQuota
from pk.cli.options.option_sets import Change, Connection, Listing, Watch

QUOTAS = Noun("quotas")


QUOTAS.command(
    "list",
    "ls",
    "describe",
    help="List client quotas: all, or those that match the options.",
    worker="quotas:list_quotas",
    options=ListQuotas,
    takes=(Listing, Watch, Connection),
    examples=("pk quotas list", "pk quotas list --user alice", "pk quotas list --default-ip"),
    notes="With several options, a quota is shown if it matches all of them.",
    shows=QuotaRow,
)


QUOTAS.command(
    "set",
    "alter",
    help="Set quotas of a user, a client id or an address.",
    worker="quotas:set_quota",
    options=SetQuota,
    takes=(Change, Listing, Connection),
    examples=(
        "pk quotas set --user alice producer_byte_rate=10MiB consumer_byte_rate=20MiB",
        "pk quotas set --default-client-id consumer_byte_rate=100MiB",
        "pk quotas set --user alice --client-id batch controller_mutation_rate=5",
        "pk quotas set --default-ip connection_creation_rate=1000",
    ),
    notes=(
        "For each key, the most specific quota applies: user and client id, then user, then "
        "client id, and a named one before the default. Quotas apply per broker. Brokers delay "
        "clients above a quota; requests do not fail."
    ),
    shows=ChangedQuotaRow,
)


QUOTAS.command(
    "delete",
    "rm",
    "remove",
    help="Delete quotas of a user, a client id or an address: those named, or all.",
    worker="quotas:delete",
    options=DeleteQuota,
    takes=(Change, Listing, Connection),
    examples=(
        "pk quotas delete --user alice",
        "pk quotas delete --default-client-id consumer_byte_rate",
    ),
    shows=ChangedQuotaRow,
)
