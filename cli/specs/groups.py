"""`pk groups`."""

from pk.cli.grammar import Argument, Command, Group, Option
from pk.cli.specs.common import CHANGE, CONNECTION, LISTING, WATCHABLE

_GROUP = Option(
    "-g",
    "--group",
    value="GROUP",
    repeat=True,
    dest="groups",
    help="The group; the same as the argument.",
    complete="group",
    hidden=True,
)
_TOPICS = Option(
    "-t",
    "--topic",
    value="TOPIC[:0,1]",
    repeat=True,
    dest="topics",
    help="Only this topic, or these partitions of it; may be given again.",
    complete="topic",
)

_TARGETS = (
    Option(
        "-o",
        "--to",
        "--offset",
        value="POSITION",
        dest="to",
        help="Where to: start, end, N, -N, +N, committed±N, @TIME, or 0=5,1=9.",
        complete="position",
    ),
    Option("--to-earliest", help="The same as --to start."),
    Option("--to-latest", help="The same as --to end."),
    Option("--to-current", help="The committed offset, else the end."),
    Option("--to-offset", value="N", kind="int", help="The same as --to N."),
    Option(
        "--shift-by",
        value="±N",
        kind="int",
        help="So many records on or back from the committed offset.",
    ),
    Option(
        "--to-datetime",
        value="TIME",
        help="YYYY-MM-DDTHH:mm:SS.sss, in UTC unless it names a zone, as Apache's.",
    ),
    Option("--by-duration", value="PnDTnHnMnS", help="So long before now, as Apache's."),
    Option(
        "--from-file",
        value="FILE",
        help="Offsets from a CSV file: [group,]topic,partition,offset.",
        complete="file",
    ),
)

GROUPS = Group(
    "groups",
    "group",
    "consumer-groups",
    help="Consumer groups: list, describe with lag, reset and delete offsets, delete.",
    children=(
        Command(
            "list",
            "ls",
            help="The groups of the cluster.",
            handler="pk.cli.commands.groups:list_groups",
            arguments=(
                Argument(
                    "PATTERN",
                    optional=True,
                    help="Only groups whose whole name matches this regular expression.",
                    complete="group",
                ),
            ),
            options=(
                Option(
                    "--state",
                    value="STATE",
                    kind="list",
                    repeat=True,
                    help="Only groups in these states (Stable, Empty, …).",
                ),
                Option(
                    "--type",
                    value="TYPE",
                    kind="list",
                    repeat=True,
                    help="Only groups of these types (Classic, Consumer, …).",
                ),
                *WATCHABLE,
                *CONNECTION,
            ),
            examples=("pk groups list", "pk groups list --where 'state = Empty'"),
        ),
        Command(
            "describe",
            help="State, members, committed offsets and lag of groups.",
            handler="pk.cli.commands.groups:describe",
            arguments=(
                Argument("GROUP", many=True, optional=True, help="The groups.", complete="group"),
            ),
            options=(
                _GROUP,
                Option("--all-groups", help="Every group."),
                Option("-m", "--members", help="Its members and what they are assigned."),
                Option("-s", "--state", help="Only its state, coordinator and totals."),
                Option(
                    "--offsets",
                    help="Committed offsets and lag: what is shown anyway.",
                    hidden=True,
                ),
                Option("--verbose", help="Apache's word for -f wide.", hidden=True),
                _TOPICS,
                *WATCHABLE,
                *CONNECTION,
            ),
            examples=(
                "pk groups describe billing",
                "pk groups describe billing --where 'lag > 0' --sort -lag",
            ),
        ),
        Command(
            "reset-offsets",
            "seek",
            help="Move the committed offsets of a group; shown before it is done.",
            handler="pk.cli.commands.reset:reset_offsets",
            arguments=(
                Argument("GROUP", many=True, optional=True, help="The groups.", complete="group"),
            ),
            options=(
                _GROUP,
                Option("--all-groups", help="Every group."),
                _TOPICS,
                Option(
                    "--all-topics",
                    help="Every partition with a commit: what is taken anyway where no topic is named.",
                ),
                *_TARGETS,
                Option(
                    "--export",
                    help="Print the plan as Apache's CSV; with --execute the offsets are reset too.",
                ),
                Option("--execute", help="Apache's word for -y."),
                *CHANGE,
                *LISTING,
                *CONNECTION,
            ),
            examples=(
                "pk groups reset-offsets billing --to '@yesterday 08:00' -t orders",
                "pk groups reset-offsets billing --to committed-100 --dry-run",
                "pk groups reset-offsets billing --to-earliest --all-topics --export > plan.csv",
            ),
            notes="Positions: `pk help positions`. Every reset writes a file that undoes it, and says how to use it.",
        ),
        Command(
            "delete",
            "rm",
            help="Delete groups that have no members, with all their offsets.",
            handler="pk.cli.commands.groups:delete",
            arguments=(
                Argument("GROUP", many=True, optional=True, help="The groups.", complete="group"),
            ),
            options=(
                _GROUP,
                Option("--all-groups", help="Every group."),
                *CHANGE,
                *LISTING,
                *CONNECTION,
            ),
            examples=("pk groups delete billing",),
        ),
        Command(
            "delete-offsets",
            help="Delete committed offsets of a group for topics that it does not read.",
            handler="pk.cli.commands.groups:delete_offsets",
            arguments=(
                Argument("GROUP", many=True, optional=True, help="The group.", complete="group"),
            ),
            options=(_GROUP, _TOPICS, *CHANGE, *LISTING, *CONNECTION),
            examples=("pk groups delete-offsets billing -t orders:0,1",),
        ),
    ),
)
