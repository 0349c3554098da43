"""`pk reassign status`, `throttle` and `cancel`: show moves in progress, change their throttle, and
cancel them."""

import time
from collections.abc import Iterable, Mapping, Sequence

import trio

from pk.cli.cluster import rollback_files
from pk.cli.cluster.partition_selection import parse_partition
from pk.cli.cluster.reassignment_progress import Tracker, poll, sentence, status_row
from pk.cli.cluster.reassignment_row import ReassignmentRow
from pk.cli.cluster.throttles import (
    RATES,
    Present,
    Throttled,
    describe,
    everything,
    read_throttles,
    remove_throttles,
    set_rates,
    set_throttles,
    throttles_for,
)
from pk.cli.exits import CommandError, Exit, Unusable
from pk.cli.nouns.reassign.cluster_state import Live, load, settled
from pk.cli.nouns.reassign.option_values import parse_rate
from pk.cli.nouns.reassign.rows import CancelledRow, StatusDocument, ThrottleRow
from pk.cli.nouns.reassign.run import restore_order
from pk.cli.nouns.reassign.view import LiveView
from pk.cli.output.amounts import show_rate
from pk.cli.output.formats import Document, Section
from pk.cli.output.rows import columns, listing
from pk.cli.phrases import count, join, partition_name
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import error_name, phrase
from pk.cli.runtime.poll import poll_until
from pk.cli.runtime.question_table import say_table_preview
from pk.cli.terminal.signals import listen_for_interrupts
from pk.core.durations import Duration
from pk.core.values import TopicPartition
from pk.net.client.admin import Admin

_TIDY_S = 2.0


def throttle_rows(present: Present) -> list[ThrottleRow]:
    """A row for each throttle config that is set."""
    of_brokers: list[ThrottleRow] = [
        {"resource": f"broker {b}", "name": key, "value": value}
        for b, keys in sorted(present.rates.items())
        for key, value in sorted(keys.items())
    ]
    of_topics: list[ThrottleRow] = [
        {"resource": f"topic {topic}", "name": key, "value": ",".join(entries)}
        for topic, keys in sorted(present.replicas.items())
        for key, entries in sorted(keys.items())
    ]
    return of_brokers + of_topics


async def _throttles(admin: Admin, live: Live) -> Present:
    return await read_throttles(admin, live.state.racks, {tp.topic for tp in live.partitions})


def slowest(present: Present) -> int | None:
    """The lowest rate set on any broker."""
    rates = [int(v) for keys in present.rates.values() for v in keys.values() if v.isdecimal()]
    return min(rates, default=None)


async def status(context: Context, *, watch: bool, interval: Duration) -> int | None:
    """Run `pk reassign status`."""
    admin = await context.admin()
    live = await load(context, admin, sizes=False, without_controller=not watch)
    present = await _throttles(admin, live)
    for what, error in present.unread.items():
        context.failed(error, what)
    if watch:
        assert context.session is not None
        return await _watch(context, context.session.thorough(admin), present, interval.s)
    tracker = Tracker()
    if live.unknown is not None:
        _show(context, tracker, live, present)
        return None
    tracker.see(await poll(admin, None), time.monotonic())
    _show(context, tracker, live, present)
    return None


def _show(context: Context, tracker: Tracker, live: Live, present: Present) -> None:
    rows = [status_row(row) for row in tracker.rows]
    moving = listing(ReassignmentRow, rows)
    throttles = throttle_rows(present)
    orphaned = present.any and not live.running and live.unknown is None
    data: StatusDocument = {
        "reassignments": rows,
        "throttles": throttles,
        "throttles_orphaned": orphaned,
    }
    sections = [Section("", moving)] if tracker.rows else []
    if throttles:
        sections.append(Section("Throttles:", listing(ThrottleRow, throttles)))
    if sections or context.output.format not in ("table", "wide"):
        context.show_document(Document([data], sections, moving))
    if live.unknown is not None:
        context.failed(live.unknown, "reassignments in progress")
    elif tracker.rows:
        context.say(f"{sentence(tracker.whole, slowest(present))}.")
    else:
        context.say("Nothing is being reassigned.")
    if orphaned:
        say_orphans(context, present, live.cluster_id)
    elif live.running and _left(live.cluster_id):
        context.say("`pk reassign apply --resume` continues to watch what this machine started.")


