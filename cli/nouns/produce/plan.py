"""The settings for all records of `pk produce`, from its options."""

import os
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import trio

from pk.cli.cluster.topics import is_unknown, topic_names, unknown_topic
from pk.cli.exits import CommandError, Unusable
from pk.cli.positions.resolve import now_ms
from pk.cli.positions.times import time_ms
from pk.cli.records.csv import CsvRows
from pk.cli.records.json_text import Documents, fault
from pk.cli.records.readers import BadLine, Headers, NewRecord, Pair, Reading, reading
from pk.cli.records.refusals import Refusals
from pk.cli.runtime.client_config import client_config
from pk.cli.runtime.context import Context
from pk.cli.runtime.settings import read_properties
from pk.core.errors import ErrorCode, KafkaError
from pk.core.nearest import did_you_mean_one_of, nearest
from pk.net.client.admin import Admin
from pk.net.client.config import ProducerConfig
from pk.net.client.delivery import BatchDelivered
from pk.net.client.errors import ClientError
from pk.net.client.results import ConfigResource, NewTopic, ResourceType

if TYPE_CHECKING:
    from pk.cli.nouns.produce.options import Produce
    from pk.cli.records.fake import Fake

_CONFIG_OPTIONS = {
    "compression": "compression.type",
    "acks": "acks",
    "transactional_id": "transactional.id",
    "batch_size": "batch.size",
    "message_send_max_retries": "retries",
    "retry_backoff_ms": "retry.backoff.ms",
    "linger_ms": "linger.ms",
    "request_timeout_ms": "request.timeout.ms",
    "max_block_ms": "max.block.ms",
    "max_memory_bytes": "buffer.memory",
    "max_partition_memory_bytes": "batch.size",
    "metadata_expiry_ms": "metadata.max.age.ms",
    "socket_buffer_size": "send.buffer.bytes",
}
_DEFAULTS = {"max.block.ms": "15000", "batch.size": str(1 << 17), "linger.ms": "20"}
"""A user does not wait for a topic as long as a program does, and batches may be large, since lines
come in bulk."""

_AUTO_CREATE = "auto.create.topics.enable"

_SLIP = 0.8
"""Names less similar than this (1 is equal) are different topics; `ordrs` and `orders` have
0.91."""

_DIGITS = re.compile(r"\d+")
_NO_LETTERS = re.compile(r"[\d._-]+")
_TICK_S = 0.005
_BEHIND_S = 1.0
"""A stream with --rate whose input is later than this does not catch up."""


def encoded_headers(pairs: Sequence[tuple[str, str]]) -> Headers:
    """The headers of -H. Raises Unusable if a name is not UTF-8: in Kafka, names are text, and
    values are bytes."""
    for name, _ in pairs:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise Unusable(
                f"-H: the name of a header must be UTF-8, not {os.fsencode(name)!r}."
            ) from None
    return tuple((name, os.fsencode(value)) for name, value in pairs)


def producer_config(context: Context, options: "Produce", **defaults: str) -> dict[str, object]:
    """The producer's configs, by precedence: those of the options, -X, the profile, `defaults` and
    pk's own defaults."""
    given: dict[str, Any] = {
        key: value
        for name, key in _CONFIG_OPTIONS.items()
        if (value := getattr(options, name)) is not None and context.given(name)
    }
    if "request.timeout.ms" in given or "linger.ms" in given:
        least = int(given.get("request.timeout.ms", 30_000)) + int(given.get("linger.ms", 20))
        given["delivery.timeout.ms"] = max(120_000, least)
    ours = {k.replace("_", "."): v for k, v in defaults.items()}
    config = client_config(
        ProducerConfig, context.settings, {**_DEFAULTS, **ours}, transactional=True
    )
    return {**config, **given}


