"""Options of the larger commands of `pk configs`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pk.cli.options.parameters import Argument, Option
from pk.cli.options.values import Pair, config_pair


@dataclass(frozen=True, kw_only=True)
class Resources:
    """The resources whose configs are shown or changed: by type and names, or as Apache's tool
    names them."""

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
            help="Names; for brokers an id, or `default` for all brokers.",
            complete="entity-name",
        ),
    ] = ()
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
            "users",
            "clients",
            "ips",
        ]
        | None,
        Option("--entity-type", value="TYPE", help="Same as the TYPE argument.", hidden=True),
    ] = None
    entity_name: Annotated[
        tuple[str, ...],
        Option("--entity-name", value="NAME", help="Same as the NAME argument.", hidden=True),
    ] = ()
    entity_default: Annotated[
        bool, Option("--entity-default", help="Same as the name `default`.", hidden=True)
    ] = False
    topic: Annotated[
        str | None,
        Option("-t", "--topic", value="TOPIC", help="Same as `topic TOPIC`.", complete="topic"),
    ] = None
    broker: Annotated[
        str | None,
        Option("--broker", value="ID", help="Same as `broker ID`.", complete="broker"),
    ] = None
    group: Annotated[
        str | None,
        Option("-g", "--group", value="GROUP", help="Same as `group GROUP`.", complete="group"),
    ] = None


@dataclass(frozen=True, kw_only=True)
class DescribeConfigs(Resources):
    """Options of `pk configs describe`."""

    all: Annotated[
        bool, Option("-a", "--all", help="Show defaults too, not only what was set.")
    ] = False
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
            help="Show each key's documentation, type, and the values it overrides.",
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class AlterConfigs(Resources):
    """Options of `pk configs alter`."""

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
            help="Reset a key to its default; repeatable.",
            complete="config-key",
        ),
    ] = ()
    append: Annotated[
        tuple[Pair, ...],
        Option(
            "--append",
            value="KEY=VALUE",
            help="Append to a key that is a list.",
            complete="config-key",
        ),
    ] = ()
    subtract: Annotated[
        tuple[Pair, ...],
        Option(
            "--subtract",
            value="KEY=VALUE",
            help="Remove from a key that is a list.",
            complete="config-key",
        ),
    ] = ()
    add_config: Annotated[
        tuple[str, ...],
        Option(
            "--add-config",
            value="K=V,K=[A,B]",
            help="Set several keys, as in Apache's tool.",
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
class EditConfigs(Resources):
    """Options of `pk configs edit`."""

    file: Annotated[
        str | None,
        Option(
            "--file",
            value="FILE",
            help=(
                "Start from this text, such as one that was refused; without a terminal, apply it "
                "unedited."
            ),
            complete="file",
        ),
    ] = None
