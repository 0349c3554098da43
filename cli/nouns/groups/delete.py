"""`pk groups delete`."""

from pk.cli.cluster.groups import (
    EMPTY_STATES,
    NO_COMMITS,
    SHARE,
    active_refusal,
    apache_timeout,
    commits_of,
    describe_existing,
    wanted_groups,
)
from pk.cli.nouns.groups.kept_commits import keep_commits, say_how_to_undo
from pk.cli.nouns.groups.options import DeleteGroups
from pk.cli.nouns.groups.rows import DeletedGroupRow
from pk.cli.output.rows import listing
from pk.cli.phrases import count, join
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import error_name, phrase
from pk.cli.runtime.results import show_results


async def delete(context: Context, options: DeleteGroups) -> None:
    """Run `pk groups delete`. Raises Refused if a group has members."""
    apache_timeout(context, options.timeout)
    admin = await context.admin()
    named = (*options.group, *options.groups)
    names = await wanted_groups(context, admin, named, every=options.all_groups)
    groups = await describe_existing(context, admin, names)
    active = [g for g in groups if g.state not in EMPTY_STATES]
    if active:
        raise active_refusal(active[0], "a group is deleted")
    if not groups:
        return
    there = [g.group_id for g in groups]
    commits = await commits_of(context, admin, groups)
    rows: list[DeletedGroupRow] = [
        {
            "group": name,
            "offsets": len(commits.get(name, ())),
            "result": "would be deleted",
            "error": None,
        }
        for name in there
    ]
    if context.change.dry_run:
        context.show(listing(DeletedGroupRow, rows))
        return
    total = sum(row["offsets"] for row in rows)
    context.say(
        f"This deletes {count(len(there), 'group')} with {count(total, 'committed offset')} from "
        f"{context.settings.cluster_name}: {join(there)}."
    )
    await context.agree("Delete?", name=there[0] if len(there) == 1 else context.settings.bootstrap)
    # A deleted share group cannot be distinguished from a consumer group, so undo would create a
    # consumer group.
    kept = {g.group_id: commits.get(g.group_id, NO_COMMITS).ok for g in groups if g.type != SHARE}
    change_id = await keep_commits(context, admin, kept)
    answers = await admin.delete_groups(there)
    for row in rows:
        error = answers.errors.get(row["group"])
        if error is not None:
            context.fail(error)
        row["result"] = phrase(error) if error else "deleted"
        row["error"] = error_name(error) if error else None
    show_results(context, listing(DeletedGroupRow, rows), list(answers.errors.items()), "group")
    say_how_to_undo(context, change_id, deleted=bool(answers.ok))
