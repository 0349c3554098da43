"""`pk undo` and `pk history`."""

from pk.cli.grammar import Argument, Command, Option
from pk.cli.specs.common import CHANGE, CONNECTION, DEBUG, LISTING

_HISTORY = "id:int age_ms:int change cluster undone? time kind cluster_id?"
UNDO_SHOWS = {"id": "...", "": _HISTORY}
"""Which fields a plan has depends on what is undone."""

UNDO_ID = Argument(
    "ID",
    optional=True,
    help="The change, as `pk history` numbers it, or `last` on this cluster; without it, what can be undone is listed.",
    complete="change",
)
ANYWAY = Option(
    "--anyway", help="Also where somebody has changed it since, or where it was undone already."
)

UNDO = Command(
    "undo",
    help="Undo a change: group offsets and configs, as they were before.",
    handler="pk.cli.nouns.undo.undo:undo",
    arguments=(UNDO_ID,),
    options=(ANYWAY, *CHANGE, *LISTING, *CONNECTION),
    examples=("pk undo", "pk undo last --dry-run"),
    notes="Commands that keep a way back say so: groups reset-offsets, delete, delete-offsets, configs alter and edit, "
    "topics alter. What is lost for good (topics delete, topics trim) says so before it asks. Undoing is a "
    "change like any other: shown, asked, and kept, so that it can be undone in turn.",
    shows=UNDO_SHOWS,
)

HISTORY = Command(
    "history",
    help="What was changed from this machine that `pk undo` can undo, newest first.",
    handler="pk.cli.nouns.undo.undo:history",
    options=(*LISTING, DEBUG),
    examples=("pk history", "pk history --where 'undone = null'"),
    blocking=True,
    shows=_HISTORY,
)
