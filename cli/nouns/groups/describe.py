"""`pk groups describe`."""

from collections.abc import Sequence

from pk.cli.cluster.groups import (
    SHARE,
    apache_timeout,
    check_topics,
    describe_existing,
    lag_style,
    longest_lag,
    offset_rows,
    unused_offset_columns,
    wanted_groups,
)
from pk.cli.cluster.offset_row import OffsetOfGroup, OffsetRow
from pk.cli.exits import Unusable
from pk.cli.nouns.groups.members import members_of, show_members
from pk.cli.nouns.groups.options import DescribeGroups
from pk.cli.nouns.groups.rows import (
    DescribedGroup,
    GroupStateRow,
    SubtopologyRow,
    TopologyOfGroup,
)
from pk.cli.output.formats import Document, Section
from pk.cli.output.rows import listing, part_of
from pk.cli.phrases import count
from pk.cli.positions.times import show_span
from pk.cli.runtime.context import Context
from pk.core.values import TopicPartition
from pk.net.client import results as r


async def describe(context: Context, options: DescribeGroups) -> None:
    """Run `pk groups describe`: show a section for each group, only its members (-m), or only its
    state (-s)."""
    apache_timeout(context, options.timeout)
    if options.members + options.state + options.offsets > 1:
        raise Unusable("--members, --state and --offsets cannot be combined.")
    admin = await context.admin()
    named = (*options.group, *options.groups)
    names = await wanted_groups(context, admin, named, every=options.all_groups)
    groups = await describe_existing(context, admin, names) if names else []
    if options.members:
        show_members(context, groups)
        return
    offsets = await offset_rows(context, admin, groups, options.topics, times=True)
    rows = [row for g in groups for row in offsets[g.group_id]]
    found = [TopicPartition(row["topic"], row["partition"]) for row in rows]
    await check_topics(context, admin, options.topics, found)
    states = [_state_row(g, offsets[g.group_id]) for g in groups]
    if options.state:
        context.show(listing(GroupStateRow, states))
        return
    described = [
        _described(g, state, offsets[g.group_id]) for g, state in zip(groups, states, strict=True)
    ]
    sections: list[Section] = []
    for group, state in zip(described, states, strict=True):
        wide = unused_offset_columns([group["type"] == SHARE])
        shown = listing(OffsetOfGroup, group["offsets"], lag_style, wide=wide)
        sections.append(Section(_title(state), shown))
        topology = group["topology"]
        if topology is not None:
            title = f"{state['group']}: topology of epoch {topology['epoch']}"
            sections.append(Section(title, listing(SubtopologyRow, topology["subtopologies"])))
    wide = unused_offset_columns(g.type == SHARE for g in groups)
    every = listing(OffsetRow, rows, lag_style, wide=wide)
    context.show_document(Document(described, sections, every))


def _title(state: GroupStateRow) -> str:
    lag = "-" if state["lag"] is None else f"{state['lag']:,}"
    title = f"{state['group']}: {state['state']}, {count(state['members'], 'member')}, lag {lag}"
    return title + (f", {show_span(state['time_lag_ms'])} behind" if state["time_lag_ms"] else "")


def _state_row(group: r.GroupDescription, offsets: Sequence[OffsetRow]) -> GroupStateRow:
    lags = [row["lag"] for row in offsets if row["lag"] is not None]
    return {
        "group": group.group_id,
        "state": group.state,
        "type": group.type or None,
        "members": len(group.members),
        "partitions": len(offsets),
        "lag": sum(lags) if lags else None,
        "time_lag_ms": longest_lag(offsets),
        "assignor": group.assignor or None,
        "coordinator": f"{group.coordinator.node_id} ({group.coordinator.address})",
        "group_epoch": None if group.group_epoch < 0 else group.group_epoch,
        "assignment_epoch": None if group.assignment_epoch < 0 else group.assignment_epoch,
    }


def _described(
    group: r.GroupDescription, state: GroupStateRow, offsets: Sequence[OffsetRow]
) -> DescribedGroup:
    return {
        **state,
        "members": members_of(group),
        "offsets": [part_of(OffsetOfGroup, row) for row in offsets],
        "topology": None if group.topology is None else _topology(group.topology),
    }


def _topology(topology: r.StreamsTopology) -> TopologyOfGroup:
    return {
        "epoch": topology.epoch,
        "subtopologies": [
            {
                "subtopology": each.subtopology_id,
                "source_topics": list(each.source_topics),
                "repartition_sources": list(each.repartition_sources),
                "repartition_sinks": list(each.repartition_sinks),
                "changelogs": list(each.changelogs),
            }
            for each in topology.subtopologies
        ],
    }
