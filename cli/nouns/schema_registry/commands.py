"""The commands of `pk schema-registry`, with their options."""

from typing import TYPE_CHECKING

from pk.cli.command_line.declare import Noun, Running
from pk.cli.command_line.option_sets import Connection
from pk.cli.nouns.schema_registry.options import StartRegistry

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

SCHEMA_REGISTRY = Noun("schema-registry")


@SCHEMA_REGISTRY.command(
    "start",
    takes=(Connection,),
    examples=(
        "pk schema-registry start -b 127.0.0.1:9092",
        "pk schema-registry start --port 0 --users users.txt",
    ),
    notes=(
        "It keeps the schemas in the topic _schemas, in Confluent's format, on any Kafka. Several "
        "instances choose a leader; the others forward changes to it. When it is ready, it prints "
        "one line whose last word is the URL."
    ),
    screen="streams",
)
def start(context: "Context", options: StartRegistry) -> Running:
    """Start a schema registry with Confluent's REST API, in the foreground; Ctrl-C ends it."""
    from pk.cli.nouns.schema_registry.schema_registry import start

    return start(context, options)
