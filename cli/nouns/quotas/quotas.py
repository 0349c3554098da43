"""`pk quotas`: lists, sets and deletes the cluster's client quotas."""

from pk.cli.cluster.quota_changes import change_quota, names_of
from pk.cli.cluster.quota_rows import QuotaRow
from pk.cli.exits import CommandError, Unusable
from pk.cli.nouns.quotas.options import DeleteQuota, ListQuotas, SetQuota
from pk.cli.nouns.quotas.selected import entity_given, keys_given, names_given, values_given
from pk.cli.output.rows import listing
from pk.cli.runtime.context import Context
from pk.core.quota.entity import IP, entity_text
from pk.net.client.admin_operations.quotas import QuotaFilter


async def list_quotas(context: Context, options: ListQuotas) -> None:
    """Run `pk quotas list`."""
    wanted = names_given(options)
    if IP in wanted and len(wanted) > 1:
        raise Unusable("A quota is for an address, or for users and client ids, not for both.")
    admin = await context.admin()
    filters = [QuotaFilter(kind, name) for kind, name in wanted.items()]
    found = await admin.describe_quotas(filters, strict=options.strict and bool(filters))
    rows: list[QuotaRow] = []
    for entity, values in found.items():
        names = names_of(entity)
        for key, value in values.items():
            row: QuotaRow = {
                "user": names["user"],
                "client_id": names["client_id"],
                "ip": names["ip"],
                "key": key,
                "value": value,
            }
            rows.append(row)
    rows.sort(key=lambda r: (r["ip"] or "", r["user"] or "", r["client_id"] or "", r["key"]))
    context.show(listing(QuotaRow, rows))
    if not rows:
        context.say_empty("No quotas match." if wanted else "No quotas are set.")


async def set_quota(context: Context, options: SetQuota) -> None:
    """Run `pk quotas set`."""
    entity = entity_given(options)
    values = values_given(options, entity)
    await change_quota(context, await context.admin(), entity, dict(values))


async def delete(context: Context, options: DeleteQuota) -> None:
    """Run `pk quotas delete`."""
    entity = entity_given(options)
    keys = keys_given(options, entity)
    admin = await context.admin()
    known = (await admin.describe_quotas()).get(entity, {})
    missing = [key for key in keys if key not in known]
    if not known or missing:
        of = f" {', '.join(missing)}" if known else ""
        raise CommandError(f"No quota{of} is set for {entity_text(entity)}; see `pk quotas list`.")
    await change_quota(context, admin, entity, dict.fromkeys(keys or known))
