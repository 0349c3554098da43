"""Adds partitions to topics, for `pk topics add-partitions` and `pk topics alter -p`: checks, warns
and adds."""

from collections.abc import Collection, Mapping

from pk.cli.cluster.propagation import until_topics
from pk.cli.exits import CommandError
from pk.cli.nouns.topics.outcome import outcome
from pk.cli.nouns.topics.rows import GrownRow
from pk.cli.phrases import count
from pk.cli.runtime.context import Context
from pk.net.client.answers import Answers
from pk.net.client.results import NewPartitions, TopicDescription


def check_growth(totals: Mapping[str, int], now: Mapping[str, int]) -> None:
    """Raise CommandError if a topic already has the requested number of partitions, or more.

    `totals`: topic → requested number of partitions; `now`: topic → current number.
    """
    for name, total in totals.items():
        if total == now[name]:
            raise CommandError(f"Topic {name} already has {count(total, 'partition')}.")
        if total < now[name]:
            raise CommandError(
                f"Topic {name} has {now[name]} partitions; partitions can only be added, and "
                f"{total} is fewer."
            )


def say_growth(context: Context, totals: Mapping[str, int], now: Mapping[str, int]) -> None:
    """Say how many partitions each topic gets, and what that means for records with a key."""
    for name, total in totals.items() if not context.change.dry_run else ():
        context.say(f"Topic {name} grows from {now[name]} to {total} partitions.")
    context.say(
        "New records with a key may go to another partition than before; partitions cannot be "
        "removed again."
    )


async def grow(
    context: Context, totals: Mapping[str, int], now: Mapping[str, int]
) -> list[GrownRow]:
    """Grow topics to `totals` (CreatePartitions), or only validate with --dry-run. Returns a row
    for each topic."""
    admin = await context.admin()
    dry_run = context.change.dry_run
    answers = await admin.create_partitions(
        {name: NewPartitions(total) for name, total in totals.items()}, validate_only=dry_run
    )
    if not dry_run:
        await until_topics(admin, answers.ok, lambda known, name: _has(known, name, totals[name]))
    done = "would grow" if dry_run else "grown"
    return [
        {
            "topic": name,
            "from": now[name],
            "to": total,
            **outcome(context, answers.errors.get(name), done),
        }
        for name, total in totals.items()
    ]


def _has(known: Answers[str, TopicDescription], name: str, partitions: int) -> bool:
    return name in known.ok and len(known.ok[name].partitions) >= partitions


def name_to_type(context: Context, names: Collection[str]) -> str:
    """The word that a guard asks the user to type: the topic if there is only one, or else the
    cluster's address."""
    return next(iter(names)) if len(names) == 1 else context.settings.bootstrap
