"""Reads a topic's offsets from Spark's checkpoint of a query.

`offsets/N` has the end offsets of batch N; `commits/N` exists once the sink has written the batch.
The file of a batch has one line of JSON for each source, and so two lines for a topic that the
query reads twice.
"""

import json
from typing import Any, cast

from pk.core.values import TopicPartition
from pk.spark.files.object_path import Place
from pk.spark.read.ranges import OffsetRange
from pk.spark.stream.offsets import StreamOffset, WrongOffset


def committed(checkpoint: Place, topic: str) -> dict[TopicPartition, int]:
    """The offsets at which a query's next batch begins to read a topic; empty before the first
    batch is committed."""
    newest = _newest(checkpoint / "commits")
    if newest is None:
        return {}
    found: dict[TopicPartition, int] = {}
    for offset in _offsets(checkpoint, newest, topic):
        for tp, position in offset.positions.items():
            if tp.topic == topic:
                found[tp] = min(position, found.get(tp, position))
    return found


def query_names(checkpoint: Place) -> list[str]:
    """The names of the queries that have a checkpoint."""
    try:
        return [each.name for each in (checkpoint / "sinks").iterdir()]
    except FileNotFoundError:
        return []


def last_batch(checkpoint: Place) -> int | None:
    """The number of the last batch that a query's sink has written; None before the first."""
    return _newest(checkpoint / "commits")


def has_begun(checkpoint: Place) -> bool:
    """Whether a query has planned a batch."""
    return _newest(checkpoint / "offsets") is not None


def planned(checkpoint: Place, topic: str) -> list[OffsetRange]:
    """The ranges of a topic in a query's newest batch, whether or not the batch is done."""
    newest = _newest(checkpoint / "offsets")
    if newest is None:
        return []
    before = _offsets(checkpoint, newest - 1, topic)
    ranges: list[OffsetRange] = []
    for number, end in enumerate(_offsets(checkpoint, newest, topic)):
        known = before[number] if number < len(before) else None
        starts = known.positions if known is not None else (end.start or {})
        ranges += [
            OffsetRange(tp.topic, tp.partition, starts.get(tp, 0), stop, end.ids[tp.topic])
            for tp, stop in end.positions.items()
            if tp.topic == topic and starts.get(tp, 0) < stop
        ]
    return ranges


def _newest(folder: Place) -> int | None:
    try:
        return max((int(p.name) for p in folder.iterdir() if p.name.isdecimal()), default=None)
    except FileNotFoundError:
        return None


def _offsets(checkpoint: Place, batch: int, topic: str) -> list[StreamOffset]:
    """The end offsets of a batch, for each source that reads the topic."""
    found: list[StreamOffset] = []
    try:
        text = (checkpoint / "offsets" / str(batch)).read_text(errors="replace")
    except FileNotFoundError:
        return []
    for line in text.splitlines():
        try:
            value: Any = json.loads(line)
            if isinstance(value, dict) and topic in cast(dict[str, Any], value):
                found.append(StreamOffset.parse(value))
        except (ValueError, WrongOffset):
            continue
    return found
