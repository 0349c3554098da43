"""`pk share-consume`: shows records as a member of a share group, and acknowledges each once it was
written.

A record that cannot be shown is given back to the group, or rejected with --skip-message-on-error.
When the command ends, also by an interrupt, what was shown counts, and what was not goes back to
the group at once.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import trio

from pk.cli.cluster.topics import existing_topics
from pk.cli.exits import Unusable
from pk.cli.phrases import join
from pk.cli.records.output import Output
from pk.cli.records.permalinks import profile_of
from pk.cli.records.range_reader import Part, silence_limit
from pk.cli.records.source import Source
from pk.cli.runtime.client_config import client_config
from pk.cli.runtime.context import Context
from pk.core.record.batch import Record
from pk.net.client.config import ShareConsumerConfig
from pk.net.client.share_consumer import (
    AcknowledgeType,
    ShareConsumer,
    ShareRecord,
    open_share_consumer,
)

if TYPE_CHECKING:
    from pk.cli.nouns.share_consume.options import ShareConsume

_IDLE_POLL_MS = 1000
"""How long to poll if the command need not stop."""

_QUIET_S = 3.0
"""After so long without a record, a terminal shows what the command waits for."""


class _Shown(NamedTuple):
    """What `Output` wants to know of `pk share-consume`'s options: nothing is filtered, what is
    taken is shown."""

    format: str | None
    formatter_properties: Sequence[tuple[str, str]]
    num: int | None
    skip_message_on_error: bool
    parse_json: bool
    key_deserializer: str | None = None
    value_deserializer: str | None = None
    key: str | None = None
    header: Sequence[tuple[str, str]] = ()
    where: str | None = None
    raw: bool = False
    decode: str | None = None
    decode_key: str | None = None
    schema_registry: str | None = None


async def share_consume(context: Context, options: "ShareConsume") -> None:
    """`pk share-consume`."""
    topics = tuple(dict.fromkeys((*options.topic, *options.topics)))
    if not topics:
        raise Unusable("Name a topic.")
    if options.release and options.reject:
        raise Unusable("--release and --reject exclude each other.")
    context.allow()  # records taken here are kept from others
    context.about = ShareConsumerConfig
    output = Output(
        context,
        _Shown(
            options.format,
            options.formatter_properties,
            options.num,
            options.skip_message_on_error,
            options.parse_json,
        ),
    )
    admin = await context.admin()
    await existing_topics(context, admin, topics)
    config = client_config(ShareConsumerConfig, context.settings, {})
    config["group.id"] = options.group
    config["share.acknowledgement.mode"] = "explicit"
    config["share.acquire.mode"] = "record_limit" if options.num else "batch_optimized"
    with output.completed():
        async with open_share_consumer(context.settings.bootstrap, config) as consumer:
            consumer.subscribe(topics)
            timed_out = await _read(context, options, consumer, output)
    if timed_out:
        output.check_timeout(options.timeout_ms)


async def _read(
    context: Context, options: "ShareConsume", consumer: ShareConsumer, output: Output
) -> bool:
    """Shows records until there are enough; returns whether --timeout-ms ended it."""
    timeout_ms = silence_limit(options.timeout_ms)
    kind = AcknowledgeType.ACCEPT
    if options.release:
        kind = AcknowledgeType.RELEASE
    elif options.reject:
        kind = AcknowledgeType.REJECT
    profile = profile_of(context.settings)
    last, said = trio.current_time(), False
    while not output.full:
        wait_ms = min(timeout_ms or _IDLE_POLL_MS, _IDLE_POLL_MS)
        found = await consumer.poll(timeout_ms=wait_ms, records_max=output.left)
        for record in found:
            _show(consumer, output, record, kind, profile, lenient=options.skip_message_on_error)
        now = trio.current_time()
        if found:
            last = now
        elif timeout_ms is not None and (now - last) * 1000 >= timeout_ms:
            return True
        elif not said and not output.shown and now - last >= _QUIET_S:
            said = True
            _say_waiting(context, options, consumer)
    return False


def _show(
    consumer: ShareConsumer,
    output: Output,
    record: ShareRecord,
    kind: AcknowledgeType,
    profile: str | None,
    *,
    lenient: bool,
) -> None:
    """Writes a record, then acknowledges it."""
    source = Source(
        record.topic,
        record.partition,
        max(record.timestamp_type, 0),
        record.leader_epoch,
        profile,
    )
    row = Record(record.offset, record.timestamp, record.key, record.value, record.headers)
    shown = output.failures
    try:
        output.take([Part(source, (row,))])
    except BaseException:
        consumer.acknowledge(record, AcknowledgeType.RELEASE)
        raise
    failed = output.failures > shown
    consumer.acknowledge(record, AcknowledgeType.REJECT if lenient and failed else kind)


def _say_waiting(context: Context, options: "ShareConsume", consumer: ShareConsumer) -> None:
    """Tells a user what the command is waiting for."""
    if not context.streams.err_terminal:
        return
    if not consumer.assignment:
        context.say(f"Waiting for group {options.group} to assign partitions. Ctrl-C stops.")
        return
    topics = join(sorted({tp.topic for tp in consumer.assignment}), 3)
    context.say(
        f"Waiting for records of {topics} that no other member of group {options.group} holds. "
        "Ctrl-C stops."
    )
