"""A producer's report of a transaction whose commit got no readable answer, was refused, or was
canceled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from net_client.support import scripted_broker, trio_test
from net_client.test_idempotence import CONFIG, Log

from pk.core.errors import ErrorCode, KafkaError
from pk.core.wire.messages.end_txn import EndTxnResponse
from pk.core.wire.messages.init_producer_id import InitProducerIdResponse
from pk.net.client.errors import TransactionOutcomeUnknown
from pk.net.client.producer import open_producer

TRANSACTIONAL = CONFIG | {"transactional.id": "x"}
LOST = None
"""The answer that closes the connection."""


class Coordinator(Log):
    """One transactional id by Kafka's rules, and what to answer instead to EndTxn."""

    def __init__(self) -> None:
        super().__init__()
        self.state = "empty"
        self.asked: list[bool] = []
        """The ends that were asked for: whether to commit."""

        self.answers: list[int | bytes | None] = []
        """The answer to each EndTxn, even if it takes effect; the last one is repeated."""

        self.takes = True
        """Whether an EndTxn that gets another answer than 0 is done nevertheless."""

        self.on_end: Callable[[], object] = lambda: None
        """Called when an EndTxn has come, before it is answered."""

    async def handle(self, request: Any, version: int) -> Any:
        name = type(request).__name__
        if name == "InitProducerIdRequest" and self.state == "ongoing":
            # The abort raises the epoch, so a repeated request gets this answer.
            return InitProducerIdResponse(error_code=ErrorCode.PRODUCER_FENCED)
        if name == "AddPartitionsToTxnRequest":
            self.state = "ongoing"
        elif name == "EndTxnRequest":
            return self._end(request.committed)
        return await super().handle(request, version)

    def _end(self, commit: bool) -> EndTxnResponse | bytes | None:
        self.asked.append(commit)
        answer: int | bytes | None = 0
        if self.answers:
            answer = self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)
        wanted = "committed" if commit else "aborted"
        if answer == 0 or self.takes:
            if self.state not in ("ongoing", wanted):
                return EndTxnResponse(error_code=ErrorCode.INVALID_TXN_STATE)
            self.state = wanted
        self.on_end()
        return EndTxnResponse(error_code=answer) if isinstance(answer, int) else answer


@pytest.mark.parametrize(
    "then",
    [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR],
    ids=lambda code: code.name,
)
@trio_test
async def test_a_commit_that_is_only_put_off_after_its_answer_was_lost_may_have_taken_place(
    then: ErrorCode,
) -> None:
    coordinator = Coordinator()
    coordinator.answers = [LOST, then]
    async with scripted_broker(coordinator.handle) as broker:
        coordinator.leaders = [broker]
        async with open_producer(
            broker.address, TRANSACTIONAL | {"max.block.ms": 2000}
        ) as producer:
            with pytest.raises(TransactionOutcomeUnknown, match=then.name):
                async with producer.transaction():
                    await producer.send("t", b"0")
            assert coordinator.state == "committed"
            assert len(coordinator.asked) > 1 and all(coordinator.asked)
            with pytest.raises(TransactionOutcomeUnknown):
                async with producer.transaction():
                    pass


@trio_test
async def test_a_commit_whose_answer_cannot_be_read_may_have_taken_place() -> None:
    coordinator = Coordinator()
    coordinator.answers = [b"\0\0\0\4\xff\xff\xff\xff"]
    async with scripted_broker(coordinator.handle) as broker:
        coordinator.leaders = [broker]
        async with open_producer(broker.address, TRANSACTIONAL) as producer:
            with pytest.raises(TransactionOutcomeUnknown):
                async with producer.transaction():
                    await producer.send("t", b"0")
            assert coordinator.state == "committed"


@trio_test
async def test_a_commit_that_is_refused_is_aborted_and_the_next_transaction_begins() -> None:
    coordinator = Coordinator()
    coordinator.answers = [ErrorCode.TRANSACTION_ABORTABLE, 0]
    coordinator.takes = False
    async with scripted_broker(coordinator.handle) as broker:
        coordinator.leaders = [broker]
        async with open_producer(broker.address, TRANSACTIONAL) as producer:
            with pytest.raises(KafkaError) as caught:
                async with producer.transaction():
                    await producer.send("t", b"0")
            assert caught.value.code == ErrorCode.TRANSACTION_ABORTABLE
            assert coordinator.state == "aborted"
            async with producer.transaction():
                await producer.send("t", b"1")
    assert coordinator.asked == [True, False, True]
    assert coordinator.state == "committed"


@pytest.mark.parametrize("taken", [True, False])
@trio_test
async def test_a_block_cancelled_while_it_commits_leaves_the_producer_usable(taken: bool) -> None:
    coordinator = Coordinator()
    coordinator.answers = [LOST, 0]
    coordinator.takes = taken
    async with scripted_broker(coordinator.handle) as broker:
        coordinator.leaders = [broker]
        async with open_producer(broker.address, TRANSACTIONAL) as producer:
            with trio.CancelScope() as scope:
                coordinator.on_end = scope.cancel
                async with producer.transaction():
                    await producer.send("t", b"0")
            assert scope.cancelled_caught
            assert coordinator.asked == [True]
            assert coordinator.state == ("committed" if taken else "ongoing")
            async with producer.transaction():
                assert coordinator.state == "committed"
                await producer.send("t", b"1")
    assert coordinator.asked == [True, True, True]
    assert coordinator.values == [b"0", b"1"]
