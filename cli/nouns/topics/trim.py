"""`pk topics trim`."""

from collections.abc import Sequence

from pk.cli.cluster.partition_selection import partitions_at
from pk.cli.cluster.position_lookup import check_group, lacks_commit, resolve_positions
from pk.cli.cluster.topics import (
    check_partitions,
    existing_topics,
    partition_numbers,
    topic_partitions,
)
from pk.cli.exits import Unusable
from pk.cli.nouns.topics.losses import lost_records, say_readers
from pk.cli.nouns.topics.options import TrimTopics
from pk.cli.nouns.topics.rows import TrimmedRow
from pk.cli.output.rows import listing
from pk.cli.phrases import count, join, partition_name
from pk.cli.positions.resolve import ResolvedRange, positions_option, resolve
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import error_name, phrase
from pk.cli.runtime.results import show_results
from pk.core.values import TopicPartition
from pk.net.client.admin import Admin
from pk.net.client.answers import Answers

_SHOWN = 20


async def trim(context: Context, options: TrimTopics) -> None:
    """Run `pk topics trim`."""
    admin = await context.admin()
    ranges = await _ranges(context, admin, options)
    rows = {tp: _row(context, tp, ranges) for tp in ranges}
    losing = {tp: row for tp, row in rows.items() if row["records"]}
    if losing:
        if not context.change.dry_run:
            _say_positions(context, list(losing.values()))
        await _say_loss(context, admin, list(losing.values()))
    if losing and not context.change.dry_run:
        topics = list(dict.fromkeys(tp.topic for tp in losing))
        await context.agree(
            f"Trim on {context.settings.cluster_name}?",
            name=topics[0] if len(topics) == 1 else context.settings.bootstrap,
        )
        answers = await admin.delete_records({tp: row["target"] or 0 for tp, row in losing.items()})
        for tp, row in losing.items():
            if (error := answers.errors.get(tp)) is not None:
                context.fail(error)
                row["result"] = phrase(error)
                row["error"] = error_name(error)
            else:
                row["start"], row["result"] = answers.ok[tp], "trimmed"
    show_results(context, listing(TrimmedRow, list(rows.values())), of="partition")
    if not losing and not context.failures:
        context.say("No records are below that; nothing was changed.")


async def _ranges(
    context: Context, admin: Admin, options: TrimTopics
) -> Answers[TopicPartition, ResolvedRange]:
    """The new start of each partition. Raises Unusable and CommandError."""
    if options.offset_json_file is not None:
        if options.topic or options.offset is not None or options.partitions or options.group:
            raise Unusable(
                "The file names the partitions and offsets; no other selection can be combined "
                "with it."
            )
        return await _from_json(context, admin, options.offset_json_file)
    if not options.topic:
        raise Unusable("Give a topic, and its new first offset with -o.")
    if options.offset is None:
        raise Unusable(
            "Give the first offset to keep with -o: an offset, -N, @TIME, or end to delete all "
            "records."
        )
    positions = positions_option(options.offset, "-o")
    check_group(positions, options.group)
    if any(asked.end is not None for asked in positions.ranges):
        raise Unusable("-o must be one position, not a range: all records before it are deleted.")
    numbers = partition_numbers(options.partitions, "-p")
    wanted: list[TopicPartition] = []
    for word in options.topic:
        name, own = topic_partitions(word)
        (topic,) = await existing_topics(context, admin, [name])
        wanted += partitions_at([topic], own or numbers, positions)
    ranges = await resolve_positions(context, admin, positions, wanted, group=options.group)
    for tp, place in ranges.ok.items():
        if lacks_commit(place):  # the group may not have read them
            ranges.add(tp, place._replace(begin=place.start, note="no commit: kept"))
    return ranges


def _json_offsets(path: str) -> dict[TopicPartition, int]:
    """Read the file of Apache's tool: {"partitions": [{"topic": …, "partition": …, "offset": …}],
    "version": 1}; -1 is the end of the partition. Raises Unusable."""
    import json

    try:
        with open(path, encoding="utf-8") as file:
            entries = json.load(file)["partitions"]
        wanted = {
            TopicPartition(e["topic"], int(e["partition"])): int(e["offset"]) for e in entries
        }
    except OSError as e:
        raise Unusable(f"{path} cannot be read: {e.strerror}.") from None
    except (ValueError, KeyError, TypeError) as e:
        raise Unusable(f"{path} is not Apache's JSON of offsets ({e}).") from None
    for tp, offset in wanted.items():
        if offset < -1:
            raise Unusable(
                f"{path}: {partition_name(tp)} cannot have offset {offset}; -1 is the end."
            )
    return wanted


async def _from_json(
    context: Context, admin: Admin, path: str
) -> Answers[TopicPartition, ResolvedRange]:
    wanted = _json_offsets(path)
    for topic in await existing_topics(context, admin, {tp.topic for tp in wanted}):
        check_partitions(topic, [tp.partition for tp in wanted if tp.topic == topic.name])
    found: Answers[TopicPartition, ResolvedRange] = Answers()
    for tp, offset in wanted.items():
        positions = positions_option("end" if offset == -1 else str(offset), "offset")
        found.update(await resolve(admin, positions, [tp]))
    return found


def _row(
    context: Context, tp: TopicPartition, ranges: Answers[TopicPartition, ResolvedRange]
) -> TrimmedRow:
    if (error := ranges.errors.get(tp)) is not None:
        context.fail(error)
        return {
            "topic": tp.topic,
            "partition": tp.partition,
            "start": None,
            "target": None,
            "end": None,
            "records": None,
            "note": None,
            "result": phrase(error),
            "error": error_name(error),
        }
    place = ranges.ok[tp]
    lost = max(place.begin - place.start, 0)
    done = "would be trimmed" if context.change.dry_run else "trimmed"
    return {
        "topic": tp.topic,
        "partition": tp.partition,
        "start": place.start,
        "target": place.begin,
        "end": place.latest,
        "records": lost,
        "note": place.note or None,
        "result": done if lost else "nothing to trim",
        "error": None,
    }


def _say_positions(context: Context, rows: Sequence[TrimmedRow]) -> None:
    """Say where each partition will begin."""
    for row in rows[:_SHOWN]:
        context.say(
            (
                f"{row['topic']}/{row['partition']}: {row['start']:,} → {row['target']:,} of "
                f"{row['end']:,}"
            )
            + (f" ({row['note']})" if row["note"] else "")
        )
    if len(rows) > _SHOWN:
        context.say(f"… and {count(len(rows) - _SHOWN, 'partition')} more (--dry-run shows all).")


async def _say_loss(context: Context, admin: Admin, rows: Sequence[TrimmedRow]) -> None:
    """Warn of the loss of records, and name the groups that read them."""
    topics = list(dict.fromkeys(row["topic"] for row in rows))
    lost = sum(row["records"] or 0 for row in rows)
    context.say(
        f"This deletes {lost_records(lost)} at the beginning of {join(topics)}; this "
        "cannot be undone."
    )
    await say_readers(context, admin, topics)
