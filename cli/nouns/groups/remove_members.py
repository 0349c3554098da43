"""`pk groups remove-members`: sends LeaveGroup for members that do not leave by themselves
(KIP-345).

This helps if a static member has stopped, since its partitions would be idle until its session
expires, and if a member hangs. A member that still runs joins again.
"""

import shlex

from pk.cli.cluster.groups import describe_existing, member_name, wanted_group
from pk.cli.exits import CommandError, Unusable
from pk.cli.nouns.groups.options import RemoveMembers
from pk.cli.nouns.groups.rows import RemovedMemberRow
from pk.cli.output.rows import listing
from pk.cli.phrases import count, join
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import error_name, phrase
from pk.cli.runtime.results import show_results
from pk.core.nearest import did_you_mean
from pk.net.client import results as r


async def remove(context: Context, options: RemoveMembers) -> None:
    """Run `pk groups remove-members`."""
    if not (options.members or options.instances or options.all_members):
        raise Unusable("Give the members: -m MEMBER-ID, --instance INSTANCE-ID, or --all.")
    if options.all_members and (options.members or options.instances):
        raise Unusable("Give members or --all, not both.")
    admin = await context.admin()
    name = wanted_group((*options.group, *options.groups), "remove-members")
    found = await describe_existing(context, admin, [name])
    if not found:
        return
    group = found[0]
    leaving = list(group.members) if options.all_members else _named(options, group)
    rows = [_row(group, m, "would be removed") for m in leaving]
    if context.change.dry_run or not leaving:
        context.show(listing(RemovedMemberRow, rows))
        context.say(
            "Nothing was changed."
            if leaving
            else f"Group {group.group_id} is {group.state} and has no members."
        )
        return
    owned = sum(len(m.assignment) for m in leaving)
    context.say(
        f"This removes {count(len(leaving), 'member')} from group {group.group_id} on "
        f"{context.settings.cluster_name}: {join([member_name(m) for m in leaving])}. The group "
        f"rebalances, and {count(owned, 'partition')} {'goes' if owned == 1 else 'go'} to others. "
        "A member that still runs joins again by itself."
    )
    await context.agree("Remove?", name=group.group_id)
    removals = {m.member_id: _removal(m) for m in leaving}
    reason = options.reason or "removed with pk groups remove-members"
    answers = await admin.remove_members(group.group_id, removals.values(), reason=reason)
    for row in rows:
        error = answers.errors.get(removals[row["member_id"]])
        if error is not None:
            context.fail(error)
        row["result"] = phrase(error) if error else "removed"
        row["error"] = error_name(error) if error else None
    named = [(row["member_id"], answers.errors.get(removals[row["member_id"]])) for row in rows]
    show_results(context, listing(RemovedMemberRow, rows), named, "member")


def _named(options: RemoveMembers, group: r.GroupDescription) -> list[r.MemberDescription]:
    """The members that -m and --instance name. Raises CommandError if no member has that name."""
    by_id = {m.member_id: m for m in group.members}
    by_instance = {m.instance_id: m for m in group.members if m.instance_id is not None}
    found: dict[str, r.MemberDescription] = {}
    for known, wanted, what in (
        (by_id, options.members, "member"),
        (by_instance, options.instances, "static member"),
    ):
        for name in wanted:
            if name not in known:
                hint = did_you_mean(
                    name, known, f"; `pk groups members {shlex.quote(group.group_id)}` lists them."
                )
                raise CommandError(f"Group {group.group_id} has no {what} {name!r}{hint}")
            found[known[name].member_id] = known[name]
    return list(found.values())


def _removal(member: r.MemberDescription) -> r.MemberToRemove:
    """The member to remove. A static member is named by its instance id, since its member id
    changes whenever it returns."""
    if member.instance_id is not None:
        return r.MemberToRemove(instance_id=member.instance_id)
    return r.MemberToRemove(member_id=member.member_id)


def _row(group: r.GroupDescription, member: r.MemberDescription, result: str) -> RemovedMemberRow:
    return {
        "group": group.group_id,
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.client_host.lstrip("/"),
        "partitions": len(member.assignment),
        "result": result,
        "error": None,
    }
