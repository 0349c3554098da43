"""`pk groups watch`: records rebalances.

Kafka has no event for a rebalance, so the group is described repeatedly, and the descriptions are
compared. When a group is settled (Stable or Empty), its members and their partitions are the
baseline. The group is paused, to within one interval, from the first description in another state
to the next settled one. The difference between two baselines is the effect of the rebalance. A
static member that returns with a new member id is still the same member.
"""

from collections.abc import Callable, Iterable, Mapping

import trio

from pk.cli.cluster.groups import group_names as all_names
from pk.cli.cluster.groups import is_absent, unknown_group, wanted_group
from pk.cli.exits import Exit
from pk.cli.nouns.groups.members import partition_names
from pk.cli.nouns.groups.options import WatchGroup
from pk.cli.nouns.groups.rows import RebalanceRow, short_assignment
from pk.cli.output.formats import Row
from pk.cli.output.rows import columns
from pk.cli.phrases import count
from pk.cli.positions.resolve import now_ms
from pk.cli.positions.times import show_span, show_time
from pk.cli.runtime.context import Context
from pk.cli.runtime.event_table import Cell, EventTable
from pk.cli.runtime.poll import until_answered
from pk.cli.terminal.signals import listen_for_interrupts
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin

_SETTLED = frozenset(("Stable", "Empty", "Dead"))


def _change(row: Row) -> str:
    """The change in words: `+orders:0,1 -orders:2`, or the total number of partitions that
    moved."""
    if row["moved"] is not None:
        return f"{count(row['moved'], 'partition')} moved"
    gained = f"+{short_assignment(row['gained'])}" if row["gained"] else ""
    lost = f"-{short_assignment(row['lost'])}" if row["lost"] else ""
    return " ".join(filter(None, (gained, lost)))


def _dash(value: object) -> str:
    return "" if value is None else str(value)


def _pause(row: Row) -> str:
    return "" if row["pause_ms"] is None else show_span(row["pause_ms"])


def _text_of(key: str) -> Callable[[Row], str]:
    """Show a field as it is, and nothing for a missing one."""

    def show(row: Row) -> str:
        return _dash(row[key])

    return show


def _clock(row: Row) -> str:
    return str(row["time"])[11:23]


_CELLS = (
    Cell("TIME", 12, _clock),
    Cell("EVENT", 9, _text_of("event")),
    Cell("CLIENT", 18, _text_of("client_id")),
    Cell("PARTS", 5, _text_of("partitions"), right=True),
    Cell("PAUSE", 7, _pause, right=True),
    Cell("CHANGE", 0, _change),
)


