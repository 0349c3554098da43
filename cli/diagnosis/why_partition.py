"""Explains why a partition is under-replicated, below min.insync.replicas, or without a leader."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from pk.cli.diagnosis.explain import Evidence, Explanation
from pk.cli.diagnosis.snapshot import brokers_named
from pk.cli.positions.times import show_clock, show_span, show_time


class ReplicaFacts(NamedTuple):
    """A replica and its broker."""

    broker: int
    state: str
    """The broker's state: up, fenced, or absent."""

    end: int | None = None
    """The replica's log end; None if unknown."""

    later_end: int | None = None
    """The replica's log end a moment later, if measured."""

    seen_ms: int | None = None
    """When the broker last fetched the cluster's metadata, by the controller's clock."""

    size_bytes: int | None = None
    directory_error: str | None = None
    """The log directory that failed, and how, if no other directory of the broker has the
    replica."""

    full_disk: str | None = None
    """The log directory of the replica and the space left, if its disk is full."""

    held: bool = True
    """Whether any log directory of the broker has the replica."""

    answers: bool = True
    """Whether the broker answered."""


class PartitionFacts(NamedTuple):
    """A partition and its replicas."""

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
    recovery: Mapping[int, str] | None = None
    """Broker → what the controller knows about its log, if the controller compares logs."""

    waits: str = ""
    """The brokers whose logs the partition needs before it gets a leader, and the reason; empty if
    none."""

    throttled: str | None = None
    remote: str | None = None
    """How much of the partition is in remote storage, and why the rest is not."""

    restoring: str | None = None
    """Why the leader has not restored the partition yet; None if it need not be restored."""

    now_ms: int = 0
    between_s: float = 0.0
    """The seconds between the measurements of `end` and `later_end`."""

    start_commands: Mapping[int, str] = MappingProxyType({})
    """Broker → the command that starts or resumes it, if it is a stopped or paused broker on this
    machine."""


def state_of(p: PartitionFacts) -> str:
    """The state of a partition: `offline`, `restoring`, `under-min-isr`, `under-replicated`,
    `moving`, `silent`, `disk-full`, `not-preferred`, or `healthy`. The words are those of `pk
    partitions list`."""
    if p.leader < 0:
        return "offline"
    if p.restoring is not None:
        return "restoring"
    if len(p.isr) < p.min_isr:
        return "under-min-isr"
    if any(b not in p.isr and b not in p.adding for b in p.replicas):
        return "under-replicated"
    if p.adding or p.removing:
        return "moving"
    if _silent(p):
        return "silent"
    if _full(p):
        return "disk-full"
    return "not-preferred" if p.replicas and p.leader != p.replicas[0] else "healthy"


def _silent(p: PartitionFacts) -> list[int]:
    return [b for b in p.replicas if p.by_broker[b].state == "up" and not p.by_broker[b].answers]


def _full(p: PartitionFacts) -> list[int]:
    return [b for b in p.replicas if p.by_broker[b].full_disk]


def _missing(p: PartitionFacts) -> list[int]:
    """The replicas to explain: those out of sync or, without a leader, all, since the ISR keeps its
    last member."""
    return [b for b in p.replicas if b not in p.isr or p.leader < 0]


