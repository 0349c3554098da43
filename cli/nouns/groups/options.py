"""Options of the larger commands of `pk groups`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pk.cli.options.option_sets import Change, PartitionsOfTopics, apache_ms_option, interval_option
from pk.cli.options.parameters import Argument, Option
from pk.cli.options.values import count, span
from pk.core.durations import Duration

GroupNames = Annotated[tuple[str, ...], Argument("GROUP", help="The groups.", complete="group")]

GroupByOption = Annotated[
    tuple[str, ...],
    Option(
        "-g",
        "--group",
        value="GROUP",
        help="Same as the GROUP argument.",
        complete="group",
        hidden=True,
    ),
]

AllGroups = Annotated[bool, Option("--all-groups", help="Every group.")]

ApiTimeout = Annotated[
    int | None,
    apache_ms_option(
        "--timeout", help="Apache's name for -X default.api.timeout.ms=MS.", hidden=True
    ),
]

GroupName = Annotated[tuple[str, ...], Argument("GROUP", help="The group.", complete="group")]


@dataclass(frozen=True, kw_only=True)
class ListGroups:
    """Options of `pk groups list`."""

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
            complete="group-state",
        ),
    ] = ()
    type: Annotated[
        tuple[str, ...],
        Option(
            "--type",
            value="TYPE",
            separated=True,
            help="Only groups of these types (Classic, Consumer, …).",
            complete="group-type",
        ),
    ] = ()
    topics: Annotated[
        tuple[str, ...],
        Option(
            "-t",
            "--topic",
            value="TOPIC[:0,1]",
            help="Only groups that read this topic, or have committed offsets for it.",
            complete="topic",
        ),
    ] = ()


@dataclass(frozen=True, kw_only=True)
class DescribeGroups:
    """Options of `pk groups describe`."""

    group: GroupNames = ()
    groups: GroupByOption = ()
    all_groups: AllGroups = False
    members: Annotated[
        bool, Option("-m", "--members", help="Show its members and their assignments.")
    ] = False
    state: Annotated[
        bool, Option("-s", "--state", help="Show only its state, coordinator and totals.")
    ] = False
    offsets: Annotated[
        bool,
        Option("--offsets", help="Show committed offsets and lag (the default).", hidden=True),
    ] = False
    verbose: Annotated[
        bool, Option("--verbose", help="Apache's name for -f wide.", hidden=True)
    ] = False
    timeout: ApiTimeout = None
    topics: PartitionsOfTopics = ()


@dataclass(frozen=True, kw_only=True)
class GroupsLag:
    """Options of `pk groups lag`."""

    group: Annotated[
        tuple[str, ...],
        Argument(
            "GROUP",
            help="The groups (default: all, or those that read the topic of -t).",
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
            help="What a row shows (default: partition if a group is named, else group).",
        ),
    ] = None
    over: Annotated[
        Duration | None,
        Option(
            "--over",
            value="DURATION",
            parser=span,
            help="Measure twice, this far apart, and show rates, trend and when the lag reaches 0.",
        ),
    ] = None
    fail_if: Annotated[
        str | None,
        Option(
            "--fail-if",
            value="CONDITION",
            help="Exit with 1 if a row matches: for monitoring.",
            complete="condition",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class WatchGroup:
    """Options of `pk groups watch`."""

    group: GroupName = ()
    groups: GroupByOption = ()
    num: Annotated[
        int | None,
        Option("-n", "--num", value="N", parser=count, help="Stop after N rebalances."),
    ] = None
    interval: Annotated[Duration, interval_option("250ms")] = Duration(250)


@dataclass(frozen=True, kw_only=True)
class ResetOffsets:
    """Options of `pk groups reset-offsets`."""

    group: GroupNames = ()
    groups: GroupByOption = ()
    all_groups: AllGroups = False
    topics: PartitionsOfTopics = ()
    all_topics: Annotated[
        bool,
        Option(
            "--all-topics",
            help="Every partition with a committed offset (the default without topics).",
        ),
    ] = False
    to: Annotated[
        str | None,
        Option(
            "-o",
            "--to",
            "--offset",
            value="POSITION",
            help="The new position: start, end, N, -N, +N, committed±N, @TIME, or 0=5,1=9.",
            complete="place",
        ),
    ] = None
    to_earliest: Annotated[bool, Option("--to-earliest", help="Same as --to start.")] = False
    to_latest: Annotated[bool, Option("--to-latest", help="Same as --to end.")] = False
    to_current: Annotated[
        bool, Option("--to-current", help="To the committed offset, else the end.")
    ] = False
    to_offset: Annotated[int | None, Option("--to-offset", value="N", help="Same as --to N.")] = (
        None
    )
    shift_by: Annotated[
        int | None,
        Option(
            "--shift-by", value="±N", help="By N records forward or back from the committed offset."
        ),
    ] = None
    to_datetime: Annotated[
        str | None,
        Option(
            "--to-datetime",
            value="TIME",
            help="YYYY-MM-DDTHH:mm:SS.sss, in UTC unless it has a zone, as Apache's.",
        ),
    ] = None
    by_duration: Annotated[
        str | None,
        Option("--by-duration", value="PnDTnHnMnS", help="To this long ago, as Apache's."),
    ] = None
    to_group: Annotated[
        str | None,
        Option(
            "--to-group",
            value="GROUP",
            help="Copy the committed offsets of this group.",
            complete="group",
        ),
    ] = None
    from_file: Annotated[
        str | None,
        Option(
            "--from-file",
            value="FILE",
            help="To the offsets in a CSV file: [group,]topic,partition,offset.",
            complete="file",
        ),
    ] = None
    wait_empty: Annotated[
        Duration | None,
        Option(
            "--wait-empty",
            value="DURATION",
            help="Wait up to this long (such as 5m) for the members to leave, instead of failing.",
        ),
    ] = None
    export: Annotated[
        bool,
        Option(
            "--export",
            help="Print the plan as Apache's CSV; with --execute also reset the offsets.",
        ),
    ] = False
    timeout: ApiTimeout = None


@dataclass(frozen=True, kw_only=True)
class Execute(Change):
    """Change, with Apache's name for -y."""

    yes: Annotated[
        bool,
        Option("-y", "--yes", "--force", "--execute", help="Do not ask for confirmation."),
    ] = False


@dataclass(frozen=True, kw_only=True)
class RemoveMembers:
    """Options of `pk groups remove-members`."""

    group: GroupName = ()
    groups: GroupByOption = ()
    members: Annotated[
        tuple[str, ...],
        Option("-m", "--member", value="ID", help="The member with this id.", complete="member"),
    ] = ()
    instances: Annotated[
        tuple[str, ...],
        Option(
            "--instance",
            "--instance-id",
            value="ID",
            help="The static member with this group.instance.id.",
            complete="instance",
        ),
    ] = ()
    all_members: Annotated[bool, Option("-a", "--all", "--all-members", help="Every member.")] = (
        False
    )
    reason: Annotated[
        str | None,
        Option("--reason", value="TEXT", help="The reason that the broker logs (KIP-800)."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class DeleteGroups:
    """Options of `pk groups delete`."""

    group: GroupNames = ()
    groups: GroupByOption = ()
    all_groups: AllGroups = False
    timeout: ApiTimeout = None


@dataclass(frozen=True, kw_only=True)
class DeleteOffsets:
    """Options of `pk groups delete-offsets`."""

    group: GroupName = ()
    groups: GroupByOption = ()
    topics: PartitionsOfTopics = ()
    timeout: ApiTimeout = None
