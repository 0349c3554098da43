"""`pk cp`: its commands and their options."""

from typing import TYPE_CHECKING

from pk.cli.command_line.declare import Noun, Running
from pk.cli.command_line.option_sets import (
    Change,
    Connection,
    Format,
)
from pk.cli.nouns.cp.options import Copy

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

CP = Noun("cp")


@CP.command(
    takes=(Change, Format, Connection),
    examples=(
        "pk cp orders-dlq orders --once --where 'headers.error ~ timeout' --drop-header error -y",
        "pk cp orders orders-copy --create --keep-partition --keep-timestamp --once",
        "pk cp orders '{topic}' --to-profile dr -o @-1h..end --rate 500 --dry-run",
        "pk cp --include 'orders-.*' 'mirror-{topic}' --create --once --state mirror.state -y",
        "pk cp pk://orders/0/1 payments -y",
    ),
    notes=(
        "Keys, values and headers are copied as they are, null as null and empty as empty. A "
        "record goes to the partition of its key by the default partitioner, unless "
        "--keep-partition; those of one key stay in order. Nothing is lost: FILE of --state "
        "is only ever behind what was acknowledged. A copy that was killed and goes on may "
        "write again what it had written since FILE was last noted: a second's worth, in "
        "order. Without --state a copy that ends early says where it stood."
    ),
    shows="topic partition:int target from:int up_to:int offsets:int copied:int?",
)
def copy(context: "Context", options: Copy) -> Running:
    """Copy records from topics to a topic, of this cluster or another."""
    from pk.cli.nouns.cp.cp import copy

    return copy(context, options)
