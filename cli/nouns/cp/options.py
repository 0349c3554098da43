"""What the commands of `pk cp` take: the options of those that have many."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pk.cli.command_line.declare import Argument, Option
from pk.cli.command_line.option_sets import (
    CommitsOf,
    Compression,
    RecordHeaders,
    RecordKey,
    RecordWhere,
)
from pk.cli.command_line.values import Pair, config_pair, count


@dataclass(frozen=True, kw_only=True)
class Copy:
    """What `pk cp` takes."""

    source: Annotated[
        tuple[str, ...],
        Argument(
            "SOURCE",
            help="The topics to read; or permalinks of records, pk://TOPIC/PARTITION/OFFSET.",
            complete="topic",
        ),
    ] = ()
    target: Annotated[
        str,
        Argument(
            "TARGET",
            help="The topic to write; {topic} in it stands for the source's name.",
            complete="topic",
        ),
    ]
    include: Annotated[
        str | None,
        Option(
            "--include", "--regex", value="REGEX", help="Read every topic whose whole name matches."
        ),
    ] = None
    offset: Annotated[
        str | None,
        Option(
            "-o",
            "--offset",
            value="POSITION",
            help="Where to begin, or a range to copy (default: start).",
            complete="position",
        ),
    ] = None
    group: CommitsOf = None
    once: Annotated[
        bool,
        Option("--once", help="Stop at the end as it is when the copy begins; else it goes on."),
    ] = False
    partitions: Annotated[
        tuple[str, ...],
        Option(
            "-p",
            "--partitions",
            "--partition",
            value="0,1",
            separated=True,
            help="Only these partitions of the source.",
        ),
    ] = ()
    key: RecordKey = None
    header: RecordHeaders = ()
    where: RecordWhere = None
    num: Annotated[
        int | None,
        Option(
            "-n",
            "--num",
            "--max-messages",
            value="N",
            parser=count,
            help="Stop after so many records copied.",
        ),
    ] = None
    set_header: Annotated[
        tuple[Pair, ...],
        Option(
            "--set-header",
            value="NAME=VALUE",
            help="Give every copy this header, in place of those of that name; may be given again.",
        ),
    ] = ()
    drop_header: Annotated[
        tuple[str, ...],
        Option(
            "--drop-header",
            value="NAME",
            help="Leave out the headers of this name; may be given again.",
        ),
    ] = ()
    keep_partition: Annotated[
        bool, Option("--keep-partition", help="Write to the partition of the same number.")
    ] = False
    keep_timestamp: Annotated[
        bool,
        Option("--keep-timestamp", help="Keep the records' times (default: the time of the copy)."),
    ] = False
    rate: Annotated[
        float | None, Option("--rate", value="N", help="At most so many records a second.")
    ] = None
    state: Annotated[
        str | None,
        Option(
            "--state",
            value="FILE",
            help="Note in FILE how far the copy is, and go on from there if it is noted already.",
            complete="file",
        ),
    ] = None
    create: Annotated[
        bool,
        Option(
            "--create",
            help="Make a target that does not exist, with the source's partitions and configs.",
        ),
    ] = False
    replication_factor: Annotated[
        int | None,
        Option(
            "-r",
            "--replication-factor",
            value="N",
            parser=count,
            help="With --create: how many replicas (default: as the source has).",
        ),
    ] = None
    configs: Annotated[
        tuple[Pair, ...],
        Option(
            "-c",
            "--config",
            value="KEY=VALUE",
            parser=config_pair,
            help="With --create: a config of the target's own; may be given again.",
            complete="topic-config",
        ),
    ] = ()
    compression: Annotated[
        Compression | None,
        Option(
            "-z",
            "--compression",
            value="CODEC",
            help="How the copies are compressed: none, gzip, snappy, lz4 or zstd (default: none).",
        ),
    ] = None
    to_profile: Annotated[
        str | None,
        Option(
            "--to-profile",
            value="NAME",
            help="Write to the cluster of this profile.",
            complete="profile",
        ),
    ] = None
    to_bootstrap_server: Annotated[
        str | None,
        Option(
            "--to-bootstrap-server",
            value="HOST:PORT[,…]",
            help="Write to this cluster.",
            complete="bootstrap",
        ),
    ] = None
    to_config_file: Annotated[
        str | None,
        Option(
            "--to-config-file",
            value="FILE",
            help="A properties file with keys for the cluster written to.",
            complete="file",
        ),
    ] = None
    to_property: Annotated[
        tuple[Pair, ...],
        Option(
            "--to-property",
            value="KEY=VALUE",
            parser=config_pair,
            help="A key of the producer of the cluster written to; may be given again.",
            complete="client-key",
        ),
    ] = ()
    isolation_level: Annotated[
        Literal["read_uncommitted", "read_committed"],
        Option(
            "--isolation-level",
            value="LEVEL",
            help=(
                "Whether records of open and aborted transactions are copied (default: "
                "read_committed)."
            ),
        ),
    ] = "read_committed"
