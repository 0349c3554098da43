"""`pk configs`: its commands and their options."""

from typing import TYPE_CHECKING, Annotated

from pk.cli.cluster.altered_config import AlteredConfig
from pk.cli.command_line.declare import Argument, Noun, Running
from pk.cli.command_line.option_sets import Change, Connection, Listing, Watch
from pk.cli.nouns.configs.options import AlterConfigs, DescribeConfigs, EditConfigs
from pk.cli.nouns.configs.rows import ConfigResourceRow, ConfigRow, DocumentedConfigRow

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

CONFIGS = Noun("configs")


@CONFIGS.command(
    "list",
    "ls",
    takes=(Listing, Watch, Connection),
    examples=("pk configs list", "pk configs list topic"),
    shows=ConfigResourceRow,
)
def list_resources(
    context: "Context",
    type: Annotated[
        str | None, Argument("TYPE", help="Only this type.", complete="entity-type")
    ] = None,
) -> Running:
    """What has configs that were set."""
    from pk.cli.nouns.configs.listing import list_resources

    return list_resources(context, type=type)


@CONFIGS.command(
    "describe",
    takes=(Listing, Watch, Connection),
    examples=(
        "pk configs describe topic orders",
        "pk configs describe broker 1 -a --where 'name ~ ^log'",
        "pk configs describe topic orders -v -c retention.ms,cleanup.policy",
    ),
    shows={"": ConfigRow, "docs": DocumentedConfigRow},
)
def describe(context: "Context", options: DescribeConfigs) -> Running:
    """Config values and where each comes from."""
    from pk.cli.nouns.configs.describe import describe

    return describe(context, options)


@CONFIGS.command(
    "alter",
    "set",
    takes=(Change, Listing, Connection),
    examples=(
        "pk configs alter topic orders -c retention.ms=86400000 --delete cleanup.policy",
        "pk configs alter broker default -c log.retention.ms=86400000 --dry-run",
    ),
    shows=AlteredConfig,
)
def alter(context: "Context", options: AlterConfigs) -> Running:
    """Set, extend or remove configs."""
    from pk.cli.nouns.configs.alter import alter

    return alter(context, options)


@CONFIGS.command(
    "edit",
    takes=(Change, Listing, Connection),
    examples=("pk configs edit topic orders", "pk configs edit broker default"),
    notes=(
        "The text holds every key with its default and documentation. Only keys that differ "
        "are sent. A text that is refused, by you or by the broker, is kept in a file whose "
        "name is said."
    ),
    shows=AlteredConfig,
)
def edit(context: "Context", options: EditConfigs) -> Running:
    """Open the configs of one thing in $EDITOR; what differs is shown, asked for, and changed."""
    from pk.cli.nouns.configs.edit import edit

    return edit(context, options)
