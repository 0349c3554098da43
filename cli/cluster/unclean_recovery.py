"""Partitions that wait until the logs of more replicas are known (`unclean.recovery.strategy`), in
words."""

from collections.abc import Iterable, Mapping

from pk.cli.phrases import count, join, partition_name
from pk.core.errors import ErrorCode, KafkaError
from pk.core.log.damaged import Damage
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin
from pk.net.client.errors import ControllerSilent


async def recoveries(
    admin: Admin, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, r.UncleanRecovery]:
    """The controller's information about these partitions (None: about all that it is recovering).
    Empty if it does not answer, or denies access."""
    try:
        return await admin.unclean_recovery(partitions)
    except ControllerSilent:
        return {}
    except KafkaError as e:
        if e.code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise
        return {}


def waiting(found: r.UncleanRecovery) -> str:
    """The logs for which a partition without a leader waits, and why: `the log of broker 3: …`;
    empty if it has a leader, or nothing is known."""
    if found.leader_id >= 0 or not found.why:
        return ""
    if not found.awaits:
        return f"an operator: {found.why}"
    ids = sorted(found.awaits)
    brokers = f"broker{'' if len(ids) == 1 else 's'} {join([str(b) for b in ids])}"
    return f"the log{'' if len(ids) == 1 else 's'} of {brokers}: {found.why}"


def log_words(state: r.ReplicaLogState, why: str = "") -> str:
    """A log's state in words: `ends at 1500, last batch of epoch 3`. `why` is the controller's
    explanation for a follower that stopped."""
    if not (state.reported or state.damage or state.damaged_segments):
        return "not known"
    words: list[str] = []
    if state.end_offset >= 0:
        words.append(f"ends at {state.end_offset}, last batch of epoch {state.last_epoch}")
    if state.damaged_segments:
        words.append(f"{count(state.damaged_segments, 'closed segment')} damaged")
    if state.damage:
        words.append(f"damaged: {damage_words(state.damage)}")
    if state.stopped:
        words.append("stopped, because it has committed records that its leader lacks")
        words += [why] if why else []
    return "; ".join(words)


def damage_words(damage: int) -> str:
    """The damage to a log in words."""
    try:
        return Damage(damage).description
    except ValueError:
        return f"damage {damage}"


def lines(found: Mapping[TopicPartition, r.UncleanRecovery]) -> list[str]:
    """A sentence for each reason for which partitions wait."""
    by_reason: dict[str, list[str]] = {}
    for tp, one in sorted(found.items()):
        if reason := waiting(one):
            by_reason.setdefault(reason, []).append(partition_name(tp))
    return [
        (f"{names[0]} waits" if len(names) == 1 else f"{count(len(names), 'partition')} wait")
        + f" for {reason} (`pk why partition {names[0]}`)."
        for reason, names in by_reason.items()
    ]
