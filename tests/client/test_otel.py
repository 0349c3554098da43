"""Spans of sent and received records, and the context that travels with a record."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import trio
from clients.fixtures import Kafka
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from pk.client import (
    KafkaError,
    NewTopic,
    TopicPartition,
    TypedConsumer,
    aio,
    blocking,
    open_consumer,
    open_producer,
)
from pk.client.otel import Tracing

Fresh = Callable[[str], str]

EARLIEST = {"auto.offset.reset": "earliest"}


@pytest.fixture
def topic(kafka: Kafka, fresh: Fresh) -> str:
    name = fresh("traces")
    with blocking.open_admin(kafka.bootstrap) as admin:
        admin.create_topics([NewTopic(name, 1)]).value(name)
    return name


class Traces:
    """A tracer whose spans the test reads."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = provider.get_tracer("test")
        group = {"messaging.consumer.group.name": "billing"}
        self.tracing = Tracing(group, tracer_provider=provider)

    def spans(self, topic: str) -> dict[str, ReadableSpan]:
        """The spans that have ended, by name, the topic replaced by TOPIC."""
        return {
            span.name.replace(topic, "TOPIC"): span for span in self._exporter.get_finished_spans()
        }


def trace_id(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.trace_id


def check(traces: Traces, topic: str) -> None:
    """One record was sent in the span `request`, read, and processed."""
    spans = traces.spans(topic)
    assert set(spans) == {"request", "send TOPIC", "poll TOPIC", "process TOPIC"}
    send, poll, process = spans["send TOPIC"], spans["poll TOPIC"], spans["process TOPIC"]
    common = {
        "messaging.system": "kafka",
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": "0",
        "messaging.consumer.group.name": "billing",
    }
    one = {"messaging.kafka.message.key": "alice", "messaging.kafka.offset": 0}
    assert dict(send.attributes or {}) == common | one | {
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
    }
    assert dict(poll.attributes or {}) == common | {
        "messaging.operation.name": "poll",
        "messaging.operation.type": "receive",
        "messaging.batch.message_count": 1,
    }
    assert dict(process.attributes or {}) == common | one | {
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
    }
    kinds = (send.kind, poll.kind, process.kind)
    assert kinds == (SpanKind.PRODUCER, SpanKind.CLIENT, SpanKind.CONSUMER)
    request = spans["request"].context
    assert request is not None and send.parent is not None
    assert send.parent.span_id == request.span_id
    assert [link.context.span_id for link in poll.links] == [send.context.span_id]  # pyright: ignore[reportOptionalMemberAccess]
    assert process.parent is not None and send.context is not None
    assert process.parent.span_id == send.context.span_id
    assert trace_id(process) == trace_id(send) == trace_id(spans["request"])
    assert poll.start_time is not None and poll.end_time is not None
    assert poll.start_time <= poll.end_time


def test_blocking(kafka: Kafka, topic: str) -> None:
    traces = Traces()
    tracing = traces.tracing
    with (
        blocking.open_producer(kafka.bootstrap, on_send=tracing.on_send) as producer,
        traces.tracer.start_as_current_span("request"),
    ):
        producer.send(topic, b"1", key=b"alice")
    with blocking.open_consumer(
        kafka.bootstrap, EARLIEST, on_records=tracing.on_records
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        for record in consumer.poll():
            with tracing.processing(record) as span:
                assert trace.get_current_span() is span
    check(traces, topic)


def test_on_asyncio(kafka: Kafka, topic: str) -> None:
    traces = Traces()
    tracing = traces.tracing

    async def main() -> None:
        async with aio.open_producer(kafka.bootstrap, on_send=tracing.on_send) as producer:
            with traces.tracer.start_as_current_span("request"):
                await producer.send(topic, b"1", key=b"alice")
        async with aio.open_consumer(
            kafka.bootstrap, EARLIEST, on_records=tracing.on_records
        ) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            async for record in consumer:
                with tracing.processing(record):
                    break

    asyncio.run(main())
    check(traces, topic)


def test_on_trio_with_typed_records(kafka: Kafka, topic: str) -> None:
    traces = Traces()
    tracing = traces.tracing

    async def main() -> None:
        async with open_producer(kafka.bootstrap, on_send=tracing.on_send) as producer:
            with traces.tracer.start_as_current_span("request"):
                await producer.send(topic, b"1", key=b"alice")
        async with open_consumer(
            kafka.bootstrap, EARLIEST, on_records=tracing.on_records
        ) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            for record in await TypedConsumer(consumer, key=bytes.decode, value=int).poll():
                with tracing.processing(record):
                    await trio.lowlevel.checkpoint()

    trio.run(main)
    check(traces, topic)


def test_a_context_that_the_program_has_put_into_a_record_stays(kafka: Kafka, topic: str) -> None:
    traces = Traces()
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    headers = [("traceparent", parent.encode())]
    with blocking.open_producer(kafka.bootstrap, on_send=traces.tracing.on_send) as producer:
        producer.send(topic, None, key=b"\xff", headers=headers)
    send = traces.spans(topic)["send TOPIC"]
    assert [link.context.span_id for link in send.links] == [0xB7AD6B7169203331]
    attributes = send.attributes or {}
    assert attributes["messaging.kafka.message.tombstone"] is True
    assert "messaging.kafka.message.key" not in attributes
    with blocking.open_consumer(kafka.bootstrap, EARLIEST) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert consumer.poll()[0].headers == tuple(headers)


def test_errors_are_on_the_spans(kafka: Kafka, topic: str) -> None:
    traces = Traces()
    config = {"max.request.size": 1000}
    tracing = traces.tracing
    with blocking.open_producer(kafka.bootstrap, config, on_send=tracing.on_send) as producer:
        with pytest.raises(KafkaError):
            producer.send(topic, b"x" * 2000).result()
        producer.send(topic, b"1")
    assert [
        (span.attributes or {}).get("error.type")
        for span in traces._exporter.get_finished_spans()  # pyright: ignore[reportPrivateUsage]
    ] == ["MESSAGE_TOO_LARGE", None]
    with blocking.open_consumer(kafka.bootstrap, EARLIEST) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        (record,) = consumer.poll()
        with pytest.raises(ZeroDivisionError), tracing.processing(record):
            raise ZeroDivisionError
    process = traces.spans(topic)["process TOPIC"]
    assert (process.attributes or {})["error.type"] == "ZeroDivisionError"
    assert not process.status.is_ok
