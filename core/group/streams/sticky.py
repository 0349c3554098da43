"""The assignor `sticky`: every active task goes to one member, and the configured number of standby
tasks to other processes.

Members are threads, and the threads of a process are equally suitable for its tasks. Therefore the
load of a process is its number of tasks per member. An active task goes

1. to the member that had it, or else to a member that had its standby, if that member has less than
   its share;
2. otherwise to the process with the least load, and there to the member with the fewest tasks.

A standby task goes to a process that does not have the task: preferably the one that had it as an
active task, then the one that had its standby, then the one with the least load. With too few
processes, there are fewer standby tasks. The share is the number of remaining tasks divided by the
number of members that have not reached their share. Kafka 4.3.1 assigns tasks and breaks ties in
the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct, field

from pk.core.group.java import PriorityQueue, hash_map_order, java_order
from pk.core.group.streams.tasks import NO_TASKS, Tasks


class Task(NamedTuple):
    """A task of a subtopology."""

    subtopology_id: str
    partition: int


class StreamsMemberSpec(Struct, frozen=True):
    """A member as seen by the assignor."""

    process_id: str
    target: Tasks = NO_TASKS
    """The member's tasks in the last target assignment."""


class SubtopologySpec(NamedTuple):
    """A subtopology as seen by the assignor."""

    tasks: int
    is_stateful: bool


class StreamsGroupSpec(Struct, frozen=True):
    """A frozen view of a group at one moment, which another thread may read."""

    members: Mapping[str, StreamsMemberSpec]
    subtopologies: Mapping[str, SubtopologySpec]
    """Subtopologies, sorted by id."""
    standby_replicas: int = 0

    @property
    def work(self) -> int:
        """A measure of the time that the assignor needs."""
        tasks = sum(each.tasks for each in self.subtopologies.values())
        return len(self.members) + tasks * (1 + self.standby_replicas)


def assign(group: StreamsGroupSpec) -> dict[str, Tasks]:
    """Assign all tasks. The result contains every member."""
    return _Assignment(group).tasks()


class _Thread(Struct):
    """A member in the queue of its process, with the number of its tasks."""

    member_id: str
    count: int


class _Process(Struct):
    """A process and its tasks."""

    counts: dict[str, int] = field(default_factory=dict[str, int])
    """The number of tasks of each member."""
    tasks: set[Task] = field(default_factory=set[Task])
    """The tasks of all members."""
    task_count: int = 0
    """The number of tasks of all members."""
    by_load: PriorityQueue[_Thread] | None = None

    @property
    def load(self) -> float:
        """The number of tasks per member."""
        return self.task_count / len(self.counts)