def _left(cluster_id: str | None) -> list[rollback_files.Rollback]:
    """The reassignments started on this machine whose end pk has not seen."""
    return [
        r for r in rollback_files.rollbacks(cluster_id) if r.finished is None or r.throttled.any
    ]


def say_orphans(context: Context, present: Present, cluster_id: str | None) -> None:
    """Say that throttles are set although nothing moves, and how to remove them."""
    ours = [r.path for r in _left(cluster_id) if r.throttled.any]
    if context.session is not None:
        context.session.reported.update(ours)
    whose = (
        "left behind by a reassignment from this machine" if ours else "set although nothing moves"
    )
    context.say(
        f"Throttles are {whose}, on {describe(everything(present, ()))}: replicas that fall behind "
        "catch up at that rate. `pk reassign throttle --remove` removes them."
    )


async def _watch(context: Context, admin: Admin, present: Present, watch_s: float) -> int | None:
    """Show the moves in progress until there are none."""
    tracker = Tracker()

    async def follow() -> None:
        with LiveView(context, slowest(present)) as view:

            async def ended() -> bool:
                seen = await poll(admin, None, before=tracker.unfinished)
                tracker.see(seen, time.monotonic())
                if seen.running:
                    view.update(tracker)
                return not seen.running

            await poll_until(ended, every_s=watch_s)

    with listen_for_interrupts() as interrupts:
        if await interrupts.or_until(follow):
            return Exit.INTERRUPTED
    now = await load(context, admin, sizes=False)
    present = await _throttles(admin, now)
    if present.any and _left(now.cluster_id):
        await trio.sleep(_TIDY_S)  # another process that watches may be about to remove them
        present = await _throttles(admin, now)
    _show(context, Tracker(), now, present)
    return None


async def throttle(context: Context, rate: str | None, *, remove: bool) -> None:
    """Run `pk reassign throttle`."""
    if remove and rate is not None:
        raise Unusable("Give a rate or --remove, not both.")
    wanted = None if rate is None else parse_rate(rate, "RATE")
    admin = await context.admin()
    shows = wanted is None and not remove
    if shows:
        admin = Admin(admin.cluster, admin.config)
    live = await load(context, admin, sizes=False, without_controller=shows)
    present = await _throttles(admin, live)
    for what, error in present.unread.items():
        context.failed(error, what)
    if shows:
        if not present.any:
            context.show_nothing(columns(ThrottleRow))
            context.say("No throttle is set.")
            return
        context.show(listing(ThrottleRow, throttle_rows(present)))
        if live.unknown is not None:
            context.say("Unknown whether anything moves: the controller does not answer.")
        elif not live.running:
            say_orphans(context, present, live.cluster_id)
        return
    if remove:
        await _remove(context, admin, live, present)
    else:
        assert wanted is not None
        await _change(context, admin, live, present, wanted)


async def _remove(context: Context, admin: Admin, live: Live, present: Present) -> None:
    if not present.any:
        context.show_nothing(columns(ThrottleRow))
        context.say("No throttle is set.")
        _forget(live.cluster_id)
        return
    ours = [r.throttled for r in rollback_files.rollbacks(live.cluster_id) if r.throttled.any]
    undo = everything(present, ours)
    if not context.change.yes:
        say_table_preview(context, listing(ThrottleRow, throttle_rows(present)))
    if live.running:
        moving = count(len(live.running), "partition")
        context.say(f"Warning: {moving} still moving, at full speed without a throttle.")
    if not await _agreed(context, f"Remove the throttles of {describe(undo)}"):
        _say_programs(context, throttle_rows(present))
        return
    failed = await remove_throttles(admin, undo)
    _say_failed(context, failed)
    if not failed:
        _forget(live.cluster_id)
        context.show_nothing(columns(ThrottleRow))
        context.say(f"Removed from {describe(undo)}.")


