"""A conversation with transaction coordinators and leaders, with the answer to each request as
text.

pk and Apache Kafka give the same answers (tests/api/test_transactions.py). The text has producer
ids as distances from the first one that a transactional id got, and errors of partitions sorted by
name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio
from txn.clients import codes

from pk.core.errors import ErrorCode
from pk.core.record.build import build_batch
from pk.core.values import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from pk.core.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from pk.core.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from pk.core.wire.messages.describe_transactions import DescribeTransactionsRequest
from pk.core.wire.messages.end_txn import EndTxnRequest
from pk.core.wire.messages.find_coordinator import FindCoordinatorRequest
from pk.core.wire.messages.init_producer_id import InitProducerIdRequest
from pk.core.wire.messages.list_transactions import ListTransactionsRequest
from pk.core.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pk.core.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pk.core.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

Ask = Callable[[Any, int], Awaitable[Any]]
E = ErrorCode
BUSY = {
    E.CONCURRENT_TRANSACTIONS,
    E.COORDINATOR_LOAD_IN_PROGRESS,
    E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_COORDINATOR,
    E.NOT_ENOUGH_REPLICAS,
    E.NOT_LEADER_OR_FOLLOWER,
}
PRODUCED_MS = 1_700_000_000_000


class Producer:
    """One transactional id, as its client knows it."""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.producer_id = self.first_id = 0
        self.epoch = 0


class Conversation:
    """Sends requests and writes down the answers. `topic` has three partitions."""

    def __init__(self, ask: Ask, prefix: str, topic: str) -> None:
        self._ask = ask
        self._prefix = prefix
        self.topic = topic
        self.lines: list[str] = []

    async def ask(self, request: Any, version: int, *, again: bool = False) -> Any:
        """One answer; with `again` the first that is not to be asked for again."""
        while True:
            answer = await self._ask(request, version)
            if not again or not set(codes(answer)) & BUSY:
                return answer
            await trio.sleep(0.05)

    def say(self, what: str, answer: Any, more: str = "") -> None:
        found = " ".join(sorted(E(code).name for code in codes(answer)))
        self.lines.append(f"{what}: {found} {more}".rstrip())

    async def producer(self, name: str) -> Producer:
        """A transactional id whose coordinator is there."""
        made = Producer(self._prefix + name)
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=[made.transactional_id])
        await self.ask(request, 4, again=True)
        return made

    async def group(self, name: str) -> str:
        """A group whose coordinator is there."""
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[self._prefix + name])
        await self.ask(request, 4, again=True)
        return self._prefix + name

    async def init(
        self,
        p: Producer,
        what: str,
        version: int = 5,
        *,
        expected: tuple[int, int] = (-1, -1),
        timeout_ms: int = 60_000,
        again: bool = False,
    ) -> None:
        request = InitProducerIdRequest(
            transactional_id=p.transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=expected[0],
            producer_epoch=expected[1],
        )
        answer = await self.ask(request, version, again=again)
        if answer.error_code:
            self.say(what, answer, f"{answer.producer_id} {answer.producer_epoch}")
            return
        p.first_id = p.first_id or answer.producer_id
        p.producer_id, p.epoch = answer.producer_id, answer.producer_epoch
        self.say(what, answer, f"id +{p.producer_id - p.first_id} epoch {p.epoch}")

    async def add(
        self,
        p: Producer,
        what: str,
        version: int = 3,
        *,
        partitions: tuple[int, ...] = (0,),
        others: tuple[str, ...] = (),
        other_id: int = 0,
        epoch: int = 0,
        verify: bool = False,
        again: bool = False,
    ) -> None:
        topics = [
            AddPartitionsToTxnTopic(name=name, partitions=list(partitions))
            for name in (self.topic, *others)
        ]
        if version < 4:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=p.transactional_id,
                v3_and_below_producer_id=p.producer_id + other_id,
                v3_and_below_producer_epoch=p.epoch + epoch,
                v3_and_below_topics=topics,
            )
        else:
            transaction = AddPartitionsToTxnTransaction(
                transactional_id=p.transactional_id,
                producer_id=p.producer_id + other_id,
                producer_epoch=p.epoch + epoch,
                verify_only=verify,
                topics=topics,
            )
            request = AddPartitionsToTxnRequest(transactions=[transaction])
        self.say(what, await self.ask(request, version, again=again))

    async def end(
        self,
        p: Producer,
        what: str,
        version: int = 5,
        *,
        commit: bool = True,
        epoch: int = 0,
        keep: bool = False,
        again: bool = False,
    ) -> None:
        request = EndTxnRequest(
            transactional_id=p.transactional_id,
            producer_id=p.producer_id,
            producer_epoch=p.epoch + epoch,
            committed=commit,
        )
        answer = await self.ask(request, version, again=again)
        known = answer.producer_id >= 0
        self.say(
            what,
            answer,
            f"id +{answer.producer_id - p.first_id} epoch {answer.producer_epoch}" if known else "",
        )
        if version >= 5 and known and not keep:
            p.producer_id, p.epoch = answer.producer_id, answer.producer_epoch
        if version >= 4 and not answer.error_code:
            await self.settle(p)

    async def produce(
        self,
        p: Producer,
        what: str,
        version: int = 12,
        *,
        partition: int = 0,
        sequence: int = 0,
        epoch: int = 0,
        transactional: bool = True,
        transactional_id: str | None = "",
        again: bool = False,
    ) -> int:
        """The offset that the answer gives the batch."""
        data = build_batch(
            [(PRODUCED_MS, None, b"x", ())],
            producer_id=p.producer_id,
            producer_epoch=p.epoch + epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        sent = PartitionProduceData(index=partition, records=data)
        request = ProduceRequest(
            transactional_id=p.transactional_id if transactional_id == "" else transactional_id,
            acks=-1,
            timeout_ms=5000,
            topic_data=[TopicProduceData(name=self.topic, partition_data=[sent])],
        )
        answer = await self.ask(request, version, again=again)
        self.say(what, answer)
        return answer.responses[0].partition_responses[0].base_offset

    async def commit(
        self,
        p: Producer,
        what: str,
        group: str,
        version: int = 5,
        *,
        partition: int = 0,
        generation: int = -1,
        member: str = "",
        epoch: int = 0,
        metadata: str = "",
        again: bool = False,
    ) -> None:
        offset = TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=5, committed_metadata=metadata
        )
        request = TxnOffsetCommitRequest(
            transactional_id=p.transactional_id,
            group_id=group,
            producer_id=p.producer_id,
            producer_epoch=p.epoch + epoch,
            generation_id=generation,
            member_id=member,
            topics=[TxnOffsetCommitRequestTopic(name=self.topic, partitions=[offset])],
        )
        self.say(what, await self.ask(request, version, again=again))

    async def add_offsets(
        self, p: Producer, what: str, group: str, version: int = 4, *, epoch: int = 0
    ) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=p.transactional_id,
            producer_id=p.producer_id,
            producer_epoch=p.epoch + epoch,
            group_id=group,
        )
        self.say(what, await self.ask(request, version))

    async def mark(
        self,
        p: Producer,
        what: str,
        version: int = 2,
        *,
        epoch: int = 0,
        transaction_version: int = 0,
        coordinator_epoch: int = 0,
        topic: str = "",
    ) -> None:
        marker = WritableTxnMarker(
            producer_id=p.producer_id,
            producer_epoch=p.epoch + epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=topic or self.topic, partition_indexes=[0])],
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
        )
        self.say(what, await self.ask(WriteTxnMarkersRequest(markers=[marker]), version))

    async def settle(self, p: Producer) -> Any:
        """Wait until the producer's transaction is not being ended, and return its description."""
        while True:
            request = DescribeTransactionsRequest(transactional_ids=[p.transactional_id])
            answer = await self.ask(request, 0)
            if not answer.transaction_states[0].transaction_state.startswith("Prepare"):
                return answer
            await trio.sleep(0.05)

    async def describe(self, p: Producer, what: str) -> None:
        answer = await self.settle(p)
        (state,) = answer.transaction_states
        partitions = sum(len(topic.partitions) for topic in state.topics)
        began = "began" if state.transaction_start_time_ms > 0 else "did not begin"
        self.say(
            what,
            answer,
            f"{state.transaction_state} epoch {state.producer_epoch} of"
            f" {state.transaction_timeout_ms} ms, {began}, {partitions} partitions",
        )

    async def list(self, what: str, version: int, **filters: Any) -> None:
        answer = await self.ask(ListTransactionsRequest(**filters), version)
        found = sorted(
            f"{one.transactional_id.removeprefix(self._prefix)}={one.transaction_state}"
            for one in answer.transaction_states
            if one.transactional_id.startswith(self._prefix)
        )
        self.say(what, answer, " ".join([*found, *(f"?{n}" for n in answer.unknown_state_filters)]))


