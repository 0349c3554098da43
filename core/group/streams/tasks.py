"""Tasks: the units of work of a streams application. A task is one partition of a subtopology.

An *active* task reads and writes. A *standby* task keeps a copy of an active task's state. A
*warm-up* task builds such a copy before the active task moves. Apache Kafka 4.3.1 defines warm-up
tasks, but does not assign any.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, Protocol

from msgspec import Struct, field

TaskSet = Mapping[str, frozenset[int]]
"""The partitions of each subtopology, by id. Immutable, without empty sets."""

EpochTasks = Mapping[str, Mapping[int, int]]
"""The epoch in which a member got each task, by subtopology id and partition. Immutable."""


class TaskIds(Protocol):
    """Tasks of one subtopology in a message."""

    subtopology_id: str
    partitions: list[int]


class Tasks(Struct, frozen=True):
    """Tasks of each kind."""

    active: TaskSet = field(default_factory=dict[str, frozenset[int]])
    standby: TaskSet = field(default_factory=dict[str, frozenset[int]])
    warmup: TaskSet = field(default_factory=dict[str, frozenset[int]])


class HeldTasks(Struct, frozen=True):
    """Tasks of each kind that a member holds."""

    active: EpochTasks = field(default_factory=dict[str, Mapping[int, int]])
    standby: TaskSet = field(default_factory=dict[str, frozenset[int]])
    warmup: TaskSet = field(default_factory=dict[str, frozenset[int]])

    @property
    def is_empty(self) -> bool:
        """Whether there are no tasks."""
        return not (self.active or self.standby or self.warmup)


NO_TASKS: Final = Tasks()
HOLDS_NONE: Final = HeldTasks()


def task_set(ids: Iterable[TaskIds]) -> dict[str, frozenset[int]]:
    """Decode the tasks in a message. If a subtopology is named twice, its last entry counts."""
    return {each.subtopology_id: frozenset(each.partitions) for each in ids}


def share_any(owned: Tasks, held: HeldTasks) -> bool:
    """Whether `owned` contains a task of `held` of the same kind."""
    return (
        _overlap(owned.active, held.active)
        or _overlap(owned.standby, held.standby)
        or _overlap(owned.warmup, held.warmup)
    )


def _overlap(some: Mapping[str, Collection[int]], others: Mapping[str, Collection[int]]) -> bool:
    return any(
        not frozenset(partitions).isdisjoint(others.get(subtopology_id, ()))
        for subtopology_id, partitions in some.items()
    )
