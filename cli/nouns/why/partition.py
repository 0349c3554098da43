"""`pk why partition`: requests the facts that `pk.cli.diagnosis.why_partition` explains."""

from collections.abc import Iterable, Mapping

import trio

from pk.cli.cluster.brokers import describe_nodes
from pk.cli.cluster.min_isr import min_isrs
from pk.cli.cluster.reassignments import running_reassignments
from pk.cli.cluster.replicas import log_ends
from pk.cli.cluster.throttles import describe as describe_throttles
from pk.cli.cluster.throttles import everything, read_throttles
from pk.cli.cluster.topics import describe_topics
from pk.cli.cluster.unclean_recovery import log_words, recoveries, waiting
from pk.cli.diagnosis.explain import Explanation
from pk.cli.diagnosis.remote import remote_words
from pk.cli.diagnosis.snapshot import number
from pk.cli.diagnosis.why_partition import PartitionFacts, ReplicaFacts, explain_partition, state_of
from pk.cli.exits import CommandError, Unusable
from pk.cli.nouns.why.rows import ExplainedPartition, PartitionVerdict
from pk.cli.nouns.why.why import answer, evidence_rows
from pk.cli.output.amounts import show_bytes
from pk.cli.phrases import partition_name
from pk.cli.positions.resolve import now_ms
from pk.cli.runtime.cluster_files import start_commands
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import phrase
from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin
from pk.net.client.answers import Answers
from pk.net.client.errors import ClientError, ControllerSilent

_BETWEEN_S = 1.5
"""How long a replica that is behind is watched to see whether it catches up, in seconds."""
_ANSWER_S = 3.0
_FULL_BELOW = 0.01
"""A disk is full if no more than this part of it is left: the next segment will not fit."""

Partitions = dict[TopicPartition, r.PartitionDescription]
Dirs = Answers[int, tuple[r.LogDirDescription, ...]]


async def why_partition(context: Context, partition: Iterable[str]) -> int | None:
    """Run `pk why partition`."""
    admin = await context.admin()
    chosen, named = await _chosen(context, admin, partition)
    if not chosen:
        return None
    facts, unknown = await gather(admin, chosen)
    if unknown is not None:
        context.failed(unknown, "reassignments in progress")
    known = start_commands(node.address for node in admin.cluster.bootstrap)
    explained = [
        explain_partition(p._replace(start_commands=known))
        for tp, p in facts.items()
        if tp in named or state_of(p) not in ("healthy", "not-preferred")
    ]
    if not explained:
        topics = ", ".join(sorted({tp.topic for tp in chosen}))
        context.say(f"Every partition of {topics} is healthy.")
    answer(context, explained, _described, PartitionVerdict, healthy=("healthy", "moving"))
    return None


def _described(explanation: Explanation) -> ExplainedPartition:
    return {
        "partition": explanation.subject,
        "state": explanation.state,
        "verdict": explanation.verdict,
        "evidence": evidence_rows(explanation),
        "next": list(explanation.next),
    }


async def _chosen(
    context: Context, admin: Admin, words: Iterable[str]
) -> tuple[Partitions, set[TopicPartition]]:
    """The partitions of the named topics, and those given by number."""
    wanted: dict[str, set[int] | None] = {}
    for word in words:
        topic, index = _split(word)
        had = wanted.get(topic, set())
        wanted[topic] = None if index is None or had is None else {*had, index}
    topics = await describe_topics(context, admin, wanted)
    found: Partitions = {}
    named: set[TopicPartition] = set()
    for topic in topics:
        indexes = wanted[topic.name]
        known = {p.partition: p for p in topic.partitions}
        for index in sorted(known if indexes is None else indexes):
            tp = TopicPartition(topic.name, index)
            if index not in known:
                raise CommandError(
                    f"Topic {topic.name} has no partition {index}; it has {len(known)}, from 0 to "
                    f"{len(known) - 1}."
                )
            found[tp] = known[index]
            if indexes is not None:
                named.add(tp)
    return found, named


