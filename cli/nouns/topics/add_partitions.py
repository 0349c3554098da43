"""`pk topics add-partitions`."""

from collections.abc import Sequence

from pk.cli.cluster.topics import existing_topics
from pk.cli.exits import Unusable
from pk.cli.nouns.topics.growth import check_growth, grow, name_to_type, say_growth
from pk.cli.nouns.topics.rows import GrownRow
from pk.cli.output.rows import listing
from pk.cli.runtime.context import Context
from pk.cli.runtime.results import show_results


async def add_partitions(
    context: Context, *, topic: Sequence[str], num: int | None, partitions: int | None
) -> None:
    """Run `pk topics add-partitions`: `num` more partitions for each topic, or `partitions` in
    total."""
    if (num is None) == (partitions is None):
        raise Unusable("Give the number of new partitions (-n N) or the new total (-p TOTAL).")
    admin = await context.admin()
    now = {t.name: len(t.partitions) for t in await existing_topics(context, admin, topic)}
    totals = {name: partitions or has + (num or 0) for name, has in now.items()}
    check_growth(totals, now)
    say_growth(context, totals, now)
    if not context.change.dry_run:
        await context.agree(
            f"Grow on {context.settings.cluster_name}?", name=name_to_type(context, totals)
        )
    show_results(context, listing(GrownRow, await grow(context, totals, now)), of="topic")
