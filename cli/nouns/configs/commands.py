"""The commands of `pk configs`, with their options."""

from typing import TYPE_CHECKING, Annotated

from pk.cli.cluster.altered_config import AlteredConfig
from pk.cli.command_line.declare import Noun, Running
from pk.cli.command_line.option_sets import Change, Connection, Listing, Watch
from pk.cli.command_line.parameters import Argument
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
    """List what has configs set."""
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
    """Show config values and where each comes from."""
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
    """Set, append to, subtract from or delete configs."""
    from pk.cli.nouns.configs.alter import alter

    return alter(context, options)


@CONFIGS.command(
    "edit",
    takes=(Change, Listing, Connection),
    examples=("pk configs edit topic orders", "pk configs edit broker default"),
    notes=(
        "The text shows every key with its default and documentation. Only changed keys are "
        "sent. If you or the broker refuse the change, the text is kept, and its file name is "
        "shown."
    ),
    shows=AlteredConfig,
)
def edit(context: "Context", options: EditConfigs) -> Running:
    """Edit configs in $EDITOR; changes are shown and confirmed first."""
    from pk.cli.nouns.configs.edit import edit

    return edit(context, options)
