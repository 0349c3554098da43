"""`pk topics create`."""

from typing import TYPE_CHECKING

from pk.cli.cluster.propagation import until_topics
from pk.cli.cluster.topics import id_text
from pk.cli.config_keys.units import both_ways, in_words
from pk.cli.exits import Unusable
from pk.cli.nouns.topics.outcome import outcome
from pk.cli.nouns.topics.rows import CreatedRow
from pk.cli.output.rows import listing
from pk.cli.runtime.context import Context
from pk.cli.runtime.name_cache import recall, remember
from pk.cli.runtime.results import show_results
from pk.core.errors import ErrorCode, KafkaError
from pk.net.client.results import (
    NewTopic,
)

if TYPE_CHECKING:
    from pk.cli.nouns.topics.options import CreateTopics


def assignment(text: str) -> dict[int, tuple[int, ...]]:
    """Parse Apache's `1:2,2:3`: partition → brokers. Raises Unusable."""
    try:
        found = {i: tuple(map(int, part.split(":"))) for i, part in enumerate(text.split(","))}
    except ValueError:
        raise Unusable(
            f"--replica-assignment must be broker ids such as 1:2,2:3, not {text!r}."
        ) from None
    if len({len(brokers) for brokers in found.values()}) > 1:
        raise Unusable(
            "--replica-assignment: every partition must have the same number of replicas."
        )
    for partition, brokers in found.items():
        if len(set(brokers)) < len(brokers):
            raise Unusable(f"--replica-assignment names a broker twice for partition {partition}.")
    return found


async def create(context: Context, options: "CreateTopics") -> None:
    """Run `pk topics create`. Creates without asking, as Apache's tool does."""
    assigned = assignment(options.replica_assignment) if options.replica_assignment else None
    if assigned and (options.partitions or options.replication_factor):
        raise Unusable(
            "--replica-assignment already sets the number of partitions and replicas; leave out -p "
            "and -r."
        )
    names = list(dict.fromkeys(options.topic))
    new = [
        NewTopic(
            name,
            options.partitions or -1,
            options.replication_factor or -1,
            assigned,
            dict(options.config),
        )
        for name in names
    ]
    dry_run = context.change.dry_run
    admin = await context.admin()
    answers = await admin.create_topics(new, validate_only=dry_run)
    done = "would be created" if dry_run else "created"
    rows: list[CreatedRow] = []
    for name in names:
        made, error = answers.ok.get(name), answers.errors.get(name)
        exists = options.if_not_exists and _exists(error)
        error = None if exists else error
        rows.append(
            {
                "topic": name,
                "partitions": _known(made.partitions) if made else None,
                "replication_factor": _known(made.replication_factor) if made else None,
                "topic_id": id_text(made.topic_id) if made else None,
                **outcome(context, error, "exists" if exists else done),
            }
        )
    for key, value in options.config if dry_run else ():
        if in_words(key, value) is not None:
            context.say(f"{key} {both_ways(key, value)}")
    if not dry_run:
        await until_topics(admin, answers.ok, lambda known, name: name in known.ok)
        bootstrap = context.settings.bootstrap
        remember(
            bootstrap,
            "topic",
            {*recall(bootstrap, "topic"), *(r["topic"] for r in rows if not r["error"])},
        )
    show_results(context, listing(CreatedRow, rows), list(answers.errors.items()), "topic")


def _known(number: int) -> int | None:
    return None if number < 0 else number


def _exists(error: object) -> bool:
    return isinstance(error, KafkaError) and error.code == ErrorCode.TOPIC_ALREADY_EXISTS
