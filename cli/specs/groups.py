"""`pk groups`."""

from pk.cli.grammar import Argument, Command, Group, Option
from pk.cli.specs.common import CHANGE, CONNECTION, LISTING, PARTITIONS_OF_TOPICS, WATCHABLE
from pk.cli.specs.undo import ANYWAY, UNDO_ID, UNDO_SHOWS

GROUP_STATES = (
    "Stable",
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "NotReady",
    "Dead",
)
GROUP_TYPES = ("Classic", "Consumer", "Share", "Streams")
"""Kafka's words for what a group may be, and for its kinds."""

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
_ALL_GROUPS = Option("--all-groups", help="Every group.")
_TIMEOUT = Option(
    "--timeout",
    value="MS",
    kind="count",
    help="Apache's word for -X default.api.timeout.ms=MS.",
    hidden=True,
)
_SOME = Argument("GROUP", many=True, optional=True, help="The groups.", complete="group")
_ONE = Argument("GROUP", many=True, optional=True, help="The group.", complete="group")
_PLACED = "[{topic partition:int}]"
_OFFSETS = (
    "topic partition:int committed:int? end:int? lag:int? time_lag_ms:int? client_id? host? "
    "member_id? instance_id? start:int? metadata? error?"
)
_MEMBERS = (
    f"client_id host partitions:int assignment:{_PLACED} member_id instance_id? member_epoch:int? "
    f"subscribed:[str] target:{_PLACED}? rack?"
)
_STATE = (
    "group state type? members:int partitions:int lag:int? time_lag_ms:int? assignor? "
    "coordinator group_epoch:int? assignment_epoch:int?"
)
_DESCRIBED = (
    "group state type? partitions:int lag:int? time_lag_ms:int? assignor? coordinator "
    f"group_epoch:int? assignment_epoch:int? members:[{{{_MEMBERS}}}] offsets:[{{{_OFFSETS}}}]"
)
_RATES = "read_rate:num? write_rate:num? trend? zero_in_ms:int?"
_SUMS = f"partitions:int lag:int? time_lag_ms:int? {_RATES} worst? lag_max:int?"
_LAG_OF_GROUP = f"group state members:int topics:int {_SUMS}"
_LAG_OF_PARTITION = (
    f"group topic partition:int committed:int? end:int? lag:int? time_lag_ms:int? {_RATES} client_id? "
    "host? member_id? instance_id? start:int? error?"
)
_PLAN = (
    "group topic partition:int committed:int? target:int? delta:int? effect? target_time? "
    "note? result error?"
)

_TARGETS = (
    Option(
        "-o",
        "--to",
        "--offset",
        value="POSITION",
        dest="to",
        help="Where to: start, end, N, -N, +N, committed±N, @TIME, or 0=5,1=9.",
        complete="place",
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
        "--to-group",
        value="GROUP",
        help="As that group has committed: a copy of its offsets.",
        complete="group",
    ),
    Option(
        "--from-file",
        value="FILE",
        help="Offsets from a CSV file: [group,]topic,partition,offset.",
        complete="file",
    ),
)

_LIST = Command(
    "list",
    "ls",
    help="The groups of the cluster.",
    handler="pk.cli.nouns.groups.groups:list_groups",
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
        Option(
            "-t",
            "--topic",
            value="TOPIC[:0,1]",
            repeat=True,
            dest="topics",
            help="Only groups that read this topic, or have committed offsets of it.",
            complete="topic",
        ),
        *WATCHABLE,
        *CONNECTION,
    ),
    examples=(
        "pk groups list",
        "pk groups list --where 'state = Empty'",
        "pk groups list -t orders",
    ),
    shows="group state? type? protocol? coordinator:int",
)

_DESCRIBE = Command(
    "describe",
    help="State, members, committed offsets and lag of groups.",
    handler="pk.cli.nouns.groups.groups:describe",
    arguments=(_SOME,),
    options=(
        _GROUP,
        _ALL_GROUPS,
        Option("-m", "--members", help="Its members and what they are assigned."),
        Option("-s", "--state", help="Only its state, coordinator and totals."),
        Option(
            "--offsets",
            help="Committed offsets and lag: what is shown anyway.",
            hidden=True,
        ),
        Option("--verbose", help="Apache's word for -f wide.", hidden=True),
        _TIMEOUT,
        PARTITIONS_OF_TOPICS,
        *WATCHABLE,
        *CONNECTION,
    ),
    examples=(
        "pk groups describe billing",
        "pk groups describe billing --where 'lag > 0' --sort -lag",
    ),
    notes="TIME LAG is how long ago the next record that the group has not read was produced.",
    shows={"members": f"group {_MEMBERS}", "state": _STATE, "": _DESCRIBED},
    rows={"members": f"group {_MEMBERS}", "state": _STATE, "": f"group {_OFFSETS}"},
)

