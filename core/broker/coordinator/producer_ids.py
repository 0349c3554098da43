"""Producer ids, from blocks that the controller hands out (KIP-730): no id is ever given twice in a cluster."""

from collections.abc import Awaitable, Callable

import trio

from pk.core.meta.brokers import ProducerIdBlock


class ProducerIds:
    """The ids this broker may give away. What is left of a block when the broker stops is never given to anybody."""

    def __init__(self, allocate: Callable[[], Awaitable[ProducerIdBlock]]) -> None:
        """`allocate` gets the next block from the controller."""
        self._allocate = allocate
        self._next = 0
        self._end = 0
        self._allocating = trio.Lock()

    async def next(self) -> int:
        """An id that nobody has. Raises what the controller does when it cannot be reached."""
        if self._next == self._end:
            async with self._allocating:
                if self._next == self._end:
                    block = await self._allocate()
                    self._next, self._end = block.first, block.first + block.count
        producer_id = self._next
        self._next += 1
        return producer_id
