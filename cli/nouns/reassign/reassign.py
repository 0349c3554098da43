"""`pk reassign plan`, `apply` and `rollback`: plan and carry out the moves that reach a goal."""

import json
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pk.cli.cluster import reassignment_json, rollback_files
from pk.cli.cluster.brokers import parse_brokers
from pk.cli.cluster.min_isr import min_isrs
from pk.cli.cluster.throttles import describe
from pk.cli.exits import CommandError, Unusable
from pk.cli.nouns.reassign.cautions import cautions
from pk.cli.nouns.reassign.cluster_state import Live, load, selected_partitions
from pk.cli.nouns.reassign.option_values import parse_sets
from pk.cli.nouns.reassign.options import ApplyMoves, Goal, PlanMoves, RollBack
from pk.cli.nouns.reassign.pace import AUTO
from pk.cli.nouns.reassign.plan import (
    BrokerChange,
    Change,
    Intent,
    PlanError,
    broker_changes,
    changes_of,
    first_moves,
    plan,
    transfer_s,
)
from pk.cli.nouns.reassign.rows import MovedRow, PlanDocument
from pk.cli.nouns.reassign.run_options import RunOptions, Throttle, parse_throttle
from pk.cli.nouns.reassign.view import broker_listing, plan_listing, plan_rows
from pk.cli.output.amounts import show_rate
from pk.cli.output.formats import Document, Section
from pk.cli.output.rows import listing
from pk.cli.phrases import count
from pk.cli.positions.times import show_span
from pk.cli.runtime.context import Context
from pk.cli.runtime.question_table import say_table_preview
from pk.core.values import TopicPartition
from pk.net.client.admin import Admin

_ASKED_ROWS = 40
"""The most partitions to show with the question; the others are counted."""

_PLACING = ("to", "drain", "add")
_INTENTS = (*_PLACING, "rf", "balance", "balance_by", "set", "from_json")
_EXACT = ("set", "from_json")
_CHOOSING = ("topics", "all", "no_rack_aware")
"""Options that influence the planning; they cannot be combined with a complete plan."""
_STARTING = ("max_moves", "batch", "detach")
"""Options that influence the start of a plan."""


class Wanted(NamedTuple):
    """The goal from the command line."""

    intent: Intent
    directories: Mapping[tuple[TopicPartition, int], str]
    throttle: str | None = None
    """The --throttle with which the plan was saved."""


def _given(options: Goal, names: Iterable[str] = _INTENTS) -> list[str]:
    """The given options among `names`; by default, those that set the goal."""
    return [name for name in names if getattr(options, name) not in (None, (), False)]


def _option(name: str) -> str:
    """The option as the command line spells it."""
    return "-t" if name == "topics" else f"--{name.replace('_', '-')}"


def wanted_of(goal: Goal, path: str | None = None) -> Wanted:
    """The goal from the options, or from the file at `path`. Raises Unusable."""
    given = _given(goal)
    choosing = _given(goal, _CHOOSING)
    options = [_option(name) for name in given]
    if path is not None:
        if given or choosing:
            raise Unusable(
                f"The file contains the whole plan; {_option((given + choosing)[0])} cannot be "
                "combined with it."
            )
        return _from_file(path)
    if not given:
        raise Unusable(
            "A goal is missing: --to 4,5 · --drain 3 · --add 6 · --rf 3 · --balance · "
            "--set orders/0=1,2,3 · --from-json FILE."
        )
    exact = [name for name in given if name in _EXACT]
    if exact and len(given) > 1:
        raise Unusable(f"{options[0]} and {options[1]} cannot be combined.")
    if goal.to and (goal.drain or goal.add):
        raise Unusable("--to lists all brokers; --drain and --add cannot be combined with it.")
    if exact:
        if choosing:
            raise Unusable(
                f"{options[0]} lists its partitions and their replicas; {_option(choosing[0])} "
                "cannot be combined with it."
            )
        if goal.from_json is not None:
            return _from_file(goal.from_json)
        return Wanted(Intent(exact=parse_sets(goal.set)), {})
    if goal.balance and goal.balance_by:
        raise Unusable("--balance balances everything; --balance-by cannot be combined with it.")
    if goal.topics and goal.all:
        raise Unusable("Give topics with -t, or --all, not both.")
    if (goal.to or goal.rf) and not goal.topics and not goal.all:
        raise Unusable(f"Topics are missing: -t TOPIC, or --all for {options[0]} of every topic.")
    return Wanted(
        Intent(
            to=parse_brokers(goal.to, "--to"),
            drain=parse_brokers(goal.drain, "--drain"),
            add=parse_brokers(goal.add, "--add"),
            replication_factor=goal.rf,
            balance=goal.balance_by or ("all" if goal.balance else None),
            rack_aware=not goal.no_rack_aware,
        ),
        {},
    )


