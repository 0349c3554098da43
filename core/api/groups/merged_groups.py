"""Merges repeated groups in requests for offsets: OffsetFetch and DescribeShareGroupOffsets
describe a group once, with all topics that are requested of it. A group's name takes a few bytes,
but its offsets may be many."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, TypeVar


class RequestedGroup(Protocol):
    """A group, and the topics whose offsets are requested: None for all."""

    group_id: str
    topics: list[Any] | None


G = TypeVar("G", bound=RequestedGroup)


def merged(groups: Iterable[G]) -> list[G]:
    """Return each group once, at its first position, with the topics of its repetitions."""
    found: dict[str, G] = {}
    for group in groups:
        first = found.setdefault(group.group_id, group)
        if first is not group:
            if first.topics is None or group.topics is None:
                first.topics = None
            else:
                first.topics += group.topics
    return list(found.values())
