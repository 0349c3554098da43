"""`pk partitions elect-leaders`: shows the elections, asks, elects, and reports a result for each
partition.

A preferred election takes only a moment: the first replica of a partition, which is in sync,
becomes the leader. An unclean election loses records: if no in-sync (or eligible, KIP-966) replica
is alive, it makes a replica the leader that lacks the newest records. It is only for partitions
without a leader, and the user must confirm it by typing a word.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pk.cli.cluster.brokers import describe_nodes
from pk.cli.cluster.partition_selection import parse_partition
from pk.cli.cluster.reassignment_json import read_json
from pk.cli.cluster.replicas import log_ends
from pk.cli.cluster.topics import existing_topics, is_pattern, named_topics, partition_numbers
from pk.cli.cluster.unclean_recovery import log_words
from pk.cli.exits import CommandError, Refused, Unusable
from pk.cli.nouns.partitions.options import ElectLeaders
from pk.cli.nouns.partitions.rows import ElectionRow, ReplicaLogRow, UncleanElectionRow
from pk.cli.output.formats import Listing
from pk.cli.output.rows import columns, listing
from pk.cli.phrases import count, partition_name
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import error_name, phrase
from pk.cli.runtime.name_cache import remember
from pk.cli.runtime.question_table import say_table_preview
from pk.cli.runtime.results import show_results
from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin
from pk.net.client.answers import Answers

_ASKED_ROWS = 40
"""The most elections that the question lists."""


class Election(NamedTuple):
    """A partition that was named or needs an election, and the result that an election would
    have."""

    tp: TopicPartition
    p: r.PartitionDescription
    to: int | None
    """The new leader; None if the controller chooses."""

    why_not: str = ""
    """The reason why there is no election; empty if there is one."""


async def elect_leaders(context: Context, options: ElectLeaders) -> None:
    """Run `pk partitions elect-leaders`."""
    unclean = options.unclean or options.election_type == "unclean"
    if options.unclean and options.election_type == "preferred":
        raise Unusable("--unclean and --election-type preferred cannot be combined.")
    named = bool(options.partition or options.topic or options.from_json)
    if named and options.all:
        raise Unusable("Give partitions or --all, not both.")
    if unclean and not named and not options.all:
        raise Unusable("--unclean can lose records: name the partitions, or give --all.")
    if options.from_broker is not None and not unclean:
        raise Unusable("--from chooses the leader of an unclean election: add --unclean.")
    admin = await context.admin()
    partitions = await _partitions(context, admin, options)
    if options.from_broker is not None:
        await _elect_from(context, admin, partitions, options.from_broker)
        return
    elections = [_of(tp, p, unclean) for tp, p in sorted(partitions.items())]
    wanted = [e for e in elections if not e.why_not]
    if not named:
        elections = wanted
    if not elections:
        context.show_nothing(columns(ElectionRow))
        context.say(
            "Every partition has a leader."
            if unclean
            else "Every partition is led by its preferred replica."
        )
        return
    if context.change.dry_run:
        rows = [_row(e, "would be elected") for e in elections]
        context.show(listing(ElectionRow, rows))
        if unclean and wanted:
            await _show_loss(context, admin, wanted)
        return
    if wanted:
        if unclean:
            await _agree_to_loss(context, admin, wanted)
        else:
            await _agree(context, wanted)
    await _elect(context, admin, elections, wanted, unclean=unclean)


async def _elect_from(
    context: Context,
    admin: Admin,
    partitions: dict[TopicPartition, r.PartitionDescription],
    broker: int,
) -> None:
    """Make one broker the leader, even if its log lacks records: show the logs, ask, and elect."""
    known = await admin.unclean_recovery(partitions)
    if not known:
        raise CommandError("Only pk's controller supports --from; leave it out.")
    elections = [
        Election(tp, partitions[tp], broker, "" if _is_open(found) else "has a leader")
        for tp, found in sorted(known.items())
    ]
    wanted = [e for e in elections if not e.why_not]
    if wanted:
        rows = [row for e in wanted for row in _logs(e.tp, known[e.tp], broker)]
        say_table_preview(context, listing(ReplicaLogRow, rows))
    if context.change.dry_run:
        context.show(listing(ElectionRow, [_row(e, "would be elected") for e in elections]))
        return
    if wanted:
        context.say(
            f"Broker {broker} leads {count(len(wanted), 'partition')} with the records that it "
            "has. Records that only other brokers have are lost, acknowledged or not."
        )
        await _confirm_loss(context)
    answers = await admin.unclean_recovery([e.tp for e in wanted], leader=broker) if wanted else {}
    shown: list[ElectionRow] = []
    errors: list[tuple[str, KafkaError | None]] = []
    for election in elections:
        row = _row(election, "elected")
        answer = answers.get(election.tp)
        if answer is not None and answer.error is not None:
            context.fail(answer.error)
            row["result"], row["error"] = phrase(answer.error), error_name(answer.error)
        if answer is not None:
            errors.append((partition_name(election.tp), answer.error))
        shown.append(row)
    show_results(context, listing(ElectionRow, shown), errors, "partition")


def _is_open(found: r.UncleanRecovery) -> bool:
    """Whether an operator may choose the leader."""
    return found.leader_id < 0 or any(replica.stopped for replica in found.replicas)


def _logs(tp: TopicPartition, found: r.UncleanRecovery, broker: int) -> list[ReplicaLogRow]:
    """The log of each replica, and how many of its records the broker's log lacks, judged by their
    offsets."""
    ends = {one.broker_id: one.end_offset for one in found.replicas if one.end_offset >= 0}
    return [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "broker": one.broker_id,
            "log_start": one.start_offset if one.start_offset >= 0 else None,
            "log_end": ends.get(one.broker_id),
            "last_epoch": one.last_epoch if one.last_epoch >= 0 else None,
            "lost": (
                max(ends[one.broker_id] - ends[broker], 0)
                if one.broker_id in ends and broker in ends
                else None
            ),
            "log": "counts" if one.broker_id == broker else log_words(one),
        }
        for one in found.replicas
    ]


async def _partitions(
    context: Context, admin: Admin, options: ElectLeaders
) -> dict[TopicPartition, r.PartitionDescription]:
    """The partitions that the command line names, or all if it names none. Raises CommandError and
    Unusable."""
    words = list(options.partition)
    if options.partitions and not options.topic:
        raise Unusable("-p selects partitions of a topic: add -t TOPIC.")
    if options.topic:
        numbers = partition_numbers(options.partitions, "-p")
        words += [f"{options.topic}/{n}" for n in numbers] if numbers else [options.topic]
    if options.from_json:
        words += [partition_name(tp) for tp in _in_json(options.from_json)]
    if not words:
        described = await admin.describe_topics()
        topics = described.ok.values()
        found = {TopicPartition(t.name, p.partition): p for t in topics for p in t.partitions}
        remember(context.settings.bootstrap, "partition", map(partition_name, found))
        return found
    wanted: dict[str, set[int] | None] = {}
    for word in words:
        if is_pattern(word):
            wanted |= dict.fromkeys(await named_topics(context, admin, [word]))
        elif "/" in word or ":" in word:
            tp = parse_partition(word, "PARTITION")
            numbers_of = wanted.setdefault(tp.topic, set())
            if numbers_of is not None:
                numbers_of.add(tp.partition)
        else:
            wanted[word] = None
    found = dict[TopicPartition, r.PartitionDescription]()
    for topic in await existing_topics(context, admin, wanted):
        here = {p.partition: p for p in topic.partitions}
        numbers = wanted[topic.name]
        for number in sorted(here) if numbers is None else sorted(numbers):
            if number not in here:
                raise CommandError(
                    f"Topic {topic.name} has no partition {number}; it has {len(here)}."
                )
            found[TopicPartition(topic.name, number)] = here[number]
    return found


def _in_json(path: str) -> list[TopicPartition]:
    """Read the partitions in Apache's `--path-to-json-file`. Raises Unusable."""
    entries = read_json(path).get("partitions")
    try:
        return [TopicPartition(str(e["topic"]), int(e["partition"])) for e in entries or ()]
    except (KeyError, TypeError, ValueError):
        raise Unusable(
            f'{path} has no partitions; it must be {{"partitions":[{{"topic":…,"partition":…}}]}}.'
        ) from None