class _Share:
    """The number of tasks that each member may have: the remaining tasks divided by the members
    that have not reached their share."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self.of_each = -(-tasks // members) if members else 0

    def note_assigned(self, count: int) -> None:
        """Note that a member now has `count` tasks."""
        if count == self.of_each:
            self._members -= 1
            self._tasks -= count
            self.of_each = -(-self._tasks // self._members) if self._members else 0


class _Missing(NamedTuple):
    task: Task
    standbys: int


class _Assignment:
    def __init__(self, group: StreamsGroupSpec) -> None:
        self._group = group
        self._standby_replicas = group.standby_replicas
        every = [
            (Task(subtopology_id, partition), each.is_stateful)
            for subtopology_id, each in group.subtopologies.items()
            for partition in range(each.tasks)
        ]
        self._active_tasks = [task for task, _ in every]
        self._stateful_tasks = [task for task, is_stateful in every if is_stateful]
        self._members = hash_map_order(group.members)
        count = len(self._members)
        self._active_share = _Share(len(every), count)
        self._share = _Share(len(every) + len(self._stateful_tasks) * self._standby_replicas, count)
        self._active: dict[str, dict[str, set[int]]] = {m: {} for m in self._members}
        self._standby: dict[str, dict[str, set[int]]] = {m: {} for m in self._members}
        self._had_active: dict[Task, str] = {}
        self._had_standby: dict[Task, list[str]] = {}
        processes: dict[str, _Process] = {}
        self._process_of: dict[str, _Process] = {}
        for member_id in self._members:
            spec = group.members[member_id]
            process = processes.setdefault(spec.process_id, _Process())
            process.counts[member_id] = 0
            self._process_of[member_id] = process
            for task in _each(spec.target.active):
                self._had_active[task] = member_id
            for task in _each(spec.target.standby):
                self._had_standby.setdefault(task, []).append(member_id)
        for process in processes.values():
            process.counts = {m: 0 for m in hash_map_order(process.counts)}
        in_order = hash_map_order(processes, capacity=1 << (count - 1).bit_length() if count else 1)
        self._processes = [processes[process_id] for process_id in in_order]

    def tasks(self) -> dict[str, Tasks]:
        """Return the assignment."""
        if self._members:
            self._assign_active()
            if self._standby_replicas:
                self._assign_standby()
        return {
            m: Tasks(_frozen(self._active[m]), _frozen(self._standby[m])) for m in self._members
        }

    # Active tasks

    def _assign_active(self) -> None:
        left: list[Task] = []
        for task in sorted(self._active_tasks, key=_by_partition):
            member_id = self._had_active.get(task)
            if member_id is None or not self._has_capacity(member_id, self._active_share):
                left.append(task)
            else:
                self._give_active(member_id, task)
        new: list[Task] = []
        for task in left:
            member_id = self._least_loaded(self._had_standby.get(task, ()), None)
            if member_id is None or not self._has_capacity(member_id, self._active_share):
                new.append(task)
            else:
                self._give_active(member_id, task)
        queue = PriorityQueue(_load, self._processes)
        for task in sorted(new, key=_by_subtopology):
            process = queue.poll()
            count = self._give_least_loaded(process, task, self._active)
            self._active_share.note_assigned(count)
            self._share.note_assigned(count)
            queue.add(process)

    def _has_capacity(self, member_id: str, share: _Share) -> bool:
        return self._process_of[member_id].counts[member_id] < share.of_each

    def _give_active(self, member_id: str, task: Task) -> None:
        count = self._give(member_id, task, self._active)
        self._active_share.note_assigned(count)
        self._share.note_assigned(count)

    # Standby tasks

    def _assign_standby(self) -> None:
        left: list[_Missing] = []
        for task in sorted(self._stateful_tasks, key=_by_partition, reverse=True):
            for missing in range(self._standby_replicas, 0, -1):
                member_id = self._previous_member(task)
                if member_id is None:
                    left.append(_Missing(task, missing))
                    break
                self._share.note_assigned(self._give(member_id, task, self._standby))
        left.sort(key=lambda each: _by_subtopology(each.task), reverse=True)
        queue = PriorityQueue(_load, self._processes)
        for task, missing in left:
            for _ in range(missing):
                if not self._give_standby(queue, task):
                    break

    def _previous_member(self, task: Task) -> str | None:
        """Return a member that had the task or its standby, and may have its standby now."""
        member_id = self._had_active.get(task)
        if (
            member_id is not None
            and task not in self._process_of[member_id].tasks
            and self._has_capacity(member_id, self._share)
        ):
            return member_id
        member_id = self._least_loaded(self._had_standby.get(task, ()), task)
        if member_id is not None and self._has_capacity(member_id, self._share):
            return member_id
        return None

    def _give_standby(self, queue: PriorityQueue[_Process], task: Task) -> bool:
        """Assign a standby task to the process with the least load that does not have the task.
        Returns whether there is one."""
        passed: list[_Process] = []
        found = False
        while queue and not found:
            process = queue.poll()
            passed.append(process)
            if task not in process.tasks:
                self._share.note_assigned(self._give_least_loaded(process, task, self._standby))
                found = True
        for process in reversed(passed):
            queue.add(process)
        return found

    # Active and standby tasks

    def _least_loaded(self, members: Iterable[str], task: Task | None) -> str | None:
        """Return the member with the least load. Given a task, return None if the process of the
        first member already has it, as in Kafka."""
        candidate: str | None = None
        first: _Process | None = None
        load = tasks = 0.0
        for member_id in members:
            process = self._process_of[member_id]
            count = process.counts[member_id]
            if candidate is None:
                candidate, first, load, tasks = member_id, process, process.load, count
            elif (
                process.load < load
                and (task is None or task not in process.tasks)
                and count < tasks
            ):
                candidate, load, tasks = member_id, process.load, count
        if first is None or (task is not None and task in first.tasks):
            return None
        return candidate

    def _give(self, member_id: str, task: Task, kind: dict[str, dict[str, set[int]]]) -> int:
        """Assign a task to a member. Returns the member's number of tasks."""
        process = self._process_of[member_id]
        process.by_load = None
        return _add(process, member_id, task, kind)

    def _give_least_loaded(
        self, process: _Process, task: Task, kind: dict[str, dict[str, set[int]]]
    ) -> int:
        if process.by_load is None:
            process.by_load = PriorityQueue(
                _count, [_Thread(member_id, count) for member_id, count in process.counts.items()]
            )
        thread = process.by_load.poll()
        thread.count = _add(process, thread.member_id, task, kind)
        process.by_load.add(thread)
        return thread.count


def _add(
    process: _Process, member_id: str, task: Task, kind: dict[str, dict[str, set[int]]]
) -> int:
    kind[member_id].setdefault(task.subtopology_id, set()).add(task.partition)
    process.tasks.add(task)
    count = process.counts[member_id] = process.counts[member_id] + 1
    process.task_count += 1
    return count


def _load(process: _Process) -> float:
    return process.load


def _count(thread: _Thread) -> float:
    return thread.count


def _by_partition(task: Task) -> tuple[int, bytes]:
    return task.partition, java_order(task.subtopology_id)


def _by_subtopology(task: Task) -> tuple[bytes, int]:
    return java_order(task.subtopology_id), task.partition


def _each(tasks: Mapping[str, Iterable[int]]) -> Iterable[Task]:
    for subtopology_id, partitions in tasks.items():
        for partition in partitions:
            yield Task(subtopology_id, partition)


def _frozen(tasks: Mapping[str, set[int]]) -> dict[str, frozenset[int]]:
    return {subtopology_id: frozenset(partitions) for subtopology_id, partitions in tasks.items()}
