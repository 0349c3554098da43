"""Carries out a reassignment: sets throttles, moves, watches, and removes the throttles. Also
handles an interruption.

The order of these steps makes sure that nothing is left in the cluster unnoticed. First the
rollback file is written, which lists every throttle that is about to be set; then the throttles are
set, and then the moves are submitted. The throttles are removed when the moves have ended or were
cancelled. If this process ends before that, the file exists, and `pk reassign status` shows the
remaining throttles and how to remove them.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence

import trio

from pk.cli.cluster import rollback_files
from pk.cli.cluster.reassignment_progress import Tracker, poll
from pk.cli.cluster.replicas import Replicas
from pk.cli.cluster.throttles import (
    Throttled,
    describe,
    read_throttles,
    remove_throttles,
    set_rates,
    set_throttles,
    throttles_for,
)
from pk.cli.exits import CommandError, Exit
from pk.cli.nouns.reassign.cluster_state import Live
from pk.cli.nouns.reassign.pace import AUTO, START_RATE, STEP_S, Pace, others
from pk.cli.nouns.reassign.plan import Change
from pk.cli.nouns.reassign.rows import MovedRow
from pk.cli.nouns.reassign.run_options import RunOptions, Throttle
from pk.cli.nouns.reassign.view import LiveView, result_rows
from pk.cli.output.rows import listing
from pk.cli.phrases import count, join, partition_name
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import error_name, exit_code, phrase, sentence
from pk.cli.runtime.paths import make_user_dir
from pk.cli.runtime.poll import poll_until
from pk.cli.terminal.signals import Interrupts, listen_for_interrupts
from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin
from pk.net.client.errors import ClientError

_LOOK_S = 1.0
_LOST_S = 120.0
"""After this long without any answer, the command stops watching; the moves continue."""
_SETTLE_S = 10.0
"""How long to wait until brokers know of the controller's decision."""
_SETTLE_RETRY_S = 0.1


