"""Why a partition is under-replicated, below min.insync.replicas, or without a leader: from facts to sentences."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pk.cli.diagnosis.explain import Evidence, Explanation
from pk.cli.diagnosis.readers import duration
from pk.cli.diagnosis.snapshot import brokers_named
from pk.cli.positions.times import show_time


class ReplicaFacts(NamedTuple):
    """What is known of one replica and its broker."""

    broker: int
    state: str
    """The broker's: up, fenced, or absent."""

    end: int | None = None
    """Where its log ends; None where nobody says."""

    later_end: int | None = None
    """The same a moment later, where that was looked at."""

    seen_ms: int | None = None
    """When the broker last fetched the cluster's metadata, by the controller's clock."""

    size_bytes: int | None = None
    directory_error: str | None = None
    held: bool = True
    """Whether the broker has the replica in any of its log directories."""

    answers: bool = True
    """Whether the broker answered what it was asked."""


class PartitionFacts(NamedTuple):
    """What is known of one partition."""

    name: str
    leader: int
    leader_epoch: int
    replicas: Sequence[int]
    isr: Sequence[int]
    by_broker: Mapping[int, ReplicaFacts]
    min_isr: int
    unclean: bool = False
    adding: Sequence[int] = ()
    removing: Sequence[int] = ()
    elr: Sequence[int] | None = None
    last_known_elr: Sequence[int] | None = None
    throttled: str | None = None
    now_ms: int = 0
    between_s: float = 0.0
    """Seconds between `end` and `later_end`."""


def state_of(p: PartitionFacts) -> str:
    """`offline`, `under-min-isr`, `under-replicated`, `moving`, `silent`, `led-by-another`, or `healthy`."""
    if p.leader < 0:
        return "offline"
    if len(p.isr) < p.min_isr:
        return "under-min-isr"
    if any(b not in p.isr and b not in p.adding for b in p.replicas):
        return "under-replicated"
    if p.adding or p.removing:
        return "moving"
    if _silent(p):
        return "silent"
    return "led-by-another" if p.replicas and p.leader != p.replicas[0] else "healthy"


def _silent(p: PartitionFacts) -> list[int]:
    return [b for b in p.replicas if p.by_broker[b].state == "up" and not p.by_broker[b].answers]


def _missing(p: PartitionFacts) -> list[int]:
    return [b for b in p.replicas if b not in p.isr]


def _verdict(p: PartitionFacts, state: str) -> str:
    in_sync = f"{len(p.isr)} of {len(p.replicas)} replicas in sync"
    out = [b for b in _missing(p) if b not in p.adding]
    cause = f": {_causes(p, out)}" if out else ""
    match state:
        case "offline":
            return f"{p.name} has no leader, so nobody can write or read it{cause}."
        case "under-min-isr":
            return (
                f"{p.name} has {in_sync}, fewer than min.insync.replicas={p.min_isr}, so producers with acks=all "
                f"are refused{cause}."
            )
        case "under-replicated":
            return f"{p.name} has {in_sync}{cause}."
        case "moving":
            return f"{p.name} is being moved: {_move(p)}."
        case "silent":
            brokers = _silent(p)
            leads = ", which leads it," if p.leader in brokers else ""
            return (
                f"{p.name} is whole by what the controller knows ({in_sync}), but {brokers_named(brokers)}{leads} "
                f"{'does' if len(brokers) == 1 else 'do'} not answer."
            )
        case "led-by-another":
            return (
                f"{p.name} is whole ({in_sync}), but led by broker {p.leader} instead of its preferred "
                f"replica, {p.replicas[0]}."
            )
        case _:
            return f"Nothing ails {p.name}: {in_sync}, led by its preferred replica, {p.leader}."


def _causes(p: PartitionFacts, out: Sequence[int]) -> str:
    by_cause: dict[str, list[int]] = {}
    for broker in out:
        by_cause.setdefault(_cause(p, p.by_broker[broker]), []).append(broker)
    return "; ".join(
        cause.format(brokers=brokers_named(brokers), s="is" if len(brokers) == 1 else "are")
        for cause, brokers in by_cause.items()
    )


def _cause(p: PartitionFacts, replica: ReplicaFacts) -> str:
    """Why a replica is out of sync, with a place for the brokers of which the same is true."""
    if replica.state == "absent":
        return "{brokers} {s} not in the cluster"
    if replica.state == "fenced":
        return "{brokers} {s} fenced (stopped, or cut off from the controller)"
    if replica.directory_error:
        return "a log directory of {brokers} failed"
    if not replica.held:
        return "{brokers} {s} up, but without a log of it"
    if p.leader < 0:
        return "{brokers} {s} up, but not known to have every record"
    if not replica.answers:
        return "{brokers} {s} registered, but without an answer"
    return "{brokers} {s} up, but behind"


def _seen(p: PartitionFacts, replica: ReplicaFacts) -> str:
    if replica.seen_ms is None or replica.seen_ms <= 0:
        return ""
    ago = max(p.now_ms - replica.seen_ms, 0)
    return f"; last heard of {duration(ago) if ago >= 1000 else 'a moment'} ago, {show_time(replica.seen_ms)}"