def _of(tp: TopicPartition, p: r.PartitionDescription, unclean: bool) -> Election:
    if unclean:
        return Election(tp, p, None, "" if p.leader_id < 0 else "has a leader")
    preferred = p.replicas[0] if p.replicas else None
    return Election(tp, p, preferred, "not needed" if p.leader_id == preferred else "")


def _row(election: Election, result: str) -> ElectionRow:
    p = election.p
    return {
        "topic": election.tp.topic,
        "partition": election.tp.partition,
        "from": None if p.leader_id < 0 else p.leader_id,
        "to": election.to,
        "isr": list(p.isr),
        "result": election.why_not or result,
        "error": None,
    }


async def _agree(context: Context, wanted: list[Election]) -> None:
    shown = columns(ElectionRow, without=("result", "error"))
    if not context.change.yes:
        rows = [_row(e, "") for e in wanted]
        say_table_preview(context, Listing(shown, rows), _ASKED_ROWS, "`--dry-run`")
    away = [e for e in wanted if e.to not in e.p.isr]
    if away:
        context.say(
            f"{count(len(away), 'preferred replica')} not in sync; those elections will fail."
        )
    moving = count(len(wanted), "partition gets", "partitions get")
    context.say(
        f"{moving} another leader on {context.settings.cluster_name}. Clients find it by "
        "themselves."
    )
    topics = list(dict.fromkeys(e.tp.topic for e in wanted))
    name = topics[0] if len(topics) == 1 else context.settings.bootstrap
    await context.agree("Elect the preferred replicas?", name=name)


