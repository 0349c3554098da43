"""The commands of `pk configs`, with their options."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.cluster.altered_config import AlteredConfig
from pk.cli.command_line.declare import Noun
from pk.cli.nouns.configs.options import AlterConfigs, DescribeConfigs, EditConfigs
from pk.cli.nouns.configs.rows import ConfigResourceRow, ConfigRow, DocumentedConfigRow
from pk.cli.options.option_sets import Change, Connection, Listing, Watch
from pk.cli.options.parameters import Argument

CONFIGS = Noun("configs")


@dataclass(frozen=True, kw_only=True)
class ListResources:
    """Arguments of `pk configs list`."""

    type: Annotated[
        str | None, Argument("TYPE", help="Only this type.", complete="entity-type")
    ] = None


CONFIGS.command(
    "list",
    "ls",
    help="List resources that have configs set.",
    worker="listing:list_resources",
    arguments=ListResources,
    takes=(Listing, Watch, Connection),
    examples=("pk configs list", "pk configs list topic"),
    shows=ConfigResourceRow,
)


CONFIGS.command(
    "describe",
    help="Show config values and where each comes from.",
    worker="describe:describe",
    options=DescribeConfigs,
    takes=(Listing, Watch, Connection),
    examples=(
        "pk configs describe topic orders",
        "pk configs describe broker 1 -a --where 'name ~ ^log'",
        "pk configs describe topic orders -v -c retention.ms,cleanup.policy",
    ),
    shows={"": ConfigRow, "docs": DocumentedConfigRow},
)


CONFIGS.command(
    "alter",
    "set",
    help="Set, append to, subtract from or delete configs.",
    worker="alter:alter",
    options=AlterConfigs,
    takes=(Change, Listing, Connection),
    examples=(
        "pk configs alter topic orders -c retention.ms=86400000 --delete cleanup.policy",
        "pk configs alter broker default -c log.retention.ms=86400000 --dry-run",
    ),
    shows=AlteredConfig,
)


CONFIGS.command(
    "edit",
    help="Edit configs in $EDITOR; changes are shown and confirmed first.",
    worker="edit:edit",
    options=EditConfigs,
    takes=(Change, Listing, Connection),
    examples=("pk configs edit topic orders", "pk configs edit broker default"),
    notes=(
        "The text shows every key with its default and documentation. Only changed keys are "
        "sent. If you or the broker refuse the change, the text is kept, and its file name is "
        "shown."
    ),
    shows=AlteredConfig,
)
