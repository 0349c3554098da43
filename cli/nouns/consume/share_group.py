"""`pk consume --share`: shows records as a member of a share group, and acknowledges each once it
has been written.

A record that cannot be shown is given back to the group, or rejected with --skip-message-on-error.
When the command ends, even by an interrupt, the records that were shown are acknowledged, and the
others are released immediately.
"""

from typing import TYPE_CHECKING, Final

import trio

from pk.cli.cluster.topics import existing_topics
from pk.cli.exits import Unusable
from pk.cli.nouns.consume.group_type import joining
from pk.cli.phrases import join
from pk.cli.records.output import Output
from pk.cli.records.permalinks import profile_of
from pk.cli.records.range_reader import Part, silence_limit
from pk.cli.records.source import Source
from pk.cli.runtime.client_config import client_config
from pk.cli.runtime.context import Context
from pk.cli.runtime.guards import applying_profile
from pk.core.record.batch import Record
from pk.net.client.config import ShareConsumerConfig
from pk.net.client.share_consumer import (
    AcknowledgeType,
    ShareConsumer,
    ShareRecord,
    open_share_consumer,
)

if TYPE_CHECKING:
    from pk.cli.nouns.consume.options import Consume

_IDLE_POLL_MS = 1000
"""How long to poll if the command has no reason to stop."""

_QUIET_S = 3.0
"""After this many seconds without a record, the command says on a terminal why it waits."""


_GROUP: Final = "console-share-consumer"
"""The group if -g is not given, as in Apache's tool."""

_NOT_FOR_SHARE_GROUPS: Final = (
    "offset",
    "from_beginning",
    "partitions",
    "tail",
    "follow",
    "merge",
    "exit",
    "include",
    "key",
    "key_partition",
    "header",
    "where",
    "isolation_level",
)
"""Options that choose records. In a share group, the coordinator chooses them, and a record that
this member skipped would still be withheld from the others."""


async def consume_in_share_group(context: Context, options: "Consume") -> None:
    """Run `pk consume --share`."""
    unfit = next((name for name in _NOT_FOR_SHARE_GROUPS if context.given(name)), None)
    if unfit is not None:
        said = f"--{unfit.replace('_', '-')} cannot be combined with --share"
        if unfit in ("offset", "from_beginning"):
            said += (
                "; `pk configs alter group GROUP -c share.auto.offset.reset=earliest` makes a new "
                "group begin with the first record"
            )
        raise Unusable(f"{said}.")
    topics = tuple(dict.fromkeys((*options.topic, *options.topics)))
    if not topics:
        raise Unusable("Name a topic.")
    if options.release and options.reject:
        raise Unusable("--release and --reject cannot be combined.")
    group = options.group or _GROUP
    context.about = ShareConsumerConfig
    output = Output(
        context,
        options,
        formatter=options.formatter,
        formatter_config=options.formatter_config,
    )
    config = client_config(ShareConsumerConfig, context.settings, {})
    config["group.id"] = group
    config["share.acknowledgement.mode"] = "explicit"
    config["share.acquire.mode"] = "record_limit" if options.num else "batch_optimized"
    with output.completed():
        async with applying_profile(context):
            context.allow()  # records acquired here are withheld from others
            await existing_topics(context, await context.admin(), topics)
            async with (
                joining(context, group, share=True),
                open_share_consumer(context.settings.bootstrap, config) as consumer,
            ):
                consumer.subscribe(topics)
                timed_out = await _read(context, options, group, consumer, output)
    if timed_out:
        output.check_timeout(options.timeout_ms)


async def _read(
    context: Context, options: "Consume", group: str, consumer: ShareConsumer, output: Output
) -> bool:
    """Show records until there are enough. Returns whether --timeout-ms ended it."""
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
            _say_waiting(context, group, consumer)
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
    """Write a record, then acknowledge it."""
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


def _say_waiting(context: Context, group: str, consumer: ShareConsumer) -> None:
    """Tell a user what the command is waiting for."""
    if not context.streams.err_terminal:
        return
    if not consumer.assignment:
        context.say(f"Waiting for group {group} to assign partitions. Ctrl-C stops.")
        return
    topics = join(sorted({tp.topic for tp in consumer.assignment}), 3)
    context.say(
        f"Waiting for records of {topics} that no other member of group {group} holds. A new group "
        f"begins with records written from now on; `pk groups reset-offsets {group} --to start`, "
        "without members, makes it begin with the first. Ctrl-C stops."
    )