async def second_protocol(c: Conversation) -> None:
    """A producer of KIP-890, from its first request to a fence."""
    a, g, g2, g3 = (
        await c.producer("a"),
        await c.group("g"),
        await c.group("g2"),
        await c.group("g3"),
    )
    await c.init(a, "init: no time", timeout_ms=0)
    await c.init(a, "init: too much time", timeout_ms=10**8)
    await c.init(a, "init", again=True)
    await c.describe(a, "fresh")
    await c.end(a, "v4 commit of nothing", 4)
    await c.end(a, "v4 abort of nothing", 4, commit=False)
    await c.end(a, "commit of nothing")
    await c.end(a, "abort of nothing", commit=False)
    await c.describe(a, "after it")
    await c.end(a, "abort of nothing again", commit=False)
    await c.end(a, "the same, repeated", commit=False, epoch=-1, keep=True)
    await c.end(a, "commit under the epoch before", epoch=-1, keep=True)
    await c.end(a, "abort under an older epoch", commit=False, epoch=-2, keep=True)
    await c.end(a, "abort under the next epoch", commit=False, epoch=1, keep=True)
    await c.init(a, "init: who it is", expected=(a.producer_id, a.epoch))
    await c.init(a, "init: repeated", expected=(a.producer_id, a.epoch - 1))
    await c.init(a, "init: fenced", expected=(a.producer_id, a.epoch - 2))
    await c.init(a, "init: somebody else", expected=(a.producer_id + 5, 0))
    await c.init(a, "init v3: somebody else", 3, expected=(a.producer_id + 5, 0))
    await c.init(a, "init: half of who it is", expected=(a.producer_id, -1))
    await c.add(a, "add: another id", other_id=9)
    await c.add(a, "add: next epoch", epoch=1)
    await c.add(a, "add v1: epoch before", 1, epoch=-1)
    await c.add(a, "add v5: epoch before", 5, epoch=-1)
    await c.add(a, "add: no such partition", partitions=(0, 77))
    await c.add(a, "add v5: no such partition", 5, partitions=(0, 77))
    await c.add(a, "verify: no such partition", 5, partitions=(0, 77), verify=True)
    await c.add(a, "verify: nothing is open", 5, verify=True)
    await c.produce(a, "produce v10: not added", 10, again=True)
    await c.produce(a, "produce v11: not added", 11)
    await c.produce(a, "produce: no transactional id", transactional_id=None)
    await c.produce(a, "produce: begins at 5", sequence=5)
    await c.produce(a, "produce")
    await c.produce(a, "produce: next", sequence=1)
    await c.produce(a, "produce: repeated", sequence=1)
    await c.produce(a, "produce: a gap", sequence=7)
    await c.produce(a, "produce: outside of the transaction", sequence=2, transactional=False)
    await c.produce(a, "produce: epoch before", epoch=-1, sequence=2)
    await c.produce(a, "produce: next epoch", epoch=1)
    await c.produce(a, "produce: epoch before, elsewhere", epoch=-1, partition=1)
    await c.produce(a, "produce: next epoch, elsewhere", epoch=1, partition=1)
    await c.describe(a, "open")
    await c.add(a, "verify: one of two", 5, partitions=(0, 1), verify=True)
    await c.commit(a, "offsets: no group", "")
    await c.commit(a, "offsets: no such partition", g, partition=99)
    await c.commit(a, "offsets v3: not added", g, 3, again=True)
    await c.commit(a, "offsets v4: not added", g, 4, again=True)
    await c.commit(a, "offsets", g, again=True)
    await c.commit(a, "offsets: generation", g, generation=3, member="m")
    await c.commit(a, "offsets: epoch before", g2, epoch=-1, again=True)
    await c.commit(a, "offsets: much metadata", g, metadata="x" * 5000)
    await c.add_offsets(a, "add offsets", g3)
    await c.add_offsets(a, "add offsets: epoch before", g3, epoch=-1)
    await c.add_offsets(a, "add offsets v1: epoch before", g3, 1, epoch=-1)
    await c.end(a, "commit")
    await c.describe(a, "committed")
    await c.end(a, "commit again", keep=True)
    await c.end(a, "commit, repeated", epoch=-1, keep=True)
    await c.end(a, "abort of what was committed", epoch=-1, commit=False, keep=True)
    await c.produce(a, "produce: next transaction", again=True)
    await c.produce(a, "produce: begins at 4 elsewhere", sequence=4, partition=2, again=True)
    await c.mark(a, "marker: epoch before", epoch=-1)
    await c.mark(a, "marker: epoch of what is open", transaction_version=2)
    await c.mark(a, "marker: no such topic", topic="nowhere")
    await c.mark(a, "marker", epoch=1, transaction_version=2)
    await c.mark(a, "marker: repeated", epoch=1, transaction_version=2)
    await c.mark(a, "marker: old coordinator", epoch=2, coordinator_epoch=-1)
    await c.mark(a, "marker v1: old epoch", 1, epoch=-3)
    await c.produce(a, "produce: behind a marker", sequence=1)
    await c.init(a, "init: while it is open")
    await c.init(a, "init: again", again=True)
    await c.describe(a, "fenced")