class Recorder:
    """Records the changes between descriptions of a group. Times are arguments, in epoch
    milliseconds."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.rebalances = 0
        self.paused_ms = 0
        self.moved = 0
        self._members: dict[str, r.MemberDescription] | None = None
        self._owned: dict[str, frozenset[TopicPartition]] = {}
        """Member name → the partitions that it owned when the group was last settled."""

        self._was_settled = False

        self._since: int | None = None
        """When the group was first seen in an unsettled state; None while it is settled."""

        self._epoch: int | None = None

    def see(self, seen: r.GroupDescription | None, now: int) -> list[RebalanceRow]:
        """Process the next description (None: the group does not exist). Returns the events since
        the previous one."""
        members = {_name(m): m for m in seen.members} if seen else {}
        state = seen.state if seen else "Dead"
        self._epoch = seen.group_epoch if seen and seen.group_epoch >= 0 else None
        if self._members is None:
            rows = [self._row(now, "now", m, m.assignment) for m in members.values()]
            rows = rows or [self._row(now, state.lower())]
        else:
            rows = self._joins_and_leaves(members, now)
        self._members = members
        if state not in _SETTLED:
            if self._since is None:
                self._since = now
                rows.append(self._row(now, "unsettled"))
            return rows
        owned = {name: frozenset(m.assignment) for name, m in members.items()}
        changed = self._was_settled and owned != self._owned
        if self._since is not None or changed:
            rows += self._settled(members, owned, now)
        self._owned, self._was_settled = owned, True
        self._since = None
        return rows

    def _joins_and_leaves(
        self, members: Mapping[str, r.MemberDescription], now: int
    ) -> list[RebalanceRow]:
        before = self._members or {}
        rows: list[RebalanceRow] = []
        for name in sorted(before.keys() - members.keys()):
            row = self._row(now, "left", before[name])
            row["lost"] = partition_names(self._owned.get(name, ()))
            rows.append(row)
        for name in sorted(members.keys() - before.keys()):
            rows.append(self._row(now, "joined", members[name]))
        for name in sorted(members.keys() & before.keys()):
            if members[name].member_id != before[name].member_id:
                rows.append(self._row(now, "returned", members[name]))
        return rows

    def _settled(
        self,
        members: Mapping[str, r.MemberDescription],
        owned: Mapping[str, frozenset[TopicPartition]],
        now: int,
    ) -> list[RebalanceRow]:
        """The events at the end of a rebalance: a row for each member whose partitions changed, and
        one for the group."""
        rows: list[RebalanceRow] = []
        for name in sorted(owned, key=lambda name: (members[name].client_id, name)):
            had = self._owned.get(name, frozenset())
            if had != owned[name]:
                row = self._row(now, "assigned", members[name], owned[name])
                row["gained"] = partition_names(owned[name] - had)
                row["lost"] = partition_names(had - owned[name])
                rows.append(row)
        was = {tp: name for name, tps in self._owned.items() for tp in tps}
        moved = sum(was.get(tp) not in (None, name) for name, tps in owned.items() for tp in tps)
        whole = self._row(now, "stable" if members else "empty")
        whole["partitions"] = sum(map(len, owned.values()))
        whole["moved"] = moved
        if self._since is not None:
            whole["pause_ms"] = now - self._since
            self.paused_ms += now - self._since
        self.rebalances += 1
        self.moved += moved
        return [*rows, whole]

    def _row(
        self,
        now: int,
        event: str,
        member: r.MemberDescription | None = None,
        owned: Iterable[TopicPartition] | None = None,
    ) -> RebalanceRow:
        tps = None if owned is None else partition_names(owned)
        return {
            "time": show_time(now),
            "event": event,
            "group": self.group,
            "epoch": self._epoch,
            "client_id": member.client_id if member else None,
            "member_id": member.member_id if member else None,
            "instance_id": member.instance_id if member else None,
            "host": member.client_host.lstrip("/") if member else None,
            "partitions": None if tps is None else len(tps),
            "gained": tps if event == "now" else None,
            "lost": None,
            "assignment": tps,
            "moved": None,
            "pause_ms": None,
        }

    @property
    def summary(self) -> str:
        """A sentence about all recorded events."""
        return (
            f"{count(self.rebalances, 'rebalance')}, not stable for {show_span(self.paused_ms)} "
            f"in total, {count(self.moved, 'partition')} moved."
        )


def _name(member: r.MemberDescription) -> str:
    return member.instance_id if member.instance_id is not None else member.member_id


def _style(row: Row) -> str | None:
    if row["event"] in ("unsettled", "left"):
        return "yellow"
    return "green" if row["event"] == "stable" else None


async def watch(context: Context, options: WatchGroup) -> int:
    """Run `pk groups watch`."""
    name = wanted_group((*options.group, *options.groups), "watch")
    admin = await context.admin()
    answers = await admin.describe_groups([name])
    if is_absent(answers, name):
        raise unknown_group(name, await all_names(context, admin))
    first = answers.value(name)
    recorder = Recorder(name)
    table = EventTable(context, columns(RebalanceRow), _CELLS, _style)
    table.add(recorder.see(first, now_ms()))
    with listen_for_interrupts() as interrupts:
        context.say(f"Watching group {name}; Ctrl-C ends.")
        interrupted = await interrupts.or_until(
            lambda: _follow(context, admin, recorder, table, options)
        )
    context.say(f"{name}: {recorder.summary}")
    return Exit.INTERRUPTED if interrupted else Exit.OK


async def _follow(
    context: Context, admin: Admin, recorder: Recorder, table: EventTable, options: WatchGroup
) -> None:
    """Describe the group repeatedly, until there have been -n rebalances."""

    async def described() -> r.GroupDescription | None:
        answers = await admin.describe_groups([recorder.group])
        return None if is_absent(answers, recorder.group) else answers.value(recorder.group)

    wanted = options.num
    while wanted is None or recorder.rebalances < wanted:
        await trio.sleep(options.interval.s)
        seen = await until_answered(context, described)
        table.add(recorder.see(seen, now_ms()))
