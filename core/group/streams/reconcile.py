"""The next step of a member from the tasks that it holds to its target.

An active task goes to its next holder only after the previous one has given it up. A task of any
kind goes to a member only if no other member of its process has it, because they share a state
directory. A member that must give up tasks stays in its epoch until a heartbeat no longer lists
them. Then it gets the epoch of the target, and those tasks of the target that are free. Kafka 4.3.1
takes the same steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from msgspec import Struct
from msgspec.structs import replace

from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.streams.member import MemberState, StreamsMember
from pk.core.group.streams.tasks import HOLDS_NONE, HeldTasks, Tasks, TaskSet, share_any


class Target(Struct, frozen=True):
    """A member's target assignment."""

    epoch: int
    tasks: Tasks


class Holders(Protocol):
    """The processes that hold each task."""

    def active_process(self, subtopology_id: str, partition: int) -> str | None:
        """Return the process that has the active task, or None."""
        ...

    def has_copy(self, process_id: str, subtopology_id: str, partition: int) -> bool:
        """Whether a process has a standby or warm-up task."""
        ...


class _Difference(NamedTuple):
    """The differences between a member's tasks of one kind and its target."""

    kept: dict[str, dict[int, int]]
    revoking: dict[str, dict[int, int]]
    new: dict[str, dict[int, int]]
    waits: bool
    """Whether other members or processes still hold tasks of the target."""


def reconcile(
    member: StreamsMember, target: Target, holders: Holders, owned: Tasks | None
) -> StreamsMember:
    """Return the member after the next step, or the same object if there is none.

    `owned` are the tasks that the member reports (None if it reports nothing). Raises
    FENCED_MEMBER_EPOCH for a member in an unknown state that still holds tasks.
    """
    match member.state:
        case MemberState.STABLE:
            if member.member_epoch == target.epoch:
                return member
            epoch = member.member_epoch
        case MemberState.UNREVOKED_TASKS:
            if owned is None or share_any(owned, member.revoking):
                return member
            epoch = member.member_epoch + 1
        case MemberState.UNRELEASED_TASKS:
            epoch = member.member_epoch
        case _:
            if owned is None or owned.active or owned.standby or owned.warmup:
                raise KafkaError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The streams group member is in a unknown state. "
                    "The member must abandon all its tasks and rejoin.",
                )
            epoch = target.epoch
    return _advance(member, epoch, target, holders, owned)


def _advance(
    member: StreamsMember, epoch: int, target: Target, holders: Holders, owned: Tasks | None
) -> StreamsMember:
    process_id = member.process_id

    def active_is_taken(subtopology_id: str, partition: int) -> bool:
        return holders.active_process(subtopology_id, partition) is not None or holders.has_copy(
            process_id, subtopology_id, partition
        )

    def copy_is_taken(subtopology_id: str, partition: int) -> bool:
        return holders.active_process(subtopology_id, partition) == process_id or holders.has_copy(
            process_id, subtopology_id, partition
        )

    held = member.assigned
    active = _difference(held.active, target.tasks.active, target.epoch, active_is_taken)
    standby = _difference(
        _with_epoch(held.standby), target.tasks.standby, target.epoch, copy_is_taken
    )
    warmup = _difference(_with_epoch(held.warmup), target.tasks.warmup, target.epoch, copy_is_taken)
    revoking = HeldTasks(active.revoking, _without(standby.revoking), _without(warmup.revoking))
    if not revoking.is_empty and (owned is None or share_any(owned, revoking)):
        kept = HeldTasks(active.kept, _without(standby.kept), _without(warmup.kept))
        return _moved(member, epoch, MemberState.UNREVOKED_TASKS, kept, revoking)
    waits = active.waits or standby.waits or warmup.waits
    return _moved(
        member,
        target.epoch,
        MemberState.UNRELEASED_TASKS if waits else MemberState.STABLE,
        HeldTasks(_merged(active), _without(_merged(standby)), _without(_merged(warmup))),
        HOLDS_NONE,
    )


def _difference(
    held: Mapping[str, Mapping[int, int]],
    wanted: TaskSet,
    epoch: int,
    is_taken: Callable[[str, int], bool],
) -> _Difference:
    found = _Difference({}, {}, {}, waits=False)
    waits = False
    for subtopology_id in dict.fromkeys((*wanted, *held)):
        has = held.get(subtopology_id, {})
        wants = wanted.get(subtopology_id, frozenset())
        if kept := {p: since for p, since in has.items() if p in wants}:
            found.kept[subtopology_id] = kept
        if len(kept) < len(has):
            found.revoking[subtopology_id] = {p: e for p, e in has.items() if p not in wants}
        lacking = wants - kept.keys()
        free = {p: epoch for p in sorted(lacking) if not is_taken(subtopology_id, p)}
        if free:
            found.new[subtopology_id] = free
        waits = waits or len(free) < len(lacking)
    return found._replace(waits=waits)


def _merged(found: _Difference) -> dict[str, dict[int, int]]:
    return {
        subtopology_id: {**found.kept.get(subtopology_id, {}), **found.new.get(subtopology_id, {})}
        for subtopology_id in dict.fromkeys((*found.kept, *found.new))
    }


def _with_epoch(tasks: TaskSet) -> dict[str, dict[int, int]]:
    return {subtopology_id: dict.fromkeys(ps, 0) for subtopology_id, ps in tasks.items()}


def _without(tasks: Mapping[str, Mapping[int, int]]) -> dict[str, frozenset[int]]:
    return {subtopology_id: frozenset(partitions) for subtopology_id, partitions in tasks.items()}


def _moved(
    member: StreamsMember, epoch: int, state: MemberState, assigned: HeldTasks, revoking: HeldTasks
) -> StreamsMember:
    return replace(
        member,
        member_epoch=epoch,
        previous_epoch=member.member_epoch,
        state=state,
        assigned=assigned,
        revoking=revoking,
    )
