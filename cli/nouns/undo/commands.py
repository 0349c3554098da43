"""`pk undo` and `pk history`: its commands and their options."""

from typing import TYPE_CHECKING

from pk.cli.cluster.acl_rows import ChangedAclRow
from pk.cli.cluster.quota_rows import ChangedQuotaRow
from pk.cli.command_line.declare import Noun, Running
from pk.cli.command_line.option_sets import Anyway, Change, ChangeId, Connection, Debug, Listing
from pk.cli.undo.rows import ChangeRow, ConfigUndoRow, OffsetChangeRow, UserUndoRow

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

UNDO = Noun("undo")
HISTORY = Noun("history")


@UNDO.command(
    takes=(Change, Listing, Connection),
    examples=("pk undo", "pk undo last --dry-run"),
    notes=(
        "Commands that can be undone say so: groups reset-offsets, delete, delete-offsets, "
        "configs alter and edit, topics alter, users add, acls add and delete, quotas set and "
        "delete. Commands whose loss is final (topics delete, topics trim) say so before they "
        "ask. An undo is a change like any other: it shows its plan, asks, and can be undone."
    ),
    shows={
        "id": (OffsetChangeRow, ConfigUndoRow, ChangedAclRow, UserUndoRow, ChangedQuotaRow),
        "": ChangeRow,
    },
)
def undo(context: "Context", id: ChangeId = None, anyway: Anyway = False) -> Running:
    """Undo a change: restore group offsets or configs."""
    from pk.cli.undo.undo import undo

    return undo(context, change_id=id, anyway=anyway)


@HISTORY.command(
    takes=(Listing, Debug),
    examples=("pk history", "pk history --where 'undone = null'"),
    shows=ChangeRow,
    blocking=True,
)
def history(context: "Context") -> int | None:
    """List changes made from this machine that `pk undo` can undo, newest first."""
    from pk.cli.undo.change_list import history

    return history(context)
