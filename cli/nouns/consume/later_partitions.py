"""Partitions that `pk consume` adds while it reads without end. A member of a group gets them by
assignment instead."""

from collections.abc import Iterable

import trio

from pk.cli.cluster.topics import is_unknown
from pk.cli.exits import CommandError
from pk.cli.nouns.consume.partitions import partitions_of, spans_of
from pk.cli.nouns.consume.request import Request
from pk.cli.positions.grammar import Anchor
from pk.cli.records.idle_reason import named
from pk.cli.records.range_reader import GONE_S, RangeReader, Span
from pk.cli.runtime.context import Context
from pk.core.errors import KafkaError
from pk.core.values import TopicPartition
from pk.net.client.errors import ClientError
from pk.net.client.results import IsolationLevel

_NEW_PARTITIONS_S = 5.0
"""How often to check for new partitions."""

_LEADERS_S = 1.0
"""How often to check whether partitions without a leader have one."""


class LaterPartitions:
    """Adds partitions to a reader. Partitions that had no leader are read from their original
    position, and new ones (with --include, also those of new topics) from their start."""

    def __init__(
        self,
        context: Context,
        request: Request,
        reader: RangeReader,
        isolation: IsolationLevel,
        waiting: dict[TopicPartition, int],
    ) -> None:
        options = request.options
        some = options.partitions or options.key_partition or request.positions.by_partition
        self._context, self._request, self._reader = context, request, reader
        self._isolation = isolation
        self._takes_new = not some and not reader.bounded
        self._known = set(reader.spans)
        self.waiting = waiting
        """The partitions without a leader, and the epoch of their last leader."""

        self._gone_since: float | None = None
        """Since when a topic of `waiting` has not existed, in seconds of trio's clock; None if all
        exist."""

        self._due = trio.current_time() + self._every_s

    @property
    def _every_s(self) -> float:
        return _LEADERS_S if self.waiting else _NEW_PARTITIONS_S

    async def check(self) -> None:
        """Add the partitions that have appeared. Call it often: it asks the cluster only at
        intervals. Raises CommandError if a topic of which the reader reads no partition was
        deleted."""
        now = trio.current_time()
        if now < self._due or not (self.waiting or self._takes_new):
            return
        try:
            found = await partitions_of(self._context, self._request)
            await self._take_led([tp for tp in self.waiting if tp in found and found[tp].led])
            self._gone_since = None
        except (ClientError, CommandError, KafkaError):
            found = {}
            await self._check_topics()
        if self._takes_new:
            self._take_new(found)
        self._due = now + self._every_s

    async def _check_topics(self) -> None:
        """Raise CommandError if a topic was deleted while none of its partitions had a leader. If
        the reader reads a partition of the topic, it reports the deletion itself."""
        unread = {tp.topic for tp in self.waiting} - {tp.topic for tp in self._reader.open}
        if not unread:
            return
        try:
            admin = await self._context.admin()
            answers = await admin.describe_topics(sorted(unread))
        except (ClientError, KafkaError):
            return
        gone = next((topic for topic, e in answers.errors.items() if is_unknown(e)), None)
        now = trio.current_time()
        if gone is None:
            self._gone_since = None
        elif self._gone_since is None:
            self._gone_since = now
        elif now - self._gone_since >= GONE_S:
            raise CommandError(f"{gone} was deleted while none of its partitions had a leader.")

    async def _take_led(self, partitions: list[TopicPartition]) -> None:
        if not partitions:
            return
        spans = await self._spans(partitions)
        for tp in partitions:
            del self.waiting[tp]
        self._known.update(partitions)
        self._reader.add(spans)
        have = "has" if len(partitions) == 1 else "have"
        self._context.say(f"{named(partitions)} {have} a leader now.")

    async def _spans(self, partitions: list[TopicPartition]) -> dict[TopicPartition, Span]:
        """The offsets to read. The position `end` means the end when the leader was lost, not the
        new leader's current end."""
        spans = await spans_of(self._context, self._request, self._isolation, partitions)
        back: dict[TopicPartition, int] = {}
        for tp, span in spans.items():
            asked = self._request.positions.of(tp.partition)
            if self._request.options.follow:
                spans[tp], back[tp] = Span(span.end or 0, None), 0
            elif asked is not None and asked.begin.anchor is Anchor.END:
                back[tp] = asked.begin.value
        admin = await self._context.admin()
        ends = await admin.offsets_for_leader_epochs({tp: self.waiting[tp] for tp in back})
        for tp, end in ends.ok.items():
            if end.end_offset >= 0:
                spans[tp] = spans[tp]._replace(begin=max(end.end_offset + back[tp], 0))
        return spans

    def _take_new(self, found: Iterable[TopicPartition]) -> None:
        new = [tp for tp in found if tp not in self._known and tp not in self.waiting]
        if new:
            self._known.update(new)
            self._reader.add({tp: Span(0, None) for tp in new})
            self._context.say(f"New, reading from the start: {named(new)}.")
