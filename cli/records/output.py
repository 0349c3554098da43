"""The output of `consume` and `log cat`: filters records, decodes internal topics, counts, stops at
-n, and writes."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Protocol, TypeVar

from pk.cli.exits import CommandError, Exit, Unusable
from pk.cli.phrases import count
from pk.cli.records.filter import AbsentFields, record_filter
from pk.cli.records.internal_topics import DECODED, decoded, pairs
from pk.cli.records.range_reader import Part
from pk.cli.records.source import Source
from pk.cli.records.writers import Simple, Writer, apache_writer, formatter, parsing_writer, writer
from pk.cli.runtime.context import Context
from pk.cli.runtime.settings import read_properties
from pk.cli.terminal.text import escaped_bytes
from pk.core.record.batch import Record
from pk.core.values import TopicPartition

if TYPE_CHECKING:
    from pk.cli.records.schema_records import RecordDecoder

T = TypeVar("T")


class CannotShow(CommandError):
    """A record cannot be shown, which ends the command; the records before it were written."""

    def __init__(self, partition: TopicPartition, offset: int, error: ValueError) -> None:
        where = f"{partition.topic}/{partition.partition} @ {offset}"
        super().__init__(f"{where} cannot be shown: {error}; --skip-message-on-error skips it.")
        self.partition = partition
        self.offset = offset


class OutputOptions(Protocol):
    """The options that `consume` and `log cat` share: which records to write, and how."""

    @property
    def format(self) -> str | None: ...

    @property
    def formatter_properties(self) -> Sequence[tuple[str, str]]: ...

    @property
    def key_deserializer(self) -> str | None: ...

    @property
    def value_deserializer(self) -> str | None: ...

    @property
    def key(self) -> str | None: ...

    @property
    def header(self) -> Sequence[tuple[str, str]]: ...

    @property
    def where(self) -> str | None: ...

    @property
    def num(self) -> int | None: ...

    @property
    def raw(self) -> bool: ...

    @property
    def parse_json(self) -> bool: ...

    @property
    def skip_message_on_error(self) -> bool: ...

    @property
    def decode(self) -> str | None: ...

    @property
    def decode_key(self) -> str | None: ...

    @property
    def schema_registry(self) -> str | None: ...


def _writer(
    context: Context, options: OutputOptions, named: str | None, config_file: str | None
) -> tuple[Writer, bool]:
    """The writer, and whether it is the default because no option chose one."""
    properties = [*(read_properties(config_file) if config_file else {}).items()]
    properties += options.formatter_properties
    if options.key_deserializer:
        properties.append(("key.deserializer", options.key_deserializer))
    if options.value_deserializer:
        properties.append(("value.deserializer", options.value_deserializer))
    if (properties or named) and options.format:
        raise Unusable(
            "--property and --formatter are for Apache's formatters; they cannot be combined with "
            "-f."
        )
    if options.parse_json:
        return parsing_writer(options.format), False
    if named:
        return formatter(named, properties), False
    if properties:
        return apache_writer(properties), False
    streams = context.streams
    made = writer(options.format or "value", terminal=streams.out_terminal, width=streams.width)
    return made, not options.format


def _decoder(context: Context, options: OutputOptions) -> "RecordDecoder | None":
    if options.decode is None and options.decode_key is None:
        if options.schema_registry is not None:
            raise Unusable("--schema-registry has no effect without --decode or --decode-key.")
        return None
    from pk.cli.records.schema_records import RecordDecoder

    return RecordDecoder(context, options.decode_key, options.decode, options.schema_registry)


class Output:
    """Writes records to standard output.

    `formatter` is the name of one of Apache's formatter classes, and `formatter_config` a file with
    its properties.
    """

    def __init__(
        self,
        context: Context,
        options: OutputOptions,
        *,
        formatter: str | None = None,
        formatter_config: str | None = None,
    ) -> None:
        self._context = context
        self._writer, bare = _writer(context, options, formatter, formatter_config)
        self._absent = AbsentFields()
        self._filter = record_filter(options.key, options.header, options.where, self._absent)
        self._decodes = not options.raw
        self._pairs = self._decodes and bare
        """Whether to write decoded records with their keys, since their values alone do not say
        what they belong to."""

        self._lenient = options.skip_message_on_error
        self._schemas = _decoder(context, options)
        plain = self._writer.values if isinstance(self._writer, Simple) else None
        self._values = plain if self._filter is None and self._schemas is None else None
        """Writes only values. Set if no other field is needed, since reading only values is much
        faster."""

        self.failures = 0
        """The number of records that could not be shown."""

        self.left = options.num
        self.shown = 0
        self.before_write: Callable[[], None] | None = None
        """Called before records are written, to remove a progress bar from the terminal."""

        self.mid_line = False
        """Whether the last write left the terminal's cursor in the middle of a line."""

        self._terminal = context.streams.out_terminal
        write = context.streams.out.write

        def write_escaped(data: bytes) -> object:
            return write(escaped_bytes(data))

        self._write: Callable[[bytes], object] = write_escaped if self._terminal else write
        self._flush = context.streams.out.flush
        self._head = self._writer.begin()
        self._begun = False

    @property
    def full(self) -> bool:
        return self.left is not None and self.left <= 0

    @property
    def decodes_late(self) -> bool:
        """Whether records are chosen before they are decoded: no filter examines them, and a record
        that cannot be decoded ends the command only if it is chosen."""
        return self._schemas is not None and self._filter is None and not self._lenient

    def _is_internal(self, part: Part) -> bool:
        """Whether pk decodes these records and shows their contents."""
        return self._decodes and part.source.topic in DECODED

    def wanted(self, part: Part) -> Sequence[Record]:
        """The records of `part` that pass the filters; those of internal topics are decoded."""
        source, found = part.source, part.records
        if self._is_internal(part):
            found = decoded(source.topic, found)
        elif self._schemas is not None:
            return list(self._by_schema(source, found, self._schemas))
        if self._filter is not None:
            test = self._filter
            found = [r for r in found if test(source, r)]
        return found

    def _by_schema(
        self, source: Source, found: Iterable[Record], schemas: "RecordDecoder"
    ) -> Iterator[Record]:
        """The records that pass the filters, with JSON for the bytes that their schemas describe.
        Records that cannot be decoded are failures, or are skipped. Each record is decoded only
        when it is requested."""
        for each in found:
            try:
                record = schemas.decoded(each)
            except ValueError as e:
                self._cannot_show(source, each, e)
                continue
            if self._filter is None or self._filter(source, record):
                yield record

    def take(self, parts: Iterable[Part]) -> None:
        """Write the records of `parts` that pass the filters. Raises CommandError, KafkaError."""
        for part in parts:
            if self.full:
                break
            if self._values is not None and not self._is_internal(part):
                self._put(self._values(self._counted(part.values)))
            elif self._schemas is not None and not self._is_internal(part):
                self._put_decodable(part, self._schemas)
            else:
                self.put(part.source, self.wanted(part))
        self._flush()

    def _put_decodable(self, part: Part, schemas: "RecordDecoder") -> None:
        """Write the records of `part` that -n still allows. Decodes no record beyond these, and
        writes those before a record that ends the command."""
        found: list[Record] = []
        try:
            for record in islice(self._by_schema(part.source, part.records, schemas), self.left):
                found.append(record)  # noqa: PERF402 - what came before an error counts
        finally:
            self.put(part.source, found)

    def put(self, source: Source, found: Sequence[Record]) -> None:
        """Write records that `wanted` returned."""
        found = self._counted(found)
        if not found:
            return
        if self._pairs and source.topic in DECODED:
            self._put(pairs(found))
            return
        try:
            data = self._writer.batch(source, found)
        except ValueError:
            for record in found:
                self._put_single(source, record)
        else:
            self._put(data)

    def _counted(self, found: Sequence[T]) -> Sequence[T]:
        if self.left is not None:
            found = found[: self.left]
            self.left -= len(found)
        self.shown += len(found)
        return found

    def _put(self, data: bytes) -> None:
        if not data:
            return
        if self.before_write is not None:
            self.before_write()
        if not self._begun:
            self._begun = True
            self._write(self._head)
        self._write(data)
        if self._terminal:
            self.mid_line = not data.endswith(b"\n")

    def _put_single(self, source: Source, record: Record) -> None:
        try:
            data = self._writer.batch(source, (record,))
        except ValueError as e:
            self._cannot_show(source, record, e)
        else:
            self._put(data)

    def _cannot_show(self, source: Source, record: Record, error: ValueError) -> None:
        if not self._lenient:
            partition = TopicPartition(source.topic, source.partition)
            raise CannotShow(partition, record.offset, error) from None
        self.failures += 1
        self._context.fail(error)
        where = f"{source.topic}/{source.partition} @ {record.offset}"
        self._context.say(f"{where} cannot be shown: {error}.")

    @contextmanager
    def completed(self) -> Generator[None]:
        """Complete the output at the end of the block, even if the block raises."""
        try:
            yield
        except BaseException:
            # BaseException, since an interrupt in one of the client's tasks comes in an exception
            # group
            with suppress(OSError):
                self._break_off()
            raise
        self._end()

    def check_timeout(self, timeout_ms: int | None) -> None:
        """Raise CommandError if a timeout came before all records that -n requests. Otherwise a
        timeout is a success, as in Apache's tool."""
        if self.left:
            wanted = count(self.shown + self.left, "record")
            raise CommandError(
                f"Timed out after {timeout_ms} ms with {self.shown:,} of {wanted}.",
                Exit.TIMED_OUT,
            )

    def _end(self) -> None:
        """Complete the output, even if it is an empty array. On a terminal, print the number of
        records."""
        if not self._begun:
            self._begun = True
            self._write(self._head)
        self._break_off()
        if self._context.streams.err_terminal:
            if self.mid_line:
                self._context.say()
            self._context.say(f"{count(self.shown, 'record')}.")
        if (said := self._absent.sentence(self.shown)) is not None:
            self._context.say(said)

    def _break_off(self) -> None:
        """Complete the output written so far, so that it is valid. Writes nothing if there is
        none."""
        if self._begun:
            end = self._writer.end()
            self._write(end)
            if end and self._terminal:
                self.mid_line = not end.endswith(b"\n")
            self._flush()
