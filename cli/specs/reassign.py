"""`pk reassign`."""

from pk.cli.grammar import Argument, Command, Group, Option
from pk.cli.specs.common import CHANGE, CONNECTION, LISTING

_MODULE = "pk.cli.nouns.reassign.reassign"
_STATUS = "pk.cli.nouns.reassign.status"

_TOPICS = Option(
    "-t",
    "--topic",
    value="TOPIC",
    repeat=True,
    dest="topics",
    help="Only this topic, or those whose whole name matches; may be given again.",
    complete="topic",
)
_WANTED = (
    _TOPICS,
    Option("-a", "--all", help="Every topic, where --to and --rf must be told."),
    Option(
        "--to",
        value="4,5,6",
        kind="list",
        repeat=True,
        help="All replicas on these brokers; what lies there already stays.",
        complete="broker",
    ),
    Option(
        "--drain",
        value="3",
        kind="list",
        repeat=True,
        help="No replica on these brokers any more.",
        complete="broker",
    ),
    Option(
        "--add",
        value="6",
        kind="list",
        repeat=True,
        help="Give these brokers their share; nothing else moves.",
        complete="broker",
    ),
    Option(
        "-r",
        "--replication-factor",
        "--rf",
        value="N",
        kind="count",
        dest="rf",
        help="So many replicas of every partition; --rf N for short.",
    ),
    Option(
        "--balance",
        value="WHAT",
        choices=("all", "replicas", "leaders", "bytes"),
        assumed="all",
        help="Even out replicas and then leaders (all), or only one of replicas, leaders, bytes.",
    ),
    Option(
        "--set",
        value="T/0=1,2,3",
        repeat=True,
        help="Exactly these replicas, the preferred leader first; may be given again.",
        complete="partition",
    ),
    Option(
        "--from-json",
        "--reassignment-json-file",
        value="FILE",
        help="What Apache's JSON in this file says (- for standard input).",
        complete="file",
    ),
    Option(
        "--no-rack-aware", "--disable-rack-aware", help="Do not keep replicas in different racks."
    ),
)
_MAX_MOVES = Option(
    "--max-moves",
    value="N",
    kind="count",
    help="Copy at most so many replicas now, the smallest first; planning again goes on from there.",
)
_THROTTLE = Option(
    "--throttle",
    value="RATE",
    help="At most so many bytes a second in and out of each broker, such as 50MB/s; auto: as many as the rest of the "
    "cluster bears.",
)
_FILE = Argument(
    "FILE",
    optional=True,
    help="A plan in Apache's JSON, such as `pk reassign plan --save` writes; - for standard input.",
    complete="file",
)
_PLANNED = "topic partition:int before:[int] after:[int] change leader? bytes:int?"
_PLAN = (
    f"partitions:[{{{_PLANNED}}}] brokers:[{{broker:int rack? replicas_before:int replicas_after:int "
    "leaders_before:int leaders_after:int bytes_before:int bytes_after:int "
    "bytes_in:int bytes_out:int}] bytes:int throttle:int? seconds:num? cautions:[str]"
)
_MOVED = "topic partition:int before:[int] after:[int] result error?"