class Plan:
    """The settings for all records."""

    def __init__(
        self, options: "Produce", *, encode: Callable[[bytes], bytes] | None = None
    ) -> None:
        """`encode` turns the JSON text of a value into bytes; it raises BadLine."""
        properties = read_properties(options.reader_config) if options.reader_config else {}
        self.reading: Reading = reading(
            options.format, {**properties, **dict(options.reader_properties)}.items()
        )
        self.topic = options.topic
        self.key = None if options.key is None else os.fsencode(options.key)
        self.headers = encoded_headers(options.header)
        self.partition = options.partitions
        self.keep_partition = options.keep_partition or "partition" in self.reading.given
        self.tombstone = options.tombstone
        self.json = options.json
        self.timestamp: int | None = None
        if options.timestamp is not None:
            try:
                self.timestamp = time_ms(options.timestamp.removeprefix("@"), now_ms())
            except ValueError as e:
                raise Unusable(f"--timestamp: {e}.") from None
        self.fake: Fake | None = None
        if options.fake is not None:
            from pk.cli.records.fake import fake

            self.fake = fake(options.fake, key=options.key, seed=options.seed)
        self._names_fields = options.format in ("jsonl", "csv")
        self._check(options)
        self._encode = encode

    def _check(self, options: "Produce") -> None:
        named = self._names_fields or "topic" in self.reading.given
        if self.topic is None and (options.fake is not None or not named):
            raise Unusable("Name the topic: pk produce TOPIC.")
        reader = (options.line_reader or "LineMessageReader").replace("$", ".").rpartition(".")[2]
        if reader != "LineMessageReader":
            raise Unusable(
                f"--line-reader: {options.line_reader} is a Java class; use -f to say how lines "
                "are read."
            )
        if self.partition is not None and self.partition < 0:
            raise Unusable(f"-p must be a partition number, not {self.partition}.")
        self._check_fields(keep_partition=options.keep_partition)
        if options.value and options.file is not None:
            raise Unusable("VALUE and -F each give the records; use only one.")
        if options.schema_registry is not None and options.schema is None:
            raise Unusable("--schema-registry has no effect without --schema.")
        if options.seed is not None and options.fake is None:
            raise Unusable("--seed needs --fake.")
        if options.fake is None:
            return
        for dest, name in (
            ("value", "VALUE"),
            ("file", "-F"),
            ("format", "-f"),
            ("reader_properties", "--property"),
            ("reader_config", "--reader-config"),
            ("keep_partition", "--keep-partition"),
            ("tombstone", "-Z"),
            ("json", "--json"),
            ("schema", "--schema"),
        ):
            if getattr(options, dest):
                raise Unusable(f"--fake generates the records; {name} cannot be combined with it.")

    def _check_fields(self, *, keep_partition: bool) -> None:
        """Raise Unusable if a field would come both from the lines and from an option, or from
        neither."""
        given = self.reading.given
        for option, field, value in (
            ("TOPIC", "topic", self.topic),
            ("-k", "key", self.key),
            ("-p", "partition", self.partition),
            ("--timestamp", "timestamp", self.timestamp),
        ):
            if value is not None and field in given:
                raise Unusable(f"{option} and {given[field]} both give the {field}; keep one.")
        if not keep_partition:
            return
        if self.partition is not None:
            raise Unusable("-p and --keep-partition cannot be combined.")
        if not self._names_fields and "partition" not in given:
            raise Unusable(
                "--keep-partition needs lines that name a partition: -f jsonl, -f csv, or %p in -f."
            )

    @property
    def documents(self) -> bool:
        """Whether the input is JSON documents that may span lines."""
        return self.json and self.reading.plain

    def gathering(self) -> Documents | CsvRows | None:
        """An object that joins lines into records, if a record may span lines; otherwise None."""
        return Documents() if self.documents else self.reading.rows

    @property
    def unit(self) -> str:
        """The unit that error messages count: lines or rows."""
        return "Line" if self.reading.rows is None else "Row"

    @property
    def reads_json(self) -> bool:
        """Whether a typed text must be JSON as a whole."""
        return self.documents or self.reading.shape.startswith("a JSON object")

    def pairs(self, lines: Sequence[bytes]) -> list[Pair] | None:
        """The (key, value) of each line, if the records have nothing else; None if each line must
        be read by `record`."""
        if self.headers or self.keep_partition or (self.json and not self.documents):
            return None
        if self._encode is not None:
            return None
        if self.reading.plain:
            key = self.key
            if self.tombstone:
                return [(key, line or None) for line in lines]
            return [(key, line) for line in lines]
        if self.reading.pairs is None or self.tombstone:
            return None
        found = self.reading.pairs(lines)
        if found is None or self.key is None:
            return found
        return [(self.key, value) for _, value in found]

    def record(self, line: bytes) -> NewRecord:
        """The record on a line, completed by the options. Raises BadLine."""
        found = self.reading.read(line)
        topic = self.topic or found.topic
        if topic is None:
            raise BadLine("it names no topic, and the command line names none")
        value = None if self.tombstone and found.value == b"" else found.value
        if self.json and value is not None:
            wrong = fault(value.decode(errors="replace"))
            if wrong is not None:
                raise BadLine(f"the value: {wrong}")
        if self._encode is not None and value is not None:
            value = self._encode(value)
        return NewRecord(
            self.key if self.key is not None else found.key,
            value,
            (*found.headers, *self.headers) if self.headers else found.headers,
            self.timestamp if self.timestamp is not None else found.timestamp,
            self.partition if not self.keep_partition else found.partition,
            topic,
        )