class Moving:
    """A reassignment that this command started or resumes."""

    def __init__(
        self,
        context: Context,
        admin: Admin,
        changes: Sequence[Change],
        rollback: rollback_files.Rollback,
        options: RunOptions,
    ) -> None:
        self.directories = options.directories
        self.context = context
        self.admin = admin
        self.changes = {c.tp: c for c in changes}
        self.rollback = rollback
        self.pending = list(self.changes)
        """The partitions whose move has not been submitted yet, in order."""

        self.results: dict[TopicPartition, str] = {}
        self.errors: dict[TopicPartition, str] = {}
        self.tracker = Tracker()
        rate = rollback.throttled.rate
        auto = options.throttle.auto
        self.pace = Pace(START_RATE if rate is None else rate) if auto else None
        """Adjusts the rate during the copy; None if the rate is fixed."""

        self.batch = options.batch or len(self.changes)
        """The most partitions that move at the same time."""

    @property
    def moved(self) -> list[TopicPartition]:
        """The partitions whose move was accepted and not cancelled."""
        waiting = set(self.pending)
        return [tp for tp in self.changes if tp not in self.results and tp not in waiting]

    def fail(self, tp: TopicPartition, error: Exception) -> None:
        self.context.fail(error)
        self.results[tp] = phrase(error)
        self.errors[tp] = error_name(error)

    # start

    async def throttle(self, rate: int, live: Live) -> None:
        """Set the throttles for these moves. If that fails, remove them all. Raises
        CommandError."""
        topics = {tp.topic for tp in self.changes}
        present = await read_throttles(self.admin, live.state.racks, topics)
        moves = [(c.tp, live.partitions[c.tp].replicas, c.adding) for c in self.changes.values()]
        throttled = throttles_for(moves, rate, live.state.racks, present)
        self.rollback = self.rollback._replace(throttled=throttled)
        rollback_files.write(self.rollback)
        if not throttled.any:
            return
        failed = await set_throttles(self.admin, throttled)
        if failed:
            await self.unthrottle()
            self.finish(rollback_files.NOT_STARTED)
            what, error = next(iter(failed.items()))
            raise CommandError(
                f"The throttle cannot be set on {what}, so nothing was moved: {sentence(error)}",
                exit_code(error),
            )

    async def submit(self, most: int) -> None:
        """Submit the next moves to the controller; each move that it refuses becomes a failed row.

        The rollback file lists a move before it is submitted, so that a process that resumes waits
        for the right moves.
        """
        asked, self.pending = self.pending[:most], self.pending[most:]
        self._save_accepted([*self.moved])
        await self._place(asked)
        answers = await self.admin.alter_reassignments({tp: self.changes[tp].after for tp in asked})
        for tp, error in answers.errors.items():
            self.fail(tp, error)
        if self.results:
            self._save_accepted(self.moved)
        await self._place(asked)

    def _save_accepted(self, moved: Iterable[TopicPartition]) -> None:
        accepted = {tp: self.changes[tp].after for tp in moved}
        if accepted != self.rollback.after:
            self.rollback = self.rollback._replace(after=accepted)
            rollback_files.write(self.rollback)

    def drop_pending(self) -> None:
        """Give up the moves that have not started."""
        self.results |= dict.fromkeys(self.pending, "not started")
        self.pending = []

    async def _place(self, asked: Iterable[TopicPartition]) -> None:
        """Tell brokers the log directory for a replica, both before the replica exists and once it
        does."""
        by_broker: dict[int, dict[TopicPartition, str]] = {}
        wanted = set(asked)
        for (tp, broker), path in self.directories.items():
            if tp in wanted and tp not in self.results:
                by_broker.setdefault(broker, {})[tp] = path
        for broker, paths in by_broker.items():
            answers = await self.admin.alter_replica_log_dirs(broker, paths)
            for tp, error in answers.errors.items():
                later = isinstance(error, KafkaError) and error.code in (
                    ErrorCode.REPLICA_NOT_AVAILABLE,
                    ErrorCode.NOT_LEADER_OR_FOLLOWER,
                )
                if not later:
                    self.context.failed(error, f"{partition_name(tp)} on broker {broker}")

    # watch

    async def watch(self) -> None:
        """Show progress until all moves have ended. Raises the error if the cluster stops
        answering."""
        answered = paced = time.monotonic()
        with LiveView(self.context, self.rollback.throttled.rate) as view:
            while True:
                began = time.monotonic()
                try:
                    seen = await poll(self.admin, self.moved, before=self.tracker.unfinished)
                except (ClientError, KafkaError) as error:
                    silent_s = time.monotonic() - answered
                    if silent_s > _LOST_S or (
                        isinstance(error, KafkaError) and not error.retriable
                    ):
                        raise
                    view.note = f"(no answer for {silent_s:.0f} s: {phrase(error)})"
                else:
                    answered = time.monotonic()
                    self.tracker.see(seen, answered)
                    if self.pending and len(seen.running) < self.batch:
                        # Submitting and recording are one step: an interruption waits for both.
                        with trio.CancelScope(shield=True):
                            await self.submit(self.batch - len(seen.running))
                        continue
                    view.note = f"({len(self.pending)} more to come)" if self.pending else ""
                    if not seen.running:
                        return
                    if self.pace is not None and answered - paced >= STEP_S:
                        paced = answered
                        await self._keep_pace(self.pace, view)
                view.update(self.tracker)
                await trio.sleep(max(_LOOK_S, time.monotonic() - began))

    async def _keep_pace(self, pace: Pace, view: LiveView) -> None:
        """Adjust the throttle to the cluster's other traffic. A failure is retried at the next
        step."""
        throttled = self.rollback.throttled
        if not throttled.brokers:
            return
        rows = [row for row in self.tracker.rows if not row.done]
        takers = {b for row in rows for b in row.adding}
        try:
            lacking, behind = await others(self.admin, self.moved, throttled.brokers)
        except (ClientError, KafkaError):
            return
        used = self.tracker.whole.rate / max(len(takers), 1)
        why = pace.step(used=used, lacking=lacking, behind=behind)
        if why is None:
            return
        if not await set_rates(self.admin, throttled.brokers, pace.rate):
            self.rollback = self.rollback._replace(throttled=throttled._replace(rate=pace.rate))
            rollback_files.write(self.rollback)
            view.say_rate(pace.rate, why)

    # end

    async def settle(self) -> None:
        """Find out the results of the moves, and elect the preferred replicas."""
        waiting = {tp: self.changes[tp].after for tp in self.moved}
        described = await until_brokers_know(self.admin, waiting)
        elect: list[TopicPartition] = []
        for tp, after in waiting.items():
            p = described.get(tp)
            if p is None:
                self.fail(
                    tp,
                    KafkaError(
                        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{partition_name(tp)} is gone"
                    ),
                )
            elif tuple(p.replicas) != tuple(after):
                now = ",".join(map(str, p.replicas))
                self.fail(tp, CommandError(f"not moved: its replicas are {now}"))
            else:
                self.results[tp] = "moved"
                if p.leader_id != after[0] and after[0] in p.isr:
                    elect.append(tp)
        if elect:
            answers = await self.admin.elect_leaders(r.ElectionType.PREFERRED, elect)
            for tp, error in answers.errors.items():
                needless = (
                    isinstance(error, KafkaError) and error.code == ErrorCode.ELECTION_NOT_NEEDED
                )
                if not needless:
                    self.results[tp] = f"moved; leader not elected ({phrase(error)})"

    async def take_back(self, tps: Iterable[TopicPartition] | None = None) -> None:
        """Cancel the moves that have not ended, and restore the old order of replicas."""
        running = await self.admin.list_reassignments(self.moved if tps is None else tps)
        answers = await self.admin.alter_reassignments(dict.fromkeys(running))
        for tp in running:
            error = answers.errors.get(tp)
            ended = (
                isinstance(error, KafkaError)
                and error.code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
            )
            if error is None:
                self.results[tp] = "cancelled"
            elif not ended:
                self.fail(tp, error)
        await restore_order(
            self.admin,
            {tp: self.changes[tp].before for tp in running if self.results.get(tp) == "cancelled"},
            running,
        )

    async def unthrottle(self) -> None:
        """Remove the throttles of this reassignment. Those that cannot be removed are reported, and
        stay in the rollback file."""
        throttled = self.rollback.throttled
        if not throttled.any:
            return
        failed = await remove_throttles(self.admin, throttled, _SETTLE_S)
        left = Throttled(
            throttled.rate,
            {b: keys for b, keys in throttled.brokers.items() if f"broker {b}" in failed},
            {t: keys for t, keys in throttled.topics.items() if f"topic {t}" in failed},
        )
        self.rollback = self.rollback._replace(throttled=left)
        rollback_files.write(self.rollback)
        if failed:
            error = next(iter(failed.values()))
            self.context.fail(error)
            assert self.context.session is not None
            self.context.session.reported.add(self.rollback.path)
            self.context.say(
                f"The throttle of {describe(left)} could not be removed ({phrase(error)}); "
                "`pk reassign throttle --remove` removes it later."
            )

    def finish(self, how: str) -> None:
        """Record the result in the rollback file."""
        self.rollback = self.rollback._replace(finished=how)
        rollback_files.write(self.rollback)
        rollback_files.delete_oldest(self.rollback.cluster_id)

    def show(self) -> None:
        """Show the result of each partition."""
        rows = result_rows(self.changes.values(), self.results, self.errors)
        self.context.show(listing(MovedRow, rows))

    def say_rollback(self) -> None:
        if any(result.startswith("moved") for result in self.results.values()):
            self.context.say(f"To undo it: pk reassign rollback {self.rollback.name}")


