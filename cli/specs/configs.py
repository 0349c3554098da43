"""`pk configs`."""

from pk.cli.grammar import Argument, Command, Group, Option
from pk.cli.specs.common import CHANGE, CONNECTION, LISTING, WATCHABLE

_ENTITIES = ("topics", "brokers", "broker-loggers", "groups", "client-metrics")
_KINDS = ("topic", "broker", "broker-logger", "group", "client-metrics", *_ENTITIES)
_RESOURCE = (
    Argument(
        "TYPE",
        optional=True,
        help="topic, broker, broker-logger, group or client-metrics.",
        complete="entity-type",
    ),
    Argument(
        "NAME",
        many=True,
        optional=True,
        help="Its names; a broker's is its id, or `default` for all of them.",
        complete="entity-name",
    ),
)
_APACHE_RESOURCE = (
    Option("--entity-type", value="TYPE", choices=_KINDS, help="The same as TYPE.", hidden=True),
    Option("--entity-name", value="NAME", repeat=True, help="The same as NAME.", hidden=True),
    Option("--entity-default", help="The same as the name `default`.", hidden=True),
    Option("-t", "--topic", value="TOPIC", help="The same as `topic TOPIC`.", complete="topic"),
    Option("--broker", value="ID", help="The same as `broker ID`.", complete="broker"),
    Option("-g", "--group", value="GROUP", help="The same as `group GROUP`.", complete="group"),
)

CONFIGS = Group(
    "configs",
    "config",
    help="Configs of topics, brokers and groups: list, describe, alter, edit.",
    children=(
        Command(
            "list",
            "ls",
            help="What has configs that were set.",
            handler="pk.cli.nouns.configs.configs:list_resources",
            shows="name type",
            arguments=(
                Argument("TYPE", optional=True, help="Only this type.", complete="entity-type"),
            ),
            options=(*WATCHABLE, *CONNECTION),
            examples=("pk configs list", "pk configs list topic"),
        ),
        Command(
            "describe",
            help="Config values and where each comes from.",
            handler="pk.cli.nouns.configs.configs:describe",
            shows={
                "": "resource name value? source type read_only:bool sensitive:bool synonyms:<str?>",
                "docs": (
                    "resource name value? source type read_only:bool sensitive:bool synonyms:<str?> "
                    "documentation?"
                ),
            },
            arguments=_RESOURCE,
            options=(
                *_APACHE_RESOURCE,
                Option("-a", "--all", help="Defaults too, not only what was set."),
                Option(
                    "-c",
                    "--config",
                    value="KEY",
                    kind="list",
                    repeat=True,
                    dest="keys",
                    help="Only these keys.",
                    complete="config-key",
                ),
                Option(
                    "-v",
                    "--docs",
                    "--verbose",
                    help="The documentation of each key, its type, and what stands beneath it.",
                ),
                *WATCHABLE,
                *CONNECTION,
            ),
            examples=(
                "pk configs describe topic orders",
                "pk configs describe broker 1 -a --where 'name ~ ^log'",
                "pk configs describe topic orders -v -c retention.ms,cleanup.policy",
            ),
        ),
        Command(
            "alter",
            "set",
            help="Set, extend or remove configs.",
            handler="pk.cli.nouns.configs.alter:alter",
            shows="resource name from? to? result error?",
            arguments=_RESOURCE,
            options=(
                *_APACHE_RESOURCE,
                Option(
                    "-c",
                    "--config",
                    "--set",
                    value="KEY=VALUE",
                    kind="config",
                    repeat=True,
                    help="Set a key; a duration or a size may have a unit (retention.ms=7d, segment.bytes=1GiB).",
                    complete="config-key",
                ),
                Option(
                    "--delete",
                    "--delete-config",
                    value="KEY",
                    kind="list",
                    repeat=True,
                    dest="delete",
                    help="Go back to a key's default.",
                    complete="config-key",
                ),
                Option(
                    "--append",
                    value="KEY=VALUE",
                    kind="pair",
                    repeat=True,
                    help="Add to a key that is a list.",
                    complete="config-key",
                ),
                Option(
                    "--subtract",
                    value="KEY=VALUE",
                    kind="pair",
                    repeat=True,
                    help="Take from a key that is a list.",
                    complete="config-key",
                ),
                Option(
                    "--add-config",
                    value="K=V,K=[A,B]",
                    repeat=True,
                    help="Apache's way to set several keys.",
                    hidden=True,
                ),
                Option(
                    "--add-config-file",
                    value="FILE",
                    help="Set every key of a properties file.",
                    complete="file",
                ),
                *CHANGE,
                *LISTING,
                *CONNECTION,
            ),
            examples=(
                "pk configs alter topic orders -c retention.ms=86400000 --delete cleanup.policy",
                "pk configs alter broker default -c log.retention.ms=86400000 --dry-run",
            ),
        ),
        Command(
            "edit",
            help="Open the configs of one thing in $EDITOR; what differs is shown, asked for, and changed.",
            handler="pk.cli.nouns.configs.edit:edit",
            shows="resource name from? to? result error?",
            arguments=_RESOURCE,
            options=(
                *_APACHE_RESOURCE,
                Option(
                    "--file",
                    value="FILE",
                    help="Go on from this text, such as one that was refused; without a terminal it is applied as it is.",
                    complete="file",
                ),
                *CHANGE,
                *LISTING,
                *CONNECTION,
            ),
            examples=("pk configs edit topic orders", "pk configs edit broker default"),
            notes="The text holds every key with its default and documentation. Only keys that differ are sent. A text that "
            "is refused, by you or by the broker, is kept in a file whose name is said.",
        ),
    ),
)
