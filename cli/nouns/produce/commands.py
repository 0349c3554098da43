"""`pk console-producer`: its commands and their options."""

from typing import TYPE_CHECKING

from pk.cli.command_line.declare import Noun, Running
from pk.cli.command_line.option_sets import Change, Connection
from pk.cli.nouns.produce.options import Produce

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

CONSOLE_PRODUCER = Noun("console-producer")


@CONSOLE_PRODUCER.command(
    takes=(Change, Connection),
    examples=(
        "pk produce orders -k user-1 '{\"amount\": 5}'",
        "pk consume orders -o start..end -f jsonl | pk produce copy -f jsonl",
        "pk produce orders -f '%k\\t%v\\n' -F orders.tsv -z zstd",
        'pk produce orders --fake \'{"id": {{seq}}, "user": "{{name}}", "at": "{{now}}"}\' -n 100 --rate 50',
        "pk produce orders --fake orders -n 3 --dry-run",
    ),
    notes=(
        "At a terminal: Enter sends a line, or a JSON document once it is complete; what "
        "begins as JSON and is none is shown where it goes wrong, and sent as text only by a "
        "second Enter, with --json not at all; Alt-Enter begins a new line; ↑ brings earlier "
        "records back, also those of the last session; Ctrl-X Ctrl-E opens $EDITOR; Ctrl-D "
        "ends. Each record's partition, offset and time to the acknowledgement are shown; one "
        "that failed stands there again to be edited. From a file or a pipe, the first line "
        "that is no record ends it, named by its number, after those before it were sent."
    ),
)
def produce(context: "Context", options: Produce) -> Running:
    """Write records: at a terminal in an editor, else one a line of standard input."""
    from pk.cli.nouns.produce.produce import produce

    return produce(context, options)
