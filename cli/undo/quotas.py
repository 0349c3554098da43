"""Undoes changes of client quotas: restores the previous values."""

from pk.cli.cluster.quota_changes import KIND, change_quota, entity_from
from pk.cli.cluster.quota_rows import ChangedQuotaRow
from pk.cli.exits import Refused
from pk.cli.phrases import join
from pk.cli.runtime import undo_log as store
from pk.cli.runtime.context import Context
from pk.core.quota.entity import entity_text

ROW = ChangedQuotaRow
"""The row types that undoing such a change shows."""

__all__ = ["KIND", "ROW", "undo"]


async def undo(context: Context, change: store.Change, *, anyway: bool) -> bool:
    """Show the changes, ask, and make them. Returns True once that is done.

    Raises Refused, without `anyway`, if a value was changed since.
    """
    admin, entity = await context.admin(), entity_from(change.inverse["entity"])
    values: dict[str, float | None] = change.inverse["values"]
    after: dict[str, float | None] = change.inverse.get("after", {})  # older records do not have it
    if not anyway and not context.change.dry_run:
        now = (await admin.describe_quotas()).get(entity, {})
        since = [k for k in after if now.get(k) not in (values[k], after[k])]
        if since:
            raise Refused(
                f"{join(since)} of {entity_text(entity)} {'was' if len(since) == 1 else 'were'} "
                "changed since; --dry-run shows it, --anyway undoes it regardless."
            )
    done = await change_quota(context, admin, entity, values, undoes=change.id)
    return done and not context.change.dry_run
