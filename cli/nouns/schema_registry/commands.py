"""The commands of `pk schema-registry`, with their options."""

from pk.cli.command_line.declare import Noun
from pk.cli.nouns.schema_registry.options import StartRegistry
from pk.cli.options.option_sets import Connection

SCHEMA_REGISTRY = Noun("schema-registry")


SCHEMA_REGISTRY.command(
    "start",
    help="Start a schema registry with Confluent's REST API, in the foreground; Ctrl-C ends it.",
    worker="schema_registry:start",
    options=StartRegistry,
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
