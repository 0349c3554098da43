"""The next step of a member from its current to its target assignment.

A partition goes to its next holder only after the previous one has given it up, so two members of a
group never hold it at once. A member that must give up partitions stays in its epoch until a
heartbeat no longer lists them. Then it gets the epoch of the target, and those partitions of the
target that are free. Kafka 4.3.1 takes the same steps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from msgspec import Struct
from msgspec.structs import replace

from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.assignor import Assignment
from pk.core.group.consumer.member import ConsumerMember, Current, MemberState
from pk.core.values import Uuid

Owned = Mapping[Uuid, Collection[int]]
"""The partitions that a member reports in its heartbeat."""


class Target(Struct, frozen=True):
    """A member's target assignment."""

    epoch: int
    assignment: Assignment


def reconcile(
    member: ConsumerMember,
    target: Target,
    subscribed: Callable[[Uuid], bool],
    is_held: Callable[[Uuid, int], bool],
    owned: Owned | None,
    *,
    subscription_changed: bool,
) -> ConsumerMember:
    """Return the member after the next step, or the same object if there is none.

    `subscribed` is whether the member is subscribed to a topic, `is_held` whether a member of the
    group holds a partition, and `owned` the partitions that the member reports (None if it reports
    nothing). Raises FENCED_MEMBER_EPOCH for a member in an unknown state that still holds
    partitions.
    """
    state = member.state
    if state is MemberState.STABLE:
        if member.member_epoch != target.epoch:
            return _advance(member, target, subscribed, is_held, owned)
        return _without_unsubscribed(member, subscribed, owned) if subscription_changed else member
    if state is MemberState.UNREVOKED_PARTITIONS and _owns_any(owned, member.revoking):
        return _without_unsubscribed(member, subscribed, owned) if subscription_changed else member
    if state is MemberState.UNKNOWN:
        if owned is None or owned:
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The consumer group member is in a unknown state. "
                "The member must abandon all its partitions and rejoin.",
            )
        member = replace(member, member_epoch=target.epoch)
    return _advance(member, target, subscribed, is_held, owned)


def _advance(
    member: ConsumerMember,
    target: Target,
    subscribed: Callable[[Uuid], bool],
    is_held: Callable[[Uuid, int], bool],
    owned: Owned | None,
) -> ConsumerMember:
    kept: dict[Uuid, Mapping[int, int]] = {}
    revoking: dict[Uuid, Mapping[int, int]] = {}
    free: dict[Uuid, list[int]] = {}
    waits = False
    nothing: frozenset[int] = frozenset()
    for topic_id in dict.fromkeys((*target.assignment, *member.assigned)):
        wanted = target.assignment.get(topic_id, nothing) if subscribed(topic_id) else nothing
        has = member.assigned.get(topic_id, {})
        keeps = {p: epoch for p, epoch in has.items() if p in wanted}
        if keeps:
            kept[topic_id] = keeps
        if len(keeps) < len(has):
            revoking[topic_id] = {p: epoch for p, epoch in has.items() if p not in wanted}
        own = member.revoking.get(topic_id, {})
        for partition in sorted(wanted - keeps.keys()):
            # The member was giving this partition up itself, so no other member holds it.
            if partition in own or not is_held(topic_id, partition):
                free.setdefault(topic_id, []).append(partition)
            else:
                waits = True
    if revoking and _owns_any(owned, revoking):
        return _moved(member, member.member_epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
    for topic_id, partitions in free.items():
        new = dict.fromkeys(partitions, target.epoch)
        kept[topic_id] = {**kept.get(topic_id, {}), **new}
    state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
    return _moved(member, target.epoch, state, kept, {})


def _without_unsubscribed(
    member: ConsumerMember, subscribed: Callable[[Uuid], bool], owned: Owned | None
) -> ConsumerMember:
    """Revoke topics that the member is no longer subscribed to, without waiting for the next
    target."""
    gone = [t for t in member.assigned if not subscribed(t)]
    if not gone:
        return member
    kept = {t: ps for t, ps in member.assigned.items() if t not in gone}
    revoking: dict[Uuid, Mapping[int, int]] = dict(member.revoking)
    for topic_id in gone:
        revoking[topic_id] = {**revoking.get(topic_id, {}), **member.assigned[topic_id]}
    if _owns_any(owned, revoking):
        return _moved(member, member.member_epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
    return _moved(member, member.member_epoch, member.state, kept, member.revoking)


def _moved(
    member: ConsumerMember, epoch: int, state: MemberState, assigned: Current, revoking: Current
) -> ConsumerMember:
    return replace(
        member,
        member_epoch=epoch,
        previous_epoch=member.member_epoch,
        state=state,
        assigned=assigned,
        revoking=revoking,
    )


def _owns_any(owned: Owned | None, revoking: Current) -> bool:
    """Whether the member may still hold some of `revoking`, because it reports them or reports
    nothing."""
    if owned is None:
        return True
    return any(
        partition in revoking.get(topic_id, ())
        for topic_id, partitions in owned.items()
        for partition in partitions
    )
