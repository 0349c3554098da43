"""Checks of what brokers must agree on: the controller, metadata, versions, time, and transactions that end."""

from collections.abc import Iterator

from pk.cli.diagnosis.readers import duration
from pk.cli.diagnosis.snapshot import (
    ERROR,
    NOTE,
    QUORUM,
    WARNING,
    ClusterSnapshot,
    Finding,
    brokers_named,
    names,
    number,
    partitions_counted,
)
from pk.cli.runtime.context import count, join, place_name

_METADATA_LAG = 1000
"""A node that lacks more metadata records than this is behind."""
_SKEW_MS = 2_000
_FUTURE_MS = 60_000
"""A record that much in the future is no matter of clocks that drift."""
_MAX_TRANSACTION_MS = 900_000
"""Apache's default of transaction.max.timeout.ms."""
_HANGING_AFTER_MS = 300_000
"""Beyond the longest timeout a coordinator has this long to abort (as Apache's find-hanging)."""


def controller(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """A cluster without a controller, or with one that hangs."""
    silent = snapshot.controller is None and isinstance(snapshot.unseen.get(QUORUM), TimeoutError)
    if snapshot.controller == -1 or silent:
        yield Finding(
            "controller",
            ERROR,
            "The controller does not answer." if silent else "There is no controller.",
            "No topic can be made, no leader elected, no broker joins until there is one.",
            "pk cluster quorum",
        )


def metadata_lag(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Nodes that are behind in the metadata log, or ahead of the one that writes it."""
    leader = next(
        (f for f in snapshot.followers if f.voter and f.node == snapshot.controller), None
    )
    if leader is not None and (ahead := [f for f in snapshot.followers if f.end > leader.end]):
        told = join([f"{f.node} by {f.end - leader.end:,} records" for f in ahead])
        yield Finding(
            "metadata-lag",
            ERROR,
            f"{count(len(ahead), 'node')} ahead of the controller in the metadata log: {told}.",
            "The controller has lost events: an older copy of its directory, or a damaged one. The others take no news from it.",
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
        told = join([f"{f.node} by {end - f.end:,} records" for f in behind])
        yield Finding(
            "metadata-lag",
            WARNING,
            f"{count(len(behind), 'node')} behind in the metadata log: {told}.",
            "They know old leaders and old configs.",
            "pk cluster quorum",
            tuple(str(f.node) for f in behind),
        )


def mixed_versions(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Brokers of different releases, or that serve different APIs."""
    by_release: dict[str, list[int]] = {}
    for broker in snapshot.live:
        release = snapshot.brokers[broker].release
        if release is not None:
            by_release.setdefault(release, []).append(broker)
    apis = {
        b: snapshot.brokers[b].apis for b in snapshot.live if snapshot.brokers[b].apis is not None
    }
    if len(by_release) > 1:
        told = "; ".join(f"{brokers_named(ids)} {r}" for r, ids in sorted(by_release.items()))
        what = f"Brokers are of different releases: {told}."
    elif len(set(apis.values())) > 1:
        what = "Brokers serve different versions of the protocol, though of one release."
    else:
        return
    yield Finding(
        "mixed-versions",
        WARNING,
        what,
        "As it is in the midst of an upgrade; left so, clients see other features as leaders move.",
        "pk brokers list --columns broker,state,supports",
        tuple(str(b) for ids in by_release.values() for b in ids),
    )


def features_behind(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Features that every broker supports in a newer level than the cluster has settled on."""
    behind = {
        name: (snapshot.finalized.get(name, 0), level)
        for name, level in snapshot.common.items()
        if snapshot.finalized.get(name, 0) < level and name in snapshot.finalized
    }
    if behind:
        told = join([f"{n} at {was}, {to} is possible" for n, (was, to) in sorted(behind.items())])
        yield Finding(
            "features-behind",
            NOTE,
            f"The cluster has not settled on all that its brokers support: {told}.",
            "An upgrade ends with raising the features; some levels cannot be lowered again.",
            f"pk cluster features upgrade {' '.join(sorted(behind))} --dry-run",
            tuple(sorted(behind)),
        )


def clock_skew(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """The controller's clock against the one of this machine."""
    ahead = snapshot.controller_ahead_ms
    if ahead is not None and abs(ahead) > _SKEW_MS:
        way = "ahead of" if ahead > 0 else "behind"
        yield Finding(
            "clock-skew",
            WARNING,
            f"The controller's clock is {duration(abs(ahead))} {way} this machine's.",
            "Records are deleted too early or too late, and positions by time miss; whichever of the two "
            "is wrong needs NTP.",
            "pk cluster quorum",
            ("controller",),
        )


def future_records(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Records with a time that is still to come."""
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
            f"{partitions_counted(tps)} with records from the future, up to {duration(most)} ahead.",
            "Retention by time keeps their segments until then, and what is written beside them; a producer's clock, "
            "or its unit (seconds for milliseconds), is wrong.",
            f"pk consume {tps[0].topic} -o @now..end -n 5 -f jsonl",
            tuple(map(place_name, tps)),
        )


def hanging_transactions(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Transactions that are open for longer than any may be."""
    longest = max(
        (
            number(b.configs.get("transaction.max.timeout.ms"), _MAX_TRANSACTION_MS)
            for b in snapshot.brokers.values()
        ),
        default=_MAX_TRANSACTION_MS,
    )
    limit = longest + _HANGING_AFTER_MS
    bad = [t for t in snapshot.transactions if snapshot.now_ms - t.last_ms > limit]
    for producer in sorted({t.producer_id for t in bad}):
        mine = [t for t in bad if t.producer_id == producer]
        oldest = min(t.last_ms for t in mine)
        topics = sorted({t.partition.topic for t in mine})
        yield Finding(
            "hanging-transactions",
            ERROR,
            f"A transaction of producer {producer} hangs for {duration(snapshot.now_ms - oldest)} "
            f"({names(t.partition for t in mine)}).",
            "Readers with read_committed stop there, and compaction too. Its coordinator has forgotten it, or it would "
            "have been aborted.",
            f"pk producers describe {' '.join(topics[:6])}",
            tuple(place_name(t.partition) for t in mine),
        )