def _of_them(elections: Sequence[Election]) -> str:
    """`1 partition of them has`, `2 partitions of them have`."""
    some = count(len(elections), "partition")
    return f"{some} of them {'has' if len(elections) == 1 else 'have'}"


async def _show_loss(context: Context, admin: Admin, wanted: list[Election]) -> None:
    """Show the live replicas of each partition without a leader, and the ends of their logs."""
    _, nodes = await describe_nodes(admin)
    live = {b for b, node in nodes.items() if not node.fenced}
    ends = await log_ends(admin, {e.tp: e.p for e in wanted})
    rows: list[UncleanElectionRow] = [
        {
            "topic": e.tp.topic,
            "partition": e.tp.partition,
            "replicas": list(e.p.replicas),
            "isr": list(e.p.isr),
            "elr": None if e.p.elr is None else list(e.p.elr),
            "alive": [b for b in e.p.replicas if b in live],
            "log_ends": {str(b): ends.get(e.tp, {}).get(b) for b in e.p.replicas if b in live},
        }
        for e in wanted
    ]
    say_table_preview(context, listing(UncleanElectionRow, rows))
    context.say(
        "An unclean election makes a replica that lacks records lead "
        f"{count(len(wanted), 'partition')}: records that only the lost replicas have are gone, "
        "acknowledged or not, and consumers may see the same offsets again with other records."
    )
    dead = [e for e in wanted if not set(e.p.replicas) & live]
    if dead:
        context.say(f"{_of_them(dead)} no replica alive; start a broker.")
    eligible = [e for e in wanted if set(e.p.elr or ()) & live]
    if eligible:
        context.say(
            f"{_of_them(eligible)} an eligible replica alive, which leads "
            "without loss as soon as it is back; wait instead."
        )


async def _agree_to_loss(context: Context, admin: Admin, wanted: list[Election]) -> None:
    """Show the loss and ask the user to confirm it by typing a word. Raises Refused."""
    await _show_loss(context, admin, wanted)
    await _confirm_loss(context)


async def _confirm_loss(context: Context) -> None:
    """Ask the user to type a word. Raises Refused."""
    if context.change.yes or context.settings.guard in ("readonly", "none"):
        await context.agree("", name=None)
        return
    if not context.streams.in_terminal or not context.streams.err_terminal:
        await context.agree("", name=None)
    answer = await context.ask(
        f"On {context.settings.cluster_name}: type unclean to lose those records: "
    )
    if answer.strip() != "unclean":
        raise Refused("Nothing was changed.")


async def _elect(
    context: Context,
    admin: Admin,
    elections: Iterable[Election],
    wanted: list[Election],
    *,
    unclean: bool,
) -> None:
    kind = r.ElectionType.UNCLEAN if unclean else r.ElectionType.PREFERRED
    answers = (
        await admin.elect_leaders(kind, [e.tp for e in wanted])
        if wanted
        else Answers[TopicPartition, None]()
    )
    rows: list[ElectionRow] = []
    for election in elections:
        row = _row(election, "elected")
        error = answers.errors.get(election.tp)
        if isinstance(error, KafkaError) and error.code == ErrorCode.ELECTION_NOT_NEEDED:
            row["result"] = "not needed"
        elif error is not None:
            context.fail(error)
            row["result"] = phrase(error)
            row["error"] = error_name(error)
        rows.append(row)
    named = [(partition_name(tp), error) for tp, error in answers.errors.items()]
    show_results(context, listing(ElectionRow, rows), named, "partition")
