"""The changes of ISRs that partitions must request from the controller."""

import trio

from pk.core.broker.replication.partition import Partition


class Proposals:
    """The partitions that must request a change of their ISR."""

    def __init__(self) -> None:
        self._due: dict[Partition, None] = {}
        self._added = trio.Event()

    def add(self, partition: Partition) -> None:
        """The partition has a `proposal`: request it soon."""
        self._due[partition] = None
        self._added.set()

    async def take(self) -> list[Partition]:
        """All of them, which are none anymore; waits for the first."""
        await self._added.wait()
        self._added = trio.Event()
        due, self._due = list(self._due), {}
        return due
