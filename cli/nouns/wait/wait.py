"""`pk wait`: returns once a condition holds, or with 124 on timeout. It replaces the sleep loops of
runbooks.

Kafka does not announce a new topic, an ISR change or an empty group, so pk polls: often at first,
then once a second. What is missing is reported on standard error when it changes. A broker that
does not answer is not a failure, but one more thing to wait for. A problem that waiting cannot fix
(no authorization, a wrong option) is a failure.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress

import trio

from pk.cli.cluster.groups import EMPTY_STATES, is_absent, member_name, offset_rows
from pk.cli.cluster.topics import is_unknown
from pk.cli.exits import CommandError, Exit, Unusable
from pk.cli.nouns.wait.options import WaitForLag, WaitForTopics
from pk.cli.phrases import count, join, partition_name
from pk.cli.positions.times import show_span
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import sentence
from pk.cli.runtime.poll import poll_until
from pk.core.durations import Duration
from pk.core.errors import KafkaError
from pk.core.values import TopicPartition
from pk.net.client.admin import Admin
from pk.net.client.errors import ClientError, ConfigError, NoBrokers

_FIRST_S = 0.1
_MOST_S = 1.0
_ATTEMPT_MS = 2000
"""How long one check may take; a broker that hangs is asked again."""

_TELL_S = 5.0
"""How often, at most, what is missing is reported to a file or a pipe."""

_CONDITION = re.compile(r"(<=?|≤)?\s*(\d+)")

Check = Callable[[], Awaitable[str | None]]
"""Returns what is missing; None if the condition holds."""


class _Reporter:
    """Reports on standard error what is missing: on a terminal, as a line that is overwritten, or
    else as lines."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._over = context.streams.err_redraws
        self._last: str | None = None
        self._at = float("-inf")

    def report(self, missing: str) -> None:
        now = trio.current_time()
        if missing == self._last or (not self._over and now - self._at < _TELL_S):
            return
        self._last, self._at = missing, now
        text = f"Waiting: {missing}."
        if self._over:
            self._context.show_status(text)
        else:
            self._context.say(text)


def _limit_attempts(context: Context) -> None:
    """Limit the duration of a single check, unless the command line sets it."""
    settings = context.settings
    given = {"default.api.timeout.ms": str(_ATTEMPT_MS), **settings.given}
    context.use(settings._replace(given=given))


async def _until(context: Context, within: Duration, check: Check, done: str) -> None:
    """Return when `check` finds nothing missing. Raises CommandError (124) on timeout."""
    began = trio.current_time()
    missing: str | None = "no answer yet"
    reporter = _Reporter(context)

    async def held() -> bool:
        nonlocal missing
        missing = await _attempt(check)
        if missing is not None and within.s:
            reporter.report(missing)
        return missing is None

    try:
        in_time = await poll_until(held, every_s=_FIRST_S, most_s=_MOST_S, within_s=within.s)
    finally:
        context.clear_status()
    span = show_span((trio.current_time() - began) * 1000)
    if not in_time:
        when = f"Timed out after {span}" if within.s else "Not now"
        raise CommandError(f"{when}: {missing}.", Exit.TIMED_OUT)
    context.say(f"{done}, after {span}.")


async def _attempt(check: Check) -> str | None:
    """What is missing, which may also be the answer of the cluster."""
    try:
        return await check()
    except ConfigError:
        raise
    except NoBrokers as error:
        tried = "; ".join(f"{f.address}: {f.reason}" for f in error.failures)
        return f"no broker answers ({tried})" if tried else "no broker answers"
    except ClientError as error:
        return sentence(error).rstrip(".")
    except KafkaError as error:
        if not error.retriable:
            raise
        return sentence(error).rstrip(".")


def _some(items: Sequence[str]) -> str:
    return join(items, 3)


# A topic.


async def topic(context: Context, options: WaitForTopics) -> None:
    """Run `pk wait topic`."""
    if options.gone and options.partitions is not None:
        raise Unusable("--gone and --partitions cannot be combined.")
    _limit_attempts(context)
    admin = await context.admin()
    names = list(dict.fromkeys(options.topic))
    check = _gone if options.gone else _there
    done = (
        f"{join(names)} {'is' if len(names) == 1 else 'are'} {'gone' if options.gone else 'there'}"
    )
    await _until(
        context, options.timeout, lambda: check(admin, names, options.partitions or 1), done
    )


