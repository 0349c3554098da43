"""`pk topics delete`."""

from collections.abc import Sequence

from pk.cli.cluster.propagation import until_topics
from pk.cli.cluster.topics import is_unknown, topic_names, unknown_topic, whole
from pk.cli.exits import CommandError
from pk.cli.nouns.topics.growth import name_to_type
from pk.cli.nouns.topics.losses import lost_records, records_in, say_readers
from pk.cli.nouns.topics.outcome import outcome
from pk.cli.nouns.topics.rows import DeletedRow
from pk.cli.output.rows import listing
from pk.cli.phrases import count, join
from pk.cli.runtime.context import Context
from pk.cli.runtime.name_cache import recall, remember
from pk.cli.runtime.results import show_results
from pk.core.values import INTERNAL_TOPICS, TopicPartition
from pk.net.client.admin import Admin
from pk.net.client.answers import Answers
from pk.net.client.results import (
    TopicDescription,
)


async def _matching(context: Context, admin: Admin, expressions: Sequence[str]) -> list[str]:
    """The topics that any of the regular expressions matches, except internal ones."""
    patterns = [whole(expression, "TOPIC") for expression in expressions]
    known = await topic_names(context, admin, internal=False)
    return [n for n in known if n not in INTERNAL_TOPICS and any(p.fullmatch(n) for p in patterns)]


async def delete(context: Context, *, topic: Sequence[str], regex: bool, if_exists: bool) -> None:
    """Run `pk topics delete`. `topics` are names or, with `regex`, regular expressions over whole
    names."""
    admin = await context.admin()
    names = await _matching(context, admin, topic) if regex else list(dict.fromkeys(topic))
    if not names and not if_exists:
        raise CommandError(
            f"No topic's whole name matches {join(topic)}; `pk topics list` shows all topics."
        )
    described = await admin.describe_topics(names)
    there = [name for name in names if name in described.ok]
    rows: list[DeletedRow] = []
    errors: list[tuple[str, object]] = []
    for name, error in described.errors.items():
        if is_unknown(error) and if_exists:
            rows.append({"topic": name, "result": "not there", "error": None})
            continue
        shown = await unknown_topic(context, admin, name) if is_unknown(error) else error
        rows.append({"topic": name, **outcome(context, shown, "")})
        errors.append((name, shown))
    if there:
        await _say_loss(context, admin, list(described.ok.values()))
    if context.change.dry_run:
        for name in there:
            rows.append({"topic": name, "result": "would be deleted", "error": None})
    elif there:
        await context.agree(
            f"Delete on {context.settings.cluster_name}?", name=name_to_type(context, there)
        )
        answers = await admin.delete_topics(there)
        for name in there:
            error = answers.errors.get(name)
            rows.append({"topic": name, **outcome(context, error, "deleted")})
            errors.append((name, error))
        await until_topics(
            admin, answers.ok, lambda known, name: _is_gone(known, described.ok[name])
        )
        bootstrap = context.settings.bootstrap
        remember(bootstrap, "topic", set(recall(bootstrap, "topic")) - set(there))
    order = {name: i for i, name in enumerate(names)}
    rows.sort(key=lambda row: order[row["topic"]])
    show_results(context, listing(DeletedRow, rows), errors, "topic")


def _is_gone(known: Answers[str, TopicDescription], deleted: TopicDescription) -> bool:
    """Whether a topic was deleted. A producer may have made the broker create another one with its
    name since."""
    if deleted.name in known.errors:
        return is_unknown(known.errors[deleted.name])
    return known.ok[deleted.name].topic_id != deleted.topic_id


async def _say_loss(context: Context, admin: Admin, topics: Sequence[TopicDescription]) -> None:
    """Warn of the loss of records, and name the groups that read the topics."""
    partitions = [TopicPartition(t.name, p.partition) for t in topics for p in t.partitions]
    records = lost_records(await records_in(admin, partitions))
    names = [t.name for t in topics]
    context.say(
        f"This deletes {count(len(topics), 'topic')} with {count(len(partitions), 'partition')} "
        f"and {records}: {join(names)}. This cannot be undone."
    )
    await say_readers(context, admin, names)
