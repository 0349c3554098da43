"""`pk cp`."""

from pk.cli.grammar import Argument, Command, Option
from pk.cli.specs.common import (
    CHANGE,
    COMMITS_OF,
    COMPRESSIONS,
    CONNECTION,
    FORMAT,
    ISOLATION,
    RECORD_COUNT,
    RECORD_HEADERS,
    RECORD_KEY,
    RECORD_WHERE,
)

CP = Command(
    "cp",
    help="Copy records from topics to a topic, of this cluster or another.",
    handler="pk.cli.commands.cp:copy",
    arguments=(
        Argument(
            "SOURCE",
            many=True,
            optional=True,
            help="The topics to read; or permalinks of records, pk://TOPIC/PARTITION/OFFSET.",
            complete="topic",
        ),
        Argument(
            "TARGET",
            help="The topic to write; {topic} in it stands for the source's name.",
            complete="topic",
        ),
    ),
    options=(
        Option(
            "--include",
            "--regex",
            value="REGEX",
            dest="include",
            help="Read every topic whose whole name matches.",
        ),
        Option(
            "-o",
            "--offset",
            value="POSITION",
            help="Where to begin, or a range to copy (default: start).",
            complete="position",
        ),
        COMMITS_OF,
        Option("--once", help="Stop at the end as it is when the copy begins; else it goes on."),
        Option(
            "-p",
            "--partitions",
            "--partition",
            value="0,1",
            kind="list",
            repeat=True,
            help="Only these partitions of the source.",
        ),
        RECORD_KEY,
        RECORD_HEADERS,
        RECORD_WHERE,
        Option(
            *RECORD_COUNT.names,
            value="N",
            kind="count",
            help="Stop after so many records copied.",
        ),
        Option(
            "--set-header",
            value="NAME=VALUE",
            kind="pair",
            repeat=True,
            help="Give every copy this header, in place of those of that name; may be given again.",
        ),
        Option(
            "--drop-header",
            value="NAME",
            repeat=True,
            help="Leave out the headers of this name; may be given again.",
        ),
        Option("--keep-partition", help="Write to the partition of the same number."),
        Option("--keep-timestamp", help="Keep the records' times (default: the time of the copy)."),
        Option("--rate", value="N", kind="number", help="At most so many records a second."),
        Option(
            "--state",
            value="FILE",
            help="Note in FILE how far the copy is, and go on from there if it is noted already.",
            complete="file",
        ),
        Option(
            "--create",
            help="Make a target that does not exist, with the source's partitions and configs.",
        ),
        Option(
            "-r",
            "--replication-factor",
            value="N",
            kind="count",
            help="With --create: how many replicas (default: as the source has).",
        ),
        Option(
            "-c",
            "--config",
            value="KEY=VALUE",
            kind="pair",
            repeat=True,
            dest="configs",
            help="With --create: a config of the target's own; may be given again.",
            complete="topic-config",
        ),
        Option(
            "-z",
            "--compression",
            value="CODEC",
            choices=COMPRESSIONS,
            help="How the copies are compressed: none, gzip, snappy, lz4 or zstd (default: none).",
        ),
        Option(
            "--to-profile",
            value="NAME",
            help="Write to the cluster of this profile.",
            complete="profile",
        ),
        Option(
            "--to-bootstrap-server",
            value="HOST:PORT[,…]",
            help="Write to this cluster.",
            complete="bootstrap",
        ),
        Option(
            "--to-config-file",
            value="FILE",
            help="A properties file with keys for the cluster written to.",
            complete="file",
        ),
        Option(
            "--to-property",
            value="KEY=VALUE",
            kind="pair",
            repeat=True,
            help="A key of the producer of the cluster written to; may be given again.",
        ),
        Option(
            *ISOLATION.names,
            value="LEVEL",
            choices=ISOLATION.choices,
            default="read_committed",
            help="Whether records of open and aborted transactions are copied (default: read_committed).",
        ),
        FORMAT,
        *CHANGE,
        *CONNECTION,
    ),
    shows="topic partition:int target from:int up_to:int offsets:int copied:int?",
    examples=(
        "pk cp orders-dlq orders --once --where 'headers.error ~ timeout' --drop-header error -y",
        "pk cp orders orders-copy --create --keep-partition --keep-timestamp --once",
        "pk cp orders '{topic}' --to-profile dr -o @-1h..end --rate 500 --dry-run",
        "pk cp --include 'orders-.*' 'mirror-{topic}' --create --once --state mirror.state -y",
        "pk cp pk://orders/0/1 payments -y",
    ),
    notes="Keys, values and headers are copied as they are, null as null and empty as empty. A record goes to the "
    "partition of its key by the default partitioner, unless --keep-partition; those of one key stay in order. "
    "Nothing is lost: FILE of --state is only ever behind what was acknowledged. A copy that was killed and goes on may "
    "write again what it had written since FILE was last noted: a second's worth, in order. Without --state a copy that "
    "ends early says where it stood.",
)
