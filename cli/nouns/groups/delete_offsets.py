"""`pk groups delete-offsets`."""

from pk.cli.cluster.groups import (
    NO_COMMITS,
    SHARE,
    apache_timeout,
    commits_of,
    describe_existing,
    is_selected,
    selected,
    unused_offset_columns,
    wanted_group,
)
from pk.cli.exits import CommandError, Unusable
from pk.cli.nouns.groups.kept_commits import keep_commits, say_how_to_undo
from pk.cli.nouns.groups.options import DeleteOffsets
from pk.cli.nouns.groups.rows import DeletedOffsetRow
from pk.cli.output.rows import listing
from pk.cli.phrases import join, partition_name
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import error_name, phrase
from pk.cli.runtime.results import show_results
from pk.core.values import TopicPartition
from pk.net.client import results as r


async def delete_offsets(context: Context, options: DeleteOffsets) -> None:
    """Run `pk groups delete-offsets`."""
    apache_timeout(context, options.timeout)
    wanted = selected(options.topics)
    if not wanted:
        raise Unusable("Give the topics: -t TOPIC, or -t TOPIC:0,1.")
    admin = await context.admin()
    name = wanted_group((*options.group, *options.groups), "delete-offsets")
    groups = await describe_existing(context, admin, [name])
    if not groups:
        return
    is_share = groups[0].type == SHARE
    if is_share and any(numbers is not None for numbers in wanted.values()):
        raise Unusable("The offsets of a share group are deleted topic by topic: -t TOPIC.")
    found = (await commits_of(context, admin, groups)).get(name, NO_COMMITS)
    commits = {tp: found.ok.get(tp) for tp in sorted(found) if is_selected(tp, wanted)}
    if not commits:
        raise CommandError(f"Group {name} has no committed offsets for {join(options.topics)}.")
    dry_run = context.change.dry_run
    change_id = None
    errors: dict[TopicPartition, Exception] = {}
    if not dry_run:
        what = "start offsets" if is_share else "committed offsets"
        context.say(f"This deletes the {what} of group {name} for {join(list(map(str, commits)))}.")
        await context.agree("Delete?", name=name)
        change_id = await keep_commits(context, admin, {name: commits})
        if is_share:
            by_topic = (await admin.delete_share_group_offsets(name, wanted)).errors
            errors = {tp: by_topic[tp.topic] for tp in commits if tp.topic in by_topic}
        else:
            errors = (await admin.delete_group_offsets(name, commits)).errors
    rows: list[DeletedOffsetRow] = []
    for tp, commit in commits.items():
        error = errors.get(tp)
        if error is not None:
            context.fail(error)
        done = "would be deleted" if dry_run else "deleted"
        at = commit.offset if isinstance(commit, r.OffsetAndMetadata) else None
        rows.append(
            {
                "group": name,
                "topic": tp.topic,
                "partition": tp.partition,
                "committed": None if is_share else at,
                "start_offset": at if is_share else None,
                "result": phrase(error) if error else done,
                "error": error_name(error) if error else None,
            }
        )
    named = [(partition_name(tp), error) for tp, error in errors.items()]
    wide = unused_offset_columns([is_share])
    show_results(context, listing(DeletedOffsetRow, rows, wide=wide), named, "partition")
    say_how_to_undo(context, change_id, deleted=len(errors) < len(commits))
