"""`pk spark-export`: exports topics to parquet files. `pk.spark.export.exporter` does the work;
this module has the options, the progress bar and the summary."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pk.cli.cluster.partition_selection import partitions_at
from pk.cli.cluster.position_lookup import check_group, resolve_positions, say_uncommitted
from pk.cli.cluster.topics import existing_topics, is_unknown
from pk.cli.exits import CommandError, Refused, Unusable
from pk.cli.nouns.spark_export.rows import ExportPlanRow, ExportRow
from pk.cli.output.rows import listing
from pk.cli.phrases import count, join
from pk.cli.positions.grammar import END, START, Positions, everywhere
from pk.cli.positions.resolve import positions_option
from pk.cli.runtime.client_config import client_config
from pk.cli.runtime.connect import run
from pk.cli.runtime.context import Context
from pk.cli.runtime.progress import Progress
from pk.cli.runtime.spark_errors import as_sentence, here, spark_is_missing
from pk.cli.runtime.spark_place import spark_place
from pk.cli.schemas.reach import where
from pk.core.errors import KafkaError
from pk.core.values import TopicPartition
from pk.net.client.admin import Admin
from pk.net.client.config import ConsumerConfig
from pk.net.client.results import IsolationLevel
from pk.spark.locations import is_remote, local_path, scheme
from pk.spark.read.read_options import ReadOptions

if TYPE_CHECKING:
    from pk.cli.nouns.spark_export.options import SparkExport
    from pk.spark.export.exporter import Summary


_WITH_SCHEMAS = ("avro", "json-schema", "protobuf")


def _schemas(context: Context, options: "SparkExport") -> dict[str, str]:
    """The location of the schemas of keys and values. Raises Unusable."""
    wanted = {options.key, options.value} & set(_WITH_SCHEMAS)
    if not wanted and not options.resume:
        if options.schema_registry is not None:
            kinds = join(_WITH_SCHEMAS, 3)
            raise Unusable(f"--schema-registry has no effect without --value or --key {kinds}.")
        return {}
    try:
        return {"schema.registry.url": where(context, options.schema_registry)}
    except Unusable:
        if wanted or options.schema_registry is not None:
            raise
        return {}  # the export that is resumed may have no schemas


def _positions(options: "SparkExport") -> Positions:
    """The range to export: a single position is the start, and the end is then the current one.
    Raises Unusable."""
    text = options.offset
    if text is None:
        check_group(None, options.group)
        return everywhere(START, END)
    positions = positions_option(text, "-o")
    check_group(positions, options.group)
    return positions.ended()


async def _resolved(
    context: Context,
    admin: Admin,
    positions: Positions,
    partitions: Sequence[TopicPartition],
    group: str | None,
    isolation: IsolationLevel,
) -> Mapping[TopicPartition, tuple[int, int | None]]:
    topics = await existing_topics(context, admin, {tp.topic for tp in partitions})
    wanted = partitions_at(topics, None, positions)
    ranges = await resolve_positions(
        context, admin, positions, wanted, group=group, isolation=isolation
    )
    say_uncommitted(context, ranges, group)
    found: dict[TopicPartition, tuple[int, int | None]] = {}
    for tp in ranges:
        span = ranges.value(tp)
        found[tp] = (span.begin, span.end)
    return found


def _client(context: Context) -> dict[str, str]:
    """The consumer configs that the user gave."""
    return {k: str(v) for k, v in client_config(ConsumerConfig, context.settings, {}).items()}


async def _show_plan(context: Context, options: "SparkExport") -> None:
    admin = await context.admin()
    topics = await existing_topics(context, admin, options.topics)
    tps = [TopicPartition(topic.name, p.partition) for topic in topics for p in topic.partitions]
    isolation = ReadOptions(context.settings.bootstrap, _client(context)).isolation
    found = await _resolved(context, admin, _positions(options), tps, options.group, isolation)
    rows: list[ExportPlanRow] = [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "begin": begin,
            "end": end,
            "offsets": (end or 0) - begin,
        }
        for tp, begin, end in ((tp, *found[tp]) for tp in tps if tp in found)
    ]
    context.show(listing(ExportPlanRow, rows))
    context.say("Nothing was written.")


async def _ask(context: Context, options: "SparkExport") -> None:
    await context.agree(f"Replace the contents of {options.to}?", name=options.topics[0])


def export(context: Context, options: "SparkExport") -> None:
    """Run `pk spark-export`."""
    if options.to is None:
        raise Unusable("Give the directory for the files: --to DIR.")
    if options.resume and options.overwrite:
        raise Unusable(
            "--resume continues the export in DIR, --overwrite replaces it; give only one."
        )
    if options.schema == "evolve" and not (options.resume or options.follow):
        raise Unusable(
            "--schema evolve has no effect without --resume or --follow: a new export takes all "
            "fields of its sample."
        )
    if len(set(options.topics)) < len(options.topics):
        raise Unusable("A topic is given twice.")
    if len(options.topics) > 1 and options.table is not None:
        raise Unusable("--table names the table of one topic; give only one topic.")
    positions = _positions(options)
    if context.given("interval") and not options.follow:
        raise Unusable("--interval has no effect without --follow.")
    if options.compact is not None and not options.follow:
        raise Unusable("--compact has no effect without --follow.")
    _check_follow(options, positions)
    if not is_remote(options.to):
        here(options.to)
    context.about = ConsumerConfig
    if context.change.dry_run:
        run(partial(_show_plan, options=options), context)
        return
    _export(context, options, options.to, positions)


def _may_have_files(to: str) -> bool:
    if is_remote(to):
        return True
    directory = local_path(to)
    return directory.is_dir() and any(directory.iterdir())


def _check_follow(options: "SparkExport", positions: Positions) -> None:
    if not options.follow:
        return
    asked = [positions.everywhere, *positions.by_partition.values()]
    if any(each is not None and each.end != END for each in asked):
        raise Unusable("--follow does not end: -o can only give a start.")
    if options.overwrite:
        raise Unusable("--follow continues an export; run --overwrite without it first.")


def _directory(options: "SparkExport", to: str, topic: str) -> Path | str:
    """The directory of a topic's export."""
    place = to if len(options.topics) == 1 else f"{to.rstrip('/')}/{topic}"
    return place if scheme(place) is not None else Path(place)


