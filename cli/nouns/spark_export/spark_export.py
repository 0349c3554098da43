"""`pk spark-export`: exports a topic to parquet files. `pk.spark.exporter` does the work; this module has the options, the
progress bar and the summary."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pk.cli.cluster.topics import existing_topics, is_unknown, unknown_topic
from pk.cli.output.formats import Column, Listing
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

_PLAN = (
    Column("topic"),
    Column("partition", right=True),
    Column("begin", right=True),
    Column("end", right=True),
    Column("offsets", right=True),
)
_SUMMARY = (
    Column("topic"),
    Column("directory"),
    Column("records", right=True),
    Column("files", right=True),
    Column("bytes", right=True),
    Column("records_before", right=True, title="RECORDS BEFORE"),
    Column("elapsed_ms", right=True, title="MS"),
    Column("topic_id", wide=True),
)


def _positions(context: Context) -> Positions:
    """What to export: a single position is the start, and the end is the current one. Raises Unusable."""
    text = context.args.offset
    if text is None:
        check_group(context, None)
        return everywhere(START, END)
    positions = positions_option(text, "-o")
    check_group(context, positions)

    def ended(asked: Range) -> Range:
        return asked if asked.end is not None else asked._replace(end=END)

    return Positions(
        ended(positions.everywhere) if positions.everywhere else None,
        {p: ended(asked) for p, asked in positions.by_partition.items()},
    )


async def _resolved(
    context: Context, admin: Admin, positions: Positions, partitions: Sequence[TopicPartition]
) -> Mapping[TopicPartition, tuple[int, int | None]]:
    ranges = await resolve_positions(context, admin, positions, partitions)
    say_uncommitted(context, ranges)
    found: dict[TopicPartition, tuple[int, int | None]] = {}
    for tp, span in ranges.items():
        if isinstance(span, Exception):
            raise span
        found[tp] = (span.begin, span.end)
    return found


async def _show_plan(context: Context) -> None:
    admin = await context.admin()
    (topic,) = await existing_topics(context, admin, [context.args.topic])
    tps = [TopicPartition(topic.name, p.partition) for p in topic.partitions]
    found = await _resolved(context, admin, _positions(context), tps)
    rows: list[dict[str, Any]] = [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "begin": begin,
            "end": end,
            "offsets": (end or 0) - begin,
        }
        for tp, (begin, end) in found.items()
    ]
    context.show(Listing(_PLAN, rows))
    context.say("Nothing was written.")


async def _ask(context: Context) -> None:
    await context.agree(f"Replace the contents of {context.args.to}?", name=context.args.topic)


def export(context: Context) -> None:
    """`pk spark-export`."""
    args = context.args
    if args.to is None:
        raise Unusable("Give the directory for the files: --to DIR.")
    if args.resume and args.overwrite:
        raise Unusable(
            "--resume continues the export in DIR, --overwrite replaces it; give only one."
        )
    positions = _positions(context)
    context.about = ConsumerConfig
    if args.dry_run:
        run(_show_plan, context)
        return
    if args.overwrite and os.path.isdir(args.to) and os.listdir(args.to):
        run(_ask, context)
    _export(context, positions)


def _export(context: Context, positions: Positions) -> None:
    try:
        from pk.spark import errors, exporter
    except ModuleNotFoundError as e:
        raise CommandError(
            f"Spark is not installed ({e.name} is missing): pip install 'pk-broker[spark]'."
        ) from None

    args = context.args

    async def resolve(
        admin: Admin, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, tuple[int, int | None]]:
        return await _resolved(context, admin, positions, partitions)

    options = exporter.ExportOptions(
        bootstrap=context.settings.bootstrap,
        topic=args.topic,
        directory=Path(args.to),
        client={k: str(v) for k, v in client_config(ConsumerConfig, context.settings, {}).items()},
        mode="resume" if args.resume else "overwrite" if args.overwrite else "new",
        key=args.key,
        value=args.value,
        key_schema=args.key_schema,
        value_schema=args.value_schema,
        codec=args.compression,
        cores=args.cores,
        fail_on_data_loss=not args.allow_data_loss,
        resolve=resolve if args.offset is not None else None,
    )
    with Progress(context, f"Exporting {args.topic}", 0) as bar:

        def show_progress(state: exporter.Progress) -> None:
            bar.update(state.records, state.stage, total=state.offsets)

        try:
            summary = exporter.export(options, show_progress)
        except errors.DirectoryRefused as e:
            raise Refused(_sentence(e)) from e
        except errors.OptionError as e:
            raise Unusable(_sentence(e)) from e
        except errors.SparkError as e:
            raise CommandError(_sentence(e)) from e
        except KafkaError as e:
            if is_unknown(e):
                run(_say_unknown, context)
            raise
    for column, unknown in summary.unknown_fields.items():
        context.say(
            f"{count(unknown.records, 'record')} of this run had JSON fields in the {column} for which the export has no"
            f" column; these fields were dropped: {join(unknown.fields, 6)}. To keep them, export to another directory"
            " or use --overwrite."
        )
    context.show(
        Listing(
            _SUMMARY,
            [
                {
                    "topic": summary.topic,
                    "directory": str(summary.directory),
                    "records": summary.records,
                    "files": summary.files,
                    "bytes": summary.bytes,
                    "records_before": summary.records_before,
                    "elapsed_ms": summary.elapsed_ms,
                    "topic_id": summary.topic_id,
                }
            ],
        )
    )


async def _say_unknown(context: Context) -> None:
    raise await unknown_topic(context, await context.admin(), context.args.topic)


def _sentence(error: Exception) -> str:
    text = str(error).rstrip(".")
    return f"{text[:1].upper()}{text[1:]}."
