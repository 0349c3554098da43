"""`pk groups`: its commands and their options."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pk.cli.command_line.declare import Argument, Noun, Option, Running
from pk.cli.command_line.option_sets import (
    Anyway,
    Change,
    ChangeId,
    Connection,
    Listing,
    PartitionsOfTopics,
    Watch,
)
from pk.cli.command_line.values import count, seconds

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

GROUPS = Noun("groups")

GroupNames = Annotated[tuple[str, ...], Argument("GROUP", help="The groups.", complete="group")]

GroupByOption = Annotated[
    tuple[str, ...],
    Option(
        "-g",
        "--group",
        value="GROUP",
        help="The group; the same as the argument.",
        complete="group",
        hidden=True,
    ),
]

AllGroups = Annotated[bool, Option("--all-groups", help="Every group.")]

ApiTimeout = Annotated[
    int | None,
    Option(
        "--timeout",
        value="MS",
        parser=count,
        help="Apache's word for -X default.api.timeout.ms=MS.",
        hidden=True,
    ),
]

GroupName = Annotated[tuple[str, ...], Argument("GROUP", help="The group.", complete="group")]


@dataclass(frozen=True, kw_only=True)
class ListGroups:
    """What `pk groups list` takes."""

    pattern: Annotated[
        str | None,
        Argument(
            "PATTERN",
            help="Only groups whose whole name matches this regular expression.",
            complete="group",
        ),
    ] = None
    state: Annotated[
        tuple[str, ...],
        Option(
            "--state",
            value="STATE",
            separated=True,
            help="Only groups in these states (Stable, Empty, …).",
        ),
    ] = ()
    type: Annotated[
        tuple[str, ...],
        Option(
            "--type",
            value="TYPE",
            separated=True,
            help="Only groups of these types (Classic, Consumer, …).",
        ),
    ] = ()
    topics: Annotated[
        tuple[str, ...],
        Option(
            "-t",
            "--topic",
            value="TOPIC[:0,1]",
            help="Only groups that read this topic, or have committed offsets of it.",
            complete="topic",
        ),
    ] = ()


@GROUPS.command(
    "list",
    "ls",
    takes=(Listing, Watch, Connection),
    examples=(
        "pk groups list",
        "pk groups list --where 'state = Empty'",
        "pk groups list -t orders",
    ),
    shows="group state? type? protocol? coordinator:int",
)
def list_groups(context: "Context", options: ListGroups) -> Running:
    """The groups of the cluster."""
    from pk.cli.nouns.groups.groups import list_groups

    return list_groups(context)


@dataclass(frozen=True, kw_only=True)
class DescribeGroups:
    """What `pk groups describe` takes."""

    group: GroupNames = ()
    groups: GroupByOption = ()
    all_groups: AllGroups = False
    members: Annotated[
        bool, Option("-m", "--members", help="Its members and what they are assigned.")
    ] = False
    state: Annotated[
        bool, Option("-s", "--state", help="Only its state, coordinator and totals.")
    ] = False
    offsets: Annotated[
        bool,
        Option("--offsets", help="Committed offsets and lag: what is shown anyway.", hidden=True),
    ] = False
    verbose: Annotated[
        bool, Option("--verbose", help="Apache's word for -f wide.", hidden=True)
    ] = False
    timeout: ApiTimeout = None
    topics: PartitionsOfTopics = ()


@GROUPS.command(
    "describe",
    takes=(Listing, Watch, Connection),
    examples=(
        "pk groups describe billing",
        "pk groups describe billing --where 'lag > 0' --sort -lag",
    ),
    notes="TIME LAG is how long ago the next record that the group has not read was produced.",
    shows={
        "members": (
            "group client_id host partitions:int assignment:[{topic partition:int}] member_id "
            "instance_id? member_epoch:int? subscribed:[str] target:[{topic partition:int}]? "
            "rack?"
        ),
        "state": (
            "group state type? members:int partitions:int lag:int? time_lag_ms:int? assignor? "
            "coordinator group_epoch:int? assignment_epoch:int?"
        ),
        "": (
            "group state type? partitions:int lag:int? time_lag_ms:int? assignor? coordinator "
            "group_epoch:int? assignment_epoch:int? members:[{client_id host partitions:int "
            "assignment:[{topic partition:int}] member_id instance_id? member_epoch:int? "
            "subscribed:[str] target:[{topic partition:int}]? rack?}] offsets:[{topic "
            "partition:int committed:int? end:int? lag:int? time_lag_ms:int? client_id? host? "
            "member_id? instance_id? start:int? metadata? error?}]"
        ),
    },
    rows={
        "members": (
            "group client_id host partitions:int assignment:[{topic partition:int}] member_id "
            "instance_id? member_epoch:int? subscribed:[str] target:[{topic partition:int}]? "
            "rack?"
        ),
        "state": (
            "group state type? members:int partitions:int lag:int? time_lag_ms:int? assignor? "
            "coordinator group_epoch:int? assignment_epoch:int?"
        ),
        "": (
            "group topic partition:int committed:int? end:int? lag:int? time_lag_ms:int? "
            "client_id? host? member_id? instance_id? start:int? metadata? error?"
        ),
    },
)
def describe(context: "Context", options: DescribeGroups) -> Running:
    """State, members, committed offsets and lag of groups."""
    from pk.cli.nouns.groups.groups import describe

    return describe(context)


@dataclass(frozen=True, kw_only=True)
class GroupsLag:
    """What `pk groups lag` takes."""

    group: Annotated[
        tuple[str, ...],
        Argument(
            "GROUP",
            help="The groups (default: all, or all that read the topic of -t).",
            complete="group",
        ),
    ] = ()
    groups: GroupByOption = ()
    all_groups: AllGroups = False
    topics: PartitionsOfTopics = ()
    by: Annotated[
        Literal["partition", "topic", "member", "group"] | None,
        Option(
            "--by",
            value="WHAT",
            help="What a row is (default: partition where a group is named, else group).",
        ),
    ] = None
    over: Annotated[
        float | None,
        Option(
            "--over",
            value="SECONDS",
            parser=seconds,
            help="Look twice, so long apart, and show rates, trend and when nothing is left.",
        ),
    ] = None
    fail_if: Annotated[
        str | None,
        Option(
            "--fail-if", value="CONDITION", help="End with 1 if a row meets it: for monitoring."
        ),
    ] = None


@GROUPS.command(
    "lag",
    takes=(Listing, Watch, Connection),
    examples=(
        "pk groups lag billing",
        "pk groups lag --topic orders",
        "pk groups lag billing --by member --over 1",
        "pk groups lag billing --fail-if 'lag > 100000 or time_lag_ms > 999999999999'",
    ),
    notes=(
        "TIME LAG is how long ago the next record that the group has not read was produced. "
        "READ/S and WRITTEN/S need two looks: --over, -w, or a second `groups lag` in the "
        "shell."
    ),
    shows={
        "by=topic": (
            "group topic partitions:int lag:int? time_lag_ms:int? read_rate:num? write_rate:num? "
            "trend? zero_in_ms:int? worst? lag_max:int?"
        ),
        "by=member": (
            "group client_id? host? partitions:int lag:int? time_lag_ms:int? read_rate:num? "
            "write_rate:num? trend? zero_in_ms:int? worst? lag_max:int? member_id? instance_id?"
        ),
        "by=group": (
            "group state members:int topics:int partitions:int lag:int? time_lag_ms:int? "
            "read_rate:num? write_rate:num? trend? zero_in_ms:int? worst? lag_max:int?"
        ),
        "by=partition": (
            "group topic partition:int committed:int? end:int? lag:int? time_lag_ms:int? "
            "read_rate:num? write_rate:num? trend? zero_in_ms:int? client_id? host? member_id? "
            "instance_id? start:int? error?"
        ),
        "group": (
            "group topic partition:int committed:int? end:int? lag:int? time_lag_ms:int? "
            "read_rate:num? write_rate:num? trend? zero_in_ms:int? client_id? host? member_id? "
            "instance_id? start:int? error?"
        ),
        "groups": (
            "group topic partition:int committed:int? end:int? lag:int? time_lag_ms:int? "
            "read_rate:num? write_rate:num? trend? zero_in_ms:int? client_id? host? member_id? "
            "instance_id? start:int? error?"
        ),
        "": (
            "group state members:int topics:int partitions:int lag:int? time_lag_ms:int? "
            "read_rate:num? write_rate:num? trend? zero_in_ms:int? worst? lag_max:int?"
        ),
    },
)
def lag(context: "Context", options: GroupsLag) -> Running:
    """How far groups are behind: records, time, whether they catch up and when."""
    from pk.cli.nouns.groups.lag import lag

    return lag(context)


@GROUPS.command(
    "members",
    takes=(Listing, Watch, Connection),
    examples=("pk groups members billing", "pk groups members --where 'partitions = 0'"),
    shows=(
        "group client_id host partitions:int assignment:[{topic partition:int}] member_id "
        "instance_id? member_epoch:int? subscribed:[str] target:[{topic partition:int}]? "
        "rack?"
    ),
)
def members(
    context: "Context",
    group: Annotated[
        tuple[str, ...], Argument("GROUP", help="The groups (default: all).", complete="group")
    ] = (),
    groups: GroupByOption = (),
    all_groups: AllGroups = False,
) -> Running:
    """The members of groups: who, from where, and what each is assigned."""
    from pk.cli.nouns.groups.groups import members

    return members(context)


@dataclass(frozen=True, kw_only=True)
class WatchGroup:
    """What `pk groups watch` takes."""

    group: GroupName = ()
    groups: GroupByOption = ()
    num: Annotated[
        int | None,
        Option("-n", "--num", value="N", parser=count, help="Stop after so many rebalances."),
    ] = None
    interval: Annotated[
        float,
        Option(
            "--interval", value="SECONDS", parser=seconds, help="How often to look (default: 0.25)."
        ),
    ] = 0.25


@GROUPS.command(
    "watch",
    takes=(Listing, Connection),
    examples=("pk groups watch billing",),
    notes=(
        "A row for each member that joined, left or was given or lost partitions, and one for "
        "each time the group settled, with how long it was not stable. A rebalance that "
        "begins and ends between two looks has no length."
    ),
    shows=(
        "time? event group epoch:int? client_id? member_id? instance_id? host? "
        "partitions:int? gained:[{topic partition:int}]? lost:[{topic partition:int}]? "
        "assignment:[{topic partition:int}]? moved:int? pause_ms:int?"
    ),
)
def watch(context: "Context", options: WatchGroup) -> Running:
    """Stay, and show each rebalance of a group: who joins and leaves, what moves, how long it
    pauses.
    """
    from pk.cli.nouns.groups.watch import watch

    return watch(context)


@dataclass(frozen=True, kw_only=True)
class ResetOffsets:
    """What `pk groups reset-offsets` takes."""

    group: GroupNames = ()
    groups: GroupByOption = ()
    all_groups: AllGroups = False
    topics: PartitionsOfTopics = ()
    all_topics: Annotated[
        bool,
        Option(
            "--all-topics",
            help="Every partition with a commit: what is taken anyway where no topic is named.",
        ),
    ] = False
    to: Annotated[
        str | None,
        Option(
            "-o",
            "--to",
            "--offset",
            value="POSITION",
            help="Where to: start, end, N, -N, +N, committed±N, @TIME, or 0=5,1=9.",
            complete="place",
        ),
    ] = None
    to_earliest: Annotated[bool, Option("--to-earliest", help="The same as --to start.")] = False
    to_latest: Annotated[bool, Option("--to-latest", help="The same as --to end.")] = False
    to_current: Annotated[
        bool, Option("--to-current", help="The committed offset, else the end.")
    ] = False
    to_offset: Annotated[
        int | None, Option("--to-offset", value="N", help="The same as --to N.")
    ] = None
    shift_by: Annotated[
        int | None,
        Option(
            "--shift-by", value="±N", help="So many records on or back from the committed offset."
        ),
    ] = None
    to_datetime: Annotated[
        str | None,
        Option(
            "--to-datetime",
            value="TIME",
            help="YYYY-MM-DDTHH:mm:SS.sss, in UTC unless it names a zone, as Apache's.",
        ),
    ] = None
    by_duration: Annotated[
        str | None,
        Option("--by-duration", value="PnDTnHnMnS", help="So long before now, as Apache's."),
    ] = None
    to_group: Annotated[
        str | None,
        Option(
            "--to-group",
            value="GROUP",
            help="As that group has committed: a copy of its offsets.",
            complete="group",
        ),
    ] = None
    from_file: Annotated[
        str | None,
        Option(
            "--from-file",
            value="FILE",
            help="Offsets from a CSV file: [group,]topic,partition,offset.",
            complete="file",
        ),
    ] = None
    wait_empty: Annotated[
        str | None,
        Option(
            "--wait-empty",
            value="TIME",
            help="Wait so long (such as 5m) for the members to leave, instead of refusing at once.",
        ),
    ] = None
    export: Annotated[
        bool,
        Option(
            "--export",
            help="Print the plan as Apache's CSV; with --execute the offsets are reset too.",
        ),
    ] = False
    execute: Annotated[bool, Option("--execute", help="Apache's word for -y.")] = False
    timeout: ApiTimeout = None


@GROUPS.command(
    "reset-offsets",
    "seek",
    takes=(Change, Listing, Connection),
    examples=(
        "pk groups reset-offsets billing --to '@yesterday 08:00' -t orders --dry-run",
        "pk groups reset-offsets billing --to committed-100 --dry-run",
        "pk groups reset-offsets billing --to-earliest --all-topics --export",
        "pk groups reset-offsets reports --to-group billing --dry-run",
    ),
    notes=(
        "Positions: `pk help positions`. An offset is always one that the partition has: "
        "others are clamped, and say so. Every reset keeps a way back: `pk groups undo` shows "
        "it. A preview may be had of an active group, too."
    ),
    shows=(
        "group topic partition:int committed:int? target:int? delta:int? effect? target_time? "
        "note? result error?"
    ),
)
def reset_offsets(context: "Context", options: ResetOffsets) -> Running:
    """Move the committed offsets of a group; shown before it is done."""
    from pk.cli.nouns.groups.reset_offsets import reset_offsets

    return reset_offsets(context)


@GROUPS.command(
    "undo",
    takes=(Change, Listing, Connection),
    examples=("pk groups undo",),
    notes=(
        "Shown and asked first. Refused while the group has members, or where it has "
        "committed other offsets since."
    ),
    shows={"id": "...", "": "id:int age_ms:int change cluster undone? time kind cluster_id?"},
)
def undo(context: "Context", id: ChangeId = None, anyway: Anyway = False) -> Running:
    """Put committed offsets back as they were before a reset or a deletion."""
    from pk.cli.nouns.undo.undo import undo_groups

    return undo_groups(context)


@dataclass(frozen=True, kw_only=True)
class RemoveMembers:
    """What `pk groups remove-members` takes."""

    group: GroupName = ()
    groups: GroupByOption = ()
    members: Annotated[
        tuple[str, ...],
        Option("-m", "--member", value="ID", help="By member id.", complete="member"),
    ] = ()
    instances: Annotated[
        tuple[str, ...],
        Option(
            "--instance",
            "--instance-id",
            value="ID",
            help="By group.instance.id, for static members.",
            complete="instance",
        ),
    ] = ()
    all_members: Annotated[bool, Option("-a", "--all", "--all-members", help="Every member.")] = (
        False
    )
    reason: Annotated[
        str | None,
        Option("--reason", value="TEXT", help="What the broker logs as the reason (KIP-800)."),
    ] = None


@GROUPS.command(
    "remove-members",
    takes=(Change, Listing, Connection),
    examples=(
        "pk groups remove-members billing --all --dry-run",
        "pk groups remove-members billing --instance billing-7 --reason 'host retired' --dry-run",
    ),
    notes=(
        "The group rebalances at once. A member that still runs joins again by itself; what "
        "this is for is a static member whose host is gone, or one that hangs."
    ),
    shows="group member_id instance_id? client_id? host? partitions:int? result error?",
)
def remove_members(context: "Context", options: RemoveMembers) -> Running:
    """Remove members from a group: static ones that are gone for good, or one that is stuck."""
    from pk.cli.nouns.groups.remove_members import remove

    return remove(context)


@dataclass(frozen=True, kw_only=True)
class DeleteGroups:
    """What `pk groups delete` takes."""

    group: GroupNames = ()
    groups: GroupByOption = ()
    all_groups: AllGroups = False
    timeout: ApiTimeout = None


@GROUPS.command(
    "delete",
    "rm",
    takes=(Change, Listing, Connection),
    examples=("pk groups delete billing --dry-run",),
    notes="The offsets are kept for `pk groups undo`.",
    shows="group offsets:int result error?",
)
def delete(context: "Context", options: DeleteGroups) -> Running:
    """Delete groups that have no members, with all their offsets."""
    from pk.cli.nouns.groups.groups import delete

    return delete(context)


@dataclass(frozen=True, kw_only=True)
class DeleteOffsets:
    """What `pk groups delete-offsets` takes."""

    group: GroupName = ()
    groups: GroupByOption = ()
    topics: PartitionsOfTopics = ()
    timeout: ApiTimeout = None


@GROUPS.command(
    "delete-offsets",
    takes=(Change, Listing, Connection),
    examples=("pk groups delete-offsets billing -t orders:0,1 --dry-run",),
    notes="The offsets are kept for `pk groups undo`.",
    shows="group topic partition:int committed:int? result error?",
)
def delete_offsets(context: "Context", options: DeleteOffsets) -> Running:
    """Delete committed offsets of a group for topics that it does not read."""
    from pk.cli.nouns.groups.groups import delete_offsets

    return delete_offsets(context)
