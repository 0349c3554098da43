"""Turns options into ranges of offsets, by asking the brokers which offsets each partition has."""

from collections.abc import Iterable, Mapping, Sequence

from pk.core.errors import KafkaError
from pk.core.values import TopicPartition, Uuid
from pk.net.client.admin import Admin, open_admin
from pk.net.client.answers import Answers
from pk.net.client.results import (
    EARLIEST,
    LATEST,
    IsolationLevel,
    ListedOffset,
    TopicDescription,
)
from pk.spark.errors import DataLost, OptionError
from pk.spark.read.options import Bound, SourceOptions
from pk.spark.read.ranges import OffsetRange, split


async def plan(options: SourceOptions) -> list[OffsetRange]:
    """Plan the ranges to read, one for each task. Raises OptionError, DataLost, KafkaError,
    ClientError."""
    async with open_admin(options.read.bootstrap, options.read.admin_config) as admin:
        ids = await _partitions(admin, options)
        held = await whole(admin, ids, options.read.isolation)
        begins = await bounds(admin, "startingOffsets", options.begin, held, options)
        ends = await bounds(admin, "endingOffsets", options.end, held, options)
    ranges = [
        within(held[tp], begins[tp], ends[tp], options.read.fail_on_data_loss)
        for tp in sorted(held)
    ]
    return split(ranges, min_ranges=options.min_ranges, offsets_max=options.offsets_max)


async def _partitions(admin: Admin, options: SourceOptions) -> dict[TopicPartition, Uuid]:
    """The partitions to read, with the ids of their topics."""
    names: Iterable[str] = options.topics or {tp.topic for tp in options.assigned}
    if options.pattern is not None:
        listed = await admin.list_topics()
        names = [t.name for t in listed if options.pattern.fullmatch(t.name)]
    topics = await describe(admin, names)
    found = {
        TopicPartition(name, p.partition): topic.topic_id
        for name, topic in topics.items()
        for p in topic.partitions
    }
    if not options.assigned:
        return found
    for tp in options.assigned:
        if tp not in found:
            raise OptionError(f"assign: topic {tp.topic} has no partition {tp.partition}")
    return {tp: found[tp] for tp in options.assigned}


async def describe(admin: Admin, names: Iterable[str]) -> dict[str, TopicDescription]:
    """Describe the topics. Raises KafkaError if one does not exist."""
    found: dict[str, TopicDescription] = {}
    answers = await admin.describe_topics(names)
    for name in answers:
        try:
            found[name] = answers.value(name)
        except KafkaError as e:
            raise KafkaError(e.code, f"topic {name!r}") from e
    return found


async def whole(
    admin: Admin, ids: Mapping[TopicPartition, Uuid], isolation: IsolationLevel
) -> dict[TopicPartition, OffsetRange]:
    """The range of each partition that a reader can see now. Raises the leaders' errors."""
    starts = await admin.list_offsets(dict.fromkeys(ids, EARLIEST), isolation=isolation)
    ends = await admin.list_offsets(dict.fromkeys(ids, LATEST), isolation=isolation)
    return {
        tp: OffsetRange(*tp, listed(starts, tp).offset, listed(ends, tp).offset, topic_id)
        for tp, topic_id in ids.items()
    }


def listed(answers: Answers[TopicPartition, ListedOffset], tp: TopicPartition) -> ListedOffset:
    """The result for one partition. Raises the partition's error."""
    try:
        return answers.value(tp)
    except KafkaError as e:
        raise KafkaError(e.code, f"offsets of {tp}") from e


async def bounds(
    admin: Admin,
    name: str,
    bound: Bound,
    held: Mapping[TopicPartition, OffsetRange],
    options: SourceOptions,
) -> dict[TopicPartition, int]:
    """The start or the end of each partition's range, as `bound` says. Raises OptionError,
    KafkaError, ClientError."""
    named = bound.offsets if bound.offsets is not None else bound.times
    if named is not None and set(named) != set(held):
        raise OptionError(
            f"{name} must name every partition that is read, and no other: "
            + _difference(held, named)
        )
    if bound.everywhere in (EARLIEST, LATEST):
        return {tp: _special(p, bound.everywhere) for tp, p in held.items()}
    if bound.offsets is not None:
        return {tp: _special(held[tp], offset) for tp, offset in bound.offsets.items()}
    times = bound.times or dict.fromkeys(held, bound.everywhere or 0)
    answers = await admin.list_offsets(times, isolation=options.read.isolation)
    found: dict[TopicPartition, int] = {}
    for tp, whole_range in held.items():
        offset = listed(answers, tp).offset
        if offset < 0 and not bound.otherwise_latest:
            raise OptionError(
                f"{tp} has no record at or after timestamp {times[tp]};"
                " startingOffsetsByTimestampStrategy=latest starts at the end instead"
            )
        found[tp] = offset if offset >= 0 else whole_range.end
    return found


def _difference(held: Iterable[TopicPartition], named: Iterable[TopicPartition]) -> str:
    missing, extra = set(held) - set(named), set(named) - set(held)
    said = [
        f"{word} {', '.join(map(str, sorted(tps)[:5]))}"
        for word, tps in (("missing", missing), ("not read", extra))
        if tps
    ]
    return "; ".join(said)


def _special(held: OffsetRange, offset: int) -> int:
    if offset == EARLIEST:
        return held.begin
    return held.end if offset == LATEST else offset


def within(held: OffsetRange, begin: int, end: int, fail_on_data_loss: bool) -> OffsetRange:
    """The part of `held` from `begin` to `end`. Raises DataLost if offsets are missing; without
    `fail_on_data_loss` they are skipped."""
    if begin < end and (begin < held.begin or end > held.end):
        if fail_on_data_loss:
            raise DataLost(
                f"{held.topic_partition}: offsets from {begin} to {end} were requested, but it "
                f"holds {held.begin} to {held.end}; failOnDataLoss=false reads only those"
            )
        begin, end = max(begin, held.begin), min(end, held.end)
    return OffsetRange(held.topic, held.partition, begin, max(begin, end), held.topic_id)


def ids_of(topics: Sequence[TopicDescription]) -> dict[TopicPartition, Uuid]:
    """The partitions of the topics, with the ids of their topics."""
    return {TopicPartition(t.name, p.partition): t.topic_id for t in topics for p in t.partitions}
