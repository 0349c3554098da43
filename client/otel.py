"""Traces of OpenTelemetry for producers and consumers (extra `otel`).

    tracing = Tracing()
    with open_producer("localhost:9092", on_send=tracing.on_send) as producer:
        producer.send("orders", b"one")
    with open_consumer("localhost:9092", config, on_records=tracing.on_records) as consumer:
        for record in consumer:
            with tracing.processing(record):
                ...

Names are those of the semantic conventions 1.44 for Kafka. A record carries its context in its
headers, as the program's propagator writes it (`traceparent` by default).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final, Protocol

from opentelemetry import context as contexts
from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter, Setter, TextMapPropagator
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
from opentelemetry.util.types import AttributeValue

from pk.core import __version__
from pk.core.errors import KafkaError
from pk.net.client.delivery import OnSettled, OutgoingRecord, RecordMetadata

__all__ = ["Tracing"]

_SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.44.0"

Headers = Sequence[tuple[str, bytes | None]]
Attributes = dict[str, AttributeValue]


class ReceivedRecord(Protocol):
    """A record of any kind of consumer, typed or not."""

    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> object: ...
    @property
    def value(self) -> object: ...
    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]: ...
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...


class Tracing:
    """Creates spans for the records that producers send and consumers receive. An object serves any
    number of clients, on trio, on asyncio and blocking."""

    def __init__(
        self,
        attributes: Mapping[str, AttributeValue] | None = None,
        *,
        tracer_provider: trace.TracerProvider | None = None,
        propagator: TextMapPropagator | None = None,
    ) -> None:
        """Initialize the tracing. `attributes` are added to each span, for example
        `messaging.consumer.group.name`. `tracer_provider` and `propagator` default to those of the
        program."""
        self._attributes: Attributes = {"messaging.system": "kafka", **(attributes or {})}
        self._tracer = trace.get_tracer("pk.client", __version__, tracer_provider, _SCHEMA_URL)
        self._propagator = propagator

    def on_send(self, record: OutgoingRecord) -> OnSettled:
        """Start the span `send TOPIC` of a record, for `open_producer`. It lasts from the call of
        `send` until the record is acknowledged or has failed, and its context is added to the
        record's headers. A record whose headers have a context keeps it, and the span links to
        it."""
        attributes = self._of("send", "send", record.topic)
        attributes |= _of_record(record.key, record.value)
        created = trace.get_current_span(self._extract(record.headers)).get_span_context()
        links = [Link(created)] if created.is_valid else []
        kind = SpanKind.CLIENT if links else SpanKind.PRODUCER
        span = self._tracer.start_span(
            f"send {record.topic}", kind=kind, attributes=attributes, links=links
        )
        if not links:
            context = trace.set_span_in_context(span)
            propagator = self._propagator or propagate.get_global_textmap()
            propagator.inject(record.headers, context, _SETTER)

        def settled(result: RecordMetadata | BaseException) -> None:
            if isinstance(result, BaseException):
                _failed(span, result)
            else:
                span.set_attribute("messaging.destination.partition.id", str(result.partition))
                if result.offset >= 0:
                    span.set_attribute("messaging.kafka.offset", result.offset)
            span.end()

        return settled

    def on_records(self, records: Sequence[ReceivedRecord], start_ns: int) -> None:
        """Create the span `poll TOPIC` of a poll that returned records, for `open_consumer` and
        `open_share_consumer`. It links to the context of each record."""
        topics = {record.topic for record in records}
        topic = records[0].topic if len(topics) == 1 else None
        attributes = self._of("poll", "receive", topic)
        attributes["messaging.batch.message_count"] = len(records)
        partitions = {(record.topic, record.partition) for record in records}
        if len(partitions) == 1:
            attributes["messaging.destination.partition.id"] = str(records[0].partition)
        links: list[Link] = []
        for record in records:
            created = trace.get_current_span(self._extract(record.headers)).get_span_context()
            if created.is_valid:
                links.append(Link(created, {"messaging.kafka.offset": record.offset}))
        name = "poll" if topic is None else f"poll {topic}"
        span = self._tracer.start_span(
            name, kind=SpanKind.CLIENT, attributes=attributes, links=links, start_time=start_ns
        )
        span.end()

    @contextmanager
    def processing(self, record: ReceivedRecord) -> Generator[Span]:
        """Process a record in a block with a span `process TOPIC`, which is the current span in the
        block. The span links to the context of the record. If no span was current, it continues the
        record's trace."""
        extracted = self._extract(record.headers)
        created = trace.get_current_span(extracted).get_span_context()
        attributes = self._of("process", "process", record.topic)
        attributes |= _of_record(record.key, record.value)
        attributes["messaging.destination.partition.id"] = str(record.partition)
        attributes["messaging.kafka.offset"] = record.offset
        current = trace.get_current_span()
        parent = None if current.get_span_context().is_valid else extracted
        span = self._tracer.start_span(
            f"process {record.topic}",
            context=parent,
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            links=[Link(created)] if created.is_valid else [],
        )
        token = contexts.attach(trace.set_span_in_context(span, parent))
        try:
            yield span
        except BaseException as e:
            _failed(span, e)
            raise
        finally:
            contexts.detach(token)
            span.end()

    def _of(self, name: str, kind: str, topic: str | None) -> Attributes:
        attributes = self._attributes | {
            "messaging.operation.name": name,
            "messaging.operation.type": kind,
        }
        if topic is not None:
            attributes["messaging.destination.name"] = topic
        return attributes

    def _extract(self, headers: Headers) -> Context:
        propagator = self._propagator or propagate.get_global_textmap()
        return propagator.extract(headers, Context(), _GETTER)


def _of_record(key: object, value: object) -> Attributes:
    attributes: Attributes = {}
    if isinstance(key, bytes):
        with suppress(UnicodeDecodeError):  # omit a key without a canonical text
            attributes["messaging.kafka.message.key"] = key.decode()
    elif isinstance(key, str):
        attributes["messaging.kafka.message.key"] = key
    if value is None:
        attributes["messaging.kafka.message.tombstone"] = True
    return attributes


def _failed(span: Span, error: BaseException) -> None:
    kind = error.name if isinstance(error, KafkaError) else type(error).__name__
    span.set_attribute("error.type", kind)
    span.record_exception(error)
    span.set_status(Status(StatusCode.ERROR, str(error)))


class _HeaderGetter(Getter[Headers]):
    def get(self, carrier: Headers, key: str) -> list[str] | None:
        found = [value for name, value in carrier if name == key and value is not None]
        return [value.decode("utf-8", "replace") for value in found] or None

    def keys(self, carrier: Headers) -> list[str]:
        return [name for name, _ in carrier]


class _HeaderSetter(Setter[list[tuple[str, bytes | None]]]):
    def set(self, carrier: list[tuple[str, bytes | None]], key: str, value: str) -> None:
        carrier.append((key, value.encode()))


_GETTER: Final = _HeaderGetter()
_SETTER: Final = _HeaderSetter()