def _verdict(p: PartitionFacts, state: str) -> str:
    in_sync = f"{len(p.isr)} of {len(p.replicas)} replicas in sync"
    out = [b for b in _missing(p) if b not in p.adding]
    cause = f": {_causes(p, out)}" if out else ""
    match state:
        case "offline" if p.waits:
            return f"{p.name} is offline: it has no leader. It waits for {p.waits}."
        case "offline":
            return f"{p.name} is offline: it cannot be written or read, because {_causes(p, out)}."
        case "restoring":
            why = f": {p.restoring}" if p.restoring else ""
            return f"{p.name} is not restored yet from remote storage, so it has no leader{why}."
        case "under-min-isr":
            return (
                f"{p.name} is under min ISR ({in_sync}, min.insync.replicas={p.min_isr}), so "
                f"producers with acks=all are refused{cause}."
            )
        case "under-replicated":
            at = " and at min ISR" if len(p.isr) == p.min_isr else ""
            return f"{p.name} is under-replicated{at} ({in_sync}){cause}."
        case "moving":
            return f"{p.name} is being moved: {_move(p)}."
        case "silent":
            brokers = _silent(p)
            leads = ", which leads it," if p.leader in brokers else ""
            return (
                f"{p.name} is healthy as far as the controller knows ({in_sync}), but "
                f"{brokers_named(brokers)}{leads} {'does' if len(brokers) == 1 else 'do'} not "
                "answer."
            )
        case "disk-full":
            disks = "; ".join(f"broker {b}: {p.by_broker[b].full_disk}" for b in _full(p))
            return f"{p.name} has {in_sync}, but a disk is full, so records are refused ({disks})."
        case "not-preferred":
            return (
                f"{p.name} is in sync ({in_sync}), but broker {p.leader} leads it instead of its "
                f"preferred replica, {p.replicas[0]}."
            )
        case _:
            return f"{p.name} is healthy: {in_sync}, led by its preferred replica, {p.leader}."


def _causes(p: PartitionFacts, out: Sequence[int]) -> str:
    by_cause: dict[str, list[int]] = {}
    for broker in out:
        by_cause.setdefault(_cause(p, p.by_broker[broker]), []).append(broker)
    return "; ".join(
        cause.format(brokers=brokers_named(brokers), s="is" if len(brokers) == 1 else "are")
        for cause, brokers in by_cause.items()
    )


def _cause(p: PartitionFacts, replica: ReplicaFacts) -> str:
    """Why a replica is out of sync, with a placeholder for the brokers to which this applies."""
    if replica.state == "absent":
        return "{brokers} {s} not in the cluster"
    if replica.state == "fenced":
        return "{brokers} {s} fenced (stopped, or disconnected from the controller)"
    if replica.directory_error:
        error = replica.directory_error.replace("{", "{{").replace("}", "}}")
        return f"a log directory of {{brokers}} failed ({error})"
    if not replica.held:
        return "{brokers} {s} up, but without a log for it"
    if p.leader < 0 and replica.broker in (*p.isr, *(p.elr or ())):
        return "{brokers} {s} up and may lead"
    if p.leader < 0:
        return "{brokers} {s} up, but not known to have every record"
    if not replica.answers:
        return "{brokers} {s} registered, but not answering"
    return "{brokers} {s} up, but behind"


def _seen(p: PartitionFacts, replica: ReplicaFacts) -> str:
    if replica.seen_ms is None or replica.seen_ms <= 0:
        return ""
    ago = max(p.now_ms - replica.seen_ms, 0)
    return (
        f"; last seen {show_span(ago) if ago >= 1000 else 'a moment'} ago, "
        f"{show_clock(show_time(replica.seen_ms))}"
    )


def _behind(p: PartitionFacts, replica: ReplicaFacts) -> str:
    leader = p.by_broker.get(p.leader)
    if leader is None or leader.end is None or replica.end is None:
        return ""
    gap = leader.end - replica.end
    if gap <= 0:
        return ", its log ends where the leader's does"
    gap_text = f", {gap:,} records behind the leader"
    if replica.later_end is None or leader.later_end is None or p.between_s <= 0:
        return gap_text
    copied = (replica.later_end - replica.end) / p.between_s
    left = leader.later_end - replica.later_end
    closing = (gap - left) / p.between_s
    if left <= 0:
        return f"{gap_text}, and has caught up during the measurement"
    if copied <= 0:
        return f"{gap_text}, and does not advance"
    if closing <= 0:
        return f"{gap_text}; it copies {copied:,.0f} records/s, less than is written"
    return (
        f"{gap_text}; it catches up at {closing:,.0f} records/s, which takes "
        f"{show_span(int(left / closing * 1000))}"
    )