async def until_brokers_know(
    admin: Admin, wanted: Mapping[TopicPartition, Replicas], *, in_order: bool = True
) -> dict[TopicPartition, r.PartitionDescription]:
    """The partitions of these topics, once the brokers report the expected replicas, in that order
    or in any, or after a timeout."""
    found: dict[TopicPartition, r.PartitionDescription] = {}

    async def settled() -> bool:
        nonlocal found
        answers = await admin.describe_topics({tp.topic for tp in wanted})
        found = {
            TopicPartition(t.name, p.partition): p
            for t in answers.ok.values()
            for p in t.partitions
        }
        pairs = [(tuple(found[tp].replicas), tuple(a)) for tp, a in wanted.items() if tp in found]
        return all(
            ours == theirs if in_order else set(ours) == set(theirs) for ours, theirs in pairs
        )

    if wanted:
        await poll_until(settled, every_s=_SETTLE_RETRY_S, within_s=_SETTLE_S)
    return found


async def restore_order(
    admin: Admin,
    before: Mapping[TopicPartition, Replicas],
    cancelled: Mapping[TopicPartition, r.Reassignment],
) -> None:
    """Restore the order of replicas after a cancelled move, if only the order differs, so that
    nothing is copied.

    Apache's controller sorts the replicas that were to be removed, and restores them in that order.
    The broker that is asked may not know yet that the move has ended, and would then report the
    added replicas too.
    """
    old = {tp: tuple(order) for tp, order in before.items() if _goes_back_to(order, cancelled[tp])}
    described = await until_brokers_know(admin, old, in_order=False)
    orders = {
        tp: order
        for tp, order in old.items()
        if tp in described
        and set(described[tp].replicas) == set(order)
        and tuple(described[tp].replicas) != order
    }
    if orders:
        await admin.alter_reassignments(orders)
        await until_brokers_know(admin, orders)