def _say_programs(context: Context, rows: Sequence[ThrottleRow]) -> None:
    """Show the throttles, current or planned, in formats for programs; people get sentences."""
    if context.output.format not in ("table", "wide"):
        context.show(listing(ThrottleRow, rows))


def _forget(cluster_id: str | None) -> None:
    """Remove throttles that no longer exist from the rollback files."""
    for rollback in rollback_files.rollbacks(cluster_id):
        if rollback.throttled.any:
            rollback_files.write(rollback._replace(throttled=Throttled()))


async def _agreed(context: Context, question: str) -> bool:
    if context.change.dry_run:
        context.say("Nothing was changed.")
        return False
    await context.agree(
        f"{question} on {context.settings.cluster_name}?", name=context.settings.bootstrap
    )
    return True


def _say_failed(context: Context, failed: Mapping[str, Exception]) -> None:
    for what, error in failed.items():
        context.failed(error, what)


async def _change(context: Context, admin: Admin, live: Live, present: Present, rate: int) -> None:
    """Change the rate of existing throttles, or set a first one for the moves."""
    if not present.rates and not live.running:
        raise CommandError("Nothing is moving or throttled; `apply` takes --throttle.")
    moves = [
        (
            tp,
            tuple(b for b in live.partitions[tp].replicas if b not in move.adding_replicas),
            move.adding_replicas,
        )
        for tp, move in live.running.items()
    ]
    wanted = throttles_for(moves, rate, live.state.racks, present)
    brokers = sorted({*wanted.brokers, *present.rates})
    rows: list[ThrottleRow] = [
        {
            "resource": f"broker {b}",
            "name": key,
            "value": f"{present.rates.get(b, {}).get(key, '(none)')} → {rate}",
        }
        for b in brokers
        for key in RATES
    ]
    if not context.change.yes:
        say_table_preview(context, listing(ThrottleRow, rows))
    then: list[ThrottleRow] = [{**row, "value": str(rate)} for row in rows]
    if not await _agreed(context, f"Set the throttle to {show_rate(rate, 'bytes')}"):
        _say_programs(context, then)
        return
    failed: dict[str, Exception] = {}
    with trio.CancelScope(shield=True):
        _note(live, wanted, rate)
        failed |= await set_throttles(admin, wanted) if wanted.any else {}
        failed |= await set_rates(admin, [b for b in brokers if b not in wanted.brokers], rate)
    _say_failed(context, failed)
    if not failed:
        _say_programs(context, then)
        what = "broker" if len(brokers) == 1 else "brokers"
        context.say(f"{show_rate(rate, 'bytes')} on {what} {join([str(b) for b in brokers])}.")


def _note(live: Live, wanted: Throttled, rate: int) -> None:
    """Record the throttles that are about to be set in the rollback file of the moves, or in a new
    file if there is none."""
    from pk.cli.positions.resolve import now_ms

    for rollback in rollback_files.rollbacks(live.cluster_id):
        if rollback.finished is None:
            old = rollback.throttled
            topics = {
                topic: {
                    key: tuple(
                        dict.fromkeys(
                            (
                                *old.topics.get(topic, {}).get(key, ()),
                                *wanted.topics.get(topic, {}).get(key, ()),
                            )
                        )
                    )
                    for key in {*old.topics.get(topic, {}), *wanted.topics.get(topic, {})}
                }
                for topic in {*old.topics, *wanted.topics}
            }
            # The value before our first rate is restored.
            brokers = {**wanted.brokers, **old.brokers}
            rollback_files.write(rollback._replace(throttled=Throttled(rate, brokers, topics)))
            return
    if not wanted.any:
        return
    stamp = now_ms()
    before = {
        tp: tuple(b for b in move.replicas if b not in move.adding_replicas)
        for tp, move in live.running.items()
    }
    after = {tp: settled(move.replicas, move) for tp, move in live.running.items()}
    rollback_files.write(
        rollback_files.Rollback(
            rollback_files.new_path(stamp), live.cluster_id, stamp, before, after, wanted
        )
    )


