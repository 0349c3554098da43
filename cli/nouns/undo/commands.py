"""`pk undo` and `pk history`: its commands and their options."""

from typing import TYPE_CHECKING

from pk.cli.command_line.declare import Noun, Running
from pk.cli.command_line.option_sets import Anyway, Change, ChangeId, Connection, Debug, Listing

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

UNDO = Noun("undo")
HISTORY = Noun("history")


@UNDO.command(
    takes=(Change, Listing, Connection),
    examples=("pk undo", "pk undo last --dry-run"),
    notes=(
        "Commands that keep a way back say so: groups reset-offsets, delete, delete-offsets, "
        "configs alter and edit, topics alter. What is lost for good (topics delete, topics "
        "trim) says so before it asks. Undoing is a change like any other: shown, asked, and "
        "kept, so that it can be undone in turn."
    ),
    shows={"id": "...", "": "id:int age_ms:int change cluster undone? time kind cluster_id?"},
)
def undo(context: "Context", id: ChangeId = None, anyway: Anyway = False) -> Running:
    """Undo a change: group offsets and configs, as they were before."""
    from pk.cli.undo.undo import undo

    return undo(context, change_id=id, anyway=anyway)


@HISTORY.command(
    takes=(Listing, Debug),
    examples=("pk history", "pk history --where 'undone = null'"),
    shows="id:int age_ms:int change cluster undone? time kind cluster_id?",
    blocking=True,
)
def history(context: "Context") -> int | None:
    """What was changed from this machine that `pk undo` can undo, newest first."""
    from pk.cli.undo.change_list import history

    return history(context)
