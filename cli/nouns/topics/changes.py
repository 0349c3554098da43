"""`pk topics create`, `alter`, `delete` and `add-partitions`."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pk.cli.cluster.configs import shown_change
from pk.cli.cluster.propagation import until_topics
from pk.cli.cluster.topics import existing_topics, is_unknown, topic_names, unknown_topic, whole
from pk.cli.command_line.completion.name_cache import recall, remember
from pk.cli.config_keys.units import both_ways, in_words
from pk.cli.output.formats import Column, Listing
from pk.cli.runtime.context import Context, count, join
from pk.cli.runtime.exits import CommandError, Unusable
from pk.cli.runtime.failures import error_name, phrase
from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicPartition
from pk.net.client.admin import Admin
from pk.net.client.results import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    CreatedTopic,
    NewPartitions,
    NewTopic,
    ResourceType,
    TopicDescription,
)

_RESULT = (Column("topic"), Column("result"), Column("error", wide=True))
_CREATED = (
    Column("topic"),
    Column("partitions", right=True),
    Column("replication_factor", right=True, title="REPLICAS"),
    Column("result"),
    Column("topic_id", wide=True),
    Column("error", wide=True),
)


def result_row(
    context: Context, topic: str, error: BaseException | None, done: str, **more: Any
) -> dict[str, Any]:
    """A row of what became of a topic; a failure is noted."""
    row: dict[str, Any] = {"topic": topic, "result": done, "error": None, **more}
    if error is not None:
        context.fail(error)
        row["result"] = phrase(error)
        row["error"] = error_name(error)
    return row


def assignment(text: str) -> dict[int, tuple[int, ...]]:
    """Partition → brokers from Apache's `1:2,2:3`. Raises Unusable."""
    try:
        found = {i: tuple(map(int, part.split(":"))) for i, part in enumerate(text.split(","))}
    except ValueError:
        raise Unusable(
            f"--replica-assignment wants broker ids such as 1:2,2:3, not {text!r}."
        ) from None
    if len({len(brokers) for brokers in found.values()}) > 1:
        raise Unusable("--replica-assignment: every partition wants the same number of replicas.")
    for partition, brokers in found.items():
        if len(set(brokers)) < len(brokers):
            raise Unusable(f"--replica-assignment names a broker twice for partition {partition}.")
    return found


async def create(context: Context) -> None:
    """`pk topics create`. Acts at once, as Apache's tool does."""
    from pk.cli.nouns.topics.topics import id_text

    args = context.args
    assigned = assignment(args.replica_assignment) if args.replica_assignment else None
    if assigned and (args.partitions or args.replication_factor):
        raise Unusable(
            "--replica-assignment says how many partitions and replicas; -p and -r do not go with it."
        )
    names = list(dict.fromkeys(args.topic))
    new = [
        NewTopic(
            name, args.partitions or -1, args.replication_factor or -1, assigned, dict(args.config)
        )
        for name in names
    ]
    admin = await context.admin()
    answers = await admin.create_topics(new, validate_only=args.dry_run)
    done = "would be created" if args.dry_run else "created"
    rows = []
    for name in names:
        answer = answers[name]
        if isinstance(answer, CreatedTopic):
            rows.append(
                result_row(
                    context,
                    name,
                    None,
                    done,
                    partitions=_known(answer.partitions),
                    replication_factor=_known(answer.replication_factor),
                    topic_id=id_text(answer.topic_id),
                )
            )
        elif args.if_not_exists and _exists(answer):
            rows.append(result_row(context, name, None, "exists"))
        else:
            rows.append(result_row(context, name, answer, done))
    for key, value in args.config if args.dry_run else ():
        if in_words(key, value) is not None:
            context.say(f"{key} {both_ways(key, value)}")
    if not args.dry_run:
        created = [name for name in names if isinstance(answers[name], CreatedTopic)]
        await until_topics(admin, created, lambda _, told: isinstance(told, TopicDescription))
        bootstrap = context.settings.bootstrap
        remember(
            bootstrap,
            "topic",
            {*recall(bootstrap, "topic"), *(r["topic"] for r in rows if not r["error"])},
        )
    finish(context, Listing(_CREATED, rows), [(name, answers[name]) for name in names])