def _export(context: Context, options: "SparkExport", to: str, positions: Positions) -> None:
    try:
        from pk.spark import errors
        from pk.spark.export import exporter
        from pk.spark.export.table import TableRefused
    except ModuleNotFoundError as e:
        raise spark_is_missing(e) from None

    async def resolve(
        admin: Admin, partitions: Sequence[TopicPartition], isolation: IsolationLevel
    ) -> Mapping[TopicPartition, tuple[int, int | None]]:
        return await _resolved(context, admin, positions, partitions, options.group, isolation)

    client = _client(context)
    exports = [
        exporter.ExportOptions(
            bootstrap=context.settings.bootstrap,
            topic=topic,
            directory=_directory(options, to, topic),
            client=client,
            mode="resume" if options.resume else "overwrite" if options.overwrite else "new",
            key=options.key,
            value=options.value,
            key_schema=options.key_schema,
            value_schema=options.value_schema,
            schemas=_schemas(context, options),
            evolve=options.schema == "evolve",
            codec=options.compression,
            partition_by=options.partition_by,
            table=options.to_format,
            table_name=options.table,
            max_file_bytes=options.max_file_size,
            max_file_rows=options.max_file_rows,
            cores=options.cores,
            where=spark_place(options),
            compact_s=None if options.compact is None else options.compact.s,
            fail_on_data_loss=not options.allow_data_loss,
            resolve=resolve if options.offset is not None else None,
        )
        for topic in options.topics
    ]
    rows: dict[str, ExportRow] = {}
    try:
        for each in exports:
            each.check()
        if options.overwrite and _may_have_files(to):
            run(partial(_ask, options=options), context)
        with Progress(context, f"Exporting {join(options.topics, 3)}", 0) as bar:

            def show_progress(state: exporter.Progress) -> None:
                note = state.stage if len(options.topics) == 1 else f"{state.topic}: {state.stage}"
                bar.update(state.records, note, total=state.offsets)

            def done(summary: exporter.Summary) -> None:
                _say_unknown_fields(context, summary)
                _say_unparsed(context, summary)
                rows[summary.topic] = _row(summary, rows.get(summary.topic))
                if options.follow and summary.records:
                    more = count(summary.records, "record")
                    at_end = summary.records_before + summary.records
                    context.say(f"{summary.topic}: {more} more, {at_end:,} in all.")

            if options.follow:
                every_s = options.interval.s
                exporter.follow(exports, done, show_progress, every_s=every_s, say=context.say)
            for summary in exporter.export_topics(exports, show_progress):
                done(summary)
    except KeyboardInterrupt:
        if not options.follow or not rows:
            raise
    except (errors.DirectoryRefused, TableRefused) as e:
        raise Refused(as_sentence(e)) from e
    except errors.OptionError as e:
        raise Unusable(as_sentence(e)) from e
    except errors.SparkError as e:
        raise CommandError(as_sentence(e)) from e
    except KafkaError as e:
        if is_unknown(e):
            run(partial(_say_unknown, topics=options.topics), context)
        raise
    context.show(listing(ExportRow, list(rows.values())))


def _say_unknown_fields(context: Context, summary: "Summary") -> None:
    for column, unknown in summary.unknown_fields.items():
        context.say(
            f"{count(unknown.records, 'record')} of this run had JSON fields in the {column} for "
            "which the export has no column; these fields were dropped: "
            f"{join(unknown.fields, 6)}. To keep them, export to another directory or use "
            "--overwrite; --schema evolve adds columns for them in later runs."
        )


def _say_unparsed(context: Context, summary: "Summary") -> None:
    for column, number in summary.unparsed.items():
        context.say(
            f"{count(number, 'record')} of this run had a {column} that is not a JSON object with "
            f"the fields' types: the text is in {column}._corrupt_record."
        )


def _row(summary: "Summary", before: ExportRow | None) -> ExportRow:
    """The totals that a topic's runs have added."""
    row: ExportRow = {
        "topic": summary.topic,
        "directory": str(summary.directory),
        "records": summary.records,
        "files": summary.files,
        "bytes": summary.bytes,
        "records_before": summary.records_before,
        "unparsed": sum(summary.unparsed.values()),
        "elapsed_ms": summary.elapsed_ms,
        "topic_id": summary.topic_id,
    }
    if before is not None:
        row["records_before"] = before["records_before"]
        for name in ("records", "files", "bytes", "unparsed", "elapsed_ms"):
            row[name] += before[name]
    return row


async def _say_unknown(context: Context, topics: Sequence[str]) -> None:
    await existing_topics(context, await context.admin(), topics)
