"""Holds a history against what transactions promise, in the way of Jepsen's list-append checker
(Elle).

The order of a partition's records is known, so it says which append came after which. A reader of
committed records sees a record only after the transaction that appended it has committed, so after
everything that this transaction appended, and a worker appends only after it has read. Together
these order the events of a run:

    append → append      the next record of the same partition
    append → commit      each append of a transaction comes before its commit
    commit → read        another transaction read one of these appends
    read → append        what the transaction that read then appended

A cycle means that a transaction read what was not committed yet (Adya's G1c, circular information
flow).

Whole transactions are not ordered so. Kafka does not isolate writers from one another: while a
transaction's record for one partition waits for a broker that is down, others write and commit
behind its record in another partition. Cycles of transactions that come of the order of writes (G0)
are counted and are no fault; Jepsen's reports on Kafka allow them too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Final, NamedTuple

from list_append.history import History, Outcome, Place, Read, Transaction

LOST: Final = "lost write"
ABORTED_READ: Final = "aborted read"
TORN: Final = "torn transaction"
DUPLICATE: Final = "duplicate"
ORDER: Final = "order"
PHANTOM: Final = "phantom"
DIVERGENCE: Final = "divergence"
PROCESSED_TWICE: Final = "input processed twice"
NOT_PROCESSED: Final = "input not processed"
CIRCULAR: Final = "circular information flow"

KINDS: Final = (
    LOST, ABORTED_READ, TORN, DUPLICATE, ORDER, PHANTOM, DIVERGENCE,
    PROCESSED_TWICE, NOT_PROCESSED, CIRCULAR,
)  # fmt: skip


class Anomaly(NamedTuple):
    """Something that must not be."""

    kind: str
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


class Verdict(NamedTuple):
    """The verdict on a history."""

    anomalies: list[Anomaly]
    write_cycles: int
    """Cycles of writes alone, which Kafka allows."""

    committed: int
    aborted: int
    unknown: int
    appends: int
    """Appends that a final read saw."""


class _Log(NamedTuple):
    """The offsets at which each value was seen, over all reads."""

    places: Mapping[str, set[Place]]
    by_partition: Mapping[str, list[tuple[int, str]]]
    """Partition → the final read's (offset, value)."""


def check(history: History, inputs: str | None = None) -> Verdict:
    """Every anomaly of a history. `inputs` is the topic each of whose committed records the
    transactions that read it must have processed once (None: no client processes any)."""
    owner = {value: t for t in history.transactions for value in t.appends}
    log = _log(history.reads)
    found: list[Anomaly] = []
    found += _reads_disagree(history.reads)
    found += _values(log, owner)
    found += _transactions(history.transactions, log)
    found += _order(history.transactions, log)
    if inputs is not None:
        found += _processing(history.transactions, log, inputs)
    found += _circular(history.transactions, log, owner)
    outcomes = [t.outcome for t in history.transactions]
    return Verdict(
        found,
        _write_cycles(history.transactions, log, owner),
        outcomes.count(Outcome.COMMITTED),
        outcomes.count(Outcome.ABORTED),
        outcomes.count(Outcome.UNKNOWN),
        sum(len(seen) for seen in log.by_partition.values()),
    )


def _log(reads: Iterable[Read]) -> _Log:
    places: defaultdict[str, set[Place]] = defaultdict(set)
    final: dict[str, list[tuple[int, str]]] = {}
    for read in reads:
        for offset, value in read.seen:
            places[value].add(Place(read.partition, offset))
        if read.final:
            final[read.partition] = sorted(read.seen)
    return _Log(places, final)


def _reads_disagree(reads: Iterable[Read]) -> Iterator[Anomaly]:
    known: dict[Place, str] = {}
    for read in reads:
        last = -1
        for offset, value in read.seen:
            where = f"{read.partition} @ {offset}"
            if offset <= last:
                yield Anomaly(ORDER, f"{read.reader} saw {where} after {last}")
            last = max(last, offset)
            before = known.setdefault(Place(read.partition, offset), value)
            if before != value:
                yield Anomaly(DIVERGENCE, f"{where} was {before}, and {value} for {read.reader}")


def _values(log: _Log, owner: Mapping[str, Transaction]) -> Iterator[Anomaly]:
    for value, places in log.places.items():
        if value not in owner:
            yield Anomaly(PHANTOM, f"{value} was seen, and never appended")
            continue
        if len(places) > 1:
            at = ", ".join(sorted(f"{p.partition} @ {p.offset}" for p in places))
            yield Anomaly(DUPLICATE, f"{value} is at {at}")
        transaction = owner[value]
        if transaction.outcome is Outcome.ABORTED:
            yield Anomaly(ABORTED_READ, f"{value} of {transaction.name}, which aborted, was seen")
        reported = transaction.appends[value]
        for place in places:
            if place.partition != reported.partition or reported.offset not in (-1, place.offset):
                yield Anomaly(
                    DIVERGENCE, f"{value} was acknowledged at {reported}, and was seen at {place}"
                )