def _from_file(path: str) -> Wanted:
    found = reassignment_json.assignments_of(reassignment_json.read_json(path), path)
    return Wanted(Intent(exact=found.replicas), found.log_dirs, found.throttle)


class Plan(NamedTuple):
    """A plan, and the data that is shown with it."""

    live: Live
    changes: Sequence[Change]
    brokers: Sequence[BrokerChange]
    cautions: Sequence[str]


async def make_plan(
    context: Context,
    admin: Admin,
    intent: Intent,
    topics: Iterable[str] = (),
    max_moves: int | None = None,
) -> Plan:
    """Read the cluster's state and make a plan. Raises CommandError if the goal cannot be
    reached."""
    live = await load(context, admin)
    words = () if intent.exact else tuple(topics)
    selected = await selected_partitions(context, admin, live, words)
    try:
        new = plan(live.state, intent, selected)
    except PlanError as e:
        raise CommandError(str(e)) from None
    changes = changes_of(live.state, new)
    if max_moves is not None:
        changes = first_moves(changes, max_moves)
    min_isr = await min_isrs(admin, (c.tp.topic for c in changes))
    return Plan(
        live,
        changes,
        broker_changes(live.state, changes, live.leaders),
        cautions(live, changes, min_isr),
    )


def duration(plan: Plan, rate: int) -> str:
    """The duration of a plan at a rate, for people."""
    return f"{show_span(transfer_s(plan.brokers, rate) * 1000)} at {show_rate(rate, 'bytes')}"


def describe_plan(context: Context, plan: Plan, throttle: Throttle) -> None:
    """Summarize a plan, with warnings."""
    from pk.cli.nouns.reassign.cautions import totals

    said = totals(plan.changes, len(plan.live.partitions))
    copies = any(c.adding for c in plan.changes)
    if copies and throttle.rate is not None:
        at_least = "" if throttle.auto else "at least "
        said += f"; {at_least}{duration(plan, throttle.rate)} for each broker"
        said += ", the initial rate of auto" if throttle.auto else ""
    context.say(f"{said}.")
    for line in plan.cautions:
        context.say(f"Warning: {line}")


def document(plan: Plan, rate: int | None) -> Document:
    """A plan for every output format."""
    rows = plan_listing(plan.changes)
    brokers = broker_listing(plan.brokers)
    seconds = None if rate is None else round(transfer_s(plan.brokers, rate), 1)
    data: PlanDocument = {
        "partitions": plan_rows(plan.changes),
        "brokers": [
            {
                "broker": b.broker,
                "rack": b.rack,
                "replicas_before": b.replicas[0],
                "replicas_after": b.replicas[1],
                "leaders_before": b.leaders[0],
                "leaders_after": b.leaders[1],
                "bytes_before": b.bytes[0],
                "bytes_after": b.bytes[1],
                "bytes_in": b.bytes_in,
                "bytes_out": b.bytes_out,
            }
            for b in plan.brokers
        ],
        "bytes": sum(c.bytes or 0 for c in plan.changes),
        "throttle": rate,
        "seconds": seconds,
        "cautions": list(plan.cautions),
    }
    return Document([data], [Section("", rows), Section("", brokers)], rows)