async def _there(admin: Admin, names: Sequence[str], partitions: int) -> str | None:
    answers = await admin.describe_topics(names)
    missing: list[str] = []
    for name in names:
        if is_unknown(answers.errors.get(name)):
            missing.append(f"topic {name} does not exist yet")
            continue
        found = answers.value(name).partitions
        if len(found) < partitions:
            missing.append(f"{name} has {len(found)} of {partitions} partitions")
        elif headless := [p for p in found if p.leader_id < 0]:
            missing.append(f"{name} has no leader for {len(headless)} of {len(found)} partitions")
    return _some(missing) if missing else None


async def _gone(admin: Admin, names: Sequence[str], _: int) -> str | None:
    listed = {t.name for t in await admin.list_topics()}
    left = [name for name in names if name in listed]
    return f"{_some(left)} {'is' if len(left) == 1 else 'are'} still there" if left else None


# In-sync replicas.


async def isr(context: Context, topic: Sequence[str], within: Duration, *, every: bool) -> None:
    """Run `pk wait isr`."""
    if every and topic:
        raise Unusable("Give topics or --all, not both.")
    _limit_attempts(context)
    admin = await context.admin()
    names = list(dict.fromkeys(topic)) or None
    what = join(names) if names else "every topic"
    done = f"Every replica of {what} is in sync"
    await _until(context, within, lambda: _out_of_sync(admin, names), done)


async def _out_of_sync(admin: Admin, names: Sequence[str] | None) -> str | None:
    answers = await admin.describe_topics(names)
    total = 0
    missing: list[str] = []
    for name in sorted(answers):
        if is_unknown(answers.errors.get(name)):
            if names is None:  # deleted a moment ago
                continue
            return f"topic {name} does not exist yet"
        found = answers.value(name).partitions
        total += len(found)
        for p in found:
            if p.leader_id < 0:
                missing.append(f"{name}/{p.partition} (no leader)")
            elif p.under_replicated:
                missing.append(f"{name}/{p.partition} ({len(p.isr)} of {len(p.replicas)} in sync)")
    if not missing:
        return None
    return f"{len(missing)} of {count(total, 'partition')} lack replicas: {_some(missing)}"


# Lag.


async def lag(context: Context, options: WaitForLag) -> None:
    """Run `pk wait lag`."""
    most = _most(options.condition, options.max)
    most_ms = None if options.max_time is None else options.max_time.ms
    if most is None and most_ms is None:
        most = 0
    _limit_attempts(context)
    admin = await context.admin()
    bounds = [] if most is None else [f"{most:,} records"]
    bounds += [] if most_ms is None else [show_span(most_ms)]
    await _until(
        context,
        options.timeout,
        lambda: _behind(context, admin, options, most, most_ms),
        f"Group {options.group} is no more than {join(bounds)} behind",
    )


def _most(condition: str | None, most: int | None) -> int | None:
    """Parse the maximum lag from `<=100` or --max 100; None if neither is given. Raises
    Unusable."""
    if condition is None:
        if most is not None and most < 0:
            raise Unusable(f"--max must be 0 or more, not {most}.")
        return most
    if most is not None:
        raise Unusable("Give the lag as '<=100' or as --max 100, not both.")
    found = _CONDITION.fullmatch(condition.strip())
    if found is None:
        raise Unusable(f"The lag must be given as '<=100' or --max 100, not {condition!r}.")
    allowed = int(found[2]) - (found[1] == "<")
    if allowed < 0:
        raise Unusable("A lag cannot be below 0.")
    return allowed


class _Quiet(Context):
    """Collects the failures of one check, which are not failures of the command, without reporting
    them."""

    def __init__(self, outer: Context) -> None:
        super().__init__(outer._values, outer.path, outer.streams, outer.session)
        self.use(outer.settings)

    def say(self, text: str = "") -> None:
        return