async def first_protocol(c: Conversation) -> None:
    """A producer from before KIP-890."""
    b = await c.producer("b")
    await c.init(b, "init", again=True)
    await c.add(b, "add")
    await c.produce(b, "produce", 10, again=True)
    await c.end(b, "commit", 4)
    await c.end(b, "commit again", 4)
    await c.end(b, "abort of what was committed", 4, commit=False)
    await c.add(b, "add: next", again=True)
    await c.produce(b, "produce: next", 10, sequence=1, again=True)
    await c.end(b, "abort v1: epoch before", 1, epoch=-1)
    await c.end(b, "abort", 4, commit=False)
    await c.describe(b, "aborted")
    await c.produce(b, "produce: not added again", 10, sequence=2)
    await c.produce(b, "produce v11: not added again", 11, sequence=2)
    await c.produce(b, "produce: outside of any", 10, sequence=2, transactional=False)


async def sequence_used_twice(c: Conversation) -> None:
    """A producer of the first protocol that aborts, and gives the sequence of an aborted batch to
    the next transaction's: that is a duplicate, which is answered with the first one's offset and
    not written. (librdkafka 2.16 does so with a batch whose answer it never got, and tells its
    caller that the second one was delivered.)"""
    b = await c.producer("twice")
    await c.init(b, "init", again=True)
    await c.add(b, "add")
    first = await c.produce(b, "produce", 10, again=True)
    await c.end(b, "abort", 4, commit=False)
    await c.describe(b, "aborted")
    await c.add(b, "add: next", again=True)
    same = await c.produce(b, "produce: the same sequence", 10, again=True)
    c.lines.append(f"its offset is {same - first} above the first one's")
    await c.produce(b, "produce: the sequence after it", 10, sequence=1, again=True)
    await c.end(b, "commit", 4)
    await c.describe(b, "committed")


