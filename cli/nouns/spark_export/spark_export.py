"""`pk spark-export`: exports a topic to parquet files. `pk.spark.exporter` does the work; this module has the options, the
progress bar and the summary."""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pk.cli.cluster.topics import existing_topics, is_unknown, unknown_topic
from pk.cli.nouns.spark_export.rows import ExportPlanRow, ExportRow
from pk.cli.output.rows import listing
from pk.cli.positions.grammar import END, START, Positions, Range, everywhere
from pk.cli.positions.lookup import check_group, resolve_positions, say_uncommitted
from pk.cli.positions.resolve import positions_option
from pk.cli.runtime.client_config import client_config
from pk.cli.runtime.connect import run
from pk.cli.runtime.context import Context, count, join
from pk.cli.runtime.exits import CommandError, Refused, Unusable
from pk.cli.terminal.progress import Progress
from pk.core.errors import KafkaError
from pk.core.values import TopicPartition
from pk.net.client.admin import Admin
from pk.net.client.config import ConsumerConfig

if TYPE_CHECKING:
    from pk.cli.nouns.spark_export.options import SparkExport


def _positions(options: "SparkExport") -> Positions:
    """What to export: a single position is the start, and the end is the current one. Raises Unusable."""
    text = options.offset
    if text is None:
        check_group(None, options.group)
        return everywhere(START, END)
    positions = positions_option(text, "-o")
    check_group(positions, options.group)

    def ended(asked: Range) -> Range:
        return asked if asked.end is not None else asked._replace(end=END)

    return Positions(
        ended(positions.everywhere) if positions.everywhere else None,
        {p: ended(asked) for p, asked in positions.by_partition.items()},
    )


async def _resolved(
    context: Context,
    admin: Admin,
    positions: Positions,
    partitions: Sequence[TopicPartition],
    group: str | None,
) -> Mapping[TopicPartition, tuple[int, int | None]]:
    ranges = await resolve_positions(context, admin, positions, partitions, group=group)
    say_uncommitted(context, ranges, group)
    found: dict[TopicPartition, tuple[int, int | None]] = {}
    for tp, span in ranges.items():
        if isinstance(span, Exception):
            raise span
        found[tp] = (span.begin, span.end)
    return found


async def _show_plan(context: Context, options: "SparkExport") -> None:
    admin = await context.admin()
    (topic,) = await existing_topics(context, admin, [options.topic])
    tps = [TopicPartition(topic.name, p.partition) for p in topic.partitions]
    found = await _resolved(context, admin, _positions(options), tps, options.group)
    rows: list[ExportPlanRow] = [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "begin": begin,
            "end": end,
            "offsets": (end or 0) - begin,
        }
        for tp, (begin, end) in found.items()
    ]
    context.show(listing(ExportPlanRow, rows))
    context.say("Nothing was written.")


async def _ask(context: Context, options: "SparkExport") -> None:
    await context.agree(f"Replace the contents of {options.to}?", name=options.topic)


def export(context: Context, options: "SparkExport") -> None:
    """`pk spark-export`."""
    if options.to is None:
        raise Unusable("Give the directory for the files: --to DIR.")
    if options.resume and options.overwrite:
        raise Unusable(
            "--resume continues the export in DIR, --overwrite replaces it; give only one."
        )
    positions = _positions(options)
    context.about = ConsumerConfig
    if context.change.dry_run:
        run(partial(_show_plan, options=options), context)
        return
    if options.overwrite and os.path.isdir(options.to) and os.listdir(options.to):
        run(partial(_ask, options=options), context)
    _export(context, options, Path(options.to), positions)


def _export(
    context: Context, options: "SparkExport", directory: Path, positions: Positions
) -> None:
    try:
        from pk.spark import errors, exporter
    except ModuleNotFoundError as e:
        raise CommandError(
            f"Spark is not installed ({e.name} is missing): pip install 'pk-broker[spark]'."
        ) from None

    async def resolve(
        admin: Admin, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, tuple[int, int | None]]:
        return await _resolved(context, admin, positions, partitions, options.group)

    export_options = exporter.ExportOptions(
        bootstrap=context.settings.bootstrap,
        topic=options.topic,
        directory=directory,
        client={k: str(v) for k, v in client_config(ConsumerConfig, context.settings, {}).items()},
        mode="resume" if options.resume else "overwrite" if options.overwrite else "new",
        key=options.key,
        value=options.value,
        key_schema=options.key_schema,
        value_schema=options.value_schema,
        codec=options.compression,
        cores=options.cores,
        fail_on_data_loss=not options.allow_data_loss,
        resolve=resolve if options.offset is not None else None,
    )
    with Progress(context, f"Exporting {options.topic}", 0) as bar:

        def show_progress(state: exporter.Progress) -> None:
            bar.update(state.records, state.stage, total=state.offsets)

        try:
            summary = exporter.export(export_options, show_progress)
        except errors.DirectoryRefused as e:
            raise Refused(_sentence(e)) from e
        except errors.OptionError as e:
            raise Unusable(_sentence(e)) from e
        except errors.SparkError as e:
            raise CommandError(_sentence(e)) from e
        except KafkaError as e:
            if is_unknown(e):
                run(partial(_say_unknown, topic=options.topic), context)
            raise
    for column, unknown in summary.unknown_fields.items():
        context.say(
            f"{count(unknown.records, 'record')} of this run had JSON fields in the {column} for which the export has no"
            f" column; these fields were dropped: {join(unknown.fields, 6)}. To keep them, export to another directory"
            " or use --overwrite."
        )
    row: ExportRow = {
        "topic": summary.topic,
        "directory": str(summary.directory),
        "records": summary.records,
        "files": summary.files,
        "bytes": summary.bytes,
        "records_before": summary.records_before,
        "elapsed_ms": summary.elapsed_ms,
        "topic_id": summary.topic_id,
    }
    context.show(listing(ExportRow, [row]))


async def _say_unknown(context: Context, topic: str) -> None:
    raise await unknown_topic(context, await context.admin(), topic)


def _sentence(error: Exception) -> str:
    text = str(error).rstrip(".")
    return f"{text[:1].upper()}{text[1:]}."
