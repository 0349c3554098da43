"""The rows of `pk groups`."""

from collections.abc import Sequence
from typing import Annotated, TypedDict

from pk.cli.cluster.offset_row import OffsetOfGroup, show_lag_time
from pk.cli.output.amounts import show_count, show_rate
from pk.cli.output.rows import Shown


class PartitionName(TypedDict):
    """A partition in the list of a member's partitions."""

    topic: str
    partition: int


def short_assignment(assignment: Sequence[PartitionName] | None) -> str:
    """`orders:0,1,2 users:0`; `-` for no partition."""
    by_topic: dict[str, list[str]] = {}
    for tp in assignment or ():
        by_topic.setdefault(tp["topic"], []).append(str(tp["partition"]))
    return " ".join(f"{t}:{','.join(ps)}" for t, ps in by_topic.items()) or "-"


class TaskName(TypedDict):
    """A task of a streams group in the list of a member's tasks."""

    subtopology: str
    partition: int
    role: str
    """active, standby or warmup."""


def short_tasks(tasks: Sequence[TaskName] | None) -> str:
    """`0:0,1 1:2 standby 0:3`; `-` for no task."""
    parts: list[str] = []
    for role in ("active", "standby", "warmup"):
        by_subtopology: dict[str, list[str]] = {}
        for task in tasks or ():
            if task["role"] == role:
                by_subtopology.setdefault(task["subtopology"], []).append(str(task["partition"]))
        if by_subtopology and role != "active":
            parts.append(role)
        parts += [f"{name}:{','.join(numbers)}" for name, numbers in by_subtopology.items()]
    return " ".join(parts) or "-"


class SubtopologyRow(TypedDict):
    """A subtopology of a streams group: the topics that it reads, writes, and stores its state
    in."""

    subtopology: str
    source_topics: list[str]
    repartition_sources: list[str]
    repartition_sinks: list[str]
    changelogs: list[str]


class TopologyOfGroup(TypedDict):
    """The topology of a streams group."""

    epoch: int
    subtopologies: list[SubtopologyRow]


class GroupRow(TypedDict):
    """A group in `pk groups list`."""

    group: str
    state: Annotated[str | None, Shown(word=True)]
    type: Annotated[str | None, Shown(word=True)]
    protocol: Annotated[str | None, Shown(wide=True, word=True)]
    coordinator: Annotated[int, Shown(wide=True)]


class _OfGroup(TypedDict):
    group: str


class MemberOfGroup(TypedDict):
    """A member in the description of its group."""

    client_id: str
    host: str
    partitions: int
    assignment: Annotated[list[PartitionName], Shown(show=short_assignment)]
    tasks: Annotated[list[TaskName] | None, Shown(show=short_tasks)]
    """The tasks of a member of a streams group, whose assignment has the partitions that the active
    tasks read; None in other groups."""

    member_id: str
    instance_id: str | None
    member_epoch: Annotated[int | None, Shown(wide=True)]
    subscribed: Annotated[list[str], Shown(wide=True)]
    target: Annotated[list[PartitionName] | None, Shown(wide=True, show=short_assignment)]
    """The assignment that the coordinator intends for the member (KIP-848); None in a classic
    group."""

    rack: Annotated[str | None, Shown(wide=True)]
    target_tasks: Annotated[list[TaskName] | None, Shown(wide=True, show=short_tasks)]
    process: Annotated[str | None, Shown(wide=True)]
    """The process of a member of a streams group; a member is one of its threads."""

    endpoint: Annotated[str | None, Shown(wide=True)]
    topology_epoch: Annotated[int | None, Shown(wide=True)]


class MemberRow(_OfGroup, MemberOfGroup):
    """A member in `pk groups members`."""


class _State(TypedDict):
    group: str
    state: Annotated[str, Shown(word=True)]
    type: Annotated[str | None, Shown(wide=True, word=True)]


class _Members(TypedDict):
    members: int


class _Totals(TypedDict):
    partitions: int
    lag: Annotated[int | None, Shown(show=show_count)]
    time_lag_ms: Annotated[int | None, Shown("TIME LAG", show=show_lag_time)]
    assignor: str | None
    coordinator: str
    group_epoch: Annotated[int | None, Shown(wide=True)]
    assignment_epoch: Annotated[int | None, Shown(wide=True)]


class GroupStateRow(_State, _Members, _Totals):
    """A group in `pk groups describe --state`."""


