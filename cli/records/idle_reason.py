"""Why a waiting reader gets no records: no broker answers, a partition has no leader, or nothing is
written."""

import shlex
from collections.abc import Iterable, Sequence

import trio

from pk.cli.phrases import join, partition_name
from pk.cli.runtime.context import Context
from pk.core.errors import ErrorCode, KafkaError, ProtocolError
from pk.core.values import TopicPartition
from pk.net.client.consumer import Consumer
from pk.net.client.errors import ClientError

_LOOK_EVERY_S = 3.0


class Silence:
    """Reports on standard error, once each, that no broker answers or a partition has no leader,
    and when that ends."""

    def __init__(self, context: Context, consumer: Consumer) -> None:
        self._context = context
        self._consumer = consumer
        self._checked_at = trio.current_time()
        self._alone = False
        self.leaderless: frozenset[TopicPartition] = frozenset()
        """The consumer's partitions that had no leader at the last check."""

        self._leaders_checked_at = self._checked_at

    async def look(self, arrived: bool) -> None:
        """Find out what keeps records from arriving. Call it after each wait; `arrived` says
        whether any arrived."""
        now = trio.current_time()
        if now - self._leaders_checked_at >= _LOOK_EVERY_S:
            self._leaders_checked_at = now
            self._look_for_leaders()
        if not arrived and now - self._checked_at < _LOOK_EVERY_S:
            return
        alone = not arrived and not await self._answers()
        self._checked_at = trio.current_time()
        if alone and not self._alone:
            where = self._context.settings.cluster_name
            self._context.say(
                f"No broker of {where} answers; reading continues when one does. Ctrl-C stops."
            )
        elif self._alone and not alone:
            self._context.say("The brokers answer again.")
        self._alone = alone

    def _look_for_leaders(self) -> None:
        metadata = self._consumer.cluster.metadata
        dead: set[TopicPartition] = set()
        for tp in self._consumer.assignment:
            topic = metadata.topics.get(tp.topic)
            known = topic is not None and topic.error_code in (0, ErrorCode.LEADER_NOT_AVAILABLE)
            if known and metadata.leader(tp)[0] < 0:
                dead.add(tp)
        if new := sorted(dead - self.leaderless):
            self._context.say(leaderless(new, "reading continues when there is one"))
        if back := sorted((self.leaderless - dead) & self._consumer.assignment):
            have = "has" if len(back) == 1 else "have"
            self._context.say(f"{named(back)} {have} a leader again.")
        self.leaderless = frozenset(dead)

    async def _answers(self) -> bool:
        with trio.move_on_after(_LOOK_EVERY_S):
            try:
                await self._consumer.cluster.refresh(())
            except (ClientError, KafkaError, ProtocolError):
                return False
            return True
        return False


def leaderless(partitions: Sequence[TopicPartition], then: str) -> str:
    """Two sentences about partitions without a leader: what happens to them, and how to find out
    more."""
    return (
        f"No leader now: {named(partitions)}; {then}. "
        f"`pk why partition {shlex.quote(partition_name(partitions[0]))}` explains why."
    )


def named(partitions: Iterable[TopicPartition]) -> str:
    """The partitions in a sentence."""
    return join([partition_name(tp) for tp in partitions], 3)
