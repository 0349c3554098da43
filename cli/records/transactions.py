"""Writes records in transactions, for `pk produce --transactional-id` and `pk cp
--exactly-once`."""

from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

import trio

from pk.net.client.producer import Producer


class Transactions:
    """Writes one transaction at a time: it begins with its first record and is committed when it is
    full or the block ends.

    A block that raises aborts the open transaction. `records_max` is the most records in a
    transaction; None means no limit.
    """

    def __init__(self, producer: Producer, records_max: int | None = None) -> None:
        self.committed = 0
        """The number of committed transactions."""

        self.committed_records = 0
        self.open_records = 0
        """The number of records in the open transaction."""

        self._producer = producer
        self._records_max = records_max
        self._open: AsyncExitStack | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._open is None:
            return
        if error is None:
            await self.commit()
        else:
            await self._open.__aexit__(kind, error, traceback)

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open."""
        return self._open is not None

    def room(self, wanted: int) -> int:
        """How many of `wanted` records fit into the transaction; at least one."""
        if self._records_max is None:
            return wanted
        return min(wanted, self._records_max - self.open_records)

    async def begin(self) -> None:
        """Begin a transaction if none is open. Raises KafkaError, ClientError."""
        if self._open is None:
            stack = AsyncExitStack()
            await stack.enter_async_context(self._producer.transaction())
            self._open = stack

    async def took(self, records: int) -> None:
        """Count records that were sent, and commit if the transaction is full. Raises KafkaError,
        ClientError."""
        self.open_records += records
        if self.open_records == self._records_max:
            await self.commit()

    async def commit(self) -> None:
        """Commit the open transaction. Raises KafkaError, ClientError; in that case, the
        transaction is aborted."""
        assert self._open is not None
        await self._producer.flush()
        stack, self._open = self._open, None
        # An interrupt in the middle would leave unknown whether the transaction was committed.
        with trio.CancelScope(shield=True):
            await stack.aclose()
        self.committed += 1
        self.committed_records += self.open_records
        self.open_records = 0
