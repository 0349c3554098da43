"""`pk cluster health`: one screen with the problems and their causes, and an exit code for scripts.

A *problem* needs attention: records that cannot be written or read, or missing replicas. A
*warning* may become one. Only problems make the exit code 1. Replicas that a reassignment is adding
are expected to lag, and count as neither. *Unknown* means that a request was refused or not
answered: without a problem, the exit code is that of the refusal, and the cluster is not called
healthy.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import trio

from pk.cli.cluster.brokers import BrokerSnapshot, ask_brokers, broker_rows
from pk.cli.cluster.min_isr import min_isrs
from pk.cli.cluster.reassignments import running_reassignments
from pk.cli.cluster.throttles import Present, describe, everything, read_throttles
from pk.cli.diagnosis.unchecked import say_unchecked, unchecked_counted
from pk.cli.exits import Exit
from pk.cli.nouns.cluster.rows import CheckRow, HealthOfCluster
from pk.cli.output.formats import Document, Section
from pk.cli.output.rows import listing
from pk.cli.phrases import count, join, partition_name
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import phrase
from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicPartition
from pk.net.client.admin import Admin
from pk.net.client.errors import ClientError, ControllerDown, RequestTimedOut
from pk.net.client.results import (
    LogDirDescription,
    PartitionDescription,
    QuorumDescription,
    Reassignment,
)

OK, WARNING, PROBLEM, UNKNOWN = "ok", "warning", "problem", "unknown"
_FULL = 0.9
_WIDE = 110
"""Terminal columns needed to show the next step beside each check."""
_LAG_MAX = 1000
"""A node that lacks more metadata records than this counts as behind."""
_QUORUM_S = 3.0


class Facts(NamedTuple):
    """The data for the checks."""

    snapshot: BrokerSnapshot
    min_isr: Mapping[str, int]
    running: Mapping[TopicPartition, Reassignment] | Exception
    """The reassignments in progress, or why they are unknown."""

    throttles: Present
    quorum: QuorumDescription | Exception | None
    """None if the cluster has no quorum that could be described, as with ZooKeeper."""

    @property
    def moving(self) -> Mapping[TopicPartition, Reassignment]:
        """The reassignments in progress, as far as they are known."""
        return {} if isinstance(self.running, Exception) else self.running

    @property
    def unread_topics(self) -> dict[str, Exception]:
        """Topics whose configs cannot be read → why."""
        unread = self.throttles.unread
        return {t: unread[f"topic {t}"] for t in self.snapshot.topics if f"topic {t}" in unread}


class Check(NamedTuple):
    """A line of the screen."""

    check: str
    state: str
    what: str
    next: str | None = None


def _some(partitions: Iterable[TopicPartition]) -> str:
    return join([partition_name(tp) for tp in sorted(partitions)], 3)


def missing(p: PartitionDescription, running: Reassignment | None) -> list[int]:
    """The replicas that should be in sync and are not, except those that are being added."""
    adding = running.adding_replicas if running else ()
    return [b for b in p.replicas if b not in p.isr and b not in adding]


def _unknown(check: str, error: Exception, what: str = "unknown") -> Check:
    reason = error.name if isinstance(error, KafkaError) else str(error)
    return Check(check, UNKNOWN, f"{what}: {reason}")


def _unknown_configs(check: str, facts: Facts) -> Check:
    (first, error), *more = facts.unread_topics.items()
    others = f" and {len(more):,} more" if more else ""
    return _unknown(check, error, f"the configs of {first}{others} are unknown")


def unchecked(facts: Facts) -> dict[str, Exception]:
    """Unavailable data → the reason. A controller that does not answer is a problem, which
    its own check reports."""
    found: dict[str, Exception] = {}
    if not isinstance(facts.quorum, ClientError):
        asked = {"quorum": facts.quorum, "reassignments": facts.running}
        found = {part: e for part, e in asked.items() if isinstance(e, Exception)}
    for broker, error in facts.snapshot.dirs.errors.items():
        found[f"log directories of broker {broker}"] = error
    return found | {f"configs of {name}": e for name, e in facts.throttles.unread.items()}


def checks(facts: Facts) -> list[Check]:
    """Every check, the most severe kind first."""
    partitions = facts.snapshot.partitions
    return [
        _controller(facts),
        _brokers(facts),
        _offline(partitions),
        *_in_sync(partitions, facts),
        _directories(facts.snapshot),
        _metadata(facts),
        _preferred(partitions),
        _single(partitions, facts),
        _moving(facts),
    ]


def _controller(facts: Facts) -> Check:
    controller = facts.snapshot.cluster.controller_id
    if isinstance(facts.quorum, QuorumDescription):
        quorum = facts.quorum
        if quorum.leader_id < 0:
            return Check("controller", PROBLEM, "there is none", "pk cluster quorum")
        return Check("controller", OK, f"node {quorum.leader_id}, epoch {quorum.leader_epoch}")
    if isinstance(facts.quorum, ControllerDown):
        return Check("controller", PROBLEM, facts.quorum.why, facts.quorum.step)
    if isinstance(facts.quorum, ClientError):
        return Check("controller", PROBLEM, str(facts.quorum), "pk cluster quorum")
    if isinstance(facts.quorum, Exception):
        return _unknown("controller", facts.quorum)
    if controller < 0:
        return Check("controller", PROBLEM, "there is none", "pk cluster quorum")
    return Check("controller", OK, f"node {controller}")


def _brokers(facts: Facts) -> Check:
    rows = broker_rows(facts.snapshot)
    bad = [row for row in rows if row["state"] in ("down", "fenced", "silent")]
    if bad:
        named = join([f"{row['broker']} ({row['state']})" for row in bad])
        return Check(
            "brokers", PROBLEM, f"{len(bad)} of {len(rows)} not up: {named}", "pk brokers list"
        )
    return Check("brokers", OK, f"{count(len(rows), 'broker')} up")


def _offline(partitions: Mapping[TopicPartition, PartitionDescription]) -> Check:
    bad = [tp for tp, p in partitions.items() if p.leader_id < 0]
    if bad:
        return Check(
            "leaders",
            PROBLEM,
            f"{count(len(bad), 'partition')} without a leader: {_some(bad)}",
            "pk partitions list --offline",
        )
    if len(partitions) == 1:
        return Check("leaders", OK, "the only partition has a leader")
    return Check("leaders", OK, f"all {len(partitions):,} partitions have a leader")


def _in_sync(
    partitions: Mapping[TopicPartition, PartitionDescription], facts: Facts
) -> list[Check]:
    under: list[TopicPartition] = []
    lacking: list[TopicPartition] = []
    edge: list[TopicPartition] = []
    for tp, p in partitions.items():
        needed = facts.min_isr.get(tp.topic, 1)
        gone = missing(p, facts.moving.get(tp))
        if len(p.isr) < needed:
            under.append(tp)
        if gone:
            lacking.append(tp)
            if len(p.isr) == needed:
                edge.append(tp)
    found: list[Check] = []
    if under:
        what = f"{count(len(under), 'partition')} below it, acks=all is refused: {_some(under)}"
        found.append(Check("min ISR", PROBLEM, what, "pk isr --under-min-isr"))
    elif edge:
        what = (
            f"{count(len(edge), 'partition')} just at it, one more loss refuses acks=all: "
            f"{_some(edge)}"
        )
        found.append(Check("min ISR", WARNING, what, "pk isr --at-min-isr"))
    elif facts.unread_topics:
        found.append(_unknown_configs("min ISR", facts))
    else:
        found.append(Check("min ISR", OK, "every partition has enough in-sync replicas"))
    if lacking:
        brokers = sorted(
            {b for tp in lacking for b in missing(partitions[tp], facts.moving.get(tp))}
        )
        what = (
            f"{count(len(lacking), 'partition')} under-replicated: {_some(lacking)}; "
            f"out of sync on {join([str(b) for b in brokers])}"
        )
        found.append(Check("replicas", PROBLEM, what, "pk isr --under-replicated"))
    else:
        found.append(Check("replicas", OK, "all in sync"))
    return found


def _directories(snapshot: BrokerSnapshot) -> Check:
    failed: list[str] = []
    full: list[str] = []
    most = (0.0, "")
    for broker, dirs in snapshot.dirs.ok.items():
        for d in dirs:
            name = f"{d.path} of broker {broker}"
            if d.error_code:
                failed.append(f"{name} ({phrase(KafkaError(d.error_code))})")
                continue
            used = _used(d)
            if used is not None:
                most = max(most, (used, name))
                if used > _FULL:
                    full.append(f"{name} ({used:.0%})")
    if failed:
        return Check("log directories", PROBLEM, f"failed: {join(failed)}", "pk brokers logdirs")
    if full:
        return Check("log directories", WARNING, f"nearly full: {join(full)}", "pk brokers logdirs")
    for broker, error in snapshot.dirs.errors.items():
        return _unknown("log directories", error, f"unknown of broker {broker}")
    fullest = f"; the fullest disk is {most[0]:.0%} used" if most[1] else ""
    return Check("log directories", OK, f"all in use{fullest}")


def _used(d: LogDirDescription) -> float | None:
    if d.total_bytes <= 0 or d.usable_bytes < 0:
        return None
    return 1 - d.usable_bytes / d.total_bytes


def _metadata(facts: Facts) -> Check:
    quorum = facts.quorum
    if isinstance(quorum, Exception):
        return _unknown("metadata", quorum)
    if quorum is None:
        return Check("metadata", OK, "the cluster does not describe its quorum")
    states = (*quorum.voters, *quorum.observers)
    leader = next((s for s in quorum.voters if s.replica_id == quorum.leader_id), None)
    if leader is not None:
        ahead = [s.replica_id for s in states if s.log_end_offset > leader.log_end_offset >= 0]
        if ahead:
            what = (
                f"the controller's log ends at {leader.log_end_offset:,} and has lost events that "
                f"{'node' if len(ahead) == 1 else 'nodes'} {join([str(n) for n in ahead], 3)} "
                "received"
            )
            return Check("metadata", PROBLEM, what, "pk cluster quorum")
    end = max((s.log_end_offset for s in states), default=0)
    live = {b for b, node in facts.snapshot.nodes.items() if not node.fenced}
    voters = {s.replica_id for s in quorum.voters}
    behind = [
        f"{s.replica_id} ({end - s.log_end_offset:,} records)"
        for s in states
        if s.replica_id in voters | live and end - s.log_end_offset > _LAG_MAX
    ]
    if behind:
        return Check("metadata", WARNING, f"behind: node {join(behind)}", "pk cluster quorum")
    return Check("metadata", OK, f"every node has caught up to about offset {end:,}")


def _preferred(partitions: Mapping[TopicPartition, PartitionDescription]) -> Check:
    bad = [
        tp
        for tp, p in partitions.items()
        if p.leader_id >= 0 and p.replicas and p.leader_id != p.replicas[0]
    ]
    if bad:
        what = f"{count(len(bad), 'partition')} not led by the preferred replica: {_some(bad)}"
        return Check("preferred leaders", WARNING, what, "pk partitions elect-leaders")
    return Check("preferred leaders", OK, "lead every partition")


def _single(partitions: Mapping[TopicPartition, PartitionDescription], facts: Facts) -> Check:
    """Topics that do not survive the loss of a broker, in a cluster of several."""
    live = sum(not node.fenced for node in facts.snapshot.nodes.values())
    if live < 2:
        return Check("factors", OK, "one broker, one replica")
    factor: dict[str, int] = {}
    for tp, p in partitions.items():
        factor[tp.topic] = min(factor.get(tp.topic, len(p.replicas)), len(p.replicas))
    one = sorted(t for t, n in factor.items() if n == 1)
    tight = sorted(t for t, n in factor.items() if 1 < n <= facts.min_isr.get(t, 1))
    if one:
        what = f"{count(len(one), 'topic')} with a single replica: {join(one, 3)}"
        named = " ".join(f"-t {topic}" for topic in one[:3])
        return Check("factors", WARNING, what, f"pk reassign plan {named} --rf {min(3, live)}")
    if tight:
        what = f"no more replicas than min.insync.replicas: {join(tight, 3)}"
        topic, wanted = tight[0], facts.min_isr[tight[0]] + 1
        fix = f"pk reassign plan -t {topic} --rf {wanted}"
        if wanted > live:
            lower = max(factor[topic] - 1, 1)
            fix = f"pk configs alter topic {topic} -c min.insync.replicas={lower}"
        return Check("factors", WARNING, what, fix)
    if facts.unread_topics:
        return _unknown_configs("factors", facts)
    return Check("factors", OK, "every topic survives the loss of a broker")


def _moving(facts: Facts) -> Check:
    if isinstance(facts.running, Exception):
        return _unknown("reassignments", facts.running)
    if facts.running:
        what = f"{count(len(facts.running), 'partition')} moving"
        return Check("reassignments", OK, what, "pk reassign status -w")
    if facts.throttles.any:
        what = f"none, but throttles are left on {describe(everything(facts.throttles, ()))}"
        return Check("reassignments", WARNING, what, "pk reassign throttle --remove")
    for name, error in facts.throttles.unread.items():
        return _unknown("reassignments", error, f"none, but the throttles of {name} are unknown")
    return Check("reassignments", OK, "none, no throttle")


async def gather(context: Context, admin: Admin) -> Facts:
    """Requests what the checks need. Raises KafkaError and ClientError."""
    found: list[BrokerSnapshot] = []
    silent = RequestTimedOut("no controller answers")
    running: Mapping[TopicPartition, Reassignment] | Exception = silent
    quorum: QuorumDescription | Exception | None = silent

    async def ask_snapshot() -> None:
        found.append(await ask_brokers(context, admin))

    async def ask_running() -> None:
        nonlocal running
        with trio.move_on_after(_QUORUM_S):
            try:
                running = await running_reassignments(admin)
            except (KafkaError, ClientError) as e:
                running = e

    async def ask_quorum() -> None:
        nonlocal quorum
        with trio.move_on_after(_QUORUM_S):
            try:
                quorum = await admin.describe_quorum()
            except (KafkaError, ClientError) as e:
                lacks = isinstance(e, KafkaError) and e.code == ErrorCode.UNSUPPORTED_VERSION
                quorum = None if lacks else e

    async with trio.open_nursery() as nursery:
        for ask in (ask_snapshot, ask_running, ask_quorum):
            nursery.start_soon(ask)
    (snapshot,) = found
    topics = {tp.topic for tp in snapshot.partitions}
    live = [b for b, node in snapshot.nodes.items() if not node.fenced]
    answering = [b for b in live if b not in snapshot.features.errors]
    min_isr = await min_isrs(admin, topics)
    throttles = await read_throttles(admin, answering, topics)
    # A topic that was deleted in the meantime has no configs, so nothing is reported for it.
    gone = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
    unread = {
        name: e
        for name, e in throttles.unread.items()
        if not (isinstance(e, KafkaError) and e.code in gone)
    }
    throttles = throttles._replace(unread=unread)
    return Facts(snapshot, min_isr, running, throttles, quorum)


def check_style(row: CheckRow) -> str | None:
    return {PROBLEM: "red", WARNING: "yellow", UNKNOWN: "yellow"}.get(row["state"])


async def health(context: Context) -> int | None:
    """`pk cluster health`."""
    admin = await context.admin()
    facts = await gather(context, admin)
    found = checks(facts)
    unseen = unchecked(facts)
    rows: list[CheckRow] = [
        {"check": c.check, "state": c.state, "what": c.what, "next": c.next} for c in found
    ]
    problems = sum(check.state == PROBLEM for check in found)
    warnings = sum(check.state == WARNING for check in found)
    every = listing(CheckRow, rows, check_style)
    output = context.output
    narrow = output.terminal and output.width < _WIDE
    # On a narrow terminal the next steps are shown below, to keep the checks on one screen.
    shown = listing(CheckRow, rows, check_style, without=["next"]) if narrow else every
    data: HealthOfCluster = {
        "healthy": False if problems else None if unseen else True,
        "problems": problems,
        "warnings": warnings,
        "checks": rows,
    }
    context.show_document(Document([data], [Section("", shown)], every))
    say_unchecked(context, unseen)
    said = f"{count(problems, 'problem')}, {count(warnings, 'warning')}"
    if unseen:
        said += f", but {unchecked_counted(len(unseen))}"
    verdict = " is unhealthy" if problems else "" if unseen else " is healthy"
    context.say(f"{context.settings.cluster_name}{verdict}: {said}.")
    steps = dict.fromkeys(check.next for check in found if check.next and check.state != OK)
    if narrow and steps and not output.narrows:
        context.say(f"See: {' · '.join(map(str, steps))}")
    return Exit.FAILED if problems else None