async def topic_exists(context: Context, topic: str, *, create: bool) -> bool:
    """Whether the topic exists, or was just created for --create. False if the broker will create
    it with the first record.

    Raises CommandError, with similar names, if the topic does not exist and will not be created.
    """
    admin = await context.admin()
    error = (await admin.describe_topics([topic])).errors.get(topic)
    if error is None:
        return True
    impossible = getattr(error, "code", None) == ErrorCode.INVALID_TOPIC_EXCEPTION
    if impossible or not is_unknown(error):
        raise error
    if create:
        await _create(context, admin, topic)
        return True
    if await _makes_topics(admin):
        return False
    unknown = await unknown_topic(context, admin, topic)
    raise CommandError(f"{unknown.said} `pk topics create {topic}` creates it.")


async def _create(context: Context, admin: Admin, topic: str) -> None:
    error = (await admin.create_topics([NewTopic(topic)])).errors.get(topic)
    exists = getattr(error, "code", None) == ErrorCode.TOPIC_ALREADY_EXISTS
    if error is not None and not exists:
        raise error
    context.say(f"Created topic {topic}, with the broker's defaults.")


async def make_topic(context: Context, topic: str, *, create: bool) -> None:
    """Check that `topic` exists or may be created, since a pipe has no user to ask or to warn.

    Raises CommandError if the topic does not exist and may be a misspelling of one that does.
    """
    if await topic_exists(context, topic, create=create):
        return
    names = await topic_names(context, await context.admin())
    near = [name for name in nearest(topic, names) if is_misspelling(topic, name)]
    if near:
        raise CommandError(
            f"Topic {topic!r} does not exist{did_you_mean_one_of(near)} --create creates {topic}."
        )
    context.say(f"Topic {topic} does not exist; the broker creates it with its defaults.")


def is_misspelling(typed: str, name: str) -> bool:
    """Whether `typed` is probably a misspelling of `name`: nearly the same, but not another topic
    of a series (`orders-2`) or of a family (`orders-eu`). Only letters are compared, since a date
    that two names share makes them similar."""
    import difflib

    if _DIGITS.sub("0", typed) == _DIGITS.sub("0", name):
        return False
    short, long = sorted((typed, name), key=len)
    if long.startswith(short) and long[len(short)] in "-._":
        return False
    one, other = (_NO_LETTERS.sub("", text.lower()) for text in (typed, name))
    return difflib.SequenceMatcher(None, one, other).ratio() >= _SLIP


async def _makes_topics(admin: Admin) -> bool:
    """Whether the brokers create a topic when a record is written to it; True if they do not
    say."""
    try:
        cluster = await admin.describe_cluster()
        node = str(cluster.brokers[0].node_id)
        resource = ConfigResource(ResourceType.BROKER, node)
        found = (await admin.describe_configs([resource], keys=[_AUTO_CREATE])).ok
    except (KafkaError, ClientError, IndexError):
        return True
    entries = found.get(resource, ())
    return all(entry.value != "false" for entry in entries if entry.name == _AUTO_CREATE)


class Tally:
    """Counts acknowledged and lost records, batch by batch."""

    def __init__(self, context: Context, *, say_offsets: bool = False) -> None:
        self.delivered = 0
        self.in_doubt = 0
        """The number of records that were not acknowledged, but may be in the log."""

        self.error: Exception | None = None
        self.places: list[str] = []
        """The partitions and offsets of the first few batches."""

        self._context = context
        self._say = say_offsets
        self.refusals = Refusals(context)

    def on_delivery(self, batch: BatchDelivered) -> None:
        """The callback of the producer for each batch."""
        if batch.error is not None:
            self.in_doubt += batch.count if batch.in_doubt else 0
            self.error = self.error or batch.error
            return
        self.delivered += batch.count
        if self._say:
            at = _span(batch, "?")
            self._context.say(f"{batch.partition.topic}/{batch.partition.partition} @ {at}")
        elif len(self.places) < 4:
            self.places.append(f"p{batch.partition.partition}@{_span(batch, '?')}")


def _span(batch: BatchDelivered, unknown: str) -> str:
    if batch.base_offset < 0:
        return unknown
    last = batch.base_offset + batch.count - 1
    return f"{batch.base_offset}..{last}" if batch.count > 1 else str(batch.base_offset)


class Pace:
    """Determines how many records are due at `rate` records per second."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._start: float | None = None
        self._sent = 0

    async def due(self, wanted: int) -> int:
        """Wait until a record is due. Returns how many of `wanted` are due."""
        if self._start is None:
            self._start = trio.current_time()
        while True:
            passed = trio.current_time() - self._start
            number = int(passed * self._rate) + 1 - self._sent
            if number > 0:
                break
            await trio.sleep(max(_TICK_S, self._sent / self._rate - passed))
        if number > max(1.0, self._rate * _BEHIND_S):
            self._start = trio.current_time() - self._sent / self._rate
            number = 1
        number = min(number, wanted)
        self._sent += number
        return number