def _known(number: int) -> int | None:
    return None if number < 0 else number


def _exists(error: object) -> bool:
    return isinstance(error, KafkaError) and error.code == ErrorCode.TOPIC_ALREADY_EXISTS


def finish(context: Context, listing: Listing, answers: list[tuple[str, object]]) -> None:
    """Shows the rows and, where items failed, says on standard error what to do about the first."""
    context.show(listing)
    if context.failures:
        from pk.cli.runtime.failures import sentence

        names = [name for name, answer in answers if answer in context.failures]
        context.say(
            f"{join(names)}: {sentence(context.failures[0])}"
            if names
            else sentence(context.failures[0])
        )


async def _named(context: Context) -> list[str]:
    """The topics to delete, by name or by pattern. Raises CommandError where a pattern matches none."""
    from pk.core.values import INTERNAL_TOPICS

    args = context.args
    if not args.regex:
        return list(dict.fromkeys(args.topic))
    admin = await context.admin()
    patterns = [whole(pattern, "TOPIC") for pattern in args.topic]
    known = await topic_names(context, admin, internal=False)
    found = [n for n in known if n not in INTERNAL_TOPICS and any(p.fullmatch(n) for p in patterns)]
    if not found and not args.if_exists:
        raise CommandError(
            f"No topic's whole name matches {join(args.topic)}; `pk topics list` shows which there are."
        )
    return found


async def delete(context: Context) -> None:
    """`pk topics delete`."""
    args = context.args
    admin = await context.admin()
    names = await _named(context)
    described = await admin.describe_topics(names) if names else {}
    there = [n for n in names if not isinstance(described[n], Exception)]
    rows, errors = [], []
    for name in names:
        error = described[name]
        if isinstance(error, Exception):
            if is_unknown(error) and args.if_exists:
                rows.append(result_row(context, name, None, "not there"))
                continue
            shown = await unknown_topic(context, admin, name) if is_unknown(error) else error
            rows.append(result_row(context, name, shown, ""))
            errors.append((name, shown))
    if there:
        await _tell_loss(context, admin, [_described(described[n]) for n in there])
    if args.dry_run:
        rows += [result_row(context, n, None, "would be deleted") for n in there]
    elif there:
        await context.agree(
            f"Delete on {context.settings.cluster_name}?", name=_what_is_typed(context, there)
        )
        answers = await admin.delete_topics(there)
        for name in there:
            rows.append(result_row(context, name, answers[name], "deleted"))
            errors.append((name, answers[name]))
        gone = [name for name in there if answers[name] is None]
        await until_topics(admin, gone, lambda name, told: _is_another(told, described[name]))
        bootstrap = context.settings.bootstrap
        remember(bootstrap, "topic", set(recall(bootstrap, "topic")) - set(there))
    order = {name: i for i, name in enumerate(names)}
    rows.sort(key=lambda row: order[row["topic"]])
    finish(context, Listing(_RESULT, rows), errors)


def _is_another(told: object, deleted: object) -> bool:
    """Whether a topic is gone; whoever writes to it may have had it made anew."""
    if isinstance(told, TopicDescription):
        return told.topic_id != _described(deleted).topic_id
    return isinstance(told, KafkaError) and is_unknown(told)


def _described(answer: object) -> TopicDescription:
    assert isinstance(answer, TopicDescription)
    return answer


async def _tell_loss(context: Context, admin: Admin, topics: Sequence[TopicDescription]) -> None:
    """Says what a deletion loses."""
    from pk.cli.nouns.topics.trim import lost_records, records_in, tell_readers

    partitions = [TopicPartition(t.name, p.partition) for t in topics for p in t.partitions]
    records = lost_records(await records_in(admin, partitions))
    names = [t.name for t in topics]
    context.say(
        f"This deletes {count(len(topics), 'topic')} with {count(len(partitions), 'partition')} and {records}: "
        f"{join(names)}. Nothing brings them back."
    )
    await tell_readers(context, admin, names)


_GROWTH = (
    Column("topic"),
    Column("from", right=True),
    Column("to", right=True),
    Column("result"),
    Column("error", wide=True),
)