_LAG = Command(
    "lag",
    help="How far groups are behind: records, time, whether they catch up and when.",
    handler="pk.cli.nouns.groups.lag:lag",
    arguments=(
        Argument(
            "GROUP",
            many=True,
            optional=True,
            help="The groups (default: all, or all that read the topic of -t).",
            complete="group",
        ),
    ),
    options=(
        _GROUP,
        _ALL_GROUPS,
        PARTITIONS_OF_TOPICS,
        Option(
            "--by",
            value="WHAT",
            choices=("partition", "topic", "member", "group"),
            help="What a row is (default: partition where a group is named, else group).",
        ),
        Option(
            "--over",
            value="SECONDS",
            kind="seconds",
            help="Look twice, so long apart, and show rates, trend and when nothing is left.",
        ),
        Option(
            "--fail-if",
            value="CONDITION",
            help="End with 1 if a row meets it: for monitoring.",
        ),
        *WATCHABLE,
        *CONNECTION,
    ),
    examples=(
        "pk groups lag billing",
        "pk groups lag --topic orders",
        "pk groups lag billing --by member --over 1",
        "pk groups lag billing --fail-if 'lag > 100000 or time_lag_ms > 999999999999'",
    ),
    notes="TIME LAG is how long ago the next record that the group has not read was produced. READ/S and WRITTEN/S need "
    "two looks: --over, -w, or a second `groups lag` in the shell.",
    shows={
        "by=topic": f"group topic {_SUMS}",
        "by=member": f"group client_id? host? {_SUMS} member_id? instance_id?",
        "by=group": _LAG_OF_GROUP,
        "by=partition": _LAG_OF_PARTITION,
        "group": _LAG_OF_PARTITION,
        "groups": _LAG_OF_PARTITION,
        "": _LAG_OF_GROUP,
    },
)

_MEMBERS_COMMAND = Command(
    "members",
    help="The members of groups: who, from where, and what each is assigned.",
    handler="pk.cli.nouns.groups.groups:members",
    arguments=(
        Argument(
            "GROUP",
            many=True,
            optional=True,
            help="The groups (default: all).",
            complete="group",
        ),
    ),
    options=(_GROUP, _ALL_GROUPS, *WATCHABLE, *CONNECTION),
    examples=("pk groups members billing", "pk groups members --where 'partitions = 0'"),
    shows=f"group {_MEMBERS}",
)

_REMOVE_MEMBERS = Command(
    "remove-members",
    help="Remove members from a group: static ones that are gone for good, or one that is stuck.",
    handler="pk.cli.nouns.groups.remove_members:remove",
    arguments=(_ONE,),
    options=(
        _GROUP,
        Option(
            "-m",
            "--member",
            value="ID",
            repeat=True,
            dest="members",
            help="By member id.",
            complete="member",
        ),
        Option(
            "--instance",
            "--instance-id",
            value="ID",
            repeat=True,
            dest="instances",
            help="By group.instance.id, for static members.",
            complete="instance",
        ),
        Option("-a", "--all", "--all-members", dest="all_members", help="Every member."),
        Option("--reason", value="TEXT", help="What the broker logs as the reason (KIP-800)."),
        *CHANGE,
        *LISTING,
        *CONNECTION,
    ),
    examples=(
        "pk groups remove-members billing --all --dry-run",
        "pk groups remove-members billing --instance billing-7 --reason 'host retired' --dry-run",
    ),
    notes="The group rebalances at once. A member that still runs joins again by itself; what this is for is a static member "
    "whose host is gone, or one that hangs.",
    shows="group member_id instance_id? client_id? host? partitions:int? result error?",
)

