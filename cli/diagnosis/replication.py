"""Checks of replicas: which partitions cannot be written or read now, and which would become
unavailable with one more failure."""

from collections import Counter
from collections.abc import Iterable, Iterator

from pk.cli.diagnosis.snapshot import (
    ERROR,
    NOTE,
    WARNING,
    ClusterSnapshot,
    Finding,
    Partition,
    brokers_named,
    partitions_counted,
    topic_words,
    topics_counted,
)
from pk.cli.phrases import count, join, partition_name
from pk.core.values import TopicPartition


def _found(
    check: str,
    severity: str,
    what: str,
    why: str,
    fix: str | None,
    subjects: Iterable[str] = (),
) -> Finding:
    return Finding(check, severity, what, why, fix, tuple(subjects))


def _subjects(tps: Iterable[TopicPartition]) -> list[str]:
    return [partition_name(tp) for tp in sorted(tps)]


def missing(p: Partition) -> list[int]:
    """Replicas that should be in sync and are not. A replica that is being added is expected to
    lag."""
    return [b for b in p.replicas if b not in p.isr and b not in p.adding]


def brokers_down(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Brokers with replicas that are missing, fenced, or do not answer."""
    holding: dict[int, int] = {}
    for _, _, p in snapshot.partitions:
        for broker in p.replicas:
            holding[broker] = holding.get(broker, 0) + 1
    gone = sorted(b for b in holding if b not in snapshot.brokers)
    fenced = sorted(b for b, broker in snapshot.brokers.items() if broker.fenced)
    silent = sorted(b for b, broker in snapshot.brokers.items() if broker.silent)
    if silent:
        yield _found(
            "brokers-down",
            ERROR,
            f"{brokers_named(silent).capitalize()} {'is' if len(silent) == 1 else 'are'} in the "
            f"cluster, but {'does' if len(silent) == 1 else 'do'} not answer.",
            "Stopped, unreachable from here, or overloaded: its partitions cannot be read or "
            "written from here until it answers, or is fenced and others lead.",
            _start(snapshot, silent),
            map(str, silent),
        )
    for bad, state in ((gone, "not in the cluster"), (fenced, "fenced")):
        if bad:
            replicas = sum(holding.get(b, 0) for b in bad)
            them = "it" if len(bad) == 1 else "them"
            move = ""
            if all(_room_beside(snapshot, p, bad) for _, _, p in snapshot.partitions):
                ids = ",".join(map(str, bad))
                move = f", or move the replicas away (`pk reassign apply --drain {ids}`)"
            yield _found(
                "brokers-down",
                ERROR,
                f"{brokers_named(bad).capitalize()} {'is' if len(bad) == 1 else 'are'} {state}.",
                f"{count(replicas, 'replica there falls', 'replicas there fall')} behind. Start "
                f"{them} again{move}.",
                _start(snapshot, bad),
                map(str, bad),
            )


def _start(snapshot: ClusterSnapshot, brokers: Iterable[int]) -> str:
    """The command that starts the first of these brokers, or shows their states."""
    return next(
        (snapshot.start_commands[b] for b in brokers if b in snapshot.start_commands),
        "pk brokers list",
    )


def _room_beside(snapshot: ClusterSnapshot, p: Partition, bad: Iterable[int]) -> bool:
    """Whether enough other brokers are up to hold the replicas that are on `bad` ones."""
    return not {*p.replicas} & {*bad} or len(p.replicas) <= len({*snapshot.live} - {*bad})


def offline(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Partitions without a leader."""
    bad = [tp for tp, _, p in snapshot.partitions if p.leader < 0]
    if bad:
        holders = {b for tp in bad if (p := snapshot.partition(tp)) for b in p.replicas}
        away = sorted(holders - set(snapshot.live))
        start = f" Start {brokers_named(away)} first." if away else ""
        yield _found(
            "offline-partitions",
            ERROR,
            f"{partitions_counted(bad)} without a leader.",
            f"{'It' if len(bad) == 1 else 'They'} cannot be written or read.{start}",
            f"pk why partition {topic_words([partition_name(min(bad))])}",
            _subjects(bad),
        )


def under_min_isr(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Partitions with fewer in-sync replicas than min.insync.replicas."""
    bad = [
        tp for tp, topic, p in snapshot.partitions if p.leader >= 0 and len(p.isr) < topic.min_isr
    ]
    if bad:
        yield _found(
            "under-min-isr",
            ERROR,
            f"{partitions_counted(bad)} below min.insync.replicas.",
            "Producers with acks=all are refused there (NOT_ENOUGH_REPLICAS).",
            f"pk why partition {topic_words([partition_name(min(bad))])}",
            _subjects(bad),
        )


def under_replicated(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Partitions with replicas out of sync."""
    bad = [tp for tp, _, p in snapshot.partitions if missing(p)]
    if not bad:
        return
    out = {b for tp in bad if (p := snapshot.partition(tp)) for b in missing(p)}
    edge = [
        tp
        for tp in bad
        if (p := snapshot.partition(tp)) and len(p.isr) == snapshot.topics[tp.topic].min_isr
    ]
    worse = (
        f"; at {partitions_counted(edge)} one more loss refuses producers with acks=all"
        if edge
        else ""
    )
    yield _found(
        "under-replicated",
        ERROR,
        f"{partitions_counted(bad)} under-replicated: out of sync on {brokers_named(out)}.",
        f"New records are on fewer brokers than they should be{worse}.",
        f"pk why partition {topic_words([partition_name(min(bad))])}",
        _subjects(bad),
    )


def single_replica(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Topics with one replica in a cluster of several brokers."""
    if len(snapshot.brokers) < 2:
        return
    bad = [
        n for n, t in snapshot.topics.items() if t.partitions and t.factor == 1 and not t.internal
    ]
    if bad:
        factor = min(3, len(snapshot.live))
        more = f"pk reassign apply {topic_words(bad, '-t ')} --rf {factor}"
        yield _found(
            "single-replica",
            WARNING,
            f"{topics_counted(bad)} with a single replica.",
            "When its broker stops, a partition cannot be read or written; when its disk dies, "
            "the records are gone."
            + ("" if factor > 1 else " A second replica needs a second broker that is up."),
            more if factor > 1 else "pk brokers list",
            sorted(bad),
        )


def internal_topics(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Internal topics with fewer replicas than the cluster could hold."""
    wanted = min(3, len(snapshot.live))
    bad = {
        n: t.factor
        for n, t in snapshot.topics.items()
        if t.internal and t.partitions and t.factor < wanted
    }
    if bad:
        single = any(factor == 1 for factor in bad.values())
        listed = join([f"{n}: {count(f, 'replica')}" for n, f in sorted(bad.items())])
        yield _found(
            "internal-topics",
            ERROR if single else WARNING,
            f"Internal topics have too few replicas ({listed}; {len(snapshot.live)} brokers).",
            "Committed offsets and transactions are lost with the broker that holds them.",
            f"pk reassign apply {topic_words(bad, '-t ')} --rf {wanted}",
            sorted(bad),
        )


def no_spare_replica(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Topics with as many replicas as min.insync.replicas, or fewer."""
    never = [n for n, t in snapshot.topics.items() if 0 < t.factor < t.min_isr]
    tight = [n for n, t in snapshot.topics.items() if 1 < t.factor == t.min_isr]
    for bad, severity, what, why in (
        (
            never,
            ERROR,
            "fewer replicas than min.insync.replicas",
            "Producers with acks=all are always refused.",
        ),
        (
            tight,
            WARNING,
            "no more replicas than min.insync.replicas",
            "Whenever a broker stops, even for an upgrade, producers with acks=all are refused.",
        ),
    ):
        if bad:
            factor = max(snapshot.topics[n].min_isr for n in bad) + 1
            fix = f"pk reassign apply {topic_words(bad, '-t ')} --rf {factor}"
            if factor > len(snapshot.live):
                fix = _lower_min_isr(snapshot, bad)
            yield _found(
                "no-spare-replica",
                severity,
                f"{topics_counted(bad)} with {what}.",
                why,
                fix,
                sorted(bad),
            )


def _lower_min_isr(snapshot: ClusterSnapshot, topics: list[str]) -> str:
    """The alternative fix if there are too few brokers for another replica."""
    to = max(min(snapshot.topics[n].factor for n in topics) - 1, 1)
    return f"pk configs alter topic {topic_words(topics)} -c min.insync.replicas={to}"


def one_copy_acks(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Replicated topics for which acks=all needs only one replica."""
    bad = [
        n
        for n, t in snapshot.topics.items()
        if not t.internal
        and t.factor >= 3
        and "min.insync.replicas" in t.configs
        and t.min_isr == 1
    ]
    if bad:
        yield _found(
            "one-copy-acks",
            NOTE,
            f"{topics_counted(bad)} with three replicas and min.insync.replicas=1.",
            "acks=all succeeds even if only the leader has the record; with 2, acknowledged "
            "records survive the loss of a broker.",
            f"pk configs alter topic {topic_words(bad)} -c min.insync.replicas=2",
            sorted(bad),
        )


def one_rack(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Partitions with all replicas in one rack, in a cluster with several racks."""
    racks = {b: broker.rack for b, broker in snapshot.brokers.items() if broker.rack is not None}
    if len(set(racks.values())) < 2:
        return
    bad = [
        tp
        for tp, _, p in snapshot.partitions
        if len(p.replicas) > 1
        and all(b in racks for b in p.replicas)
        and len({racks[b] for b in p.replicas}) == 1
    ]
    if bad:
        moves = [
            f"--set {topic_words([partition_name(tp)])}={','.join(map(str, to))}"
            for tp in sorted(bad)
            if (to := _across_racks(snapshot, snapshot.partition(tp)))
        ]
        yield _found(
            "one-rack",
            WARNING,
            f"{partitions_counted(bad)} with every replica in one rack.",
            "If that rack fails, they are offline.",
            f"pk reassign apply {' '.join(moves[:6])}" if moves else "pk brokers list",
            _subjects(bad),
        )


def _across_racks(snapshot: ClusterSnapshot, partition: Partition | None) -> tuple[int, ...]:
    """The replicas with the last one in another rack; empty if no broker there is up."""
    if partition is None:
        return ()
    *kept, last = partition.replicas
    here = snapshot.brokers[last].rack
    others = [b for b in snapshot.live if snapshot.brokers[b].rack not in (None, here)]
    if not others:
        return ()
    held = Counter(b for _, _, p in snapshot.partitions for b in p.replicas)
    return (*kept, min(others, key=lambda b: (held[b], b)))


def unclean_election(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Topics that allow out-of-sync replicas to be elected."""
    bad = [
        n
        for n, t in snapshot.topics.items()
        if t.configs.get("unclean.leader.election.enable") == "true" and t.factor > 1
    ]
    if bad:
        yield _found(
            "unclean-election",
            WARNING,
            f"{topics_counted(bad)} with unclean.leader.election.enable=true.",
            (
                "A replica that is behind may become leader; the records that it lacks are lost, "
                "acknowledged or not."
            ),
            f"pk configs alter topic {topic_words(bad)} -c unclean.leader.election.enable=false",
            sorted(bad),
        )


def stuck_moves(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Reassignments to missing brokers."""
    live = set(snapshot.live)
    bad = [tp for tp, _, p in snapshot.partitions if p.adding and not live >= set(p.adding)]
    if bad:
        away = {b for tp in bad if (p := snapshot.partition(tp)) for b in p.adding} - live
        yield _found(
            "stuck-moves",
            ERROR,
            (
                f"{partitions_counted(bad)} being moved to {brokers_named(away)}, which is not "
                "available."
            ),
            "They cannot finish until the broker is back, and block other changes.",
            f"pk reassign cancel {topic_words(_subjects(bad))}",
            _subjects(bad),
        )


def orphan_throttles(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Replication throttles while nothing is being reassigned."""
    if snapshot.throttles_unowned and snapshot.throttled:
        yield _found(
            "orphan-throttles",
            WARNING,
            (
                f"Replication throttles are left on {snapshot.throttled}, but nothing is being "
                "reassigned."
            ),
            "The next replica that falls behind catches up at that rate only, if ever.",
            "pk reassign throttle --remove",
            (snapshot.throttled,),
        )
