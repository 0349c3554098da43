"""`pk consume pk://…`: the records that permalinks name."""

from dataclasses import replace
from typing import TYPE_CHECKING

from pk.cli.cluster.topics import check_partitions, existing_topics
from pk.cli.exits import CommandError, Exit, Unusable
from pk.cli.nouns.consume.consumer_config import consumer_config
from pk.cli.records.output import Output
from pk.cli.records.permalinks import Link, parse_link, profile_of
from pk.cli.records.range_reader import RangeReader, Span, silence_limit
from pk.cli.runtime.context import Context
from pk.cli.runtime.guards import applying_profile
from pk.cli.runtime.settings import settings_of
from pk.core.values import TopicPartition
from pk.net.client.config import ConsumerConfig
from pk.net.client.consumer import Consumer, open_consumer

if TYPE_CHECKING:
    from pk.cli.nouns.consume.options import Consume

_ELSEWHERE = {
    "offset": "--offset",
    "from_beginning": "--from-beginning",
    "tail": "--tail",
    "follow": "--follow",
    "merge": "--merge",
    "group": "--group",
    "partitions": "--partitions",
    "key_partition": "--key-partition",
    "include": "--include",
    "exit": "--exit",
    "topics": "--topic",
}
"""Options that also say what to read, and therefore conflict with a permalink."""


def _links(context: Context, options: "Consume") -> list[Link]:
    """The permalinks of the command line. Raises Unusable."""
    try:
        links = [parse_link(word) for word in options.topic]
    except ValueError as e:
        raise Unusable(f"{e}.") from None
    for dest, name in _ELSEWHERE.items():
        if context.given(dest):
            raise Unusable(f"A permalink says what to read; {name} cannot be combined with it.")
    if len({link.profile for link in links}) > 1:
        raise Unusable(
            "These links belong to several profiles; read one profile's links at a time."
        )
    return links


def _use_profile(context: Context, name: str | None) -> None:
    """Choose the profile of the links, without asking for secrets of another profile. Raises
    Unusable if the profile does not exist, or --profile names another."""
    if name is None:
        return
    connection = context.connection
    if connection.profile not in (None, name):
        raise Unusable(f"The link belongs to profile {name}, not to {connection.profile}.")
    if context.chosen is None or profile_of(context.chosen) != name:
        context.use(settings_of(replace(connection, profile=name)))


async def consume_links(context: Context, options: "Consume") -> int:
    """Show the record of each link, in order. A record that no longer exists is reported and fails
    the command."""
    links = _links(context, options)
    _use_profile(context, links[0].profile)
    context.about = ConsumerConfig
    async with applying_profile(context):
        return await _show_all(context, options, links)


async def _show_all(context: Context, options: "Consume", links: list[Link]) -> int:
    output = Output(
        context,
        options,
        formatter=options.formatter,
        formatter_config=options.formatter_config,
    )
    topics = {link.topic for link in links}
    admin = await context.admin()
    described = {t.name: t for t in await existing_topics(context, admin, sorted(topics))}
    # A link names one record, which may be shown even if its transaction was aborted.
    config = consumer_config(context, options, "read_uncommitted")
    silence_ms = silence_limit(options.timeout_ms)
    with output.completed():
        async with open_consumer(context.settings.bootstrap, config) as consumer:
            for link in links:
                check_partitions(described[link.topic], [link.partition])
                try:
                    await _show(consumer, link, output, profile_of(context.settings), silence_ms)
                except _NoRecord as e:
                    context.failed(e, f"{link.topic}/{link.partition}")
    return 0


class _NoRecord(CommandError):
    """The record of a link does not exist, for the reason `why`."""

    def __init__(self, link: Link, why: str, code: Exit = Exit.FAILED) -> None:
        super().__init__(f"there is no record at offset {link.offset}: {why}", code)


async def _show(
    consumer: Consumer, link: Link, output: Output, profile: str | None, silence_ms: int | None
) -> None:
    """Show one record. Raises _NoRecord."""
    tp = TopicPartition(link.topic, link.partition)
    starts = await consumer.beginning_offsets([tp])
    ends = await consumer.end_offsets([tp])
    start, end = starts.value(tp), ends.value(tp)
    if link.offset < start.offset:
        raise _NoRecord(link, f"the partition now begins at {start.offset}.")
    if link.offset >= end.offset:
        raise _NoRecord(link, f"the partition ends before {end.offset}.")
    span = Span(link.offset, link.offset + 1)
    reader = RangeReader(consumer, {tp: span}, profile, silence_ms=silence_ms)
    found = False
    while reader.open and not reader.timed_out:
        for part in await reader.parts():
            found = True
            output.take([part])
    if found:
        return
    if reader.timed_out:
        raise _NoRecord(link, f"none arrived within {silence_ms} ms.", Exit.TIMED_OUT)
    raise _NoRecord(link, "it was removed by compaction, or it is a transaction marker.")
