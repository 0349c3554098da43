"""Reads the newest records of a topic, for the screen that shows them.

They are read without a group, backwards from the end, like those of `pk consume --tail`. Later
reads fetch only the records that were added.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import trio

from pk.cli.exits import CommandError, Unusable
from pk.cli.positions.resolve import bounds_of
from pk.cli.records.filter import Filter, record_filter
from pk.cli.records.internal_topics import DECODED, decoded
from pk.cli.records.range_reader import Pair, Part, Span, last_records
from pk.cli.records.row import ROW_FIELDS
from pk.cli.runtime.client_config import client_config
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import leaf, sentence
from pk.core.errors import KafkaError, ProtocolError
from pk.core.record.batch import Record
from pk.core.values import TopicPartition
from pk.net.client.admin import Admin
from pk.net.client.config import AdminConfig, ConsumerConfig
from pk.net.client.consumer import Consumer, open_consumer
from pk.net.client.errors import ClientError
from pk.net.client.metadata import TopicInfo

_RETRY_S: Final = 2.0

_CONDITION: Final = re.compile(
    rf"[\s(]*(?:not\s+)?(?:(?:{'|'.join(ROW_FIELDS)})\b[\w.]*\s*(?:[!=]?[=~]|[<>]|(?:in|contains)\b)"
    r"|[\w.]+\s+(?:[!=]?[=~]|[<>]=?)\s)"
)
"""The beginning of a condition: a field and an operator. An unknown field counts too if there are
spaces around the operator, so that a misspelled name is noticed."""


class Wanted(NamedTuple):
    """The records that the screen shows."""

    topic: str
    partition: int | None
    """None for all partitions."""

    filter: str
    number: int

    @property
    def name(self) -> str:
        """`orders`, or `orders/3`."""
        return self.topic if self.partition is None else f"{self.topic}/{self.partition}"


class Found:
    """The records found so far."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.pairs: Sequence[Pair] = ()
        self.read = 0
        """The number of records read, whether they match or not."""

        self.complete = False
        """Whether everything up to the end has been read once."""

        self.leaderless = 0
        """The number of partitions that cannot be read because they have no leader."""

        self.error: str | None = None


def filter_of(text: str) -> Filter | None:
    """Make the test for a filter: a condition, as for `pk consume --where`, or a pattern to find in
    the key or the value. None for an empty filter. Raises Unusable."""
    if not text:
        return None
    if _CONDITION.match(text):
        return record_filter(None, (), text)
    try:
        pattern = re.compile(text, re.IGNORECASE)
    except re.error:
        pattern = re.compile(re.escape(text), re.IGNORECASE)
    return lambda _, record: any(
        data is not None and pattern.search(data.decode(errors="replace")) is not None
        for data in (record.key, record.value)
    )


class RecordReader:
    """Reads the wanted records, and calls `changed` whenever there is more to show."""

    def __init__(
        self,
        context: Context,
        admin: Admin,
        topic_of: Callable[[str], TopicInfo | None],
        changed: Callable[[], None],
    ) -> None:
        self._context = context
        self._admin = admin
        self._topic_of = topic_of
        self._changed = changed

    async def follow(
        self, found: Found, interval_s: Callable[[], float], paused: Callable[[], bool]
    ) -> None:
        """Fill `found` until cancelled. A failure is shown, and retried."""
        try:
            test = filter_of(found.wanted.filter)
        except Unusable as e:
            found.error = str(e).removeprefix("--where: ")
            self._changed()
            await trio.sleep_forever()
            return
        ends: dict[TopicPartition, int] = {}
        while True:
            try:
                async with open_consumer(
                    self._context.settings.bootstrap, self._config()
                ) as consumer:
                    while True:
                        if not found.complete or not paused():
                            await self._read(consumer, found, test, ends)
                        await trio.sleep(interval_s())
            except Exception as error:
                failure = leaf(error)
                if not isinstance(
                    failure, (KafkaError, ClientError, ProtocolError, CommandError, OSError)
                ):
                    raise
                found.error = sentence(failure)
                self._changed()
            await trio.sleep(_RETRY_S)

    def _config(self) -> dict[str, object]:
        config = client_config(
            ConsumerConfig,
            self._context.settings,
            {"auto.offset.reset": "earliest", "isolation.level": "read_uncommitted"},
            about=AdminConfig,
        )
        config.pop("group.id", None)
        return config | {"allow.auto.create.topics": "false", "enable.auto.commit": "false"}

    async def _read(
        self,
        consumer: Consumer,
        found: Found,
        test: Filter | None,
        known: dict[TopicPartition, int],
    ) -> None:
        """Read the new records; `known` has the ends up to which partitions were read."""
        wanted, before = found.wanted, found.pairs
        spans = await self._spans(found, known)

        def matching(part: Part) -> Sequence[Record]:
            records = part.records
            found.read += len(records)
            if wanted.topic in DECODED:
                records = decoded(wanted.topic, records)
            if test is not None:
                records = [record for record in records if test(part.source, record)]
                # A long search shows its results so far.
                found.pairs = _newest((*found.pairs, *((part.source, r) for r in records)), wanted)
                self._changed()
            return records

        if any(span.begin < (span.end or 0) for span in spans.values()):
            newest, _ = await last_records(consumer, spans, wanted.number, matching)
            found.pairs = _newest((*before, *newest), wanted)
        known.update({tp: span.end or 0 for tp, span in spans.items()})
        found.complete, found.error = True, None
        self._changed()

    async def _spans(
        self, found: Found, known: dict[TopicPartition, int]
    ) -> dict[TopicPartition, Span]:
        wanted, topic = found.wanted, self._topic_of(found.wanted.topic)
        if topic is None:
            raise CommandError(f"Topic {wanted.topic} no longer exists.")
        numbers = range(len(topic.partitions))
        chosen = [n for n in numbers if wanted.partition is None or n == wanted.partition]
        led = [n for n in chosen if topic.partitions[n].leader_id >= 0]
        found.leaderless = len(chosen) - len(led)
        starts, ends = await bounds_of(self._admin, [TopicPartition(topic.name, n) for n in led])
        spans: dict[TopicPartition, Span] = {}
        for tp in ends:
            start, end = starts.value(tp), ends.value(tp)
            before = known.get(tp, start.offset)
            # An end that decreased belongs to a new topic with the same name, or records were lost.
            begin = before if before <= end.offset else start.offset
            spans[tp] = Span(max(begin, start.offset), end.offset)
        return spans


def _newest(pairs: Iterable[Pair], wanted: Wanted) -> list[Pair]:
    return sorted(pairs, key=_age)[-wanted.number :]


def _age(pair: Pair) -> tuple[int, int, int]:
    source, record = pair
    return record.timestamp, source.partition, record.offset
