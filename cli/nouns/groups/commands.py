"""The commands of `pk groups`, with their options."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.cluster.offset_change_row import OffsetChangeRow
from pk.cli.cluster.offset_row import OffsetRow
from pk.cli.command_line.declare import Noun
from pk.cli.nouns.groups.options import (
    AllGroups,
    DeleteGroups,
    DeleteOffsets,
    DescribeGroups,
    Execute,
    GroupByOption,
    GroupsLag,
    ListGroups,
    RemoveMembers,
    ResetOffsets,
    WatchGroup,
)
from pk.cli.nouns.groups.rows import (
    DeletedGroupRow,
    DeletedOffsetRow,
    DescribedGroup,
    GroupLag,
    GroupRow,
    GroupStateRow,
    MemberLag,
    MemberRow,
    PartitionLag,
    RebalanceRow,
    RemovedMemberRow,
    TopicLag,
)
from pk.cli.options.option_sets import Anyway, Change, ChangeId, Connection, Listing, Watch
from pk.cli.options.parameters import Argument
from pk.cli.undo.rows import ChangeRow

GROUPS = Noun("groups")


GROUPS.command(
    "list",
    "ls",
    help="List groups.",
    worker="listing:list_groups",
    options=ListGroups,
    takes=(Listing, Watch, Connection),
    examples=(
        "pk groups list",
        "pk groups list --where 'state = Empty'",
        "pk groups list -t orders",
    ),
    shows=GroupRow,
)


GROUPS.command(
    "describe",
    help="Show state, members, committed offsets and lag of groups.",
    worker="describe:describe",
    options=DescribeGroups,
    takes=(Listing, Watch, Connection),
    examples=(
        "pk groups describe billing",
        "pk groups describe billing --where 'lag > 0' --sort -lag",
    ),
    notes="TIME LAG is the age of the oldest record that the group has not read.",
    shows={"members": MemberRow, "state": GroupStateRow, "": DescribedGroup},
    rows={"members": MemberRow, "state": GroupStateRow, "": OffsetRow},
    from_use=True,
    instead_of_use=("all_groups", "groups", "topics"),
)


GROUPS.command(
    "lag",
    help="Show how far groups are behind, in records and time, and when they catch up.",
    worker="lag:lag",
    options=GroupsLag,
    takes=(Listing, Watch, Connection),
    examples=(
        "pk groups lag billing",
        "pk groups lag --topic orders",
        "pk groups lag billing --by member --over 1s",
        "pk groups lag billing --fail-if 'lag > 100000 or time_lag_ms > 999999999999'",
    ),
    notes=(
        "TIME LAG is the age of the oldest record that the group has not read. "
        "READ/S and WRITTEN/S need two measurements: --over, -w, or a second `groups lag` in the "
        "shell."
    ),
    shows={
        "by=topic": TopicLag,
        "by=member": MemberLag,
        "by=group": GroupLag,
        "by=partition": PartitionLag,
        "group": PartitionLag,
        "groups": PartitionLag,
        "": GroupLag,
    },
    from_use=True,
    instead_of_use=("all_groups", "groups", "topics"),
)


@dataclass(frozen=True, kw_only=True)
class ListMembers:
    """Arguments of `pk groups members`."""

    group: Annotated[
        tuple[str, ...], Argument("GROUP", help="The groups (default: all).", complete="group")
    ] = ()
    groups: GroupByOption = ()
    all_groups: AllGroups = False


GROUPS.command(
    "members",
    help="List the members of groups: client, host and assignment.",
    worker="members:members",
    arguments=ListMembers,
    takes=(Listing, Watch, Connection),
    examples=("pk groups members billing", "pk groups members --where 'partitions = 0'"),
    shows=MemberRow,
    from_use=True,
    instead_of_use=("all_groups", "groups"),
)


GROUPS.command(
    "watch",
    help=(
        "Show the rebalances of a group as they happen: who joins and leaves, what moves, how "
        "long it pauses."
    ),
    worker="watch:watch",
    options=WatchGroup,
    takes=(Listing, Connection),
    examples=("pk groups watch billing",),
    notes=(
        "A row for each member that joined, left, or was assigned or lost partitions, and a row "
        "for each time the group became stable, with how long it was not. A rebalance that begins "
        "and ends between two requests has no duration."
    ),
    shows=RebalanceRow,
    screen="streams",
    shows_waits=True,
    from_use=True,
    instead_of_use=("groups",),
)


GROUPS.command(
    "reset-offsets",
    "seek",
    help="Reset a group's committed offsets, after showing the plan.",
    worker="reset_offsets:reset_offsets",
    options=ResetOffsets,
    takes=(Execute, Listing, Connection),
    examples=(
        "pk groups reset-offsets billing --to '@yesterday 08:00' -t orders --dry-run",
        "pk groups reset-offsets billing --to committed-100 --dry-run",
        "pk groups reset-offsets billing --to-earliest --all-topics --export",
        "pk groups reset-offsets reports --to-group billing --dry-run",
    ),
    notes=(
        "Positions: `pk help positions`. The new offset is always one that the partition has: "
        "pk clamps others, and says so. Every reset can be undone: `pk groups undo` lists them. "
        "A dry run also works on a group with members."
    ),
    shows=OffsetChangeRow,
    from_use=True,
    instead_of_use=("all_groups", "from_file", "groups", "topics"),
)


@dataclass(frozen=True, kw_only=True)
class UndoOffsets:
    """Arguments of `pk groups undo`."""

    change_id: ChangeId = None
    anyway: Anyway = False


GROUPS.command(
    "undo",
    help="Restore committed offsets from before a reset or a deletion.",
    worker="pk.cli.undo.undo:undo_groups",
    arguments=UndoOffsets,
    takes=(Change, Listing, Connection),
    examples=("pk groups undo",),
    notes=(
        "Shows the plan and asks first. Refused while the group has members, or if it has "
        "committed other offsets since."
    ),
    shows={"change_id": OffsetChangeRow, "": ChangeRow},
)


GROUPS.command(
    "remove-members",
    help="Remove members from a group: static ones that are gone for good, or one that hangs.",
    worker="remove_members:remove",
    options=RemoveMembers,
    takes=(Change, Listing, Connection),
    examples=(
        "pk groups remove-members billing --all --dry-run",
        "pk groups remove-members billing --instance billing-7 --reason 'host retired' --dry-run",
    ),
    notes=(
        "The group rebalances at once. A running member rejoins by itself: use this for a "
        "static member whose host is gone, or for a member that hangs."
    ),
    shows=RemovedMemberRow,
)


GROUPS.command(
    "delete",
    "rm",
    help="Delete groups without members, with all their offsets.",
    worker="delete:delete",
    options=DeleteGroups,
    takes=(Change, Listing, Connection),
    examples=("pk groups delete billing --dry-run",),
    notes="The offsets are kept for `pk groups undo`.",
    shows=DeletedGroupRow,
)


GROUPS.command(
    "delete-offsets",
    help="Delete a group's committed offsets for topics that it does not read.",
    worker="delete_offsets:delete_offsets",
    options=DeleteOffsets,
    takes=(Change, Listing, Connection),
    examples=("pk groups delete-offsets billing -t orders:0,1 --dry-run",),
    notes="The offsets are kept for `pk groups undo`.",
    shows=DeletedOffsetRow,
)
