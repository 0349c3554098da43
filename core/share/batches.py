"""State batches: the delivery state of a range of records, as stored and as sent between brokers.

Only three of the states are ever stored. Acquired is not one of them: a lock ends with its leader.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple


class RecordState(IntEnum):
    """The delivery state of a record, numbered as in the log."""

    AVAILABLE = 0
    """No member holds the record. A member may acquire it, again or for the first time."""
    ACQUIRED = 1
    """A member holds the record's lock. This state is never stored."""
    ACKNOWLEDGED = 2
    """A member has accepted the record."""
    ARCHIVED = 4
    """The record was rejected, is missing from the log, or was delivered as often as the limit
    allows."""

    @property
    def is_terminal(self) -> bool:
        """Whether the record will never be delivered again."""
        return self >= RecordState.ACKNOWLEDGED


class StateBatch(NamedTuple):
    """The state of the records from `first_offset` to `last_offset`, inclusive."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


def combine(
    before: Iterable[StateBatch], after: Iterable[StateBatch], start_offset: int
) -> list[StateBatch]:
    """Merge `before` and `after` into one sorted list without overlaps or offsets below
    `start_offset` (-1: keep all).

    If batches overlap, the one with the higher delivery count wins, then the one with the more
    advanced state, regardless of which came first: writes may arrive out of order. Adjacent batches
    with the same state become one.
    """
    clipped = sorted(
        batch if batch.first_offset >= start_offset else batch._replace(first_offset=start_offset)
        for source in (before, after)
        for batch in source
        if batch.last_offset >= start_offset
    )
    combined: list[StateBatch] = []
    open_batches: list[tuple[int, int, int]] = []
    """The batches that reach `at`, as (-count, -state, last offset). The first one wins."""
    at = 0
    following = 0
    while following < len(clipped) or open_batches:
        if not open_batches:
            at = clipped[following].first_offset
        while following < len(clipped) and clipped[following].first_offset <= at:
            batch = clipped[following]
            heapq.heappush(
                open_batches, (-batch.delivery_count, -batch.delivery_state, batch.last_offset)
            )
            following += 1
        while open_batches and open_batches[0][2] < at:
            heapq.heappop(open_batches)
        if not open_batches:
            continue
        count, state, last = open_batches[0]
        if following < len(clipped):
            last = min(last, clipped[following].first_offset - 1)
        _extend(combined, StateBatch(at, last, -state, -count))
        at = last + 1
    return combined


def _extend(batches: list[StateBatch], batch: StateBatch) -> None:
    """Append `batch`, or extend the last batch if it has the same state and ends just before
    `batch`."""
    if batches and batches[-1].last_offset + 1 == batch.first_offset:
        last = batches[-1]
        if last[2:] == batch[2:]:
            batches[-1] = last._replace(last_offset=batch.last_offset)
            return
    batches.append(batch)