def _check_growth(totals: Mapping[str, int], now: Mapping[str, int]) -> None:
    """Raises CommandError where a topic would shrink."""
    for name, total in totals.items():
        if total <= now[name]:
            raise CommandError(
                f"Topic {name} has {now[name]} partitions; a topic only grows, so {total} is none to go to."
            )


def _tell_growth(context: Context, totals: Mapping[str, int], now: Mapping[str, int]) -> None:
    for name, total in totals.items() if not context.args.dry_run else ():
        context.say(f"Topic {name} grows from {now[name]} to {total} partitions.")
    context.say(
        "Records with a key may from now on go to another partition than before; a topic never shrinks again."
    )


async def _grow(
    context: Context, totals: Mapping[str, int], now: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Grows topics to their totals; a row for each."""
    admin = await context.admin()
    done = "would grow" if context.args.dry_run else "grown"
    answers = await admin.create_partitions(
        {name: NewPartitions(total) for name, total in totals.items()},
        validate_only=context.args.dry_run,
    )
    if not context.args.dry_run:
        grown = [name for name in totals if answers[name] is None]
        await until_topics(admin, grown, lambda name, told: _has(told, totals[name]))
    return [
        result_row(context, name, answers[name], done, **{"from": now[name], "to": total})
        for name, total in totals.items()
    ]


def _has(told: object, partitions: int) -> bool:
    return isinstance(told, TopicDescription) and len(told.partitions) >= partitions


def _what_is_typed(context: Context, names: Collection[str]) -> str:
    return next(iter(names)) if len(names) == 1 else context.settings.bootstrap


async def add_partitions(context: Context) -> None:
    """`pk topics add-partitions`."""
    args = context.args
    if (args.num is None) == (args.partitions is None):
        raise Unusable("Say how many more (-n N) or how many in all (-p TOTAL).")
    admin = await context.admin()
    topics = await existing_topics(context, admin, args.topic)
    now = {t.name: len(t.partitions) for t in topics}
    totals = {name: args.partitions or has + args.num for name, has in now.items()}
    _check_growth(totals, now)
    _tell_growth(context, totals, now)
    if not args.dry_run:
        await context.agree(
            f"Grow on {context.settings.cluster_name}?", name=_what_is_typed(context, totals)
        )
    rows = await _grow(context, totals, now)
    finish(context, Listing(_GROWTH, rows), [])


_CHANGES = (
    Column("topic"),
    Column("name"),
    Column("from", on_terminal=lambda row: shown_change(row, "from")),
    Column("to", on_terminal=lambda row: shown_change(row, "to")),
    Column("result"),
    Column("error", wide=True),
)


async def alter(context: Context) -> None:
    """`pk topics alter`: configs, number of partitions, or both; shown before it is done."""
    args = context.args
    if not args.config and not args.delete_config and args.partitions is None:
        raise Unusable(
            "There is nothing to change; give -c KEY=VALUE, --delete-config KEY or -p TOTAL."
        )
    from pk.cli.cluster import config_changes

    admin = await context.admin()
    topics = await existing_topics(context, admin, args.topic)
    now = {t.name: len(t.partitions) for t in topics}
    total: int | None = args.partitions
    totals = {} if total is None else dict.fromkeys(now, total)
    _check_growth(totals, now)
    changes = [ConfigChange(k, v) for k, v in args.config]
    changes += [ConfigChange(k, None, ConfigOperation.DELETE) for k in args.delete_config]
    wanted = {ConfigResource(ResourceType.TOPIC, name): changes for name in now} if changes else {}
    plan = await config_changes.plan_changes(context, wanted) if wanted else None
    if totals:
        _tell_growth(context, totals, now)
    if args.dry_run and plan:
        config_changes.tell_consequences(context, plan)
    if not args.dry_run:
        if plan:
            await config_changes.check_plan(context, plan)
            config_changes.tell_plan(context, plan)
        await context.agree(
            f"Change this on {context.settings.cluster_name}?", name=_what_is_typed(context, now)
        )
    rows = [
        {**row, "name": "partitions", "from": str(row["from"]), "to": str(row["to"])}
        for row in (await _grow(context, totals, now) if totals else [])
    ]
    for row in await config_changes.make_changes(context, plan) if plan else []:
        rows.append({**row, "topic": row["resource"]})
    finish(context, Listing(_CHANGES, rows), [])
