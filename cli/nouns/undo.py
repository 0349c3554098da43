"""The command `pk undo`, with its options."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.cluster.acl_rows import ChangedAclRow
from pk.cli.cluster.offset_change_row import OffsetChangeRow
from pk.cli.cluster.quota_rows import ChangedQuotaRow
from pk.cli.command_line.declare import Noun
from pk.cli.options.option_sets import Anyway, Change, ChangeId, Connection, Listing
from pk.cli.options.parameters import Option
from pk.cli.undo.rows import ChangeRow, ConfigUndoRow, UserUndoRow

UNDO = Noun("undo")


@dataclass(frozen=True, kw_only=True)
class UndoChange:
    """Arguments of `pk undo`."""

    change_id: ChangeId = None
    list_all: Annotated[
        bool, Option("--list", help="List all changes made from this machine, newest first.")
    ] = False
    anyway: Anyway = False


UNDO.command(
    help="Undo a change: restore group offsets or configs.",
    worker="pk.cli.undo.undo:undo",
    arguments=UndoChange,
    takes=(Change, Listing, Connection),
    examples=("pk undo", "pk undo last --dry-run", "pk undo --list --where 'undone = null'"),
    notes=(
        "Commands that can be undone say so: groups reset-offsets, delete, delete-offsets, "
        "configs alter and edit, topics alter, users add, acls add and delete, quotas set and "
        "delete. Commands that cannot be undone (topics delete, topics trim) say so before they "
        "ask. An undo is a change like any other: it shows its plan, asks, and can be undone."
    ),
    shows={
        "change_id": (OffsetChangeRow, ConfigUndoRow, ChangedAclRow, UserUndoRow, ChangedQuotaRow),
        "": ChangeRow,
    },
)
