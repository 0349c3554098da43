"""The recorded changes as a list, for `pk undo`."""

from collections.abc import Sequence

from pk.cli.output.rows import listing
from pk.cli.positions.resolve import now_ms
from pk.cli.positions.times import show_time
from pk.cli.runtime import undo_log as store
from pk.cli.runtime.context import Context
from pk.cli.undo.rows import ChangeRow


def _row(change: store.Change, now: int) -> ChangeRow:
    return {
        "id": int(change.id),
        "age_ms": max(now - change.made_ms, 0),
        "change": change.description,
        "cluster": change.cluster,
        "undone": None if change.undone_ms is None else show_time(change.undone_ms),
        "time": show_time(change.made_ms),
        "kind": change.kind,
        "cluster_id": change.cluster_id,
    }


def _style(row: ChangeRow) -> str | None:
    return "dim" if row["undone"] else None


def show_changes(context: Context, changes: Sequence[store.Change]) -> None:
    now = now_ms()
    rows = [_row(change, now) for change in changes]
    wide: set[str] = set()
    if len({row["cluster"] for row in rows}) <= 1:
        wide.add("cluster")
    if not any(row["undone"] for row in rows):
        wide.add("undone")
    context.show(listing(ChangeRow, rows, _style, wide=wide))