async def strangers(c: Conversation) -> None:
    """Unknown ids, and the empty one; lists."""
    u, nobody = await c.producer("unknown"), Producer("")
    await c.add(u, "add")
    await c.add(u, "add v5", 5)
    await c.add(u, "verify", 5, verify=True)
    await c.end(u, "end")
    await c.end(u, "end v4", 4)
    await c.describe(u, "describe")
    await c.init(nobody, "empty: init")
    await c.add(nobody, "empty: add")
    await c.end(nobody, "empty: end")
    await c.describe(nobody, "empty: describe")
    k = await c.producer("known")
    await c.init(k, "init", again=True)
    await c.list("all", 0)
    await c.list("of no such state", 0, state_filters=["Nope"])
    await c.list("of states that are never written", 0, state_filters=["Dead", "PrepareEpochFence"])
    await c.list("for long", 1, duration_filter=10**9)
    await c.list("by pattern", 2, transactional_id_pattern=".*known")
    await c.list("by no pattern", 2, transactional_id_pattern="([")
    await c.list("by an empty pattern", 2, transactional_id_pattern="")


async def internal_topics(c: Conversation) -> None:
    """Clients may not add them to a transaction; brokers may."""
    p = await c.producer("tx")
    await c.group("group")
    await c.init(p, "init", again=True)
    for version in range(4):
        await c.add(p, f"offsets, v{version}", version, others=(OFFSETS_TOPIC,))
    await c.add(p, "two", others=(OFFSETS_TOPIC, TRANSACTIONS_TOPIC))
    await c.add(p, "one, and one that is missing", others=(TRANSACTIONS_TOPIC, "nope"))
    await c.add(p, "none")
    await c.add(p, "offsets, v5", 5, others=(OFFSETS_TOPIC,))
    await c.end(p, "end", 3, commit=False)


