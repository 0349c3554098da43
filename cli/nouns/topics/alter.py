"""`pk topics alter`: changes configs, the number of partitions, or both, and shows the changes
first."""

from typing import TYPE_CHECKING

from pk.cli.cluster import config_changes
from pk.cli.cluster.topics import existing_topics
from pk.cli.exits import Unusable
from pk.cli.nouns.topics.growth import check_growth, grow, name_to_type, say_growth
from pk.cli.nouns.topics.rows import AlteredRow
from pk.cli.output.rows import columns, listing
from pk.cli.runtime.context import Context
from pk.cli.runtime.results import show_results
from pk.net.client.results import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ResourceType,
)

if TYPE_CHECKING:
    from pk.cli.nouns.topics.options import AlterTopics


async def alter(context: Context, options: "AlterTopics") -> None:
    """Run `pk topics alter`."""
    if not options.config and not options.delete_config and options.partitions is None:
        raise Unusable(
            "There is nothing to change; give -c KEY=VALUE, --delete-config KEY or -p TOTAL."
        )
    admin = await context.admin()
    topics = await existing_topics(context, admin, options.topic)
    now = {t.name: len(t.partitions) for t in topics}
    totals = {} if options.partitions is None else dict.fromkeys(now, options.partitions)
    check_growth(totals, now)
    changes = [ConfigChange(k, v) for k, v in options.config]
    changes += [ConfigChange(k, None, ConfigOperation.DELETE) for k in options.delete_config]
    wanted = {ConfigResource(ResourceType.TOPIC, name): changes for name in now} if changes else {}
    plan = await config_changes.plan_changes(context, wanted) if wanted else None
    if plan and not plan.wanted and not totals:
        config_changes.say_nothing_to_change(context, plan)
        context.show_nothing(columns(AlteredRow))
        return
    if totals:
        say_growth(context, totals, now)
    if context.change.dry_run and plan:
        config_changes.say_consequences(context, plan)
    if not context.change.dry_run:
        if plan:
            if plan.wanted:
                await config_changes.check_plan(context, plan)
            config_changes.say_plan(context, plan)
        await context.agree(
            f"Change this on {context.settings.cluster_name}?", name=name_to_type(context, now)
        )
    rows: list[AlteredRow] = [
        {
            **row,
            "name": "partitions",
            "from": str(row["from"]),
            "to": str(row["to"]),
            "to_source": None,
        }
        for row in (await grow(context, totals, now) if totals else [])
    ]
    changed = await config_changes.make_changes(context, plan) if plan else config_changes.Changed()
    for row in changed.rows:
        rows.append(
            {
                "topic": row["resource"],
                "name": row["name"],
                "from": row["from"],
                "to": row["to"],
                "to_source": row["to_source"],
                "result": row["result"],
                "error": row["error"],
            }
        )
    show_results(context, listing(AlteredRow, rows))
    changed.say_how_to_undo(context)
