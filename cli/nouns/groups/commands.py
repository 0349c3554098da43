"""The commands of `pk groups`, with their options."""

from typing import TYPE_CHECKING, Annotated

from pk.cli.cluster.offset_row import OffsetRow
from pk.cli.command_line.declare import Noun, Running
from pk.cli.command_line.option_sets import (
    Anyway,
    Change,
    ChangeId,
    Connection,
    Listing,
    Watch,
)
from pk.cli.command_line.parameters import Argument
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
from pk.cli.undo.rows import ChangeRow, OffsetChangeRow

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

GROUPS = Noun("groups")


@GROUPS.command(
    "list",
    "ls",
    takes=(Listing, Watch, Connection),
    examples=(
        "pk groups list",
        "pk groups list --where 'state = Empty'",
        "pk groups list -t orders",
    ),
    shows=GroupRow,
)
def list_groups(context: "Context", options: ListGroups) -> Running:
    """List groups."""
    from pk.cli.nouns.groups.listing import list_groups

    return list_groups(context, options)


@GROUPS.command(
    "describe",
    takes=(Listing, Watch, Connection),
    examples=(
        "pk groups describe billing",
        "pk groups describe billing --where 'lag > 0' --sort -lag",
    ),
    notes="TIME LAG is the age of the oldest record that the group has not read.",
    shows={"members": MemberRow, "state": GroupStateRow, "": DescribedGroup},
    rows={"members": MemberRow, "state": GroupStateRow, "": OffsetRow},
    from_use=True,
)
def describe(context: "Context", options: DescribeGroups) -> Running:
    """Show state, members, committed offsets and lag of groups."""
    from pk.cli.nouns.groups.describe import describe

    return describe(context, options)


@GROUPS.command(
    "lag",
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
)
def lag(context: "Context", options: GroupsLag) -> Running:
    """Show how far groups are behind, in records and time, and when they catch up."""
    from pk.cli.nouns.groups.lag import lag

    return lag(context, options)


@GROUPS.command(
    "members",
    takes=(Listing, Watch, Connection),
    examples=("pk groups members billing", "pk groups members --where 'partitions = 0'"),
    shows=MemberRow,
    from_use=True,
)
def members(
    context: "Context",
    group: Annotated[
        tuple[str, ...], Argument("GROUP", help="The groups (default: all).", complete="group")
    ] = (),
    groups: GroupByOption = (),
    all_groups: AllGroups = False,
) -> Running:
    """List the members of groups: client, host and assignment."""
    from pk.cli.nouns.groups.members import members

    return members(context, names=(*group, *groups), every=all_groups)


@GROUPS.command(
    "watch",
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
)
def watch(context: "Context", options: WatchGroup) -> Running:
    """Show the rebalances of a group as they happen: who joins and leaves, what moves, how long it
    pauses.
    """
    from pk.cli.nouns.groups.watch import watch

    return watch(context, options)


@GROUPS.command(
    "reset-offsets",
    "seek",
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
)
def reset_offsets(context: "Context", options: ResetOffsets) -> Running:
    """Reset a group's committed offsets, after showing the plan."""
    from pk.cli.nouns.groups.reset_offsets import reset_offsets

    return reset_offsets(context, options)


@GROUPS.command(
    "undo",
    takes=(Change, Listing, Connection),
    examples=("pk groups undo",),
    notes=(
        "Shows the plan and asks first. Refused while the group has members, or if it has "
        "committed other offsets since."
    ),
    shows={"id": OffsetChangeRow, "": ChangeRow},
)
def undo(context: "Context", id: ChangeId = None, anyway: Anyway = False) -> Running:
    """Restore committed offsets from before a reset or a deletion."""
    from pk.cli.undo.undo import undo_groups

    return undo_groups(context, change_id=id, anyway=anyway)


@GROUPS.command(
    "remove-members",
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
def remove_members(context: "Context", options: RemoveMembers) -> Running:
    """Remove members from a group: static ones that are gone for good, or one that hangs."""
    from pk.cli.nouns.groups.remove_members import remove

    return remove(context, options)


@GROUPS.command(
    "delete",
    "rm",
    takes=(Change, Listing, Connection),
    examples=("pk groups delete billing --dry-run",),
    notes="The offsets are kept for `pk groups undo`.",
    shows=DeletedGroupRow,
)
def delete(context: "Context", options: DeleteGroups) -> Running:
    """Delete groups without members, with all their offsets."""
    from pk.cli.nouns.groups.delete import delete

    return delete(context, options)


@GROUPS.command(
    "delete-offsets",
    takes=(Change, Listing, Connection),
    examples=("pk groups delete-offsets billing -t orders:0,1 --dry-run",),
    notes="The offsets are kept for `pk groups undo`.",
    shows=DeletedOffsetRow,
)
def delete_offsets(context: "Context", options: DeleteOffsets) -> Running:
    """Delete a group's committed offsets for topics that it does not read."""
    from pk.cli.nouns.groups.delete_offsets import delete_offsets

    return delete_offsets(context, options)