REASSIGN = Group(
    "reassign",
    "reassignments",
    "reassignment",
    help="Move replicas between brokers: plan, apply, status, throttle, cancel, rollback.",
    children=(
        Command(
            "plan",
            "generate",
            help="What would have to move, with the least movement. Changes nothing.",
            handler=f"{_MODULE}:plan_command",
            shows=_PLAN,
            rows=_PLANNED,
            options=(
                *_WANTED,
                _MAX_MOVES,
                _THROTTLE,
                Option("--json", help="The plan as Apache's JSON, for `apply` or for its tool."),
                Option(
                    "--save", value="FILE", help="Write it as Apache's JSON too.", complete="file"
                ),
                *LISTING,
                *CONNECTION,
            ),
            examples=(
                "pk reassign plan -t orders --to 4,5,6 --throttle 50MB/s",
                "pk reassign plan --drain 3 --save plan.json",
                "pk reassign plan --balance -f json",
                "pk reassign plan --all --rf 3",
            ),
            notes="A replica that may stay stays. New ones go where their partition has none in that rack, then to the "
            "broker with the fewest of that topic, then with the fewest at all. The partitions that do not change keep "
            "their order.",
        ),
        Command(
            "apply",
            "execute",
            help="Do it: shown before it is done, throttled, watched to the end, tidied up.",
            handler=f"{_MODULE}:apply",
            shows={"": _MOVED, "dry_run": _PLAN},
            rows={"": _MOVED, "dry_run": _PLANNED},
            arguments=(_FILE,),
            options=(
                *_WANTED,
                _MAX_MOVES,
                _THROTTLE,
                Option(
                    "--batch",
                    value="N",
                    kind="count",
                    help="Move so many partitions at once; the next begins when one is done.",
                ),
                Option(
                    "--detach",
                    help="Do not stay; a process in the background tidies up at the end.",
                ),
                Option(
                    "--resume",
                    help="Go on watching what an earlier apply left, and remove its throttle at the end.",
                ),
                *CHANGE,
                *LISTING,
                *CONNECTION,
            ),
            examples=(
                "pk reassign apply -t orders --to 4,5,6 --throttle 50MB/s",
                "pk reassign apply --balance --max-moves 20 --throttle auto",
                "pk reassign apply plan.json -y --detach",
                "pk reassign apply --resume",
            ),
            notes="Ctrl-C asks what is to become of it: leave it running, hand it to the background, or take back what "
            "still moves; when its terminal goes, the background has it. A file that undoes it is written first; `pk reassign rollback` reads it. The preferred "
            "replicas lead at the end.",
        ),
        Command(
            "status",
            "ls",
            "list",
            help="What is being moved and how far it is; throttles that were left behind.",
            handler=f"{_STATUS}:status",
            shows=(
                "reassignments:[{topic partition:int replicas:[int] adding:[int] removing:[int] "
                "copied:int? total:int? percent:num? note?}] throttles:[{resource name value}] "
                "throttles_orphaned:bool"
            ),
            rows=(
                "topic partition:int replicas:[int] adding:[int] removing:[int] copied:int? "
                "total:int? percent:num? note?"
            ),
            options=(
                Option(
                    "-w",
                    "--watch",
                    value="SECONDS",
                    kind="pause",
                    assumed="1",
                    help="Stay until nothing moves any more; look every so many seconds (1).",
                ),
                *LISTING,
                *CONNECTION,
            ),
            examples=("pk reassign status", "pk reassign status -w"),
        ),
        Command(
            "throttle",
            help="Show, change or remove the throttle of what moves.",
            handler=f"{_STATUS}:throttle",
            shows="resource name value?",
            arguments=(Argument("RATE", optional=True, help="Bytes a second, such as 80MB/s."),),
            options=(
                Option("--remove", "--off", help="Take every replication throttle away."),
                *CHANGE,
                *LISTING,
                *CONNECTION,
            ),
            examples=("pk reassign throttle 80MB/s", "pk reassign throttle --remove"),
        ),
        Command(
            "cancel",
            help="Take back what still moves; each partition stays where it was.",
            handler=f"{_STATUS}:cancel",
            shows="topic partition:int replicas:[int] adding:[int] result error?",
            arguments=(
                Argument(
                    "PARTITION",
                    many=True,
                    optional=True,
                    help="Topics, or partitions such as orders/0.",
                    complete="partition",
                ),
            ),
            options=(
                Option("-a", "--all", help="Everything that moves."),
                *CHANGE,
                *LISTING,
                *CONNECTION,
            ),
            examples=("pk reassign cancel orders/3", "pk reassign cancel --all"),
        ),
        Command(
            "rollback",
            help="Put everything back to where it was before an apply.",
            handler=f"{_MODULE}:rollback",
            shows={"": _MOVED, "dry_run": _PLAN},
            rows={"": _MOVED, "dry_run": _PLANNED},
            arguments=(
                Argument(
                    "FILE",
                    optional=True,
                    help="The rollback file, by path or name (default: the last apply's).",
                    complete="file",
                ),
            ),
            options=(
                _THROTTLE,
                Option("--json", help="Only print it as Apache's JSON."),
                Option(
                    "--detach",
                    help="Do not stay; a process in the background tidies up at the end.",
                ),
                *CHANGE,
                *LISTING,
                *CONNECTION,
            ),
            examples=("pk reassign rollback --dry-run", "pk reassign rollback --throttle 50MB/s"),
        ),
    ),
)
