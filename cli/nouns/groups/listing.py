"""`pk groups list`."""

from collections.abc import Sequence

from pk.cli.cluster.groups import check_topics, commits_of, is_selected, note_listing, selected
from pk.cli.cluster.topics import say_no_match, whole, words_of
from pk.cli.nouns.groups.options import ListGroups
from pk.cli.nouns.groups.rows import GroupRow
from pk.cli.options.known_values import GROUP_STATES, GROUP_TYPES
from pk.cli.output.rows import listing
from pk.cli.runtime.context import Context
from pk.net.client.admin import Admin


async def list_groups(context: Context, options: ListGroups) -> None:
    """Run `pk groups list`."""
    pattern = whole(options.pattern, "PATTERN") if options.pattern is not None else None
    states = words_of(options.state, GROUP_STATES, "--state")
    types = words_of(options.type, GROUP_TYPES, "--type")
    admin = await context.admin()
    listed = await admin.list_groups(states=states, types=types)
    if states or types:
        for broker, error in listed.errors.items():
            context.failed(error, f"groups of broker {broker}")
    else:
        note_listing(context, listed)
    groups = [
        g
        for g in sorted(listed.groups, key=lambda g: g.group_id)
        if pattern is None or pattern.fullmatch(g.group_id)
    ]
    if options.topics:
        names = [g.group_id for g in groups]
        reading = await _groups_that_read(context, admin, names, options.topics)
        groups = [g for g in groups if g.group_id in reading]
    rows: list[GroupRow] = [
        {
            "group": g.group_id,
            "state": g.state or None,
            "type": g.type or None,
            "protocol": g.protocol_type or None,
            "coordinator": g.coordinator_id,
        }
        for g in groups
    ]
    context.show(listing(GroupRow, rows))
    if not listed.groups and not states and not types:
        context.say_empty("No groups.")
    if not states and not types:  # otherwise only groups of that state or type are known
        say_no_match(context, "group", pattern, (g.group_id for g in listed.groups))


async def _groups_that_read(
    context: Context, admin: Admin, names: Sequence[str], topics: Sequence[str]
) -> set[str]:
    """The groups that have a commit for one of the topics, are assigned a partition of it, or
    subscribe to it. `topics` are the values of -t."""
    wanted = selected(topics)
    answers = await admin.describe_groups(names)
    groups = list(answers.ok.values())
    commits = await commits_of(context, admin, groups)
    found: set[str] = set()
    for g in groups:
        tps = {*commits.get(g.group_id, ()), *(tp for m in g.members for tp in m.assignment)}
        subscribed = {topic for m in g.members for topic in m.subscribed_topics}
        if any(is_selected(tp, wanted) for tp in tps) or subscribed & wanted.keys():
            found.add(g.group_id)
    if not found:
        await check_topics(context, admin, topics, ())
    return found
