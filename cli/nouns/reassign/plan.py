"""Plans the assignment of replicas to brokers, with as few moves as possible. Pure.

First of all, a replica that may stay stays, in its position in the list. A replica that must move
goes to a broker that keeps its partition's replicas in different racks; among those, to the one
with the fewest replicas of its topic, then with the fewest replicas, then with the fewest bytes.
Balancing moves one replica at a time from a broker that holds two more than another, directly, or
through brokers in between if no direct move exists (a broker holds at most one replica of a
partition), until no two differ by more than one.

Leaders come last, and move no bytes: among the partitions whose replicas change anyway (or among
all, if leaders must be balanced), another replica becomes the preferred one if that makes the
numbers of two brokers more equal. The replica order of a partition that does not change is never
touched.

Explicit assignments (`--set`, `--from-json`, a rollback) are followed exactly.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from pk.cli.cluster.replicas import Replicas
from pk.cli.phrases import partition_name
from pk.core.values import TopicPartition

Racks = Mapping[int, str | None]

_EVEN_ENOUGH = 0.1
"""Bytes are balanced if the difference between the fullest and the emptiest broker is less than
this fraction of the mean."""


class PlanError(Exception):
    """The goal cannot be reached; the message is a sentence."""


class State(NamedTuple):
    """The state of the cluster for planning."""

    racks: Racks
    """The brokers that can take replicas (alive, not fenced), and their racks."""

    replicas: Mapping[TopicPartition, Replicas]
    """All partitions of the cluster; one that is being moved has its new replicas here."""

    sizes: Mapping[TopicPartition, int] = {}
    """The bytes of one replica, if known."""

    in_sync: Mapping[TopicPartition, Replicas] = {}


class Intent(NamedTuple):
    """The goal of a plan."""

    to: tuple[int, ...] = ()
    drain: tuple[int, ...] = ()
    add: tuple[int, ...] = ()
    replication_factor: int | None = None
    balance: str | None = None
    exact: Mapping[TopicPartition, Replicas] = {}
    rack_aware: bool = True


class Loads:
    """The load of every broker, updated while a plan is made."""

    def __init__(self, state: State) -> None:
        self.sizes = state.sizes
        self.replicas: dict[int, int] = {}
        self.leaders: dict[int, int] = {}
        self.bytes: dict[int, int] = {}
        self.of_topic: dict[tuple[str, int], int] = {}
        for tp, replicas in state.replicas.items():
            self.put(tp, replicas, 1)

    def put(self, tp: TopicPartition, replicas: Replicas, by: int) -> None:
        """Add (1) or remove (-1) a partition."""
        for broker in replicas:
            self.replicas[broker] = self.replicas.get(broker, 0) + by
            self.bytes[broker] = self.bytes.get(broker, 0) + by * self.sizes.get(tp, 0)
            key = (tp.topic, broker)
            self.of_topic[key] = self.of_topic.get(key, 0) + by
        if replicas:
            self.leaders[replicas[0]] = self.leaders.get(replicas[0], 0) + by


class _Planner:
    """A plan in progress."""

    def __init__(
        self, state: State, intent: Intent, selected: Collection[TopicPartition] | None
    ) -> None:
        self.intent = intent
        self.state = state
        self.selected = sorted(state.replicas if selected is None else selected)
        self.now: dict[TopicPartition, Replicas] = dict(state.replicas)
        self.loads = Loads(state)
        self.targets = self._targets()
        racks = {b: state.racks.get(b) for b in self.targets}
        # If any broker reports no rack, racks are ignored.
        known = all(racks.values()) and intent.rack_aware
        self.racks: dict[int, str | None] = dict(state.racks) if known else {}

    def _targets(self) -> list[int]:
        """The brokers that may receive replicas. Raises PlanError."""
        live = self.state.racks
        for broker in (*self.intent.to, *self.intent.add):
            if broker not in live:
                names = ", ".join(map(str, sorted(live)))
                raise PlanError(f"Broker {broker} is missing or fenced; available: {names}.")
        known = {b for replicas in self.state.replicas.values() for b in replicas} | set(live)
        for broker in self.intent.drain:
            if broker not in known:
                raise PlanError(f"Broker {broker} does not exist, and holds no replicas.")
        if both := set(self.intent.drain) & {*self.intent.to, *self.intent.add}:
            raise PlanError(f"Broker {min(both)} cannot be filled and drained at the same time.")
        wanted = self.intent.to or sorted(live)
        return [broker for broker in wanted if broker not in self.intent.drain]

    def set(self, tp: TopicPartition, replicas: Replicas) -> None:
        self.loads.put(tp, self.now[tp], -1)
        self.now[tp] = replicas
        self.loads.put(tp, replicas, 1)

    def may_stay(self, broker: int) -> bool:
        if self.intent.to:
            return broker in self.intent.to
        return broker not in self.intent.drain

    # single partitions

    def repair(self, tp: TopicPartition) -> None:
        """Give a partition its target number of replicas, on brokers that may hold them. Raises
        PlanError."""
        before = self.now[tp]
        wanted = self.intent.replication_factor or len(before)
        places: list[int | None] = [b if self.may_stay(b) else None for b in before]
        kept = [b for b in places if b is not None]
        for victim in self._surplus(tp, kept, wanted):
            places.remove(victim)
        empty = [i for i, b in enumerate(places) if b is None]
        while len(places) > wanted:
            del places[empty.pop()]
        while len(places) < wanted:
            empty.append(len(places))
            places.append(None)
        for i in empty:
            places[i] = self._choose(tp, [b for b in places if b is not None], wanted)
        after = tuple(b for b in places if b is not None)
        if after == before:
            return
        if before[0] not in after:
            after = self._led_by(after, min(after, key=lambda b: (self._leads(b), after.index(b))))
        self.set(tp, after)

    def _surplus(self, tp: TopicPartition, kept: list[int], wanted: int) -> Iterator[int]:
        """The replicas to remove: dead ones, those out of sync, those that share a rack, and those
        on full brokers."""
        left = list(kept)
        in_sync = self.state.in_sync.get(tp, tuple(kept))
        while len(left) > wanted:
            racks = [self.racks.get(b) for b in left]

            def burden(b: int, racks: list[str | None] = racks) -> tuple[object, ...]:
                rack = self.racks.get(b)
                return (
                    b not in self.state.racks,
                    b not in in_sync,
                    b != kept[0],
                    rack is not None and racks.count(rack),
                    self.loads.of_topic.get((tp.topic, b), 0),
                    self.loads.replicas.get(b, 0),
                    kept.index(b),
                )

            victim = max(left, key=burden)
            left.remove(victim)
            yield victim

    def _choose(self, tp: TopicPartition, has: list[int], wanted: int) -> int:
        """The broker for another replica. Raises PlanError if there is none."""
        free = [b for b in self.targets if b not in has]
        if not free:
            able = sorted({*has, *self.targets})
            if not able:
                raise PlanError(
                    f"{partition_name(tp)}: no broker is left that could hold a replica; "
                    "`pk brokers list` shows which are up."
                )
            raise PlanError(
                f"{partition_name(tp)} needs {wanted} replicas, and only these brokers can hold "
                f"one: {', '.join(map(str, able))}. Add brokers with --to or --add, or use fewer "
                f"replicas with --rf {len(able)}."
            )
        racks = [self.racks.get(b) for b in has]
        return min(
            free,
            key=lambda b: (
                racks.count(self.racks.get(b)) if self.racks else 0,
                self.loads.of_topic.get((tp.topic, b), 0),
                self.loads.replicas.get(b, 0),
                self.loads.bytes.get(b, 0),
                b,
            ),
        )

    def _leads(self, broker: int) -> int:
        return self.loads.leaders.get(broker, 0)

    @staticmethod
    def _led_by(replicas: Replicas, leader: int) -> Replicas:
        return (leader, *(b for b in replicas if b != leader))

    # balance

    def balance_replicas(self, sinks: Collection[int] | None) -> None:
        """Move replicas until no two targets differ by more than one. If `sinks` is given, only
        these get replicas, and only up to their fair share."""
        held: dict[int, int] = dict.fromkeys(self.targets, 0)
        on: dict[int, list[TopicPartition]] = {b: [] for b in self.targets}
        order = sorted(self.selected, key=lambda tp: (self.state.sizes.get(tp, 0), tp))
        for tp in order:
            for broker in self.now[tp]:
                if broker in held:
                    held[broker] += 1
                    on[broker].append(tp)
        while path := _shift(held, lambda a, b: self._movable(on[a], a, b) is not None, sinks):
            for a, b in pairwise(path):
                tp = self._movable(on[a], a, b)
                assert tp is not None, "a step of a path takes nothing from later steps"
                self.set(tp, tuple(b if x == a else x for x in self.now[tp]))
                on[a].remove(tp)
                on[b].append(tp)
                held[a] -= 1
                held[b] += 1

    def _movable(self, on: Iterable[TopicPartition], a: int, b: int) -> TopicPartition | None:
        """A partition whose replica on `a` may move to `b`, preferably one whose topic has more
        replicas on `a`."""
        fallback = None
        count = self.loads.of_topic
        for tp in on:
            if b in self.now[tp] or not self._keeps_racks(self.now[tp], a, b):
                continue
            if count.get((tp.topic, a), 0) > count.get((tp.topic, b), 0):
                return tp
            fallback = fallback or tp
        return fallback

    def _keeps_racks(self, replicas: Replicas, a: int, b: int) -> bool:
        if not self.racks:
            return True
        before = {self.racks.get(x) for x in replicas}
        after = {self.racks.get(b if x == a else x) for x in replicas}
        return len(after) >= len(before)

    def balance_bytes(self) -> None:
        """Move the replica that best fits the difference between the fullest and the emptiest
        broker, repeatedly, until they are even."""
        on: dict[int, list[tuple[int, TopicPartition]]] = {b: [] for b in self.targets}
        for tp in self.selected:
            for broker in self.now[tp]:
                if broker in on and self.state.sizes.get(tp, 0):
                    on[broker].append((self.state.sizes[tp], tp))
        for entries in on.values():
            entries.sort()
        held = {b: sum(size for size, _ in entries) for b, entries in on.items()}
        mean = sum(held.values()) / max(len(held), 1)
        while held:
            full = max(held, key=lambda b: (held[b], b))
            empty = min(held, key=lambda b: (held[b], b))
            gap = held[full] - held[empty]
            if gap <= _EVEN_ENOUGH * mean:
                return
            found = self._fitting(on[full], gap, full, empty)
            if found is None:
                return
            size, tp = found
            self.set(tp, tuple(empty if x == full else x for x in self.now[tp]))
            on[full].remove(found)
            insort(on[empty], found)
            held[full] -= size
            held[empty] += size

    def _fitting(
        self, entries: list[tuple[int, TopicPartition]], gap: int, full: int, empty: int
    ) -> tuple[int, TopicPartition] | None:
        """The replica on `full` that may move to `empty` and whose size is closest to half the
        difference, but less than the difference."""
        above = bisect_left(entries, gap / 2, key=lambda entry: entry[0])
        below = above - 1
        while below >= 0 or above < len(entries):
            take_above = below < 0 or (
                above < len(entries) and 2 * entries[above][0] - gap < gap - 2 * entries[below][0]
            )
            entry = entries[above if take_above else below]
            if take_above and entry[0] >= gap:
                above = len(entries)
                continue
            tp = entry[1]
            if empty not in self.now[tp] and self._keeps_racks(self.now[tp], full, empty):
                return entry
            if take_above:
                above += 1
            else:
                below -= 1
        return None

    def balance_leaders(self, among: Iterable[TopicPartition]) -> None:
        """Make other replicas preferred until no two brokers that can exchange them differ by more
        than one."""
        can_lead = set(self.state.racks) - set(self.intent.drain)
        led: dict[tuple[int, int], list[TopicPartition]] = {}
        for tp in sorted(among):
            self._trades(led, tp, add=True)
        leaders = {b: self._leads(b) for b in can_lead}
        while path := _shift(leaders, lambda a, b: bool(led.get((a, b))), None):
            for a, b in pairwise(path):
                tp = led[a, b][0]
                self._trades(led, tp, add=False)
                self.set(tp, self._led_by(self.now[tp], b))
                self._trades(led, tp, add=True)
                leaders[a] -= 1
                leaders[b] += 1

    def _trades(
        self, led: dict[tuple[int, int], list[TopicPartition]], tp: TopicPartition, *, add: bool
    ) -> None:
        leader, *others = self.now[tp]
        for other in others:
            listed = led.setdefault((leader, other), [])
            if add:
                listed.append(tp)
            else:
                listed.remove(tp)


def _shift(
    held: Mapping[int, int],
    linked: Callable[[int, int], bool],
    sinks: Collection[int] | None,
) -> list[int] | None:
    """The shortest path from a broker to one that has at least two fewer; None if all are even.

    If `sinks` is given, the path ends at one of them that is below the mean.
    """
    if not held:
        return None
    mean_floor = sum(held.values()) // len(held)
    ends = [b for b in held if sinks is None or (b in sinks and held[b] < mean_floor)]
    if not ends:
        return None
    best: list[int] | None = None
    lowest = min(held[b] for b in ends)
    for source in sorted(held, key=lambda b: (-held[b], b)):
        if held[source] - lowest < 2 or (best is not None and len(best) == 2):
            break
        found = _path(source, held, linked, {b for b in ends if held[source] - held[b] >= 2})
        if found and (best is None or len(found) < len(best)):
            best = found
    return best


def _path(
    source: int, held: Mapping[int, int], linked: Callable[[int, int], bool], ends: Collection[int]
) -> list[int] | None:
    parent: dict[int, int | None] = {source: None}
    waiting = deque([source])
    emptiest = sorted(held, key=lambda b: (held[b], b))
    while waiting:
        a = waiting.popleft()
        for b in emptiest:
            if b in parent or not linked(a, b):
                continue
            parent[b] = a
            if b in ends:
                path = [b]
                while (previous := parent[path[-1]]) is not None:
                    path.append(previous)
                return path[::-1]
            waiting.append(b)
    return None


def plan(
    state: State, intent: Intent, selected: Collection[TopicPartition] | None = None
) -> dict[TopicPartition, Replicas]:
    """The partitions that change, with their new replicas, of which the first is the preferred
    leader.

    `selected` are the partitions that may change (None: all). Raises PlanError.
    """
    if intent.exact:
        return _exact(state, intent.exact)
    planner = _Planner(state, intent, selected)
    if intent.to or intent.drain or intent.replication_factor:
        for tp in planner.selected:
            planner.repair(tp)
    if intent.add:
        planner.balance_replicas(intent.add)
    if intent.balance in ("all", "replicas"):
        planner.balance_replicas(None)
    elif intent.balance == "bytes":
        planner.balance_bytes()
    changed = [
        tp for tp in planner.selected if sorted(planner.now[tp]) != sorted(state.replicas[tp])
    ]
    if intent.balance in ("all", "leaders"):
        planner.balance_leaders(planner.selected)
    elif changed:
        planner.balance_leaders(changed)
    return {tp: planner.now[tp] for tp in planner.selected if planner.now[tp] != state.replicas[tp]}


def _exact(
    state: State, wanted: Mapping[TopicPartition, Replicas]
) -> dict[TopicPartition, Replicas]:
    for tp, replicas in wanted.items():
        if tp not in state.replicas:
            raise PlanError(f"Partition {partition_name(tp)} does not exist.")
        if not replicas:
            raise PlanError(f"{partition_name(tp)} needs at least one replica.")
        if len(set(replicas)) < len(replicas):
            raise PlanError(
                f"{partition_name(tp)} names a broker twice: {','.join(map(str, replicas))}."
            )
        for broker in replicas:
            # A dead broker that already has the replica may keep it.
            if broker not in state.racks and broker not in state.replicas[tp]:
                names = ", ".join(map(str, sorted(state.racks)))
                raise PlanError(
                    f"{partition_name(tp)}: broker {broker} is missing or fenced; available: "
                    f"{names}."
                )
    return {tp: tuple(new) for tp, new in sorted(wanted.items()) if new != state.replicas[tp]}


class Change(NamedTuple):
    """The change of one partition."""

    tp: TopicPartition
    before: Replicas
    after: Replicas
    size: int | None
    """The bytes of one replica; None if unknown."""

    @property
    def adding(self) -> Replicas:
        return tuple(b for b in self.after if b not in self.before)

    @property
    def removing(self) -> Replicas:
        return tuple(b for b in self.before if b not in self.after)

    @property
    def moves_leader(self) -> bool:
        """Whether another replica becomes the preferred leader."""
        return self.before[:1] != self.after[:1]

    @property
    def bytes(self) -> int | None:
        """The bytes to copy."""
        return 0 if not self.adding else None if self.size is None else self.size * len(self.adding)


class BrokerChange(NamedTuple):
    """The change of one broker: numbers before and after, and its network traffic."""

    broker: int
    rack: str | None
    replicas: tuple[int, int]
    leaders: tuple[int, int]
    bytes: tuple[int, int]
    bytes_in: int
    bytes_out: int


def changes_of(state: State, new: Mapping[TopicPartition, Replicas]) -> list[Change]:
    """The changes in order, with the known sizes."""
    return [
        Change(tp, state.replicas[tp], after, state.sizes.get(tp))
        for tp, after in sorted(new.items())
    ]


def first_moves(changes: Iterable[Change], most: int) -> list[Change]:
    """The first of the changes, which together copy at most `most` replicas, and all changes that
    copy nothing.

    The smallest come first, so that many partitions change early. A new plan continues from there.
    """
    kept: list[Change] = []
    left = most
    for change in sorted(changes, key=lambda c: (len(c.adding), c.bytes or 0, c.tp)):
        if len(change.adding) <= left:
            left -= len(change.adding)
            kept.append(change)
    return sorted(kept, key=lambda c: c.tp)


def broker_changes(
    state: State, changes: Iterable[Change], leaders: Mapping[TopicPartition, int]
) -> list[BrokerChange]:
    """Every broker before and after. `leaders` are the current leaders, which send the bytes."""
    before, after = Loads(state), Loads(state)
    received: dict[int, int] = {}
    sent: dict[int, int] = {}
    for change in changes:
        after.put(change.tp, change.before, -1)
        after.put(change.tp, change.after, 1)
        for broker in change.adding:
            received[broker] = received.get(broker, 0) + (change.size or 0)
        source = leaders.get(change.tp, change.before[0] if change.before else -1)
        sent[source] = sent.get(source, 0) + (change.bytes or 0)
    brokers = sorted({*state.racks, *before.replicas, *after.replicas})
    return [
        BrokerChange(
            b,
            state.racks.get(b),
            (before.replicas.get(b, 0), after.replicas.get(b, 0)),
            (before.leaders.get(b, 0), after.leaders.get(b, 0)),
            (before.bytes.get(b, 0), after.bytes.get(b, 0)),
            received.get(b, 0),
            sent.get(b, 0),
        )
        for b in brokers
    ]


def transfer_s(brokers: Iterable[BrokerChange], rate: int) -> float:
    """The seconds that copying takes at `rate` bytes per second in and out of each broker, as the
    busiest broker determines."""
    return max((max(b.bytes_in, b.bytes_out) for b in brokers), default=0) / rate
