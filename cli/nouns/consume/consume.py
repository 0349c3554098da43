"""`pk consume`: writes records to standard output.

It joins a group only with -g. Without -g, or if -g only supplies the commits for a position, it
reads the partitions directly. A range ends by itself; otherwise the command runs until it is
interrupted.
"""

from contextlib import aclosing
from typing import TYPE_CHECKING

from pk.cli.exits import Unusable
from pk.cli.nouns.consume.consumer_config import consumer_config, default_isolation
from pk.cli.nouns.consume.group_member import consume_in_group
from pk.cli.nouns.consume.group_type import joining
from pk.cli.nouns.consume.later_partitions import LaterPartitions
from pk.cli.nouns.consume.partitions import partitions_of, spans_of, without_leaderless
from pk.cli.nouns.consume.request import Request, request_of
from pk.cli.phrases import join
from pk.cli.records.idle_reason import Silence
from pk.cli.records.internal_topics import DECODED
from pk.cli.records.output import Output
from pk.cli.records.permalinks import SCHEME, profile_of
from pk.cli.records.range_reader import Part, RangeReader, Span, last_records, merged
from pk.cli.runtime.context import Context
from pk.cli.runtime.guards import applying_profile
from pk.cli.runtime.progress import Progress
from pk.core.errors import ErrorCode, KafkaError
from pk.net.client.config import ConsumerConfig, parse
from pk.net.client.consumer import open_consumer
from pk.net.client.results import IsolationLevel

if TYPE_CHECKING:
    from pk.cli.nouns.consume.options import Consume


async def consume(context: Context, options: "Consume") -> int | None:
    """Run `pk consume`."""
    if options.share:
        from pk.cli.nouns.consume.share_group import consume_in_share_group

        return await consume_in_share_group(context, options)
    if options.release or options.reject:
        raise Unusable("--release and --reject are for share groups; add --share.")
    if any(word.startswith(SCHEME) for word in options.topic):
        from pk.cli.nouns.consume.permalinks import consume_links

        return await consume_links(context, options)
    request = request_of(options)
    context.about = ConsumerConfig
    output = Output(
        context,
        options,
        formatter=options.formatter,
        formatter_config=options.formatter_config,
    )
    reset = request.reset if request.joins else None
    config = consumer_config(context, options, default_isolation(options), reset)
    with output.completed():
        async with applying_profile(context):
            if request.joins:
                async with joining(context, str(options.group), share=False):
                    timed_out = await consume_in_group(context, request, config, output)
            else:
                timed_out = await _consume_spans(context, request, config, output)
    if timed_out:
        output.check_timeout(options.timeout_ms)
    return None


async def _consume_spans(
    context: Context, request: Request, config: dict[str, object], output: Output
) -> bool:
    """Read partitions without a group. Returns whether --timeout-ms ended it."""
    options = request.options
    isolation = IsolationLevel[parse(ConsumerConfig, config).isolation_level.upper()]
    known = await partitions_of(context, request)
    endless = options.follow or not request.positions.bounded
    readable = without_leaderless(context, known, endless=endless)
    spans = await spans_of(context, request, isolation, readable)
    async with open_consumer(context.settings.bootstrap, config) as consumer:
        profile = profile_of(context.settings)
        if options.tail is not None:
            late = output.decodes_late and not any(tp.topic in DECODED for tp in spans)
            wanted = None if late else output.wanted
            last, timed_out = await last_records(
                consumer, spans, options.tail, wanted, profile, request.timeout_ms
            )
            for source, record in last:
                if late:
                    output.take((Part(source, (record,)),))
                else:
                    output.put(source, (record,))
            context.streams.out.flush()
            if timed_out or not options.follow:
                return timed_out
            spans = {tp: Span(span.end or 0, None) for tp, span in spans.items()}
        reader = RangeReader(consumer, spans, profile, silence_ms=request.timeout_ms)
        _say_waiting(context, options, reader)
        if options.merge:
            return await _read_merged(context, reader, output)
        waiting = {tp: lead.epoch for tp, lead in known.items() if tp not in spans}
        later = LaterPartitions(context, request, reader, isolation, waiting if endless else {})
        return await _read(context, reader, output, later)


def _say_waiting(context: Context, options: "Consume", reader: RangeReader) -> None:
    """Tell a user who gave no position what the command is waiting for."""
    if options.offset or options.from_beginning or reader.bounded:
        return
    if not context.streams.err_terminal:
        return
    topics = join(sorted({tp.topic for tp in reader.spans}), 3)
    context.say(f"Waiting for new records of {topics}; -o start shows all. Ctrl-C stops.")


async def _read(
    context: Context,
    reader: RangeReader,
    output: Output,
    later: LaterPartitions,
) -> bool:
    """Read the partitions. Returns whether the timeout ended it."""
    silence = Silence(context, reader.consumer)
    with _progress(context, reader, output) as progress:
        while (reader.open or later.waiting) and not output.full:
            parts = await reader.parts()
            output.take(parts)
            _show_progress(progress, reader, output)
            await silence.look(bool(parts))
            await later.check()
            if reader.timed_out:
                if later.waiting:
                    context.fail(KafkaError(ErrorCode.LEADER_NOT_AVAILABLE))
                return True
    return False


async def _read_merged(context: Context, reader: RangeReader, output: Output) -> bool:
    """Read the partitions by time. Returns whether the timeout ended it."""
    silence = Silence(context, reader.consumer)
    with _progress(context, reader, output) as progress:
        async with aclosing(merged(reader)) as rounds:
            async for parts in rounds:
                output.take(parts)
                await silence.look(bool(parts))
                _show_progress(progress, reader, output)
                if output.full:
                    break
    return reader.timed_out


def _progress(context: Context, reader: RangeReader, output: Output) -> Progress:
    total = reader.total if reader.bounded else 0
    progress = Progress(context, "Reading", total, unit="offsets", over_output=True)
    output.before_write = context.clear_status
    return progress


def _show_progress(progress: Progress, reader: RangeReader, output: Output) -> None:
    if reader.bounded and not output.mid_line:
        progress.update(reader.done, f"{output.shown:,} shown", bytes_done=reader.bytes_read)