def save(path: str, changes: Sequence[Change], throttle: str | None) -> None:
    """Write a plan as Apache's JSON, with its throttle. Raises CommandError."""
    try:
        with open(os.path.expanduser(path), "w", encoding="utf-8") as file:
            json.dump(reassignment_json.plan_json({c.tp: c.after for c in changes}, throttle), file)
            file.write("\n")
    except OSError as e:
        raise CommandError(f"{path} cannot be written: {e.strerror}.") from None


async def plan_command(context: Context, options: PlanMoves) -> None:
    """Run `pk reassign plan`."""
    throttle = parse_throttle(options.throttle)
    wanted = wanted_of(options)
    said = options.throttle
    if said is None and wanted.throttle is not None:
        said = wanted.throttle
        throttle = parse_throttle(said)
    admin = await context.admin()
    made = await make_plan(context, admin, wanted.intent, options.topics, options.max_moves)
    if options.save:
        save(options.save, made.changes, said)
    if options.json:
        new = {c.tp: c.after for c in made.changes}
        context.write((json.dumps(reassignment_json.apache_json(new)) + "\n").encode())
    elif made.changes or context.output.format not in ("table", "wide"):
        context.show_document(document(made, throttle.rate))
    if not made.changes:
        context.say("Everything is already where it should be; nothing to do.")
        return
    describe_plan(context, made, throttle)
    if options.save:
        context.say(f"To do it: pk reassign apply {shlex.quote(options.save)}")


async def apply(context: Context, options: ApplyMoves) -> int | None:
    """Run `pk reassign apply`."""
    throttle = parse_throttle(options.throttle)
    if options.resume:
        return await _resume(context, options, throttle)
    if options.detach and options.batch is not None:
        raise Unusable("--batch must stay in the foreground; --detach cannot be combined with it.")
    wanted = wanted_of(options, options.file)
    if options.throttle is None and wanted.throttle is not None:
        throttle = parse_throttle(wanted.throttle)
        context.say(f"The plan was saved with --throttle {wanted.throttle}.")
    admin = await context.admin()
    made = await make_plan(context, admin, wanted.intent, options.topics, options.max_moves)
    how = RunOptions(throttle, options.batch, options.detach, wanted.directories)
    return await carry_out(context, admin, made, how)


async def _resume(context: Context, options: ApplyMoves, throttle: Throttle) -> int | None:
    """Run `pk reassign apply --resume`."""
    from pk.cli.nouns.reassign.run import resume

    given = _given(options, (*_INTENTS, *_CHOOSING, *_STARTING))
    if given:
        raise Unusable(
            f"--resume continues what was started before; {_option(given[0])} cannot be combined "
            "with it."
        )
    if options.throttle not in (None, AUTO):
        raise Unusable("--resume keeps the throttle; `pk reassign throttle RATE` changes it.")
    admin = await context.admin()
    live = await load(context, admin)
    rollback = unfinished(options.file, live.cluster_id)
    if context.change.dry_run:
        show_unfinished(context, live, rollback)
        return None
    return await resume(context, admin, live, rollback, auto=throttle.auto)


def show_unfinished(context: Context, live: Live, rollback: rollback_files.Rollback) -> None:
    """Show what still moves of a reassignment, and what --resume does at its end."""
    running = [
        Change(tp, rollback.before.get(tp, ()), after, live.state.sizes.get(tp))
        for tp, after in sorted(rollback.after.items())
        if tp in live.running
    ]
    # The current state counts running moves as done, but brokers are shown before and after.
    old = {c.tp: c.before for c in running}
    before = live.state._replace(replicas={**live.state.replicas, **old})
    made = Plan(live, running, broker_changes(before, running, live.leaders), ())
    if running or context.output.format not in ("table", "wide"):
        context.show_document(document(made, rollback.throttled.rate))
    verb = "is" if len(running) == 1 else "are"
    context.say(
        f"{len(running):,} of {count(len(rollback.after), 'partition')} of {rollback.name} {verb} "
        "still moving."
    )
    if rollback.throttled.any:
        context.say(
            f"At the end, the throttle of {describe(rollback.throttled)} would be removed, and the "
            "preferred replicas would be elected."
        )
    else:
        context.say("At the end, the preferred replicas would be elected.")
    context.say("Nothing was changed.")