async def its_own_epoch(c: Conversation) -> None:
    """A producer asks for a new epoch under its own id and epoch (KIP-360), also while its
    transaction is open, and others do between."""
    for version, name in ((12, "second"), (11, "first")):

        async def opened(p: Producer, version: int = version) -> tuple[int, int]:
            if version < 12:
                await c.add(p, "add", again=True)
            await c.produce(p, "produce", version, again=True)
            return p.producer_id, p.epoch

        a = await c.producer(f"{name}-a")
        await c.init(a, f"{name}: init", again=True)
        own = await opened(a)
        await c.init(a, "own while open", expected=own)
        await c.init(a, "own", expected=own, again=True)
        await c.init(a, "own, repeated", expected=own, again=True)
        second = a.producer_id, a.epoch
        await c.init(a, "the new one", expected=second, again=True)
        await c.init(a, "own, too late", expected=own, again=True)
        third = await opened(a)
        await c.init(a, "the one before, while open", expected=second)
        await c.init(a, "the one before", expected=second, again=True)
        await c.init(a, "own", expected=third, again=True)
        await c.init(a, "somebody", again=True)
        await c.init(a, "own, too late", expected=third, again=True)

        b = await c.producer(f"{name}-b")
        await c.init(b, f"{name}: init", again=True)
        own = await opened(b)
        await c.init(b, "somebody while open")
        await c.settle(b)
        await c.init(b, "own", expected=own, again=True)
        await c.init(b, "somebody", again=True)
        await c.init(b, "own", expected=own, again=True)

        d = await c.producer(f"{name}-d")
        await c.init(d, f"{name}: init", again=True)
        own = await opened(d)
        await c.init(d, "own while open", expected=own)
        await c.init(d, "somebody", again=True)
        await c.init(d, "own, too late", expected=own, again=True)

        e = await c.producer(f"{name}-e")
        await c.init(e, f"{name}: init", again=True)
        await opened(e)
        await c.end(e, "commit", 5 if version == 12 else 3, again=True)
        await c.settle(e)
        own = await opened(e)
        await c.init(e, "own while open", expected=own)
        await c.init(e, "own", expected=own, again=True)


SCRIPTS = (
    second_protocol,
    first_protocol,
    sequence_used_twice,
    strangers,
    internal_topics,
    its_own_epoch,
)
