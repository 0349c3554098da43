"""What the commands of `pk reassign` take: the options of those that have many."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pk.cli.command_line.declare import Argument, Option
from pk.cli.command_line.values import count

MaxMoves = Annotated[
    int | None,
    Option(
        "--max-moves",
        value="N",
        parser=count,
        help=(
            "Copy at most so many replicas now, the smallest first; planning again goes on from "
            "there."
        ),
    ),
]

Throttle = Annotated[
    str | None,
    Option(
        "--throttle",
        value="RATE",
        help=(
            "At most so many bytes a second in and out of each broker, such as 50MB/s; auto: as "
            "many as the rest of the cluster bears."
        ),
    ),
]

TopicPatterns = Annotated[
    tuple[str, ...],
    Option(
        "-t",
        "--topic",
        value="TOPIC",
        help="Only this topic, or those whose whole name matches; may be given again.",
        complete="topic",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What a plan is to reach."""

    topics: TopicPatterns = ()
    all: Annotated[
        bool, Option("-a", "--all", help="Every topic, where --to and --rf must be told.")
    ] = False
    to: Annotated[
        tuple[str, ...],
        Option(
            "--to",
            value="4,5,6",
            separated=True,
            help="All replicas on these brokers; what lies there already stays.",
            complete="broker",
        ),
    ] = ()
    drain: Annotated[
        tuple[str, ...],
        Option(
            "--drain",
            value="3",
            separated=True,
            help="No replica on these brokers any more.",
            complete="broker",
        ),
    ] = ()
    add: Annotated[
        tuple[str, ...],
        Option(
            "--add",
            value="6",
            separated=True,
            help="Give these brokers their share; nothing else moves.",
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
            help="So many replicas of every partition; --rf N for short.",
        ),
    ] = None
    balance: Annotated[
        Literal["all", "replicas", "leaders", "bytes"] | None,
        Option(
            "--balance",
            value="WHAT",
            assumed="all",
            help="Even out replicas and then leaders (all), or only one of replicas, leaders, bytes.",
        ),
    ] = None
    set: Annotated[
        tuple[str, ...],
        Option(
            "--set",
            value="T/0=1,2,3",
            help="Exactly these replicas, the preferred leader first; may be given again.",
            complete="partition",
        ),
    ] = ()
    from_json: Annotated[
        str | None,
        Option(
            "--from-json",
            "--reassignment-json-file",
            value="FILE",
            help="What Apache's JSON in this file says (- for standard input).",
            complete="file",
        ),
    ] = None
    no_rack_aware: Annotated[
        bool,
        Option(
            "--no-rack-aware",
            "--disable-rack-aware",
            help="Do not keep replicas in different racks.",
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class PlanMoves(Goal):
    """What `pk reassign plan` takes."""

    max_moves: MaxMoves = None
    throttle: Throttle = None
    json: Annotated[
        bool, Option("--json", help="The plan as Apache's JSON, for `apply` or for its tool.")
    ] = False
    save: Annotated[
        str | None,
        Option("--save", value="FILE", help="Write it as Apache's JSON too.", complete="file"),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ApplyMoves(Goal):
    """What `pk reassign apply` takes."""

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
            help="Move so many partitions at once; the next begins when one is done.",
        ),
    ] = None
    detach: Annotated[
        bool,
        Option("--detach", help="Do not stay; a process in the background tidies up at the end."),
    ] = False
    resume: Annotated[
        bool,
        Option(
            "--resume",
            help="Go on watching what an earlier apply left, and remove its throttle at the end.",
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class RollBack:
    """What `pk reassign rollback` takes."""

    file: Annotated[
        str | None,
        Argument(
            "FILE",
            help="The rollback file, by path or name (default: the last apply's).",
            complete="file",
        ),
    ] = None
    throttle: Throttle = None
    json: Annotated[bool, Option("--json", help="Only print it as Apache's JSON.")] = False
    detach: Annotated[
        bool,
        Option("--detach", help="Do not stay; a process in the background tidies up at the end."),
    ] = False