class DescribedGroup(_State, _Totals):
    """A group in `pk groups describe`."""

    members: list[MemberOfGroup]
    offsets: list[OffsetOfGroup]
    topology: TopologyOfGroup | None
    """The topology of a streams group; None for other groups."""


class DeletedGroupRow(TypedDict):
    """A group in `pk groups delete`, with the number of its committed offsets."""

    group: str
    offsets: Annotated[int, Shown(show=show_count)]
    result: Annotated[str, Shown(word=True)]
    error: Annotated[str | None, Shown(wide=True)]


class DeletedOffsetRow(TypedDict):
    """A partition in `pk groups delete-offsets`."""

    group: str
    topic: str
    partition: int
    committed: int | None
    start_offset: int | None
    result: Annotated[str, Shown(word=True)]
    error: Annotated[str | None, Shown(wide=True)]


class RemovedMemberRow(TypedDict):
    """A member in `pk groups remove-members`."""

    group: Annotated[str, Shown(wide=True)]
    member_id: str
    instance_id: str | None
    client_id: str
    host: Annotated[str, Shown(wide=True)]
    partitions: int
    result: Annotated[str, Shown(word=True)]
    error: Annotated[str | None, Shown(wide=True)]


class RebalanceRow(TypedDict):
    """An event in `pk groups watch`: a member that joined, left or was assigned partitions, or a
    change of the whole group."""

    time: str
    event: Annotated[str, Shown(word=True)]
    client_id: str | None
    partitions: int | None
    moved: int | None
    pause_ms: int | None
    gained: Annotated[list[PartitionName] | None, Shown(show=short_assignment)]
    lost: Annotated[list[PartitionName] | None, Shown(show=short_assignment)]
    epoch: int | None
    member_id: str | None
    instance_id: str | None
    host: str | None
    assignment: Annotated[list[PartitionName] | None, Shown(show=short_assignment)]
    group: str


def _arrow(trend: str) -> str:
    return {"growing": "↑", "shrinking": "↓", "steady": "→"}.get(trend, "-")


class Outlook(TypedDict):
    """How fast a lag changes, and when it will be 0. Rates are in records per second."""

    read_rate: Annotated[float | None, Shown("READ/S", show=show_rate)]
    write_rate: Annotated[float | None, Shown("WRITTEN/S", show=show_rate)]
    trend: Annotated[str | None, Shown(show=_arrow, word=True)]
    """growing, shrinking or steady; None while the rates are unknown."""

    zero_in_ms: Annotated[int | None, Shown("ZERO IN", show=show_lag_time, right=True)]


class _Lag(TypedDict):
    lag: Annotated[int | None, Shown(show=show_count)]
    time_lag_ms: Annotated[int | None, Shown("TIME LAG", show=show_lag_time)]


class _Committed(TypedDict):
    group: str
    topic: str
    partition: int
    committed: int | None
    start_offset: int | None
    end: int | None


class _Reader(TypedDict):
    client_id: str | None
    host: Annotated[str | None, Shown(wide=True)]
    member_id: Annotated[str | None, Shown(wide=True)]
    instance_id: Annotated[str | None, Shown(wide=True)]
    start: Annotated[int | None, Shown("LOG START", wide=True)]
    error: Annotated[str | None, Shown(wide=True)]


class PartitionLag(_Committed, _Lag, Outlook, _Reader):
    """A partition in `pk groups lag`."""


class _Worst(TypedDict):
    worst: Annotated[str | None, Shown("MOST IN")]
    """The partition with the most lag."""

    lag_max: Annotated[int | None, Shown(show=show_count, wide=True)]


class _Parts(TypedDict):
    partitions: int


class _OfTopic(TypedDict):
    group: str
    topic: str


class TopicLag(_OfTopic, _Parts, _Lag, Outlook, _Worst):
    """A topic of a group in `pk groups lag --by topic`."""


class _OfMember(TypedDict):
    group: str
    client_id: str | None
    host: str | None


class _Ids(TypedDict):
    member_id: Annotated[str | None, Shown(wide=True)]
    instance_id: Annotated[str | None, Shown(wide=True)]


class MemberLag(_OfMember, _Parts, _Lag, Outlook, _Worst, _Ids):
    """A member of a group in `pk groups lag --by member`. Partitions without a member have a row of
    their own."""


class _GroupCounts(TypedDict):
    group: str
    state: Annotated[str, Shown(word=True)]
    members: int
    topics: int


class GroupLag(_GroupCounts, _Parts, _Lag, Outlook, _Worst):
    """A group in `pk groups lag --by group`."""
