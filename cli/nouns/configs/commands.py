"""`pk configs`: its commands and their options."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pk.cli.command_line.declare import Argument, Noun, Option, Running
from pk.cli.command_line.option_sets import Change, Connection, Listing, Watch
from pk.cli.command_line.values import Pair, config_pair

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

CONFIGS = Noun("configs")


@dataclass(frozen=True, kw_only=True)
class ApacheResource:
    """What the configs are of, as Apache's tool names it."""

    entity_type: Annotated[
        Literal[
            "topic",
            "broker",
            "broker-logger",
            "group",
            "client-metrics",
            "topics",
            "brokers",
            "broker-loggers",
            "groups",
        ]
        | None,
        Option("--entity-type", value="TYPE", help="The same as TYPE.", hidden=True),
    ] = None
    entity_name: Annotated[
        tuple[str, ...],
        Option("--entity-name", value="NAME", help="The same as NAME.", hidden=True),
    ] = ()
    entity_default: Annotated[
        bool, Option("--entity-default", help="The same as the name `default`.", hidden=True)
    ] = False
    topic: Annotated[
        str | None,
        Option("-t", "--topic", value="TOPIC", help="The same as `topic TOPIC`.", complete="topic"),
    ] = None
    broker: Annotated[
        str | None,
        Option("--broker", value="ID", help="The same as `broker ID`.", complete="broker"),
    ] = None
    group: Annotated[
        str | None,
        Option("-g", "--group", value="GROUP", help="The same as `group GROUP`.", complete="group"),
    ] = None


@CONFIGS.command(
    "list",
    "ls",
    takes=(Listing, Watch, Connection),
    examples=("pk configs list", "pk configs list topic"),
    shows="name type",
)
def list_resources(
    context: "Context",
    type: Annotated[
        str | None, Argument("TYPE", help="Only this type.", complete="entity-type")
    ] = None,
) -> Running:
    """What has configs that were set."""
    from pk.cli.nouns.configs.configs import list_resources

    return list_resources(context)


@dataclass(frozen=True, kw_only=True)
class DescribeConfigs(ApacheResource):
    """What `pk configs describe` takes."""

    type: Annotated[
        str | None,
        Argument(
            "TYPE",
            help="topic, broker, broker-logger, group or client-metrics.",
            complete="entity-type",
        ),
    ] = None
    name: Annotated[
        tuple[str, ...],
        Argument(
            "NAME",
            help="Its names; a broker's is its id, or `default` for all of them.",
            complete="entity-name",
        ),
    ] = ()
    all: Annotated[bool, Option("-a", "--all", help="Defaults too, not only what was set.")] = False
    keys: Annotated[
        tuple[str, ...],
        Option(
            "-c",
            "--config",
            value="KEY",
            separated=True,
            help="Only these keys.",
            complete="config-key",
        ),
    ] = ()
    docs: Annotated[
        bool,
        Option(
            "-v",
            "--docs",
            "--verbose",
            help="The documentation of each key, its type, and what stands beneath it.",
        ),
    ] = False


@CONFIGS.command(
    "describe",
    takes=(Listing, Watch, Connection),
    examples=(
        "pk configs describe topic orders",
        "pk configs describe broker 1 -a --where 'name ~ ^log'",
        "pk configs describe topic orders -v -c retention.ms,cleanup.policy",
    ),
    shows={
        "": "resource name value? source type read_only:bool sensitive:bool synonyms:<str?>",
        "docs": (
            "resource name value? source type read_only:bool sensitive:bool synonyms:<str?> "
            "documentation?"
        ),
    },
)
def describe(context: "Context", options: DescribeConfigs) -> Running:
    """Config values and where each comes from."""
    from pk.cli.nouns.configs.configs import describe

    return describe(context)


@dataclass(frozen=True, kw_only=True)
class AlterConfigs(ApacheResource):
    """What `pk configs alter` takes."""

    type: Annotated[
        str | None,
        Argument(
            "TYPE",
            help="topic, broker, broker-logger, group or client-metrics.",
            complete="entity-type",
        ),
    ] = None
    name: Annotated[
        tuple[str, ...],
        Argument(
            "NAME",
            help="Its names; a broker's is its id, or `default` for all of them.",
            complete="entity-name",
        ),
    ] = ()
    config: Annotated[
        tuple[Pair, ...],
        Option(
            "-c",
            "--config",
            "--set",
            value="KEY=VALUE",
            parser=config_pair,
            help=(
                "Set a key; a duration or a size may have a unit (retention.ms=7d, "
                "segment.bytes=1GiB)."
            ),
            complete="config-key",
        ),
    ] = ()
    delete: Annotated[
        tuple[str, ...],
        Option(
            "--delete",
            "--delete-config",
            value="KEY",
            separated=True,
            help="Go back to a key's default.",
            complete="config-key",
        ),
    ] = ()
    append: Annotated[
        tuple[Pair, ...],
        Option(
            "--append",
            value="KEY=VALUE",
            help="Add to a key that is a list.",
            complete="config-key",
        ),
    ] = ()
    subtract: Annotated[
        tuple[Pair, ...],
        Option(
            "--subtract",
            value="KEY=VALUE",
            help="Take from a key that is a list.",
            complete="config-key",
        ),
    ] = ()
    add_config: Annotated[
        tuple[str, ...],
        Option(
            "--add-config",
            value="K=V,K=[A,B]",
            help="Apache's way to set several keys.",
            hidden=True,
        ),
    ] = ()
    add_config_file: Annotated[
        str | None,
        Option(
            "--add-config-file",
            value="FILE",
            help="Set every key of a properties file.",
            complete="file",
        ),
    ] = None


@CONFIGS.command(
    "alter",
    "set",
    takes=(Change, Listing, Connection),
    examples=(
        "pk configs alter topic orders -c retention.ms=86400000 --delete cleanup.policy",
        "pk configs alter broker default -c log.retention.ms=86400000 --dry-run",
    ),
    shows="resource name from? to? result error?",
)
def alter(context: "Context", options: AlterConfigs) -> Running:
    """Set, extend or remove configs."""
    from pk.cli.nouns.configs.alter import alter

    return alter(context)


@dataclass(frozen=True, kw_only=True)
class EditConfigs(ApacheResource):
    """What `pk configs edit` takes."""

    type: Annotated[
        str | None,
        Argument(
            "TYPE",
            help="topic, broker, broker-logger, group or client-metrics.",
            complete="entity-type",
        ),
    ] = None
    name: Annotated[
        tuple[str, ...],
        Argument(
            "NAME",
            help="Its names; a broker's is its id, or `default` for all of them.",
            complete="entity-name",
        ),
    ] = ()
    file: Annotated[
        str | None,
        Option(
            "--file",
            value="FILE",
            help=(
                "Go on from this text, such as one that was refused; without a terminal it is applied "
                "as it is."
            ),
            complete="file",
        ),
    ] = None


@CONFIGS.command(
    "edit",
    takes=(Change, Listing, Connection),
    examples=("pk configs edit topic orders", "pk configs edit broker default"),
    notes=(
        "The text holds every key with its default and documentation. Only keys that differ "
        "are sent. A text that is refused, by you or by the broker, is kept in a file whose "
        "name is said."
    ),
    shows="resource name from? to? result error?",
)
def edit(context: "Context", options: EditConfigs) -> Running:
    """Open the configs of one thing in $EDITOR; what differs is shown, asked for, and changed."""
    from pk.cli.nouns.configs.edit import edit

    return edit(context)
