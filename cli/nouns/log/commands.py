"""The commands of `pk log`, with their options."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.command_line.declare import Noun
from pk.cli.nouns.log.options import CatRecords, DumpLog, IndexesOnly, StoreKeys
from pk.cli.nouns.log.rows import DUMPED, AdoptedTopicRow, FindingRow, RemoteSegmentRow
from pk.cli.options.option_sets import Change, Debug, Listing
from pk.cli.options.parameters import Argument, Option
from pk.cli.options.values import Pair, config_pair

LOG = Noun("log")


LOG.command(
    "dump",
    help=(
        "Show the contents of files: batches, records, indexes, producers, epochs, checkpoints, "
        "metadata."
    ),
    worker="dump:dump",
    options=DumpLog,
    takes=(Listing, Debug),
    examples=(
        "pk log dump data/orders-0",
        "pk log dump data/orders-0/00000000000000000000.log --records -f jsonl",
        "pk log dump data/orders-0 --records -o -10..end",
        "pk log dump data/__consumer_offsets-7 --records --where 'key.group = app'",
        "pk log dump data --show checkpoint",
    ),
    notes="Read-only; safe while a broker runs.",
    shows=DUMPED,
    blocking=True,
    screen="streams",
    repeatable=True,
)


@dataclass(frozen=True, kw_only=True)
class VerifyLogs:
    """Arguments of `pk log verify`."""

    paths: Annotated[
        tuple[str, ...],
        Argument("DIR", help="A partition's directory, or a data directory.", complete="directory"),
    ]
    index_only: IndexesOnly = False


LOG.command(
    "verify",
    help=(
        "Check files: each batch's CRC, offsets, records, epochs, and each index entry; exit 1 "
        "if anything is wrong."
    ),
    worker="verify:verify_command",
    arguments=VerifyLogs,
    takes=(Listing, Debug),
    examples=("pk log verify data", "pk log verify data/orders-0 -f json"),
    notes="Read-only; safe while a broker runs.",
    shows=FindingRow,
    blocking=True,
    screen="streams",
    repeatable=True,
)


LOG.command(
    "cat",
    help="Show records from log files, with the positions and formats of pk consume.",
    worker="cat:cat",
    options=CatRecords,
    takes=(Debug,),
    examples=(
        "pk log cat data/orders-0 -o -10..end -f jsonl",
        "pk log cat data/orders-0 data/orders-1 -o @-1h",
        "pk log cat data/__consumer_offsets-7 -f table",
    ),
    notes="Stops at the end of the files, or of what the store has. Read-only; safe while a "
    "broker runs.",
    blocking=True,
    screen="streams",
    repeatable=True,
)


@dataclass(frozen=True, kw_only=True)
class RemoteSegments:
    """Arguments of `pk log remote`."""

    url: Annotated[
        str,
        Argument("URL", help="The store, as in pk.remote.url: s3://BUCKET/PREFIX, file:///PATH."),
    ]
    topics: Annotated[
        tuple[str, ...],
        Option("-t", "--topic", value="TOPIC", help="Only these topics; repeatable."),
    ] = ()
    verify: Annotated[
        bool, Option("--verify", help="Read every record, and check each batch's CRC.")
    ] = False
    configs: StoreKeys = ()


LOG.command(
    "remote",
    help="List the segments in remote storage, and check them; exit 1 if anything is wrong.",
    worker="remote:remote",
    arguments=RemoteSegments,
    takes=(Listing, Debug),
    examples=(
        "pk log remote s3://my-bucket/kafka",
        "pk log remote file:///mnt/segments -t orders --verify",
    ),
    notes="Reads only the store, and asks no broker. Changes nothing.",
    shows=RemoteSegmentRow,
    blocking=True,
    screen="streams",
    repeatable=True,
)


@dataclass(frozen=True, kw_only=True)
class AdoptLogs:
    """Arguments of `pk log adopt`."""

    directories: Annotated[
        tuple[str, ...],
        Argument(
            "DIR",
            help="The data directory, or all directories of log.dirs.",
            complete="directory",
        ),
    ]
    topic_configs: Annotated[
        tuple[Pair, ...],
        Option(
            "-c",
            "--config",
            value="TOPIC:KEY=VALUE",
            parser=config_pair,
            help="A topic config, overriding Apache's metadata; repeatable.",
        ),
    ] = ()
    topic_file: Annotated[
        str | None,
        Option("--config-file", value="FILE", help="Lines of TOPIC:KEY=VALUE.", complete="file"),
    ] = None


LOG.command(
    "adopt",
    help="Take over the topics of a data directory that Apache Kafka wrote.",
    worker="adopt:adopt",
    arguments=AdoptLogs,
    takes=(Change, Listing, Debug),
    examples=(
        "pk log adopt /var/lib/kafka --dry-run",
        "pk log adopt /var/lib/kafka -c orders:retention.ms=604800000 -y",
    ),
    notes=(
        "Stop Apache Kafka first. Its metadata log is kept, in apache-kafka/ beside the topics."
    ),
    shows=AdoptedTopicRow,
    screen="streams",
)