def _behind(p: PartitionFacts, replica: ReplicaFacts) -> str:
    leader = p.by_broker.get(p.leader)
    if leader is None or leader.end is None or replica.end is None:
        return ""
    gap = leader.end - replica.end
    if gap <= 0:
        return ", its log is as long as the leader's"
    told = f", {gap:,} records behind the leader"
    if replica.later_end is None or leader.later_end is None or p.between_s <= 0:
        return told
    copied = (replica.later_end - replica.end) / p.between_s
    left = leader.later_end - replica.later_end
    closing = (gap - left) / p.between_s
    if left <= 0:
        return f"{told}, and caught up while this was looked at"
    if copied <= 0:
        return f"{told}, and copies nothing"
    if closing <= 0:
        return f"{told}; it copies {copied:,.0f} records/s, and more than that is written"
    return f"{told}; it catches up by {closing:,.0f} records/s, which takes {duration(int(left / closing * 1000))}"


def _replica(p: PartitionFacts, broker: int) -> Evidence:
    replica = p.by_broker[broker]
    about = f"replica {broker}"
    end = f", log end {replica.end:,}" if replica.end is not None else ""
    if replica.state == "up" and not replica.answers:
        end = f"; broker {broker} does not answer{_seen(p, replica)}"
    if broker == p.leader:
        return Evidence(about, f"leader (epoch {p.leader_epoch}), in sync{end}")
    if broker in p.isr:
        return Evidence(about, f"in sync{end}")
    head = "being added" if broker in p.adding else "out of sync"
    if replica.state == "absent":
        return Evidence(about, f"{head}: broker {broker} is not in the cluster{_seen(p, replica)}")
    if replica.state == "fenced":
        return Evidence(about, f"{head}: broker {broker} is fenced{_seen(p, replica)}")
    if replica.directory_error:
        return Evidence(about, f"{head}: its log directory failed ({replica.directory_error})")
    if not replica.held:
        return Evidence(about, f"{head}: broker {broker} is up, and has no log of it yet")
    if not replica.answers:
        return Evidence(
            about, f"{head}: broker {broker} is registered, but does not answer{_seen(p, replica)}"
        )
    return Evidence(about, f"{head}: broker {broker} is up{end}{_behind(p, replica)}")


def _move(p: PartitionFacts) -> str:
    parts: list[str] = []
    if p.adding:
        parts.append(f"{brokers_named(p.adding)} to be added")
    if p.removing:
        parts.append(f"{brokers_named(p.removing)} to be removed")
    leader = p.by_broker.get(p.leader)
    whole = leader.size_bytes if leader else None
    for broker in p.adding:
        size = p.by_broker[broker].size_bytes if broker in p.by_broker else None
        if whole and size is not None and broker not in p.isr:
            parts.append(f"{broker} has {min(size / whole, 1):.0%} of the bytes")
    return ", ".join(parts)


def _evidence(p: PartitionFacts) -> Iterator[Evidence]:
    for broker in p.replicas:
        yield _replica(p, broker)
    spare = len(p.isr) - p.min_isr
    if p.leader < 0:
        told = f"{p.min_isr}"
    elif spare < 0:
        told = f"{p.min_isr}, in sync {len(p.isr)}: acks=all is refused, acks=1 is served"
    elif len(p.isr) == 1:
        told = f"{p.min_isr}, in sync {len(p.isr)}: when its broker stops, it cannot be read or written"
    elif spare == 0:
        told = f"{p.min_isr}, in sync {len(p.isr)}: one more loss refuses acks=all"
    else:
        told = f"{p.min_isr}, in sync {len(p.isr)}: {spare} more may be lost"
    yield Evidence("min.insync.replicas", told)
    if p.adding or p.removing:
        yield Evidence("reassignment", _move(p))
    if p.throttled:
        yield Evidence("throttle", p.throttled)
    if p.leader < 0:
        yield from _electable(p)


def _electable(p: PartitionFacts) -> Iterator[Evidence]:
    eligible = [b for b in (*p.isr, *(p.elr or ()))]
    if eligible:
        yield Evidence(
            "who may lead",
            f"{brokers_named(eligible)}: has every acknowledged record, and leads as soon as it is back",
        )
    elif p.last_known_elr:
        yield Evidence(
            "who may lead",
            f"nobody for certain; last known to have every record: {brokers_named(p.last_known_elr)}",
        )
    rule = (
        "on: any replica that lives may lead, what it lacks is lost"
        if p.unclean
        else "off: no replica that may lack records leads by itself"
    )
    yield Evidence("unclean election", rule)


def _next(p: PartitionFacts, state: str) -> Iterator[str]:
    away = [b for b in _missing(p) if p.by_broker[b].state != "up"]
    away += _silent(p)
    behind = [
        b
        for b in _missing(p)
        if p.by_broker[b].state == "up" and not p.by_broker[b].directory_error
    ]
    if away:
        yield f"pk wait broker {' '.join(map(str, away))}"
        yield "pk brokers list"
    if any(p.by_broker[b].directory_error for b in _missing(p)):
        failed = [b for b in _missing(p) if p.by_broker[b].directory_error]
        yield f"pk brokers logdirs {' '.join(map(str, failed))}"
    topic, _, number = p.name.rpartition("/")
    if state == "offline" and any(p.by_broker[b].state == "up" for b in p.replicas):
        yield f"pk partitions elect-leaders {p.name} --unclean --dry-run"
    elif state == "moving":
        yield "pk reassign status"
    elif behind:
        yield f"pk isr {topic} --where 'partition = {number}' -w"
    if p.throttled and behind:
        yield "pk reassign throttle"
    if state == "led-by-another":
        yield f"pk partitions elect-leaders {p.name}"


def explain_partition(p: PartitionFacts) -> Explanation:
    """The verdict on a partition."""
    state = state_of(p)
    return Explanation(
        p.name, state, _verdict(p, state), tuple(_evidence(p)), tuple(_next(p, state))
    )