def _transactions(transactions: Iterable[Transaction], log: _Log) -> Iterator[Anomaly]:
    seen = {value for values in log.by_partition.values() for _, value in values}
    for transaction in transactions:
        missing = [
            value
            for value, place in transaction.appends.items()
            if value not in seen and place.partition in log.by_partition
        ]
        there = [value for value in transaction.appends if value in seen]
        if missing and there:
            yield Anomaly(TORN, f"of {transaction.name} {there} can be read, and {missing} cannot")
        elif missing and transaction.outcome is Outcome.COMMITTED:
            yield Anomaly(LOST, f"{missing} of {transaction.name}, which was committed")


def _order(transactions: Iterable[Transaction], log: _Log) -> Iterator[Anomaly]:
    """The appends of one process to a partition appear there in its order."""
    where = {value: (p, at) for p, seen in log.by_partition.items() for at, value in seen}
    last: dict[tuple[str, str], tuple[int, str]] = {}
    for transaction in transactions:
        for value in transaction.appends:
            if value not in where:
                continue
            partition, offset = where[value]
            before = last.get((transaction.process, partition))
            if before is not None and offset < before[0]:
                yield Anomaly(
                    ORDER,
                    f"{partition}: {value} @ {offset} was appended after {before[1]} @ {before[0]}",
                )
            last[transaction.process, partition] = offset, value


def _processing(transactions: Iterable[Transaction], log: _Log, inputs: str) -> Iterator[Anomaly]:
    """Each input was read by one transaction that counts: one of which a final read saw
    something."""
    seen = {value for values in log.by_partition.values() for _, value in values}
    by: defaultdict[str, list[str]] = defaultdict(list)
    for transaction in transactions:
        if any(value in seen for value in transaction.appends):
            for value in transaction.reads:
                by[value].append(transaction.name)
    for partition, values in log.by_partition.items():
        if partition.rpartition("/")[0] != inputs:
            continue
        for offset, value in values:
            if not by[value]:
                yield Anomaly(NOT_PROCESSED, f"{value} in {partition} @ {offset}")
    for value, names in by.items():
        if len(names) > 1:
            yield Anomaly(PROCESSED_TWICE, f"{value}, by {' and '.join(names)}")
        if value not in seen:
            yield Anomaly(ABORTED_READ, f"{names[0]} processed {value}, which is not committed")


Edges = Mapping[str, set[str]]


def _circular(
    transactions: Iterable[Transaction], log: _Log, owner: Mapping[str, Transaction]
) -> Iterator[Anomaly]:
    """Cycles of events, which the module's essay lists."""
    edges: defaultdict[str, set[str]] = defaultdict(set)
    for values in log.by_partition.values():
        for (_, one), (_, other) in pairwise(values):
            edges[f"{one} is appended"].add(f"{other} is appended")
    for transaction in transactions:
        reading, commits = f"{transaction.name} reads", f"{transaction.name} commits"
        for value in transaction.appends:
            edges[reading].add(f"{value} is appended")
            edges[f"{value} is appended"].add(commits)
        for value in transaction.reads:
            if value in owner:
                edges[f"{owner[value].name} commits"].add(reading)
    for together in _components(edges):
        members = set(together)
        reads = min((node for node in members if node.endswith(" reads")), default=None)
        if reads is not None:  # A duplicate makes a cycle without a read, and is found by itself.
            yield Anomaly(CIRCULAR, " → ".join(_way_round(edges, members, reads)))


def _write_cycles(
    transactions: Iterable[Transaction], log: _Log, owner: Mapping[str, Transaction]
) -> int:
    """How many groups of transactions wrote behind one another in turn."""
    counts = {t.name for t in transactions if t.outcome is not Outcome.ABORTED}
    edges: defaultdict[str, set[str]] = defaultdict(set)
    for values in log.by_partition.values():
        names = [owner[value].name for _, value in values if value in owner]
        for one, other in pairwise(names):
            if one != other and one in counts and other in counts:
                edges[one].add(other)
    return sum(1 for _ in _components(edges))


def _components(edges: Edges) -> Iterator[list[str]]:
    """The strongly connected components of more than one node (Tarjan's algorithm, without
    recursion)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    for root in list(edges):
        if root in index:
            continue
        work = [(root, iter(edges[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, after = work[-1]
            for other in after:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(edges.get(other, ()))))
                    break
                if other in on_stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = [stack.pop()]
                    while component[-1] != node:
                        component.append(stack.pop())
                    on_stack.difference_update(component)
                    if len(component) > 1:
                        yield component


def _way_round(edges: Edges, members: set[str], start: str) -> list[str]:
    """The shortest cycle within a component that begins and ends at `start`."""
    before: dict[str, str] = {}
    border = [start]
    while start not in before:
        following: list[str] = []
        for node in border:
            for other in sorted(edges[node] & members):
                if other not in before:
                    before[other] = node
                    following.append(other)
        border = following
    path = [start, before[start]]
    while path[-1] != start:
        path.append(before[path[-1]])
    return path[::-1]
