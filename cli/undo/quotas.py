"""Undoes changes of client quotas: gives each value back that was there before."""

from pk.cli.cluster.quota_changes import KIND, change_quota, entity_from
from pk.cli.cluster.quota_rows import ChangedQuotaRow
from pk.cli.output.rows import listing
from pk.cli.runtime.context import Context
from pk.cli.undo import log as store

ROW = ChangedQuotaRow
"""What undoing a change of this kind shows."""

__all__ = ["KIND", "ROW", "undo"]


async def undo(context: Context, change: store.Change, *, anyway: bool) -> bool:
    """Shows what changes, asks, and does it; True once that is done."""
    admin, entity = await context.admin(), entity_from(change.inverse["entity"])
    values: dict[str, float | None] = change.inverse["values"]
    rows, done = await change_quota(context, admin, entity, values, undoes=change.id)
    context.show(listing(ROW, rows))
    return done and not context.change.dry_run
