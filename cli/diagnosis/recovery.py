"""Checks of logs: partitions that wait for other replicas' logs, and logs that are damaged or do
not end at their leader's log end."""

from collections.abc import Iterator

from pk.cli.cluster.unclean_recovery import damage_words, waiting
from pk.cli.diagnosis.snapshot import (
    ERROR,
    WARNING,
    ClusterSnapshot,
    Finding,
    brokers_named,
    partitions_counted,
    topic_words,
)
from pk.cli.phrases import count, partition_name
from pk.core.values import TopicPartition


def awaited_logs(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Partitions without a leader until the logs of more replicas are known."""
    by_reason: dict[str, list[TopicPartition]] = {}
    for tp, found in snapshot.recoveries.items():
        if reason := waiting(found):
            by_reason.setdefault(reason, []).append(tp)
    for reason, tps in by_reason.items():
        awaited = sorted({b for tp in tps for b in snapshot.recoveries[tp].awaits})
        start = f" Start {brokers_named(awaited)}." if awaited else ""
        yield Finding(
            "awaited-logs",
            ERROR,
            f"{partitions_counted(tps)} without a leader until more replicas report their logs.",
            "All in-sync replicas came back without a clean shutdown. Each waits for "
            f"{reason}.{start}",
            f"pk why partition {topic_words([partition_name(min(tps))])}",
            tuple(partition_name(tp) for tp in sorted(tps)),
        )


def stopped_replicas(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Followers that have committed records that their leader lacks."""
    for tp, found in sorted(snapshot.recoveries.items()):
        stopped = [one.broker_id for one in found.replicas if one.stopped]
        if stopped:
            yield Finding(
                "stopped-replicas",
                ERROR,
                f"{partition_name(tp)}: {brokers_named(stopped)} has committed records that its "
                f"leader, broker {found.leader_id}, lacks.",
                "It keeps them and has stopped "
                f"following{f' ({found.why})' if found.why else ''}. If this does not end by "
                "itself, choose the log to keep.",
                f"pk partitions elect-leaders {topic_words([partition_name(tp)])} --unclean "
                f"--from {stopped[0]} --dry-run",
                (partition_name(tp),),
            )


def damaged_replicas(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Replicas whose logs were found damaged and are not in sync again."""
    by_broker: dict[tuple[int, int], list[TopicPartition]] = {}
    for tp, found in snapshot.recoveries.items():
        for one in found.replicas:
            if one.damage:
                by_broker.setdefault((one.broker_id, one.damage), []).append(tp)
    yield from _damaged_segments(snapshot)
    for (broker, damage), tps in sorted(by_broker.items()):
        yield Finding(
            "damaged-replicas",
            WARNING,
            f"Broker {broker} found {count(len(tps), 'log')} damaged: {damage_words(damage)}.",
            f"{partitions_counted(tps)} there. They are copied from their leaders; check the disk "
            "if it happens again.",
            f"pk isr {topic_words({tp.topic for tp in tps})}",
            tuple(partition_name(tp) for tp in sorted(tps)),
        )


def _damaged_segments(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Damaged segments that a broker found while it ran. Another replica replaces them, if there is
    one."""
    found: dict[tuple[int, bool], dict[TopicPartition, int]] = {}
    for tp, recovery in snapshot.recoveries.items():
        for one in recovery.replicas:
            if one.damaged_segments:
                alone = len(recovery.replicas) == 1
                found.setdefault((one.broker_id, alone), {})[tp] = one.damaged_segments
    for (broker, alone), segments in sorted(found.items()):
        yield Finding(
            "damaged-replicas",
            ERROR if alone else WARNING,
            f"Broker {broker} found {count(sum(segments.values()), 'closed segment')} damaged"
            f"{' in the only replica' if alone else ''}.",
            f"{partitions_counted(list(segments))} there. "
            + (
                "No other replica has them: restore them from a backup, or copy the readable "
                "records."
                if alone
                else "They are replaced from another replica; check the disk if it happens again."
            ),
            f"pk isr {topic_words({tp.topic for tp in segments})}",
            tuple(partition_name(tp) for tp in sorted(segments)),
        )
