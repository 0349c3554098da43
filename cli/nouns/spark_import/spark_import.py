"""`pk spark-import`: imports files and tables into a topic. `pk.spark.importer` does the work; this
module has the options, the question, the progress bar and the summary."""

from functools import partial
from typing import TYPE_CHECKING

from pk.cli.cluster.topics import existing_topics
from pk.cli.exits import CommandError, Refused, Unusable
from pk.cli.nouns.spark_import.rows import ImportPlanRow, ImportRow
from pk.cli.output.rows import listing
from pk.cli.phrases import count
from pk.cli.runtime.client_config import client_config
from pk.cli.runtime.connect import run
from pk.cli.runtime.context import Context
from pk.cli.runtime.progress import Progress
from pk.cli.runtime.spark_errors import as_sentence, spark_is_missing
from pk.cli.runtime.spark_place import spark_place
from pk.net.client.config import ProducerConfig

if TYPE_CHECKING:
    from pk.cli.nouns.spark_import.options import SparkImport
    from pk.spark.importer.importer import ImportProgress, ImportSummary


async def _check(context: Context, options: "SparkImport") -> None:
    await existing_topics(context, await context.admin(), [options.topic])
    if not context.change.dry_run:
        await context.agree(f"Import {options.source} into {options.topic}?", name=options.topic)


def import_rows(context: Context, options: "SparkImport") -> None:
    """Run `pk spark-import`."""
    if options.source is None:
        raise Unusable("Give what to import: --from FILE, DIRECTORY or URL.")
    read = _read_options(options)
    context.about = ProducerConfig
    try:
        from pk.spark import errors
        from pk.spark.importer import importer, ledger
        from pk.spark.importer.options import ImportRefused
    except ModuleNotFoundError as e:
        raise spark_is_missing(e) from None
    client = client_config(ProducerConfig, context.settings, {})
    given = importer.ImportOptions(
        bootstrap=context.settings.bootstrap,
        topic=options.topic,
        source=options.source,
        format=options.source_format,
        client={key: str(value) for key, value in client.items()},
        key=options.key,
        value=options.value,
        timestamp=options.timestamp,
        partition=options.partition,
        headers=tuple((name, text) for name, text in options.header),
        import_id=options.id,
        schema=options.schema,
        read=read,
        table=options.table,
        order_by=options.order_by,
        jars=options.jars,
        cores=options.cores,
        where=spark_place(options),
    )
    try:
        given.check()
        run(partial(_check, options=options), context)
        with Progress(context, f"Importing into {options.topic}", 0, unit="bytes") as bar:

            def show_progress(state: "ImportProgress") -> None:
                note = count(state.records, "record") if state.records else state.stage
                bar.update(state.bytes, note, total=state.bytes_total, bytes_done=state.bytes)

            summary = importer.import_rows(given, show_progress, dry_run=context.change.dry_run)
    except errors.OptionError as e:
        raise Unusable(as_sentence(e)) from e
    except (ImportRefused, ledger.ImportOvertaken) as e:
        raise Refused(as_sentence(e)) from e
    except errors.SparkError as e:
        raise CommandError(as_sentence(e)) from e
    _show(context, summary)


def _show(context: Context, summary: "ImportSummary") -> None:
    if context.change.dry_run:
        plans: list[ImportPlanRow] = [
            {
                "file": plan.name,
                "bytes": plan.bytes,
                "state": "done"
                if plan.portions_done == plan.portions
                else "partly"
                if plan.records_before
                else "new",
                "records_before": plan.records_before,
            }
            for plan in summary.files
        ]
        context.show(listing(ImportPlanRow, plans))
        context.say("Nothing was written.")
        return
    row: ImportRow = {
        "topic": summary.topic,
        "id": summary.import_id,
        "records": summary.records,
        "files": len(summary.files),
        "records_before": summary.records_before,
        "elapsed_ms": summary.elapsed_ms,
        "topic_id": summary.topic_id,
    }
    context.show(listing(ImportRow, [row]))


def _read_options(options: "SparkImport") -> dict[str, str]:
    """The options of the format, from the command line and the file. Raises Unusable."""
    found: dict[str, str] = {}
    if options.option_file is not None:
        try:
            with open(options.option_file, encoding="utf-8") as file:
                lines = [line.strip() for line in file]
        except OSError as e:
            raise Unusable(f"{options.option_file} cannot be read: {e.strerror}.") from e
        except UnicodeDecodeError as e:
            raise Unusable(f"{options.option_file} is not UTF-8 text.") from e
        for number, line in enumerate(lines, 1):
            if not line or line.startswith("#"):
                continue
            name, equals, value = line.partition("=")
            if not equals:
                raise Unusable(f"{options.option_file}, line {number}: needs NAME=VALUE.")
            found[name.strip()] = value.strip()
    if options.delimiter is not None:
        found["delimiter"] = options.delimiter
    return found | dict(options.option)
