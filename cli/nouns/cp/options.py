"""Options of `pk cp`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pk.cli.options.option_sets import (
    CODECS,
    Compression,
    PartitionNumbers,
    RecordCount,
    RecordHeaders,
    RecordKey,
    RecordsPerSecond,
    RecordWhere,
    offset_option,
    replication_factor_option,
    topic_config_option,
)
from pk.cli.options.parameters import Argument, Option
from pk.cli.options.values import Pair, config_pair


@dataclass(frozen=True, kw_only=True)
class Copy:
    """Options of `pk cp`."""

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
            help="The topic to write to; {topic} becomes the source's name.",
            complete="topic",
        ),
    ]
    include: Annotated[
        str | None,
        Option("--include", "--regex", value="REGEX", help="Every topic whose whole name matches."),
    ] = None
    offset: Annotated[
        str | None,
        offset_option("Where to start, or a range to copy (default: start)."),
    ] = None
    group: Annotated[
        str | None,
        Option(
            "-g",
            "--group",
            value="GROUP",
            help=(
                "The group whose offsets the position `committed` means, or that --exactly-once "
                "commits to; pk does not join it."
            ),
            complete="group",
        ),
    ] = None
    once: Annotated[
        bool,
        Option("--once", help="Stop at the end as of the start of the copy; default: continue."),
    ] = False
    partitions: PartitionNumbers = ()
    key: RecordKey = None
    header: RecordHeaders = ()
    where: RecordWhere = None
    num: RecordCount = None
    set_header: Annotated[
        tuple[Pair, ...],
        Option(
            "--set-header",
            value="NAME=VALUE",
            help="Set this header on every copy, replacing headers of that name; repeatable.",
        ),
    ] = ()
    drop_header: Annotated[
        tuple[str, ...],
        Option(
            "--drop-header",
            value="NAME",
            help="Drop headers of this name; repeatable.",
        ),
    ] = ()
    keep_partition: Annotated[
        bool, Option("--keep-partition", help="Write to the partition of the same number.")
    ] = False
    keep_timestamp: Annotated[
        bool,
        Option(
            "--keep-timestamp", help="Keep the records' timestamps (default: the time of the copy)."
        ),
    ] = False
    rate: RecordsPerSecond = None
    state: Annotated[
        str | None,
        Option(
            "--state",
            value="FILE",
            help="Keep the copy's progress in FILE, and resume from it.",
            complete="file",
        ),
    ] = None
    exactly_once: Annotated[
        bool,
        Option(
            "--exactly-once",
            help=(
                "Commit the copies and the group's offsets in one transaction, and resume from "
                "those offsets; needs -g."
            ),
        ),
    ] = False
    create: Annotated[
        bool,
        Option(
            "--create",
            help="Create a missing target with the source's partitions and configs.",
        ),
    ] = False
    replication_factor: Annotated[
        int | None,
        replication_factor_option(
            "With --create: the number of replicas (default: as the source)."
        ),
    ] = None
    configs: Annotated[
        tuple[Pair, ...],
        topic_config_option("With --create: a config for the target; repeatable."),
    ] = ()
    compression: Annotated[
        Compression | None,
        Option(
            "-z",
            "--compression",
            value="CODEC",
            help=f"The compression: {CODECS} (default: none).",
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
            help="Write to the cluster at these brokers.",
            complete="bootstrap",
        ),
    ] = None
    to_config_file: Annotated[
        str | None,
        Option(
            "--to-config-file",
            value="FILE",
            help="A properties file with client configs for the target cluster.",
            complete="file",
        ),
    ] = None
    to_property: Annotated[
        tuple[Pair, ...],
        Option(
            "--to-property",
            value="KEY=VALUE",
            parser=config_pair,
            help="A producer config for the target cluster; repeatable.",
            complete="client-key",
        ),
    ] = ()
    isolation_level: Annotated[
        Literal["read_uncommitted", "read_committed"],
        Option(
            "--isolation-level",
            "--isolation",
            value="LEVEL",
            help=(
                "Whether to copy records of open and aborted transactions (default: "
                "read_committed)."
            ),
        ),
    ] = "read_committed"