def _goes_back_to(order: Replicas, move: r.Reassignment) -> bool:
    return set(order) == set(move.replicas) - set(move.adding_replicas)


async def start(
    context: Context,
    admin: Admin,
    live: Live,
    changes: Sequence[Change],
    options: RunOptions,
    now_ms: int,
) -> int:
    """Carry out a plan and watch it to its end, or handle an interruption. Returns the exit
    code."""
    rollback = rollback_files.Rollback(
        rollback_files.new_path(now_ms),
        live.cluster_id,
        now_ms,
        {c.tp: c.before for c in changes},
        {c.tp: c.after for c in changes},
    )
    moving = Moving(context, admin, changes, rollback, options)
    with listen_for_interrupts() as interrupts:
        # Setting, recording and submitting are one step: an interruption waits for all.
        with trio.CancelScope(shield=True):
            rollback_files.write(rollback)
            if options.throttle.rate is not None:
                await moving.throttle(options.throttle.rate, live)
            await moving.submit(moving.batch)
            if not moving.moved and not moving.pending:
                await moving.unthrottle()
                moving.finish(rollback_files.REFUSED)
                moving.show()
                context.say(sentence(context.failures[0]))
                return Exit.OK
        if options.detach:
            detach(moving)
            moving.results |= dict.fromkeys(moving.moved, "moving")
            moving.show()
            return Exit.OK
        return await watch_until_done(moving, interrupts)


async def resume(
    context: Context, admin: Admin, live: Live, rollback: rollback_files.Rollback, *, auto: bool
) -> int:
    """Watch a reassignment that an earlier command started, and remove its throttles."""
    changes = [
        Change(tp, rollback.before.get(tp, ()), after, live.state.sizes.get(tp))
        for tp, after in sorted(rollback.after.items())
    ]
    moving = Moving(context, admin, changes, rollback, RunOptions(Throttle(auto=auto)))
    moving.pending = []  # all of it was submitted
    with listen_for_interrupts() as interrupts:
        return await watch_until_done(moving, interrupts)


async def watch_until_done(moving: Moving, interrupts: Interrupts) -> int:
    """Watch, and remove the throttles at the end. Asks what to do after an interruption. Returns
    the exit code."""
    try:
        while await interrupts.or_until(moving.watch):
            code = await _interrupted(moving, interrupts)
            if code is not None:
                return code
    except trio.Cancelled:
        with trio.CancelScope(shield=True):
            await _interrupted(moving, interrupts, can_continue=False)
        raise
    except BaseException:
        _say_not_begun(moving)
        _say_left(moving)
        raise
    with trio.CancelScope(shield=True):
        await moving.unthrottle()
        await moving.settle()
        moving.finish(rollback_files.DONE)
    moving.show()
    _say_failures(moving)
    _say_total(moving)
    moving.say_rollback()
    return Exit.OK


def _say_failures(moving: Moving) -> None:
    if moving.errors:
        names = [partition_name(tp) for tp in moving.errors]
        moving.context.say(f"{join(names)}: {sentence(moving.context.failures[0])}")