async def cancel(context: Context, partitions: Sequence[str], *, every: bool) -> None:
    """Run `pk reassign cancel`."""
    if bool(partitions) == every:
        raise Unusable("Give the partitions to cancel, such as orders or orders/0, or --all.")
    admin = await context.admin()
    live = await load(context, admin, sizes=False)
    wanted = _named(partitions, live) if partitions else sorted(live.running)
    if not wanted:
        context.show_nothing(columns(CancelledRow))
        context.say("Nothing is being reassigned.")
        present = await _throttles(admin, live)
        if present.any:
            say_orphans(context, present, live.cluster_id)
        return
    rows = [_cancel_row(tp, live) for tp in wanted]
    if context.change.dry_run:
        context.show(listing(CancelledRow, rows))
        return
    if not context.change.yes:
        say_table_preview(context, listing(CancelledRow, rows, without=("result", "error")))
    context.say(
        f"The copies made so far for {count(len(wanted), 'partition')} are deleted; the old "
        "replicas stay."
    )
    await context.agree(
        f"Cancel this on {context.settings.cluster_name}?", name=context.settings.bootstrap
    )
    with trio.CancelScope(shield=True):
        answers = await admin.alter_reassignments(dict.fromkeys(wanted))
        done: list[TopicPartition] = []
        for tp, row in zip(wanted, rows, strict=True):
            error = answers.errors.get(tp)
            row["result"] = "cancelled" if error is None else phrase(error)
            if error is None:
                done.append(tp)
            else:
                context.failed(error, partition_name(tp))
                row["error"] = error_name(error)
        await _after_cancel(context, admin, live, done)
    context.show(listing(CancelledRow, rows))


def _cancel_row(tp: TopicPartition, live: Live) -> CancelledRow:
    move = live.running[tp]
    return {
        "topic": tp.topic,
        "partition": tp.partition,
        "replicas": [b for b in move.replicas if b not in move.adding_replicas],
        "adding": list(move.adding_replicas),
        "result": "would be cancelled",
        "error": None,
    }


def _named(words: Iterable[str], live: Live) -> list[TopicPartition]:
    """The moving partitions that `orders` or `orders/0` names. Raises CommandError for a partition
    that is not moving."""
    found: list[TopicPartition] = []
    for word in words:
        if "/" in word or ":" in word:
            tp = parse_partition(word, "PARTITION")
            meant = [tp] if tp in live.running else []
        else:
            meant = [tp for tp in sorted(live.running) if tp.topic == word]
        if not meant:
            raise CommandError(
                f"{word} is not being reassigned; `pk reassign status` lists what is."
            )
        found += meant
    return list(dict.fromkeys(found))


async def _after_cancel(
    context: Context, admin: Admin, live: Live, done: list[TopicPartition]
) -> None:
    """Restore the old order, and remove the throttles once no move of pk's is left."""
    left = _left(live.cluster_id)
    before = {tp: r.before[tp] for r in reversed(left) for tp in done if tp in r.before}
    await restore_order(admin, before, live.running)
    running = await admin.list_reassignments()
    for rollback in left:
        if any(tp in running for tp in rollback.after):
            continue
        failed = await remove_throttles(admin, rollback.throttled)
        _say_failed(context, failed)
        if not failed:
            ended = rollback._replace(throttled=Throttled(), finished=rollback_files.CANCELLED)
            rollback_files.write(ended)
            if rollback.throttled.any:
                context.say(f"The throttle of {describe(rollback.throttled)} is removed.")
    if not running and not left:
        present = await _throttles(admin, live)
        if present.any:
            say_orphans(context, present, live.cluster_id)