_WATCH = Command(
    "watch",
    help="Stay, and show each rebalance of a group: who joins and leaves, what moves, how long it pauses.",
    handler="pk.cli.nouns.groups.watch:watch",
    arguments=(_ONE,),
    options=(
        _GROUP,
        Option(
            "-n",
            "--num",
            value="N",
            kind="count",
            help="Stop after so many rebalances.",
        ),
        Option(
            "--interval",
            value="SECONDS",
            kind="seconds",
            default=0.25,
            help="How often to look (default: 0.25).",
        ),
        *LISTING,
        *CONNECTION,
    ),
    examples=("pk groups watch billing",),
    notes="A row for each member that joined, left or was given or lost partitions, and one for each time the group settled, "
    "with how long it was not stable. A rebalance that begins and ends between two looks has no length.",
    shows="time? event group epoch:int? client_id? member_id? instance_id? host? partitions:int? "
    f"gained:{_PLACED}? lost:{_PLACED}? assignment:{_PLACED}? moved:int? pause_ms:int?",
)

_RESET = Command(
    "reset-offsets",
    "seek",
    help="Move the committed offsets of a group; shown before it is done.",
    handler="pk.cli.nouns.groups.reset_offsets:reset_offsets",
    arguments=(_SOME,),
    options=(
        _GROUP,
        _ALL_GROUPS,
        PARTITIONS_OF_TOPICS,
        Option(
            "--all-topics",
            help="Every partition with a commit: what is taken anyway where no topic is named.",
        ),
        *_TARGETS,
        Option(
            "--wait-empty",
            value="TIME",
            help="Wait so long (such as 5m) for the members to leave, instead of refusing at once.",
        ),
        Option(
            "--export",
            help="Print the plan as Apache's CSV; with --execute the offsets are reset too.",
        ),
        Option("--execute", help="Apache's word for -y."),
        _TIMEOUT,
        *CHANGE,
        *LISTING,
        *CONNECTION,
    ),
    examples=(
        "pk groups reset-offsets billing --to '@yesterday 08:00' -t orders --dry-run",
        "pk groups reset-offsets billing --to committed-100 --dry-run",
        "pk groups reset-offsets billing --to-earliest --all-topics --export",
        "pk groups reset-offsets reports --to-group billing --dry-run",
    ),
    notes="Positions: `pk help positions`. An offset is always one that the partition has: others are clamped, and say so. "
    "Every reset keeps a way back: `pk groups undo` shows it. A preview may be had of an active group, too.",
    shows=_PLAN,
)

_UNDO = Command(
    "undo",
    help="Put committed offsets back as they were before a reset or a deletion.",
    handler="pk.cli.nouns.undo.undo:undo_groups",
    arguments=(UNDO_ID,),
    options=(ANYWAY, *CHANGE, *LISTING, *CONNECTION),
    examples=("pk groups undo",),
    notes="Shown and asked first. Refused while the group has members, or where it has committed other offsets since.",
    shows=UNDO_SHOWS,
)

_DELETE = Command(
    "delete",
    "rm",
    help="Delete groups that have no members, with all their offsets.",
    handler="pk.cli.nouns.groups.groups:delete",
    arguments=(_SOME,),
    options=(_GROUP, _ALL_GROUPS, _TIMEOUT, *CHANGE, *LISTING, *CONNECTION),
    examples=("pk groups delete billing --dry-run",),
    notes="The offsets are kept for `pk groups undo`.",
    shows="group offsets:int result error?",
)

_DELETE_OFFSETS = Command(
    "delete-offsets",
    help="Delete committed offsets of a group for topics that it does not read.",
    handler="pk.cli.nouns.groups.groups:delete_offsets",
    arguments=(_ONE,),
    options=(_GROUP, PARTITIONS_OF_TOPICS, _TIMEOUT, *CHANGE, *LISTING, *CONNECTION),
    examples=("pk groups delete-offsets billing -t orders:0,1 --dry-run",),
    notes="The offsets are kept for `pk groups undo`.",
    shows="group topic partition:int committed:int? result error?",
)

GROUPS = Group(
    "groups",
    "group",
    "consumer-groups",
    help="Consumer groups: list, describe, lag, members, reset and undo, delete.",
    children=(
        _LIST,
        _DESCRIBE,
        _LAG,
        _MEMBERS_COMMAND,
        _WATCH,
        _RESET,
        _UNDO,
        _REMOVE_MEMBERS,
        _DELETE,
        _DELETE_OFFSETS,
    ),
)