def _choices(moving: Moving, *, can_continue: bool) -> list[str]:
    whole = moving.tracker.whole_or_none
    rest = f"; {len(moving.pending):,} more have not started" if moving.pending else ""
    left = whole.left if whole else len(moving.moved)
    stays = ", with the throttle" if moving.rollback.throttled.any else ""
    return [
        f"{count(left, 'partition')} {'is' if left == 1 else 'are'} still moving{rest}.",
        f"  l      leave them running{stays}",
        "  d      detach: a background process cleans up at the end",
        "  c      cancel the moves that remain",
        *(["  Enter  continue watching"] if can_continue else []),
    ]


def _is_closed(context: Context) -> bool:
    """Whether the terminal of this command is closed."""
    return context.streams.in_terminal and not os.isatty(context.streams.stdin.fileno())


async def _interrupted(
    moving: Moving, interrupts: Interrupts, *, can_continue: bool = True
) -> int | None:
    """Ask what to do after an interruption, and do it. Returns None to continue watching. If the
    terminal is closed, leave the rest to a process that outlives it."""
    context = moving.context
    answer: str = "l"
    if context.streams.in_terminal and context.streams.err_terminal and not _is_closed(context):
        said: list[str] = []

        async def ask() -> None:
            said.append((await context.ask("What now? ")).strip().lower()[:1])

        context.say()
        for line in _choices(moving, can_continue=can_continue):
            context.say(line)
        if await interrupts.or_until(ask):
            context.say()
        elif can_continue or said[0] in ("c", "d"):
            answer = said[0]
    if _is_closed(context):
        answer = "d"  # so that the throttle is removed
    if answer in ("c", "d", "l"):
        _say_not_begun(moving)
    if answer == "c":
        with trio.CancelScope(shield=True):
            await moving.take_back()
            await moving.unthrottle()
            await moving.settle()
            moving.finish(rollback_files.CANCELLED)
        moving.show()
        _say_total(moving)
        moving.say_rollback()  # for the moves that have ended
        return Exit.INTERRUPTED
    if answer == "d":
        detach(moving)
        return Exit.INTERRUPTED
    if answer == "l":
        _say_left(moving)
        return Exit.INTERRUPTED
    return None


def _say_total(moving: Moving) -> None:
    moved = sum(result.startswith("moved") for result in moving.results.values())
    of = len(moving.results)
    some = f"{moved:,} of " if moved < of else ""
    moving.context.say(f"{some}{count(of, 'partition')} reassigned.")


def _say_not_begun(moving: Moving) -> None:
    if moving.pending:
        moving.context.say(
            f"{count(len(moving.pending), 'partition')} had not started and are unchanged; run the "
            "command again to move them."
        )
        moving.drop_pending()


def _say_left(moving: Moving) -> None:
    context = moving.context
    context.say(
        "The moves continue. `pk reassign status -w` shows them, `pk reassign cancel --all` "
        "cancels them."
    )
    if moving.rollback.throttled.any:
        context.say(
            f"The throttle of {describe(moving.rollback.throttled)} stays; "
            "`pk reassign apply --resume` watches and removes it at the end."
        )


def detach(moving: Moving) -> None:
    """Leave the rest to a process of its own, which outlives this one and its terminal."""
    context = moving.context
    settings = context.settings
    words = [sys.executable, "-m", "pk.cli.main", "reassign", "apply", moving.rollback.path]
    words += ["--resume", "-y", "-b", settings.bootstrap]
    if moving.pace is not None:
        words += ["--throttle", AUTO]
    if settings.profile is not None:
        words += ["--profile", settings.profile.name]
    if config_file := context.connection.config_file:
        words += ["--config-file", os.path.abspath(config_file)]
    for key, value in settings.given.items():
        words += ["-X", f"{key}={value}"]
    log_path = os.path.join(make_user_dir("state"), "reassign", f"{moving.rollback.name}.log")
    with open(log_path, "ab") as log:
        child = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    context.say(
        f"Process {child.pid} watches it and cleans up at the end; its log is {log_path}. "
        "`pk reassign status -w` shows the progress."
    )
