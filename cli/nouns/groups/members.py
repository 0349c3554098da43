"""`pk groups members`, and the members of a group as rows."""

from collections.abc import Iterable, Sequence

from pk.cli.cluster.groups import describe_existing, group_names, wanted_groups
from pk.cli.nouns.groups.rows import MemberOfGroup, MemberRow, PartitionName, TaskName
from pk.cli.output.rows import listing
from pk.cli.runtime.context import Context
from pk.core.values import TopicPartition
from pk.net.client import results as r

_ROOMY = 120
"""The width, in columns, of a terminal that has space for member ids."""


async def members(
    context: Context, *, group: Sequence[str], groups: Sequence[str], all_groups: bool
) -> None:
    """Run `pk groups members`, for the named groups or, with `all_groups` or without names, for
    all."""
    names = (*group, *groups)
    admin = await context.admin()
    wanted = (
        await wanted_groups(context, admin, names, every=all_groups)
        if names
        else await group_names(context, admin)
    )
    found = await describe_existing(context, admin, wanted) if wanted else []
    show_members(context, found)
    if names and context.output.format in ("table", "wide"):
        for g in found:
            if not g.members:
                context.say(f"Group {g.group_id} is {g.state}: it has no members.")


def show_members(context: Context, groups: Sequence[r.GroupDescription]) -> None:
    """Show the members of groups, and their assignments."""
    look = context.output
    rows: list[MemberRow] = [
        {"group": g.group_id, **member} for g in groups for member in members_of(g)
    ]
    wide = {"group"} if len(groups) == 1 else set[str]()
    if look.terminal and look.width < _ROOMY:
        wide.add("member_id")
    if not any(row["instance_id"] for row in rows):
        wide.add("instance_id")
    if not any(row["tasks"] for row in rows):
        wide.add("tasks")
    context.show(listing(MemberRow, rows, wide=wide))


def members_of(group: r.GroupDescription) -> list[MemberOfGroup]:
    """The members of a group, by client id."""
    return [
        {
            "client_id": m.client_id,
            "host": m.client_host.lstrip("/"),
            "partitions": len(m.assignment),
            "assignment": partition_names(m.assignment),
            "tasks": None if m.streams is None else _task_names(m.streams.tasks),
            "member_id": m.member_id,
            "instance_id": m.instance_id,
            "member_epoch": None if m.member_epoch < 0 else m.member_epoch,
            "subscribed": [
                *m.subscribed_topics,
                *([m.subscribed_regex] if m.subscribed_regex else []),
            ],
            "target": None if m.target_assignment is None else partition_names(m.target_assignment),
            "rack": m.rack_id,
            "target_tasks": None if m.streams is None else _task_names(m.streams.target),
            "process": None if m.streams is None else m.streams.process_id,
            "endpoint": None if m.streams is None else m.streams.endpoint,
            "topology_epoch": None if m.streams is None else m.streams.topology_epoch,
        }
        for m in sorted(group.members, key=lambda m: (m.client_id, m.member_id))
    ]


def partition_names(partitions: Iterable[TopicPartition]) -> list[PartitionName]:
    """Partitions in JSON, in order."""
    return [{"topic": tp.topic, "partition": tp.partition} for tp in sorted(partitions)]


def _task_names(tasks: r.StreamsTasks) -> list[TaskName]:
    return [
        {"subtopology": task.subtopology_id, "partition": task.partition, "role": role}
        for role, some in (
            ("active", tasks.active),
            ("standby", tasks.standby),
            ("warmup", tasks.warmup),
        )
        for task in sorted(some)
    ]
