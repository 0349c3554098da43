"""Checks of load and space: how leaders, replicas and bytes are distributed, and which disks are
nearly full."""

from collections.abc import Iterator, Mapping

from pk.cli.diagnosis.snapshot import (
    ERROR,
    NOTE,
    WARNING,
    ClusterSnapshot,
    Finding,
    partitions_counted,
)
from pk.cli.output.amounts import show_bytes
from pk.cli.phrases import count, join, partition_name

_SKEWED = 1.5
"""A broker with more than this many times its fair share is overloaded …"""
_SKEW_MIN = 4
"""… if it is also this many partitions above its share: 3 against 1 does not justify a move."""
_SKEW_BYTES_MIN = 1 << 30
_FULL, _NEARLY = 0.95, 0.85


def preferred_leaders(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Partitions not led by their preferred replica, although it is in sync."""
    bad = [
        tp
        for tp, _, p in snapshot.partitions
        if p.leader >= 0 and p.replicas and p.leader != p.replicas[0] and p.replicas[0] in p.isr
    ]
    if bad:
        yield Finding(
            "preferred-leaders",
            WARNING,
            f"{partitions_counted(bad)} not led by the preferred replica, although it is in sync.",
            "After a restart leaders gather on the brokers that stayed up; an election spreads "
            "them again, without moving data.",
            "pk partitions elect-leaders",
            tuple(partition_name(tp) for tp in sorted(bad)),
        )


def _heaviest(shares: Mapping[int, float], least: float) -> tuple[int, float] | None:
    """The broker with the most, and the fair share, if the broker is overloaded."""
    if len(shares) < 2:
        return None
    fair = sum(shares.values()) / len(shares)
    broker = max(shares, key=lambda b: shares[b])
    most = shares[broker]
    return (broker, fair) if most > fair * _SKEWED and most - fair >= least else None


def _per_broker(shares: Mapping[int, float]) -> str:
    return join([f"{b}: {int(n):,}" for b, n in sorted(shares.items())], 12)


def leader_skew(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Leaders concentrated on few brokers."""
    live = snapshot.live
    leads: dict[int, float] = dict.fromkeys(live, 0)
    prefers: dict[int, float] = dict.fromkeys(live, 0)
    for _, _, p in snapshot.partitions:
        if p.leader in leads:
            leads[p.leader] += 1
        if p.replicas and p.replicas[0] in prefers:
            prefers[p.replicas[0]] += 1
    found = _heaviest(leads, _SKEW_MIN)
    if found:
        broker, fair = found
        elect = _heaviest(prefers, _SKEW_MIN) is None
        yield Finding(
            "leader-skew",
            WARNING,
            f"Broker {broker} leads {int(leads[broker]):,} partitions, its share is {fair:.0f} "
            f"({_per_broker(leads)}).",
            "Reads and writes go to leaders: this broker is busy while others idle.",
            "pk partitions elect-leaders" if elect else "pk reassign apply --balance-by leaders",
            (str(broker),),
        )


def replica_skew(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Replicas concentrated on few brokers."""
    holds: dict[int, float] = dict.fromkeys(snapshot.live, 0)
    for _, _, p in snapshot.partitions:
        for broker in p.replicas:
            if broker in holds:
                holds[broker] += 1
    found = _heaviest(holds, _SKEW_MIN)
    if found:
        broker, fair = found
        yield Finding(
            "replica-skew",
            WARNING,
            f"Broker {broker} holds {int(holds[broker]):,} replicas, its share is {fair:.0f} "
            f"({_per_broker(holds)}).",
            "Its disk and network carry more load than those of other brokers.",
            "pk reassign apply --balance-by replicas",
            (str(broker),),
        )


def disk_skew(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Bytes concentrated on few brokers."""
    holds: dict[int, float] = dict.fromkeys(snapshot.live, 0)
    for _, _, p in snapshot.partitions:
        for broker in p.replicas:
            if broker in holds and p.size_bytes is not None:
                holds[broker] += p.size_bytes
    found = _heaviest(holds, _SKEW_BYTES_MIN)
    if found:
        broker, fair = found
        yield Finding(
            "disk-skew",
            WARNING,
            (
                f"Broker {broker} holds {show_bytes(int(holds[broker]))}, its share is "
                f"{show_bytes(int(fair))}."
            ),
            "Its disk fills up first, while the others have space.",
            "pk reassign apply --balance-by bytes",
            (str(broker),),
        )


def offline_directories(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Log directories that failed."""
    bad = [d for d in snapshot.directories if d.error]
    for d in bad:
        yield Finding(
            "offline-directories",
            ERROR,
            f"Log directory {d.path} of broker {d.broker} failed ({d.error}).",
            "Its replicas are out of sync until the disk is repaired and the broker restarted.",
            f"pk brokers logdirs {d.broker}",
            (f"{d.broker}:{d.path}",),
        )


def full_disks(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Disks with little space left."""
    for d in snapshot.directories:
        used = d.used
        if used is None or used < _NEARLY:
            continue
        yield Finding(
            "full-disks",
            ERROR if used >= _FULL else WARNING,
            f"The disk of {d.path} on broker {d.broker} is {used:.0%} full, "
            f"{show_bytes(d.usable)} left.",
            "A full disk refuses records; Apache Kafka takes its log directory offline.",
            f"pk brokers logdirs {d.broker} --replicas --sort -bytes --limit 20",
            (f"{d.broker}:{d.path}",),
        )


def empty_brokers(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Brokers that were added and never got a replica."""
    holds = {b for _, _, p in snapshot.partitions for b in p.replicas}
    idle = [b for b in snapshot.live if b not in holds]
    busy = sum(1 for _ in snapshot.partitions)
    if idle and busy >= len(snapshot.live) and len(snapshot.live) > 1:
        ids = ",".join(map(str, idle))
        yield Finding(
            "empty-brokers",
            NOTE,
            f"{count(len(idle), 'broker')} without any replica ({ids}).",
            "Kafka places only new topics on a new broker; existing replicas do not move.",
            f"pk reassign apply --add {ids}",
            tuple(map(str, idle)),
        )