def _split(word: str) -> tuple[str, int | None]:
    """Parse `orders/0` or `orders:0`, a partition, or `orders`, all partitions of a topic. Raises
    Unusable."""
    for sign in ("/", ":"):
        topic, found, index = word.rpartition(sign)
        if found:
            if not topic or not index.isdecimal():
                raise Unusable(f"PARTITION must be TOPIC/NUMBER or TOPIC, not {word!r}.")
            return topic, int(index)
    return word, None


async def gather(
    admin: Admin, chosen: Partitions
) -> tuple[dict[TopicPartition, PartitionFacts], ControllerSilent | KafkaError | None]:
    """Get the facts about these partitions, and the error if their reassignments are unknown.

    Raises KafkaError and ClientError.
    """
    nodes: dict[int, r.Node] = {}
    running: dict[TopicPartition, r.Reassignment] = {}
    answers: list[r.QuorumDescription | None] = []
    unknown: list[ControllerSilent | KafkaError] = []

    async def ask_nodes() -> None:
        nodes.update((await describe_nodes(admin))[1])

    async def ask_running() -> None:
        try:
            running.update(await running_reassignments(admin))
        except ControllerSilent as e:
            unknown.append(e)
        except KafkaError as e:
            if e.code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                raise
            unknown.append(e)

    async def ask_quorum() -> None:
        answers.append(await _quorum(admin))

    async with trio.open_nursery() as nursery:
        for ask in (ask_nodes, ask_running, ask_quorum):
            nursery.start_soon(ask)
    (quorum,) = answers
    topics = {tp.topic for tp in chosen}
    live = [b for b, node in nodes.items() if not node.fenced]
    dirs = await _directories(admin, live)
    answering = [b for b in live if b in dirs]
    min_isr = await min_isrs(admin, topics)
    unclean = await _unclean(admin, topics)
    throttles = await read_throttles(admin, answering, topics)
    throttled = describe_throttles(everything(throttles, ())) if throttles.rates else None
    ends = await log_ends(admin, chosen)
    later, between_s = await _later(admin, chosen, nodes, ends)
    seen = (
        {}
        if quorum is None
        else {o.replica_id: o.last_fetch_timestamp_ms for o in (*quorum.observers, *quorum.voters)}
    )
    clock = _controller_clock(quorum) or now_ms()
    ill = [tp for tp, p in chosen.items() if p.leader_id < 0 or p.under_replicated]
    recovering = await recoveries(admin, ill) if ill else {}
    remote = await _remote(admin, answering)
    found: dict[TopicPartition, PartitionFacts] = {}
    for tp, p in chosen.items():
        moving = running.get(tp)
        found[tp] = PartitionFacts(
            partition_name(tp),
            p.leader_id,
            p.leader_epoch,
            p.replicas,
            p.isr,
            {b: _replica(tp, b, nodes, dirs, ends, later, seen.get(b)) for b in p.replicas},
            number(str(min_isr.get(tp.topic, 1)), 1),
            unclean.get(tp.topic, False),
            moving.adding_replicas if moving else (),
            moving.removing_replicas if moving else (),
            p.elr,
            p.last_known_elr,
            _logs_of(recovering.get(tp)),
            waiting(recovering[tp]) if tp in recovering else "",
            f"replication is throttled on {throttled}" if throttled else None,
            remote_words(remote[tp]) if tp in remote else None,
            remote[tp].why if tp in remote and remote[tp].restoring else None,
            clock,
            between_s,
        )
    return found, unknown[0] if unknown else None


def _logs_of(found: r.UncleanRecovery | None) -> dict[int, str]:
    """A description of the log on each broker; empty if none is known."""
    known = () if found is None else found.replicas
    if not any(one.reported or one.damage for one in known):
        return {}
    return {one.broker_id: log_words(one, found.why if found else "") for one in known}


