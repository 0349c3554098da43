"""The commands of `pk produce`, with their options."""

from pk.cli.command_line.declare import Noun
from pk.cli.nouns.produce.options import Produce
from pk.cli.options.option_sets import Change, Connection

PRODUCE = Noun("produce")


PRODUCE.command(
    help="Write records: from an editor at a terminal, else from lines of standard input.",
    worker="produce:produce",
    options=Produce,
    takes=(Change, Connection),
    examples=(
        "pk produce orders -k user-1 '{\"amount\": 5}'",
        "pk consume orders -o start..end -f jsonl | pk produce copy -f jsonl",
        "pk produce orders -f '%k\\t%v\\n' -F orders.tsv -z zstd",
        (
            'pk produce orders --fake \'{"id": {{seq}}, "user": "{{name}}", "at": "{{now}}"}\' -n '
            "100 --rate 50"
        ),
        "pk produce orders --fake orders -n 3 --dry-run",
        "pk produce orders -F orders.tsv --transactional-id nightly-load",
    ),
    notes=(
        "At a terminal: Enter sends a line, or a JSON document once it is complete. If a text "
        "starts as JSON but is invalid, pk shows where; a second Enter sends it as text, unless "
        "--json is given. Alt-Enter starts a new line; ↑ recalls earlier records, also of the "
        "last session; Ctrl-X Ctrl-E opens $EDITOR; Ctrl-D ends. pk shows each record's "
        "partition, offset and time to acknowledgement; a failed record comes back for editing. "
        "From a file or a pipe, the first invalid line stops the command after the lines before "
        "it are sent, and its number is shown. With --transactional-id the records of the open "
        "transaction are then aborted: readers of committed records never see them. A second `pk "
        "produce` with the same id ends the first one."
    ),
    screen="paints",
    shows_waits=True,
    from_use=True,
)
