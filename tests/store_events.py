"""Shared by the tests of metadata stores: events to append, and a store's messages to its
controller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from pk.core.meta.events import Event, PartitionCreated, ProducerIdsAllocated, TopicCreated
from pk.core.meta.store import MetadataStore


def allocated(number: int) -> Event:
    """A small event."""
    return ProducerIdsAllocated(1, 1, number)


def large(first: int, partitions: int = 500) -> list[Event]:
    """About 18 kB of events, or 35 bytes for each partition."""
    topic_id = first.to_bytes(16, "big")
    events: list[Event] = [TopicCreated(f"t{first}", topic_id)]
    return events + [
        PartitionCreated(topic_id, p, (1, 2, 3), (1, 2, 3), 1) for p in range(partitions)
    ]


class Losses:
    """Records the losses that a store reports to its controller."""

    def __init__(self, store: MetadataStore) -> None:
        self.reported: list[tuple[int, str]] = []
        self._event = trio.Event()
        store.lost.append(self._add)

    def _add(self, epoch: int, why: str) -> None:
        self.reported.append((epoch, why))
        self._event.set()

    async def wait(self) -> int:
        """The first epoch that was lost."""
        await self._event.wait()
        return self.reported[0][0]


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Polls for a change by another process or a thread."""
    while not await condition():  # noqa: ASYNC110
        await trio.sleep(0.01)
