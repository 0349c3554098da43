"""Changes client quotas: shows the plan, has the broker check it, asks, makes the change, and
records how to undo it."""

from collections.abc import Mapping
from typing import Any

from pk.cli.cluster.propagation import until_quotas
from pk.cli.cluster.quota_rows import ChangedQuotaRow, show_number
from pk.cli.output.rows import listing
from pk.cli.runtime import undo_log
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import error_name, phrase
from pk.cli.runtime.results import show_results
from pk.core.quota.entity import CLIENT_ID, IP, USER, Entity, entity_of, entity_text
from pk.net.client.admin import Admin

KIND = "quotas"
DEFAULT = "<default>"

Values = Mapping[str, float | None]
"""Key → value; None removes it."""


def names_of(entity: Entity) -> dict[str, str | None]:
    """The names of an entity, as in rows."""
    names = {kind: DEFAULT if name is None else name for kind, name in entity}
    return {"user": names.get(USER), "client_id": names.get(CLIENT_ID), "ip": names.get(IP)}


def said_value(value: float | None) -> str:
    """A value in a sentence."""
    return "(none)" if value is None else show_number(value)


async def change_quota(
    context: Context, admin: Admin, entity: Entity, wanted: Values, *, undoes: str | None = None
) -> bool:
    """Change the quota of an entity, and show the result for each key. Returns whether the change
    was made."""
    known = (await admin.describe_quotas()).get(entity, {})
    changing = {key: value for key, value in wanted.items() if known.get(key) != value}
    rows = [_row(entity, key, known.get(key), value) for key, value in wanted.items()]
    if not changing:
        context.show(listing(ChangedQuotaRow, rows))
        return True
    dry_run = context.change.dry_run
    error = (await admin.alter_quotas({entity: changing}, validate_only=True)).errors.get(entity)
    kept: str | None = None
    if error is None and not dry_run:
        context.say(f"This changes the quota of {entity_text(entity)}:")
        for key, value in changing.items():
            context.say(f"  {key} {said_value(known.get(key))} → {said_value(value)}")
        named = [name for _, name in entity if name is not None]
        await context.agree(
            f"Change it on {context.settings.cluster_name}?",
            name=named[0] if len(named) == 1 else None,
        )
        before = {key: known.get(key) for key in changing}
        inverse: dict[str, Any] = {
            "entity": [list(part) for part in entity],
            "values": before,
            "after": changing,
        }
        said = f"quota of {entity_text(entity)} changed"
        kept = await undo_log.remember(context, admin, KIND, said, inverse, undoes=undoes)
        error = (await admin.alter_quotas({entity: changing})).errors.get(entity)
        if error is None:
            await until_quotas(admin, entity, changing)
    for row in rows:
        if row["key"] in changing:
            row["result"] = "would change" if dry_run else "changed"
            if error is not None:
                row["result"], row["error"] = phrase(error), error_name(error)
    if error is not None:
        context.fail(error)
        if kept is not None:
            undo_log.forget(kept)
            kept = None
    named = [(entity_text(entity), error)]
    show_results(context, listing(ChangedQuotaRow, rows), named, "key")
    if kept is not None:
        context.say(undo_log.how_to_undo(kept))
    return error is None and not dry_run


def _row(entity: Entity, key: str, before: float | None, after: float | None) -> ChangedQuotaRow:
    names = names_of(entity)
    return {
        "user": names["user"],
        "client_id": names["client_id"],
        "ip": names["ip"],
        "key": key,
        "from": before,
        "to": after,
        "result": "exists already" if after is not None else "not there",
        "error": None,
    }


def entity_from(parts: list[list[str | None]]) -> Entity:
    """The entity that the record of a change names."""
    return entity_of({str(kind): name for kind, name in parts})
