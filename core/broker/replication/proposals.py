"""The changes of ISRs that partitions must request from the controller."""

import trio

from pk.core.broker.replication.partition import Partition


class Proposals:
    """The partitions that must request a change of their ISR."""

    def __init__(self) -> None:
        self._due: dict[Partition, None] = {}
        self._added = trio.Event()

    def add(self, partition: Partition) -> None:
        """Queue the partition, so that its `proposal` is soon requested."""
        self._due[partition] = None
        self._added.set()

    async def take(self) -> list[Partition]:
        """Wait for a partition, and return all queued ones; the queue is then empty."""
        await self._added.wait()
        self._added = trio.Event()
        due, self._due = list(self._due), {}
        return due
