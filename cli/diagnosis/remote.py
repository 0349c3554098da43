"""Checks of remote storage: partitions that are not restored yet, and segments that are not
copied."""

from collections.abc import Iterator

from pk.cli.diagnosis.snapshot import (
    ERROR,
    NOTE,
    WARNING,
    ClusterSnapshot,
    Finding,
    partitions_counted,
    topic_words,
    topics_counted,
)
from pk.cli.output.amounts import show_bytes
from pk.cli.phrases import count, partition_name
from pk.core.values import TopicPartition
from pk.net.client import results as r

By = dict[str, list[TopicPartition]]


def remote_words(state: r.RemoteState) -> str:
    """How much of a partition was copied, and why the rest was not."""
    parts = [f"{count(state.segments, 'segment')} copied, {show_bytes(state.bytes)}"]
    if state.lag_segments:
        due = f"{count(state.lag_segments, 'closed segment')} not, {show_bytes(state.lag_bytes)}"
        parts.append(due)
    if state.unfinished:
        parts.append(f"{count(state.unfinished, 'segment')} not finished")
    if state.copy_disabled:
        parts.append("copying is off (remote.log.copy.disable=true)")
    if state.why:
        parts.append(state.why)
    return "; ".join(parts)


def awaiting_restore(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Partitions that have no leader until they are restored from remote storage."""
    by_reason: By = {}
    for tp, state in snapshot.remote.items():
        if state.restoring:
            by_reason.setdefault(state.why, []).append(tp)
    for why, tps in by_reason.items():
        yield Finding(
            "remote-restore",
            ERROR,
            f"{partitions_counted(tps)} not restored yet from remote storage.",
            f"The leader tries again by itself: {why}." if why else "The leader is restoring them.",
            f"pk why partition {topic_words([partition_name(min(tps))])}",
            tuple(partition_name(tp) for tp in sorted(tps)),
        )


def not_copied(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Tiered partitions whose segments cannot be copied to remote storage, or deleted there."""
    by_reason: By = {}
    for tp, state in snapshot.remote.items():
        if state.why and not state.restoring:
            by_reason.setdefault(_same(tp, state.why), []).append(tp)
    for why, tps in by_reason.items():
        states = [snapshot.remote[tp] for tp in tps]
        segments = sum(state.lag_segments for state in states)
        size = show_bytes(sum(state.lag_bytes for state in states))
        yield Finding(
            "remote-storage",
            WARNING,
            f"Remote storage fails for {partitions_counted(tps)}: {why.rstrip('.')}.",
            f"{count(segments, 'closed segment')}, {size}, only on the brokers' disks, which fill "
            "until this ends.",
            f"pk why partition {topic_words([partition_name(min(tps))])}",
            tuple(partition_name(tp) for tp in sorted(tps)),
        )


def _same(tp: TopicPartition, why: str) -> str:
    """A reason without the name of the object, which differs between partitions."""
    name, colon, rest = why.partition(": ")
    return rest if colon and name.endswith(".segment") and f"/{tp.topic}-" in name else why


def orphans(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Objects in remote storage that belong to no segment, and that leaders keep."""
    tps = [tp for tp, state in snapshot.remote.items() if state.orphans]
    if tps:
        objects = sum(snapshot.remote[tp].orphans for tp in tps)
        first = min(tps)
        yield Finding(
            "remote-orphans",
            WARNING,
            f"{count(objects, 'object')} of {partitions_counted(tps)} in remote storage that "
            f"__remote_log_metadata does not name, such as {snapshot.remote[first].orphan}.",
            "They are kept: no segment has their offsets, or they are damaged. If metadata was "
            "lost, they may be the only copy; otherwise delete them in the store.",
            "pk log remote URL --verify",
            tuple(partition_name(tp) for tp in sorted(tps)),
        )


def copy_disabled(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Tiered topics of which nothing more is copied to remote storage."""
    tps = [
        tp
        for tp, state in snapshot.remote.items()
        if state.copy_disabled and state.lag_segments and not state.why
    ]
    if tps:
        topics = {tp.topic for tp in tps}
        segments = sum(snapshot.remote[tp].lag_segments for tp in tps)
        yield Finding(
            "remote-copy-disabled",
            NOTE,
            f"{topics_counted(topics)} with remote.log.copy.disable=true.",
            f"{count(segments, 'closed segment')} only on the brokers' disks.",
            f"pk configs describe {topic_words(topics, '-t ')}",
            tuple(sorted(topics)),
        )