async def _behind(
    context: Context, admin: Admin, options: WaitForLag, most: int | None, most_ms: int | None
) -> str | None:
    name = options.group
    answers = await admin.describe_groups([name])
    if is_absent(answers, name):
        return f"group {name} does not exist yet"
    group = answers.value(name)
    aside = _Quiet(context)
    found = await offset_rows(aside, admin, [group], options.topics, times=most_ms is not None)
    rows = found[name]
    for error in aside.failures:
        raise error
    if not rows:
        return f"group {name} has no committed offsets yet"
    open_ = [r for r in rows if r["lag"] is None and r["end"] != r["start"]]
    if open_:
        where = _some([f"{row['topic']}/{row['partition']}" for row in open_])
        return f"group {name} has no committed offsets for {where}"
    total = sum(row["lag"] or 0 for row in rows)
    late = max((row["time_lag_ms"] or 0 for row in rows), default=0)
    said = f"group {name} is {count(total, 'record')} behind"
    if most is not None and total > most:
        return f"{said}, at most {most:,} allowed"
    if most_ms is None:
        return None
    if late > most_ms:
        return f"{said}, by {show_span(late)}, at most {show_span(most_ms)} allowed"
    if unknown := [row for row in rows if row["lag"] and row["time_lag_ms"] is None]:
        where = _some([f"{row['topic']}/{row['partition']}" for row in unknown])
        return f"{said}, by an unknown time in {where}, at most {show_span(most_ms)} allowed"
    return None


# An empty group.


async def group_empty(context: Context, group: Sequence[str], within: Duration) -> None:
    """Run `pk wait group-empty`."""
    _limit_attempts(context)
    admin = await context.admin()
    names = list(dict.fromkeys(group))
    done = f"{join(names)} {'has' if len(names) == 1 else 'have'} no members"
    await _until(context, within, lambda: _with_members(admin, names), done)


async def _with_members(admin: Admin, names: Sequence[str]) -> str | None:
    answers = await admin.describe_groups(names)
    left: list[str] = []
    for name in names:
        if is_absent(answers, name):
            continue
        group = answers.value(name)
        if group.state not in EMPTY_STATES:
            who = _some([member_name(m) for m in group.members]) or "members that are joining"
            left.append(f"{name} is {group.state} with {who}")
    return "; ".join(left[:3]) or None


# Reassignments.


async def reassign(context: Context, topic: Sequence[str], within: Duration) -> None:
    """Run `pk wait reassign`."""
    _limit_attempts(context)
    admin = await context.admin()
    names = list(dict.fromkeys(topic))
    what = f" of {join(names)}" if names else ""
    done = f"No partition{what} is being reassigned"
    await _until(context, within, lambda: _moving(admin, names), done)


async def _moving(admin: Admin, names: Sequence[str]) -> str | None:
    moving = [
        tp for tp in sorted(await admin.list_reassignments()) if not names or tp.topic in names
    ]
    if not moving:
        return None
    number = count(len(moving), "partition")
    return f"{number} {'is' if len(moving) == 1 else 'are'} being reassigned: {_places(moving)}"


def _places(tps: Iterable[TopicPartition]) -> str:
    return _some([partition_name(tp) for tp in tps])


# Brokers.


async def broker(context: Context, ids: Sequence[str], num: int | None, within: Duration) -> None:
    """Run `pk wait broker`."""
    if ids and num is not None:
        raise Unusable("Give broker ids, or their number with -n, not both.")
    wanted = _ids(ids)
    _limit_attempts(context)
    admin = await context.admin()
    done = (
        (
            f"{'Broker' if len(wanted) == 1 else 'Brokers'} {join(list(map(str, wanted)))} "
            f"answer{'s'[: len(wanted) == 1]}"
        )
        if wanted
        else f"{count(num, 'broker answers', 'brokers answer')}"
        if num is not None
        else "The cluster answers"
    )
    await _until(context, within, lambda: _without_answer(admin, wanted, num or 1), done)


def _ids(words: Iterable[str]) -> list[int]:
    found: list[int] = []
    for word in words:
        if not word.isascii() or not word.isdigit():
            raise Unusable(f"A broker must be given by its id, not {word!r}.")
        found.append(int(word))
    return list(dict.fromkeys(found))


async def _without_answer(admin: Admin, wanted: Sequence[int], number: int) -> str | None:
    """The brokers that do not answer. Asks each broker itself, since a dead broker stays listed for
    a while."""
    there = {b.node_id: b for b in (await admin.describe_cluster()).brokers if not b.fenced}
    asked = [b for b in wanted if b in there] if wanted else sorted(there)
    up: set[int] = set()

    async def ask(node_id: int) -> None:
        with suppress(ClientError, KafkaError):
            await admin.describe_features(node_id)
            up.add(node_id)

    async with trio.open_nursery() as nursery:
        for node_id in asked:
            nursery.start_soon(ask, node_id)
    if wanted:
        missing = [str(b) for b in wanted if b not in up]
        if not missing:
            return None
        return (
            f"{'broker' if len(missing) == 1 else 'brokers'} {_some(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not up"
        )
    return None if len(up) >= number else f"{len(up)} of {count(number, 'broker')} up"