def unfinished(path: str | None, cluster_id: str | None) -> rollback_files.Rollback:
    """The rollback file of the reassignment to continue. Raises CommandError if there is none."""
    if path is not None:
        return rollback_files.find(path, cluster_id)
    for rollback in rollback_files.rollbacks(cluster_id):
        if rollback.finished is None:
            return rollback
    raise CommandError(
        "No unfinished reassignment was started from this machine; `pk reassign status` shows all."
    )


async def carry_out(context: Context, admin: Admin, made: Plan, options: RunOptions) -> int | None:
    """Show a plan, ask, and carry it out."""
    from pk.cli.nouns.reassign.run import start
    from pk.cli.positions.resolve import now_ms

    change, throttle = context.change, options.throttle
    if not made.changes:
        if context.output.format not in ("table", "wide"):
            if change.dry_run:
                context.show_document(document(made, throttle.rate))
            else:
                context.show(listing(MovedRow, []))
        context.say("Everything is already where it should be; nothing to do.")
        return None
    if change.dry_run:
        context.show_document(document(made, throttle.rate))
        describe_plan(context, made, throttle)
        context.say("Nothing was changed.")
        return None
    if not change.yes:
        say_table_preview(context, plan_listing(made.changes), _ASKED_ROWS, "`pk reassign plan`")
        say_table_preview(context, broker_listing(made.brokers))
    describe_plan(context, made, throttle)
    if throttle.rate is None and any(c.adding for c in made.changes):
        context.say("Without --throttle the copies may use all network and disk bandwidth.")
    topics = list(dict.fromkeys(c.tp.topic for c in made.changes))
    name = topics[0] if len(topics) == 1 else context.settings.bootstrap
    await context.agree(f"Move this on {context.settings.cluster_name}?", name=name)
    return await start(context, admin, made.live, made.changes, options, now_ms())


async def rollback(context: Context, options: RollBack) -> int | None:
    """Run `pk reassign rollback`."""
    throttle = parse_throttle(options.throttle)
    if options.json and (options.detach or options.throttle is not None):
        other = "--detach" if options.detach else "--throttle"
        raise Unusable(f"--json only prints the plan; {other} cannot be combined with it.")
    admin = await context.admin()
    cluster = await admin.describe_cluster()
    if options.file is not None:
        wanted = rollback_files.find(options.file, cluster.cluster_id)
    else:
        known = [r for r in rollback_files.rollbacks(cluster.cluster_id) if not r.moved_nothing]
        if not known:
            raise CommandError(
                "No reassignment of this cluster was started from this machine; give a rollback "
                "file."
            )
        wanted = known[0]
    described = await admin.describe_topics()
    there: dict[TopicPartition, Any] = {
        tp: replicas for tp, replicas in wanted.before.items() if tp.topic in described.ok
    }
    gone = sorted({tp.topic for tp in wanted.before} - {tp.topic for tp in there})
    if gone:
        context.say(f"Deleted in the meantime, and skipped: {', '.join(gone)}.")
    if not there:
        raise CommandError(f"All partitions of {wanted.name} were deleted.")
    made = await make_plan(context, admin, Intent(exact=there))
    if options.json:
        new = {c.tp: c.after for c in made.changes}
        context.write((json.dumps(reassignment_json.apache_json(new)) + "\n").encode())
        return None
    context.say(f"Restoring the replicas in {wanted.name}.")
    return await carry_out(context, admin, made, RunOptions(throttle, detach=options.detach))
