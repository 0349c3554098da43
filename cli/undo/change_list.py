"""The changes that were kept, as a list: `pk history`, and `pk undo` without an id."""

from collections.abc import Mapping, Sequence
from typing import Any

from pk.cli.output.formats import Column, Listing
from pk.cli.positions.resolve import now_ms
from pk.cli.positions.times import show_span, show_time
from pk.cli.runtime.context import Context
from pk.cli.undo import log as store


def _yes(undone: str | None) -> str:
    return "yes" if undone else "-"


_HISTORY = (
    Column("id", right=True),
    Column("age_ms", right=True, title="AGE", show=show_span),
    Column("change"),
    Column("cluster"),
    Column("undone", show=_yes),
    Column("time", wide=True),
    Column("kind", wide=True),
    Column("cluster_id", wide=True),
)


def _row(change: store.Change, now: int) -> dict[str, Any]:
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


def _style(row: Mapping[str, Any]) -> str | None:
    return "dim" if row.get("undone") else None


def show_changes(context: Context, changes: Sequence[store.Change]) -> None:
    now = now_ms()
    rows = [_row(change, now) for change in changes]
    hidden: set[str] = set() if len({row["cluster"] for row in rows}) > 1 else {"cluster"}
    if not any(row["undone"] for row in rows):
        hidden.add("undone")
    columns = [c._replace(wide=True) if c.key in hidden else c for c in _HISTORY]
    context.show(Listing(columns, rows, _style))


def history(context: Context) -> None:
    """`pk history`: every change that was kept, newest first."""
    show_changes(context, store.history())
