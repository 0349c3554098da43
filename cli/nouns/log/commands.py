"""`pk log`: its commands and their options."""

from typing import TYPE_CHECKING, Annotated

from pk.cli.command_line.declare import Argument, Noun, Option, Running
from pk.cli.command_line.option_sets import (
    Change,
    Debug,
    Listing,
)
from pk.cli.command_line.values import Pair, config_pair
from pk.cli.nouns.log.options import CatRecords, DumpLog, IndexesOnly

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

LOG = Noun("log")


@LOG.command(
    "dump",
    takes=(Listing, Debug),
    examples=(
        "pk log dump data/orders-0",
        "pk log dump data/orders-0/00000000000000000000.log --records -f jsonl",
        "pk log dump data/orders-0 --records -o -10..end",
        "pk log dump data/__consumer_offsets-7 --records --where 'key.group = app'",
        "pk log dump data --show checkpoint",
    ),
    notes="Only reads, also beside a running broker.",
    shows="...",
    blocking=True,
)
def dump(context: "Context", options: DumpLog) -> int | None:
    """Show what files hold: batches, records, indexes, producers, epochs, checkpoints, metadata."""
    from pk.cli.nouns.log.dump import dump

    return dump(context, options)


@LOG.command(
    "verify",
    takes=(Listing, Debug),
    examples=("pk log verify data", "pk log verify data/orders-0 -f json"),
    notes="Only reads, also beside a running broker.",
    shows="file position:int? offset:int? what",
    blocking=True,
)
def verify(
    context: "Context",
    dir: Annotated[
        tuple[str, ...],
        Argument("DIR", help="A partition's directory, or a data directory.", complete="directory"),
    ],
    verify_index_only: IndexesOnly = False,
) -> int | None:
    """Check files: every batch's CRC, offsets, records, epochs, and every index entry; exit 1 if
    something is wrong.
    """
    from pk.cli.nouns.log.verify import verify_command

    return verify_command(context, dir, index_only=verify_index_only)


@LOG.command(
    "cat",
    takes=(Debug,),
    examples=(
        "pk log cat data/orders-0 -o -10..end -f jsonl",
        "pk log cat data/orders-0 data/orders-1 -o @-1h",
        "pk log cat data/__consumer_offsets-7 -f table",
    ),
    notes="Ends at the end of what is there. Only reads, also beside a running broker.",
    blocking=True,
)
def cat(context: "Context", options: CatRecords) -> int | None:
    """Records straight out of the files, with the positions and formats of console-consumer."""
    from pk.cli.nouns.log.cat import cat

    return cat(context, options)


@LOG.command(
    "adopt",
    takes=(Change, Listing, Debug),
    examples=(
        "pk log adopt /var/lib/kafka --dry-run",
        "pk log adopt /var/lib/kafka -c orders:retention.ms=604800000 -y",
    ),
    notes=(
        "Stop Apache Kafka first. Its metadata log is kept, in apache-kafka/ beside the topics."
    ),
    shows="topic partitions:int bytes:int topic_id? configs:<str>",
)
def adopt(
    context: "Context",
    dir: Annotated[
        tuple[str, ...],
        Argument(
            "DIR",
            help="The data directory; all of them where log.dirs names several.",
            complete="directory",
        ),
    ],
    topic_configs: Annotated[
        tuple[Pair, ...],
        Option(
            "-c",
            "--config",
            value="TOPIC:KEY=VALUE",
            parser=config_pair,
            help="A config of a topic, over what Apache's metadata says; may be given again.",
        ),
    ] = (),
    topic_file: Annotated[
        str | None,
        Option("--config-file", value="FILE", help="Lines of TOPIC:KEY=VALUE.", complete="file"),
    ] = None,
) -> Running:
    """Take over the topics of a data directory that Apache Kafka wrote."""
    from pk.cli.nouns.log.adopt import adopt

    return adopt(context, dir, topic_configs, topic_file)
