"""Checks of what brokers must agree on: the controller, metadata, versions, clocks, and the end of
transactions."""

from collections.abc import Iterator

from pk.cli.diagnosis.snapshot import (
    ERROR,
    NOTE,
    QUORUM,
    WARNING,
    ClusterSnapshot,
    Finding,
    OpenTransaction,
    brokers_named,
    names,
    number,
    partitions_counted,
)
from pk.cli.phrases import count, join, partition_name
from pk.cli.positions.times import show_span
from pk.net.client.errors import ControllerDown, ControllerSilent

_METADATA_LAG = 1000
"""A node that lacks more metadata records than this counts as behind."""
_SKEW_MS = 2_000
_FUTURE_MS = 60_000
"""A timestamp further in the future than this is not explained by clock drift."""
_MAX_TRANSACTION_MS = 900_000
"""Apache's default of transaction.max.timeout.ms."""
_OLD_MS = 300_000
"""A transaction that is open for longer is reported."""
_LOOKED_FOR_MS = 900_000
"""`pk transactions find-hanging` shows transactions without a new record for this long, and younger
ones on request."""
_HANGING_AFTER_MS = 300_000
"""The time that a coordinator has to abort after the longest timeout (as in Apache's
find-hanging)."""


def controller(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """A cluster without a controller, or with a controller that hangs."""
    unseen = snapshot.unseen.get(QUORUM)
    silent = isinstance(unseen, TimeoutError | ControllerSilent | ControllerDown)
    silent = silent and snapshot.controller is None
    if snapshot.controller == -1 or silent:
        known = isinstance(unseen, ControllerDown)
        what = "The controller does not answer." if silent else "There is no controller."
        yield Finding(
            "controller",
            ERROR,
            f"{unseen.why}." if known else what,
            (
                "Until there is one, no topics can be created, no leaders elected, and no brokers "
                "can join."
            )
            + ("" if known else " Start the controller's process again."),
            unseen.step if known else "pk brokers list" if silent else "pk cluster quorum",
        )


def metadata_lag(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Nodes that are behind in the metadata log, or ahead of its leader."""
    leader = next(
        (f for f in snapshot.followers if f.voter and f.node == snapshot.controller), None
    )
    if leader is not None and (ahead := [f for f in snapshot.followers if f.end > leader.end]):
        listed = join([f"{f.node} by {f.end - leader.end:,} records" for f in ahead])
        yield Finding(
            "metadata-lag",
            ERROR,
            f"{count(len(ahead), 'node')} ahead of the controller in the metadata log: {listed}.",
            (
                "The controller has lost events: its directory is damaged or an older copy. The "
                "other nodes ignore its updates."
            ),
            "pk cluster quorum",
            tuple(str(f.node) for f in ahead),
        )
        return
    end = max((f.end for f in snapshot.followers), default=0)
    live = set(snapshot.live)
    behind = [
        f for f in snapshot.followers if end - f.end > _METADATA_LAG and (f.voter or f.node in live)
    ]
    if behind:
        listed = join([f"{f.node} by {end - f.end:,} records" for f in behind])
        yield Finding(
            "metadata-lag",
            WARNING,
            f"{count(len(behind), 'node')} behind in the metadata log: {listed}.",
            "Their leaders and configs are out of date.",
            "pk cluster quorum",
            tuple(str(f.node) for f in behind),
        )


def mixed_versions(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Brokers of different releases, or with different API versions."""
    by_release: dict[str, list[int]] = {}
    for broker in snapshot.live:
        release = snapshot.brokers[broker].release
        if release is not None:
            by_release.setdefault(release, []).append(broker)
    apis = {
        b: snapshot.brokers[b].apis for b in snapshot.live if snapshot.brokers[b].apis is not None
    }
    if len(by_release) > 1:
        listed = "; ".join(f"{brokers_named(ids)} {r}" for r, ids in sorted(by_release.items()))
        what = f"Brokers run different releases: {listed}."
    elif len(set(apis.values())) > 1:
        what = "Brokers of the same release support different protocol versions."
    else:
        return
    yield Finding(
        "mixed-versions",
        WARNING,
        what,
        "Normal during an upgrade; otherwise clients see different features as leaders move.",
        "pk brokers list --columns broker,state,supports",
        tuple(str(b) for ids in by_release.values() for b in ids),
    )


def features_behind(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Features that every broker supports at a higher level than the cluster has finalized."""
    behind = {
        name: (snapshot.finalized.get(name, 0), level)
        for name, level in snapshot.common.items()
        if snapshot.finalized.get(name, 0) < level and name in snapshot.finalized
    }
    if behind:
        listed = join([f"{n} at {was}, could be {to}" for n, (was, to) in sorted(behind.items())])
        yield Finding(
            "features-behind",
            NOTE,
            f"The cluster does not use all features that its brokers support: {listed}.",
            "Upgrade features after the brokers; some levels cannot be lowered again.",
            f"pk cluster features upgrade {' '.join(sorted(behind))} --dry-run",
            tuple(sorted(behind)),
        )


def clock_skew(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """The controller's clock compared with this machine's."""
    ahead = snapshot.controller_ahead_ms
    if ahead is not None and abs(ahead) > _SKEW_MS:
        way = "ahead of" if ahead > 0 else "behind"
        yield Finding(
            "clock-skew",
            WARNING,
            f"The controller's clock is {show_span(abs(ahead))} {way} this machine's.",
            "Records are deleted too early or too late, and positions by time are off; whichever "
            "clock is wrong needs NTP.",
            "pk cluster quorum",
            ("controller",),
        )


def future_records(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Records with a timestamp in the future."""
    ahead = {
        tp: p.newest_ms - snapshot.now_ms
        for tp, _, p in snapshot.partitions
        if p.newest_ms is not None and p.newest_ms - snapshot.now_ms > _FUTURE_MS
    }
    if ahead:
        tps = sorted(ahead)
        most = max(ahead.values())
        yield Finding(
            "future-records",
            WARNING,
            (
                f"{partitions_counted(tps)} with records from the future, up to {show_span(most)} "
                "ahead."
            ),
            "Retention by time keeps their segments until then, with the other records in them. "
            "The clock of a producer, or its unit (seconds for milliseconds), is wrong.",
            f"pk consume {tps[0].topic} -o @now..end -n 5 -f jsonl",
            tuple(map(partition_name, tps)),
        )


def hanging_transactions(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Transactions that no coordinator will end."""
    bad = [t for t in snapshot.transactions if _hangs(t, snapshot)]
    for producer in sorted({t.producer_id for t in bad}):
        mine = [t for t in bad if t.producer_id == producer]
        silent = snapshot.now_ms - min(t.last_ms for t in mine)
        topics = sorted({t.partition.topic for t in mine})
        young = "" if silent > _LOOKED_FOR_MS else " --max-transaction-timeout 1m"
        yield Finding(
            "hanging-transactions",
            ERROR,
            f"A transaction of producer {producer} has hung for {show_span(silent)} "
            f"({names(t.partition for t in mine)}).",
            "read_committed readers stop there, and so does compaction. Its coordinator has lost "
            "it, or it would have been aborted.",
            f"pk transactions find-hanging {' '.join(topics[:6])}{young}",
            tuple(partition_name(t.partition) for t in mine),
        )


def _hangs(transaction: OpenTransaction, snapshot: ClusterSnapshot) -> bool:
    """Whether no coordinator will end the transaction. If not all coordinators answered, whether it
    is older than the longest timeout allows."""
    if transaction.abandoned is not None:
        return transaction.abandoned
    longest = max(
        (
            number(b.configs.get("transaction.max.timeout.ms"), _MAX_TRANSACTION_MS)
            for b in snapshot.brokers.values()
        ),
        default=_MAX_TRANSACTION_MS,
    )
    return snapshot.now_ms - transaction.last_ms > longest + _HANGING_AFTER_MS


def old_transactions(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Transactions that have held back readers of committed records for minutes."""
    old: dict[str, list[tuple[int, OpenTransaction]]] = {}
    for t in snapshot.transactions:
        if t.since_ms is None or _hangs(t, snapshot):
            continue
        age_ms = snapshot.now_ms - t.since_ms
        if age_ms > _OLD_MS:
            old.setdefault(t.transactional_id or f"producer {t.producer_id}", []).append(
                (age_ms, t)
            )
    for name, found in sorted(old.items()):
        known = found[0][1].transactional_id
        whose = f"transactional id {name}" if known else name
        places = [t.partition for _, t in found]
        topics = sorted({tp.topic for tp in places})
        yield Finding(
            "old-transactions",
            WARNING,
            (
                f"A transaction of {whose} is open for {show_span(max(age for age, _ in found))} "
                f"({names(places)})."
            ),
            "read_committed readers and compaction wait at its first record; its "
            "coordinator aborts it after the producer's transaction.timeout.ms.",
            f"pk transactions describe {known}"
            if known
            else f"pk transactions producers {' '.join(topics[:6])}",
            tuple(partition_name(tp) for tp in places),
        )
