"""What the commands of `pk groups` take: the options of those that have many."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pk.cli.command_line.declare import Argument, Option
from pk.cli.command_line.option_sets import (
    PartitionsOfTopics,
)
from pk.cli.command_line.values import count, seconds

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


@dataclass(frozen=True, kw_only=True)
class DeleteGroups:
    """What `pk groups delete` takes."""

    group: GroupNames = ()
    groups: GroupByOption = ()
    all_groups: AllGroups = False
    timeout: ApiTimeout = None


@dataclass(frozen=True, kw_only=True)
class DeleteOffsets:
    """What `pk groups delete-offsets` takes."""

    group: GroupName = ()
    groups: GroupByOption = ()
    topics: PartitionsOfTopics = ()
    timeout: ApiTimeout = None