def _replica(
    tp: TopicPartition,
    broker: int,
    nodes: Mapping[int, r.Node],
    dirs: Dirs,
    ends: Mapping[TopicPartition, Mapping[int, int]],
    later: Mapping[TopicPartition, Mapping[int, int]],
    seen_ms: int | None,
) -> ReplicaFacts:
    node = nodes.get(broker)
    state = "absent" if node is None else "fenced" if node.fenced else "up"
    answers = broker in dirs or broker in ends.get(tp, {})
    size, error, full, held = None, None, None, True
    if broker in dirs.ok:
        found = [
            (s.size_bytes, d)
            for d in dirs.ok[broker]
            for s in d.replicas
            if s.partition == tp and not s.future
        ]
        failed = [d for d in dirs.ok[broker] if d.error_code]
        held = bool(found)
        if found:
            size, directory = found[0]
            full = _full_disk(directory)
        elif failed:
            error = f"{failed[0].path}: {phrase(KafkaError(failed[0].error_code))}"
    return ReplicaFacts(
        broker,
        state,
        ends.get(tp, {}).get(broker),
        later.get(tp, {}).get(broker),
        seen_ms,
        size,
        error,
        full,
        held,
        answers,
    )


def _full_disk(directory: r.LogDirDescription) -> str | None:
    """The directory and the space left if its disk is full; None if it is not, or if the broker
    does not report it."""
    total, usable = directory.total_bytes, directory.usable_bytes
    if total <= 0 or usable < 0 or usable / total > _FULL_BELOW:
        return None
    return f"{directory.path}, {show_bytes(usable)} of {show_bytes(total)} left"


async def _remote(admin: Admin, answering: Iterable[int]) -> Mapping[TopicPartition, r.RemoteState]:
    """The state in remote storage; empty if it cannot be requested."""
    with trio.move_on_after(_ANSWER_S):
        try:
            return await admin.remote_storage(answering)
        except (KafkaError, ClientError):
            return {}
    return {}


async def _unclean(admin: Admin, topics: Iterable[str]) -> dict[str, bool]:
    resources = [r.ConfigResource(r.ResourceType.TOPIC, topic) for topic in topics]
    answers = await admin.describe_configs(
        resources, keys=("unclean.leader.election.enable",), include_synonyms=False
    )
    return {
        resource.name: any(e.value == "true" for e in answer)
        for resource, answer in answers.ok.items()
    }


async def _quorum(admin: Admin) -> r.QuorumDescription | None:
    with trio.move_on_after(_ANSWER_S):
        try:
            return await admin.describe_quorum()
        except (KafkaError, ClientError):
            return None
    return None


def _controller_clock(quorum: r.QuorumDescription | None) -> int | None:
    """The controller's time when it answered. Its own entry has the time of its own clock."""
    if quorum is None:
        return None
    times = [
        v.last_caught_up_timestamp_ms for v in quorum.voters if v.replica_id == quorum.leader_id
    ]
    return times[0] if times and times[0] > 0 else None


async def _directories(admin: Admin, live: Iterable[int]) -> Dirs:
    """The log directories of the brokers that answer. A broker that does not answer is remembered,
    and gets less time for the next request."""
    limits = {"others_s": _ANSWER_S, "first_answer_s": _ANSWER_S}
    found: Answers[int, tuple[r.LogDirDescription, ...]] = Answers()

    async def ask(broker: int) -> bool:
        answers = await admin.describe_log_dirs([broker])
        if isinstance(answers.errors.get(broker), ClientError):
            return False
        found.update(answers)
        return True

    await admin.fan_out.ask(live, ask, **limits)
    return found


async def _later(
    admin: Admin,
    chosen: Partitions,
    nodes: Mapping[int, r.Node],
    ends: Mapping[TopicPartition, Mapping[int, int]],
) -> tuple[Mapping[TopicPartition, Mapping[int, int]], float]:
    """Measure the partitions with a live replica that is behind a second time. Returns the seconds
    between the measurements too."""
    behind = {
        tp: p
        for tp, p in chosen.items()
        if p.leader_id >= 0
        and any(
            b in ends.get(tp, {}) and b in nodes and not nodes[b].fenced
            for b in p.replicas
            if b not in p.isr
        )
    }
    if not behind:
        return {}, 0.0
    before = trio.current_time()
    await trio.sleep(_BETWEEN_S)
    later = await log_ends(admin, behind)
    return later, trio.current_time() - before
