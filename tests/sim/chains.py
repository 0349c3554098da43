"""Read, process, write: workers of a group that read committed records of one topic, and write one
record to another for each of them, in a transaction that commits their offsets too (KIP-447). Each
input counts exactly once.

Now and then a worker dies, aborts, or stops in the middle for longer than its session: it is a
zombie, and another worker has its partitions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from sim.chronicle import Violation
from sim.consumer_groups import ConsumerMember
from sim.groups import REJOIN, Member, Rejoin
from sim.transactions import (
    LATER,
    OVER,
    STATE_TOPIC,
    CommittedReader,
    Over,
    Transactor,
    fetch_committed,
)

from pk.core.broker.peers import PeerLost
from pk.core.errors import ErrorCode, error_name
from pk.core.record.batch import Record
from pk.core.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

ABORTS: Final = 0.1
DIES: Final = 0.05
STANDS_BEFORE_ITS_END: Final = 0.05
"""How often a worker stands still between its offsets and the end of the transaction."""


@dataclass(slots=True)
class Outputs:
    """The outputs of a chain: the inputs that a read_committed reader finds processed."""

    topic: str
    seen: set[tuple[int, int]] = field(default_factory=set)
    """(partition, offset) of the inputs."""
    last: dict[int, int] = field(default_factory=dict)

    def read(self, partition: int, offset: int) -> None:
        """An output was read. Raises Violation for one that is there twice, or out of order."""
        if (partition, offset) in self.seen:
            raise Violation(
                "each input counts once", f"{partition} @ {offset} was processed twice", self.topic
            )
        if offset < self.last.get(partition, -1):
            raise Violation(
                "each input counts once",
                f"{partition} @ {offset} was processed after {self.last[partition]}",
                self.topic,
            )
        self.seen.add((partition, offset))
        self.last[partition] = offset

    def missing(self, inputs: set[tuple[int, int]]) -> str:
        """The error in the outputs once everything was read; "" if they match the inputs."""
        if lost := inputs - self.seen:
            return f"{len(lost)} inputs are not processed, first {min(lost)}"
        if extra := self.seen - inputs:
            return f"{min(extra)} was processed, and is no committed input"
        return ""


class OutputReader(CommittedReader):
    """Checks the outputs that it reads."""

    def __init__(self, *args: Any, outputs: Outputs, partitions: int) -> None:
        super().__init__(*args, topic=outputs.topic, partitions=partitions)
        self.outputs = outputs

    def take(self, partition: int, record: Record) -> None:
        """See `CommittedReader`."""
        at, offset = map(int, (record.value or b"").decode().split())
        self.outputs.read(at, offset)


class _Work(Member):
    """The work between heartbeats, under any group protocol."""

    def __init__(self, *args: Any, outputs: Outputs, timeout_ms: int, **more: Any) -> None:
        super().__init__(*args, **more)
        self.outputs = outputs
        self.writer = Transactor(*args, topic=outputs.topic, timeout_ms=timeout_ms)

    async def run(self) -> None:
        """Work for ever."""
        await self.writer.places(self.outputs.topic, self.partitions)
        await super().run()

    def _promised(self) -> bool:
        return super()._promised() and STATE_TOPIC not in self.history.unsafe

    def _committed(self, partition: int, offset: int, before: dict[int, int]) -> None:
        # Whose transaction ended how is for the outputs to tell.
        self.positions[partition] = self.committed[partition] = max(offset, 0)

    async def _work(self) -> None:
        while True:
            await self._beat_if_due()
            found: dict[int, list[Record]] = {}
            ends: dict[int, int] = {}
            for partition in list(self.positions):
                got = await fetch_committed(self, self.group.topic, self.positions, partition)
                if got is None:
                    await self.refresh([self.group.topic])
                elif partition in self.positions and got[1] > self.positions[partition]:
                    found[partition], ends[partition] = got
            if not ends:
                await self.pause()
                continue
            try:
                await self._process(found, ends)
                self.positions.update({p: e for p, e in ends.items() if p in self.positions})
            except Over as e:
                self.note(f"begins again: {e}")
                self.writer.producer_id = -1
                await self._fetch_committed()

    async def _process(self, found: dict[int, list[Record]], ends: dict[int, int]) -> None:
        writer = self.writer
        if writer.producer_id < 0:
            await writer.init()
        try:
            await self.stand_still()
            for partition, records in found.items():
                if records:
                    values = [f"{partition} {record.offset}".encode() for record in records]
                    await writer.send(partition, values)
            await self.stand_still()
            await self._send_offsets(ends)
            # The worker that takes its partitions over must wait for the offsets about to change.
            await self.stand_still(STANDS_BEFORE_ITS_END)
            if not self.idle and self.random.random() < DIES:
                self.note("dies, and starts again")
                self.member_id = ""
                raise Rejoin
            commit = self.idle or self.random.random() >= ABORTS
            await writer.end(commit=commit)
            if not commit:
                raise Over("it aborts")
        except (PeerLost, Rejoin):
            # An open transaction stays open until the worker writes again or the transaction times
            # out.
            writer.producer_id = -1
            raise

    async def _send_offsets(self, ends: dict[int, int]) -> None:
        request = TxnOffsetCommitRequest(
            transactional_id=self.writer.transactional_id,
            group_id=self.group.name,
            producer_id=self.writer.producer_id,
            producer_epoch=self.writer.epoch,
            generation_id=self.generation,
            member_id=self.member_id,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=self.group.topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(partition_index=p, committed_offset=end)
                        for p, end in ends.items()
                    ],
                )
            ],
        )
        while True:
            answer = await self.ask(self.coordinator, request)
            codes = {p.error_code for t in answer.topics for p in t.partitions}
            code = max(codes)
            if code == 0:
                return
            if code in OVER:
                raise Over(error_name(code))
            if code in REJOIN:
                self._check(code)
            elif code in LATER and not (
                code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            ):
                await self.pause()
            elif code in LATER or not self._promised():
                raise PeerLost("the coordinator moved")
            else:
                raise Violation(
                    "a chain goes on", f"{self.process}: {error_name(code)}", self.outputs.topic
                )


class ClassicWorker(_Work):
    """A worker of a classic group."""


class ConsumerWorker(_Work, ConsumerMember):
    """A worker of a group of KIP-848."""

    def _check(self, code: int) -> bool:
        # A transactional producer hears of a stale member epoch as of a generation.
        if code == ErrorCode.ILLEGAL_GENERATION:
            raise Over(error_name(code))
        return super()._check(code)