def _replica(p: PartitionFacts, broker: int) -> Evidence:
    replica = p.by_broker[broker]
    about = f"replica {broker}"
    end = f", log end {replica.end:,}" if replica.end is not None else ""
    if replica.full_disk:
        end += f"; its disk is full ({replica.full_disk})"
    if replica.state == "up" and not replica.answers:
        end = f"; broker {broker} does not answer{_seen(p, replica)}"
    if broker == p.leader:
        return Evidence(about, f"leader (epoch {p.leader_epoch}), in sync{end}")
    if broker in p.isr and p.leader >= 0:
        return Evidence(about, f"in sync{end}")
    head = "being added" if broker in p.adding else "out of sync"
    if broker in p.isr:
        head = "last in sync"
    if replica.state == "absent":
        return Evidence(about, f"{head}: broker {broker} is not in the cluster{_seen(p, replica)}")
    if replica.state == "fenced":
        return Evidence(about, f"{head}: broker {broker} is fenced{_seen(p, replica)}")
    if replica.directory_error:
        return Evidence(about, f"{head}: its log directory failed ({replica.directory_error})")
    if not replica.held:
        return Evidence(about, f"{head}: broker {broker} is up, but has no log for it yet")
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
        min_isr = f"{p.min_isr}"
    elif spare < 0:
        min_isr = f"{p.min_isr}, in sync {len(p.isr)}: acks=all is refused, acks=1 is served"
    elif len(p.isr) == 1:
        min_isr = (
            f"{p.min_isr}, in sync {len(p.isr)}: if its broker stops, it cannot be read or written"
        )
    elif spare == 0:
        min_isr = f"{p.min_isr}, in sync {len(p.isr)}: one more loss refuses acks=all"
    else:
        min_isr = f"{p.min_isr}, in sync {len(p.isr)}: {spare} more may be lost"
    yield Evidence("min.insync.replicas", min_isr)
    if p.adding or p.removing:
        yield Evidence("reassignment", _move(p))
    if p.throttled:
        yield Evidence("throttle", p.throttled)
    if p.remote:
        yield Evidence("remote storage", p.remote)
    for broker, words in (p.recovery or {}).items():
        yield Evidence(f"log of {broker}", words)
    if p.leader < 0:
        yield from _electable(p)


def _electable(p: PartitionFacts) -> Iterator[Evidence]:
    eligible = [b for b in (*p.isr, *(p.elr or ()))]
    if p.waits:
        yield Evidence("next leader", f"waits for {p.waits}")
    if eligible:
        yield Evidence(
            "electable",
            (
                f"{brokers_named(eligible)}: has every acknowledged record, and leads as soon as "
                "it is back"
            ),
        )
    elif p.last_known_elr:
        yield Evidence(
            "electable",
            (
                "no replica for certain; last known to have every record: "
                f"{brokers_named(p.last_known_elr)}"
            ),
        )
    rule = (
        "on: any live replica may lead; records that it lacks are lost"
        if p.unclean
        else "off: a replica that may lack records is not elected automatically"
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
    yield from (p.start_commands[b] for b in away if b in p.start_commands)
    away = [b for b in away if b not in p.start_commands]
    if away:
        yield f"pk wait broker {' '.join(map(str, away))}"
        yield "pk brokers list"
    failed = [b for b in _missing(p) if p.by_broker[b].directory_error]
    if failed or _full(p):
        yield f"pk brokers logdirs {' '.join(map(str, sorted({*failed, *_full(p)})))}"
    topic, _, number = p.name.rpartition("/")
    if state == "offline" and any(p.by_broker[b].state == "up" for b in p.replicas):
        yield f"pk partitions elect-leaders {p.name} --unclean --dry-run"
    elif state == "moving":
        yield "pk reassign status"
    elif behind:
        yield f"pk isr {topic} --where 'partition = {number}' -w"
    if p.throttled and behind:
        yield "pk reassign throttle"
    if state == "not-preferred":
        yield f"pk partitions elect-leaders {p.name}"


def explain_partition(p: PartitionFacts) -> Explanation:
    """The verdict on a partition."""
    state = state_of(p)
    return Explanation(
        p.name, state, _verdict(p, state), tuple(_evidence(p)), tuple(_next(p, state))
    )
