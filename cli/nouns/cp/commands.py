"""The commands of `pk cp`, with their options."""

from pk.cli.command_line.declare import Noun
from pk.cli.nouns.cp.options import Copy
from pk.cli.nouns.cp.rows import CopiedRow
from pk.cli.options.option_sets import Change, Connection, Format

CP = Noun("cp")


CP.command(
    help="Copy records to another topic, on this cluster or another.",
    worker="cp:copy",
    options=Copy,
    takes=(Change, Format, Connection),
    examples=(
        "pk cp orders-dlq orders --once --where 'headers.error ~ timeout' --drop-header error -y",
        "pk cp orders orders-copy --create --keep-partition --keep-timestamp --once",
        "pk cp orders '{topic}' --to-profile dr -o @-1h..end --rate 500 --dry-run",
        "pk cp --include 'orders-.*' 'mirror-{topic}' --create --once --state mirror.state -y",
        "pk cp orders orders-copy --create --exactly-once -g orders-copier --once -y",
        "pk cp pk://orders/0/1 payments -y",
    ),
    notes=(
        "Keys, values and headers are copied unchanged: null stays null, empty stays empty. A "
        "record goes to the partition that the default partitioner chooses for its key, unless "
        "--keep-partition; records with the same key stay in order. No record is lost: the "
        "offsets in FILE of --state never exceed what was acknowledged. A copy that was killed "
        "may, when resumed, write up to a second's worth of records again, in order. Without "
        "--state, a copy that ends early prints how far it came. With --exactly-once each record "
        "is copied once for readers of committed records, even if the copy is killed and started "
        "again, or started twice with the same group: the second copy ends the first. Both topics "
        "must be on one cluster."
    ),
    shows=CopiedRow,
    screen="streams",
    shows_waits=True,
)
