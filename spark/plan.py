"""From options to offset ranges, by asking the brokers: what each partition holds now, and what of it is asked for."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from pk.core.errors import KafkaError
from pk.core.values import TopicPartition, Uuid
from pk.net.client.admin import Admin, open_admin
from pk.net.client.results import (
    EARLIEST,
    LATEST,
    IsolationLevel,
    ListedOffset,
    TopicDescription,
)
from pk.spark.errors import DataLost, OptionError
from pk.spark.options import Bound, SourceOptions
from pk.spark.ranges import OffsetRange, split

T = TypeVar("T")


async def plan(options: SourceOptions) -> list[OffsetRange]:
    """The ranges to read, one a task. Raises OptionError, DataLost, KafkaError, ClientError."""
    async with open_admin(options.read.bootstrap, options.read.admin_config) as admin:
        ids = await _partitions(admin, options)
        places = await whole(admin, ids, options.read.isolation)
        begins = await _bounds(admin, "startingOffsets", options.begin, places, options)
        ends = await _bounds(admin, "endingOffsets", options.end, places, options)
    ranges = [
        within(places[tp], begins[tp], ends[tp], options.read.fail_on_data_loss)
        for tp in sorted(places)
    ]
    return split(ranges, min_ranges=options.min_ranges, offsets_max=options.offsets_max)


async def _partitions(admin: Admin, options: SourceOptions) -> dict[TopicPartition, Uuid]:
    """The partitions that are meant, each with its topic's id."""
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
    """The topics of those names. Raises KafkaError for one that is not there."""
    found: dict[str, TopicDescription] = {}
    for name, topic in (await admin.describe_topics(names)).items():
        if isinstance(topic, Exception):
            if isinstance(topic, KafkaError):
                raise KafkaError(topic.code, f"topic {name!r}") from topic
            raise topic
        found[name] = topic
    return found


async def whole(
    admin: Admin, ids: Mapping[TopicPartition, Uuid], isolation: IsolationLevel
) -> dict[TopicPartition, OffsetRange]:
    """All that each partition holds and a reader may see now. Raises what a leader answered."""
    starts = await admin.list_offsets(dict.fromkeys(ids, EARLIEST), isolation=isolation)
    ends = await admin.list_offsets(dict.fromkeys(ids, LATEST), isolation=isolation)
    return {
        tp: OffsetRange(*tp, _listed(starts, tp).offset, _listed(ends, tp).offset, topic_id)
        for tp, topic_id in ids.items()
    }


def _listed(answers: Mapping[TopicPartition, ListedOffset | T], tp: TopicPartition) -> ListedOffset:
    answer = answers[tp]
    if isinstance(answer, KafkaError):
        raise KafkaError(answer.code, f"offsets of {tp}") from answer
    if isinstance(answer, Exception):
        raise answer
    assert isinstance(answer, ListedOffset)
    return answer


async def _bounds(
    admin: Admin,
    name: str,
    bound: Bound,
    places: Mapping[TopicPartition, OffsetRange],
    options: SourceOptions,
) -> dict[TopicPartition, int]:
    """Where each partition's range begins or ends."""
    named = bound.offsets if bound.offsets is not None else bound.times
    if named is not None and set(named) != set(places):
        raise OptionError(
            f"{name} must name every partition that is read, and no other: "
            + _difference(places, named)
        )
    if bound.everywhere in (EARLIEST, LATEST):
        return {tp: _special(p, bound.everywhere) for tp, p in places.items()}
    if bound.offsets is not None:
        return {tp: _special(places[tp], offset) for tp, offset in bound.offsets.items()}
    times = bound.times or dict.fromkeys(places, bound.everywhere or 0)
    answers = await admin.list_offsets(times, isolation=options.read.isolation)
    found: dict[TopicPartition, int] = {}
    for tp, place in places.items():
        offset = _listed(answers, tp).offset
        if offset < 0 and not bound.otherwise_latest:
            raise OptionError(
                f"{tp} has no record at or after timestamp {times[tp]};"
                " startingOffsetsByTimestampStrategy=latest lets that pass"
            )
        found[tp] = offset if offset >= 0 else place.end
    return found


def _difference(places: Iterable[TopicPartition], named: Iterable[TopicPartition]) -> str:
    missing, extra = set(places) - set(named), set(named) - set(places)
    said = [
        f"{word} {', '.join(map(str, sorted(tps)[:5]))}"
        for word, tps in (("missing", missing), ("not read", extra))
        if tps
    ]
    return "; ".join(said)


def _special(place: OffsetRange, offset: int) -> int:
    if offset == EARLIEST:
        return place.begin
    return place.end if offset == LATEST else offset


def within(place: OffsetRange, begin: int, end: int, fail_on_data_loss: bool) -> OffsetRange:
    """The part of `place` from `begin` to `end`. What it does not hold is DataLost, or left out where that is wanted."""
    if begin < end and (begin < place.begin or end > place.end):
        if fail_on_data_loss:
            raise DataLost(
                f"{place.topic_partition}: offsets from {begin} to {end} are asked for, but it holds"
                f" {place.begin} to {place.end}; failOnDataLoss=false reads what there is"
            )
        begin, end = max(begin, place.begin), min(end, place.end)
    return OffsetRange(place.topic, place.partition, begin, max(begin, end), place.topic_id)


def ids_of(topics: Sequence[TopicDescription]) -> dict[TopicPartition, Uuid]:
    """Every partition of the topics, with its topic's id."""
    return {TopicPartition(t.name, p.partition): t.topic_id for t in topics for p in t.partitions}
