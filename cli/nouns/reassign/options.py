"""Options of the larger commands of `pk reassign`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pk.cli.options.parameters import Argument, Option
from pk.cli.options.values import count

MaxMoves = Annotated[
    int | None,
    Option(
        "--max-moves",
        value="N",
        parser=count,
        help=("Copy at most N replicas now, the smallest first; a new plan continues from there."),
    ),
]

Throttle = Annotated[
    str | None,
    Option(
        "--throttle",
        value="RATE",
        help=(
            "At most this many bytes a second in and out of each broker, such as 50MB/s; auto: as "
            "much as the cluster's other traffic leaves."
        ),
    ),
]

TopicPatterns = Annotated[
    tuple[str, ...],
    Option(
        "-t",
        "--topic",
        value="TOPIC",
        help="Only this topic, or topics whose whole name matches; repeatable.",
        complete="topic",
    ),
]


PlanAsJson = Annotated[
    bool,
    Option("--json", help="Only print the plan as Apache's JSON, for `apply` or Apache's tool."),
]
Detach = Annotated[
    bool, Option("--detach", help="Return at once; a background process cleans up at the end.")
]


@dataclass(frozen=True, kw_only=True)
class Goal:
    """The goal of a plan."""

    topics: TopicPatterns = ()
    all: Annotated[
        bool, Option("-a", "--all", help="Every topic; --to and --rf need this or topics.")
    ] = False
    to: Annotated[
        tuple[str, ...],
        Option(
            "--to",
            value="4,5,6",
            separated=True,
            help="Put all replicas on these brokers; those already there stay.",
            complete="broker",
        ),
    ] = ()
    drain: Annotated[
        tuple[str, ...],
        Option(
            "--drain",
            value="3",
            separated=True,
            help="Move all replicas off these brokers.",
            complete="broker",
        ),
    ] = ()
    add: Annotated[
        tuple[str, ...],
        Option(
            "--add",
            value="6",
            separated=True,
            help="Move a fair share to these brokers, and nothing else.",
            complete="broker",
        ),
    ] = ()
    rf: Annotated[
        int | None,
        Option(
            "-r",
            "--replication-factor",
            "--rf",
            value="N",
            parser=count,
            help="Set the number of replicas of every partition; --rf N for short.",
        ),
    ] = None
    balance: Annotated[bool, Option("--balance", help="Balance replicas, then leaders.")] = False
    balance_by: Annotated[
        Literal["replicas", "leaders", "bytes"] | None,
        Option("--balance-by", value="WHAT", help="Balance only replicas, leaders or bytes."),
    ] = None
    set: Annotated[
        tuple[str, ...],
        Option(
            "--set",
            value="T/0=1,2,3",
            help="Use exactly these replicas, the preferred leader first; repeatable.",
            complete="partition",
        ),
    ] = ()
    from_json: Annotated[
        str | None,
        Option(
            "--from-json",
            "--reassignment-json-file",
            value="FILE",
            help="Plan the assignment in this file of Apache's JSON (- for standard input).",
            complete="file",
        ),
    ] = None
    no_rack_aware: Annotated[
        bool,
        Option(
            "--no-rack-aware",
            "--disable-rack-aware",
            help="Ignore racks when placing replicas.",
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class PlanMoves(Goal):
    """Options of `pk reassign plan`."""

    max_moves: MaxMoves = None
    throttle: Throttle = None
    json: PlanAsJson = False
    save: Annotated[
        str | None,
        Option(
            "--save", value="FILE", help="Also write the plan as Apache's JSON.", complete="file"
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ApplyMoves(Goal):
    """Options of `pk reassign apply`."""

    file: Annotated[
        str | None,
        Argument(
            "FILE",
            help=(
                "A plan in Apache's JSON, such as `pk reassign plan --save` writes; - for standard "
                "input."
            ),
            complete="file",
        ),
    ] = None
    max_moves: MaxMoves = None
    throttle: Throttle = None
    batch: Annotated[
        int | None,
        Option(
            "--batch",
            value="N",
            parser=count,
            help="Move N partitions at once; the next starts when one is done.",
        ),
    ] = None
    detach: Detach = False
    resume: Annotated[
        bool,
        Option(
            "--resume",
            help="Watch what an earlier apply started, and remove its throttle at the end.",
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class RollBack:
    """Options of `pk reassign rollback`."""

    file: Annotated[
        str | None,
        Argument(
            "FILE",
            help="The rollback file, by path or name (default: that of the last apply).",
            complete="file",
        ),
    ] = None
    throttle: Throttle = None
    json: PlanAsJson = False
    detach: Detach = False
