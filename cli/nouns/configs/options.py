"""What the commands of `pk configs` take: the options of those that have many."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pk.cli.command_line.declare import Argument, Option
from pk.cli.command_line.values import Pair, config_pair


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
