"""Finds the replicas that left and joined the ISR between two descriptions of the cluster, and the
time since then. Pure.

Kafka has no API for the history of an ISR: a watch polls, and compares. For a replica that was out
of sync when the watch began, that time is unknown.
"""

from collections.abc import Iterable
from typing import NamedTuple

from pk.cli.cluster.isr_event import IsrEvent
from pk.cli.cluster.topics import Partitions
from pk.core.values import TopicPartition

Watched = dict[TopicPartition, tuple[int, tuple[int, ...]]]
"""Partition → its leader and its in-sync replicas."""


class Gone(NamedTuple):
    """A replica that is not in sync."""

    tp: TopicPartition
    broker: int


def isr_changes(before: Watched, now: Watched, time: str) -> list[IsrEvent]:
    """The changes between two descriptions, at `time`."""
    rows: list[IsrEvent] = []
    for tp in sorted({*before, *now}):
        if tp not in before:
            rows.append(event_row(tp, "made", now[tp][1], now[tp], time))
            continue
        if tp not in now:
            rows.append(event_row(tp, "deleted", before[tp][1], (-1, ()), time))
            continue
        (old_leader, old), (leader, isr) = before[tp], now[tp]
        if left := set(old) - set(isr):
            rows.append(event_row(tp, "shrink", left, now[tp], time))
        if joined := set(isr) - set(old):
            rows.append(event_row(tp, "expand", joined, now[tp], time))
        if leader != old_leader:
            event, broker = ("leader", leader) if leader >= 0 else ("offline", old_leader)
            rows.append(event_row(tp, event, [broker], now[tp], time))
    return rows


def event_row(
    tp: TopicPartition,
    event: str,
    brokers: Iterable[int],
    state: tuple[int, tuple[int, ...]],
    time: str | None,
) -> IsrEvent:
    """A row without the data that only brokers know. `state` is the new leader and the new in-sync
    replicas."""
    return {
        "time": time,
        "topic": tp.topic,
        "partition": tp.partition,
        "event": event,
        "brokers": sorted(brokers),
        "leader": state[0] if state[0] >= 0 else None,
        "isr": list(state[1]),
        "out_for_ms": None,
        "behind": None,
    }


class History:
    """When each replica fell out of sync, as far as the watch observed it. Times are arguments, in
    milliseconds."""

    def __init__(self) -> None:
        self._since: dict[Gone, int | None] = {}
        """None: the replica was out of sync when the watch began, for an unknown time."""

    def begin(self, partitions: Partitions) -> list[IsrEvent]:
        """Begin with the replicas that are out of sync now. Returns a row for each such partition,
        without a time."""
        rows: list[IsrEvent] = []
        for tp, p in sorted(partitions.items()):
            out = [b for b in p.replicas if b not in p.isr]
            for broker in out:
                self._since[Gone(tp, broker)] = None
            if out or p.leader_id < 0:
                event = "out" if p.leader_id >= 0 else "offline"
                rows.append(event_row(tp, event, out, (p.leader_id, p.isr), None))
        return rows

    def learn(self, tp: TopicPartition, broker: int, since_ms: int) -> None:
        """Record since when a replica has been out of sync that was so when the watch began, as
        another source knows."""
        gone = Gone(tp, broker)
        if gone in self._since and self._since[gone] is None:
            self._since[gone] = since_ms

    def since(self, tp: TopicPartition, brokers: Iterable[int]) -> int | None:
        """When the first of these replicas fell out of sync; None if that is unknown for one of
        them."""
        times = [self._since.get(Gone(tp, broker)) for broker in brokers]
        seen = [time for time in times if time is not None]
        return min(seen) if seen and len(seen) == len(times) else None

    def see(self, rows: Iterable[IsrEvent], now_ms: int) -> None:
        """Process the rows of `isr_changes`; add to the row of replicas that are back in sync how
        long they were out of sync."""
        for row in rows:
            tp = TopicPartition(row["topic"], row["partition"])
            if row["event"] == "shrink":
                for broker in row["brokers"]:
                    self._since[Gone(tp, broker)] = now_ms
            elif row["event"] == "expand":
                known = [self._since.pop(Gone(tp, broker), None) for broker in row["brokers"]]
                seen = [since for since in known if since is not None]
                row["out_for_ms"] = now_ms - min(seen) if seen else None
            elif row["event"] == "deleted":
                for gone in [gone for gone in self._since if gone.tp == tp]:
                    del self._since[gone]
