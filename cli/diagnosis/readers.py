"""Checks of consumers: groups that lose records or soon will, groups without active members, and
topics without readers.

A group will soon lose records if the next record that it will read is about to be deleted.
Retention deletes whole segments once their newest record is older than retention.ms, so a record is
kept at least until its timestamp plus retention.ms, and the time that is shown as left is a lower
bound. retention.bytes gives no such bound, only the distance from the start of the log.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping

from pk.cli.diagnosis.snapshot import (
    ERROR,
    NOTE,
    WARNING,
    ClusterSnapshot,
    Commit,
    Finding,
    Partition,
    Topic,
    names,
    number,
    topics_counted,
)
from pk.cli.phrases import count, join, partition_name
from pk.cli.positions.times import show_span
from pk.core.values import TopicPartition

HOUR_MS = 3_600_000
_SOON_MS = HOUR_MS
"""If less time than this is left, the finding is an error, not a warning."""
_NEAR_START = 0.1
"""For retention.bytes, an offset is near the start of the log if its distance from it is less than
this share of the log."""
_EMPTY_STATES = frozenset(("Empty", "Dead"))


def horizon_ms(retention_ms: int) -> int:
    """How long before a deletion a reader is warned: a quarter of the retention, and at most a
    day."""
    return min(retention_ms // 4, 24 * HOUR_MS)


def retention_ms(configs: Mapping[str, str]) -> int | None:
    """The minimum time, in ms, that records are kept under a topic's configs; None if time deletes
    nothing."""
    if "delete" not in configs.get("cleanup.policy", "delete"):
        return None
    kept = number(configs.get("retention.ms"), -1)
    return kept if kept >= 0 else None


def _behind(
    snapshot: ClusterSnapshot,
) -> Iterator[tuple[str, TopicPartition, Commit, Topic, Partition]]:
    for name, group in sorted(snapshot.groups.items()):
        for tp, commit in sorted(group.commits.items()):
            p = snapshot.partition(tp)
            if p is not None and p.start is not None and p.end is not None:
                yield name, tp, commit, snapshot.topics[tp.topic], p


def out_of_range(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Groups whose committed offset is no longer in the log."""
    lost: dict[str, list[tuple[TopicPartition, int]]] = {}
    beyond: dict[str, list[tuple[TopicPartition, int]]] = {}
    for name, tp, commit, _, p in _behind(snapshot):
        assert p.start is not None and p.end is not None
        if commit.offset < p.start and commit.reported_lag != 0:
            lost.setdefault(name, []).append((tp, p.start - commit.offset))
        elif commit.offset > p.end:
            beyond.setdefault(name, []).append((tp, commit.offset - p.end))
    for name, found in lost.items():
        total = sum(n for _, n in found)
        of_share = snapshot.groups[name].is_share
        gone = snapshot.groups[name].state in _EMPTY_STATES and not _has_unread(snapshot, name)
        leftover = (
            f" If it is no longer used, `pk groups delete {shlex.quote(name)}` removes it."
            if gone
            else ""
        )
        yield Finding(
            "offset-out-of-range",
            ERROR,
            f"Group {name} has missed records: {total:,} were deleted before it read them "
            f"({names(tp for tp, _ in found)}).",
            (
                "It continues at the oldest record that is left."
                if of_share
                else "It continues where auto.offset.reset says: at the oldest record, at the "
                "newest (skipping all others), or with an error."
            )
            + leftover,
            f"pk groups reset-offsets {shlex.quote(name)} {_topics(found)} --to start",
            (name, *(partition_name(tp) for tp, _ in found)),
        )
    for name, found in beyond.items():
        what = "start offsets" if snapshot.groups[name].is_share else "committed offsets"
        then = (
            "gets no records"
            if snapshot.groups[name].is_share
            else "starts where auto.offset.reset says"
        )
        yield Finding(
            "offset-out-of-range",
            ERROR,
            f"Group {name} has {what} beyond the end ({names(tp for tp, _ in found)}).",
            "The topic was deleted and created again, or lost its newest records: until the log "
            f"has grown that far, the group {then}.",
            f"pk groups reset-offsets {shlex.quote(name)} {_topics(found)} --to end",
            (name, *(partition_name(tp) for tp, _ in found)),
        )


def _topics(found: list[tuple[TopicPartition, int]]) -> str:
    return " ".join(f"-t {shlex.quote(t)}" for t in sorted({tp.topic for tp, _ in found}))


def retention_risk(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Groups whose next records retention deletes soon."""
    by_group: dict[str, list[tuple[TopicPartition, int | None, int]]] = {}
    by_size: dict[str, list[TopicPartition]] = {}
    for name, tp, commit, topic, p in _behind(snapshot):
        assert p.start is not None and p.end is not None
        if not p.start <= commit.offset < p.end:
            continue
        kept = retention_ms(topic.configs_of(p))
        if commit.expiring and kept is not None:
            left = None if commit.next_ms is None else commit.next_ms + kept - snapshot.now_ms
            by_group.setdefault(name, []).append((tp, left, kept))
        elif _near_size_limit(topic, p, commit):
            by_size.setdefault(name, []).append(tp)
    for name, found in by_group.items():
        lefts = [left for _, left, _ in found if left is not None]
        soonest = min(lefts, default=None)
        kept = max(k for _, _, k in found)
        named = sorted({tp.topic for tp, _, _ in found})
        longer = _no_shorter(kept * 2, [snapshot.topics[name] for name in named])
        yield Finding(
            "retention-risk",
            ERROR if soonest is None or soonest < _SOON_MS else WARNING,
            f"Group {name} is about to lose records to retention: {_left(soonest)} "
            f"({names(tp for tp, _, _ in found)}, retention {show_span(kept)}).",
            (
                "Records that it has not read by then are lost to it. Speed it up, or keep records "
                "longer."
            ),
            f"pk configs alter topic {' '.join(map(shlex.quote, named))} -c retention.ms={longer}",
            (name, *(partition_name(tp) for tp, _, _ in found)),
        )
    for name, tps in by_size.items():
        yield Finding(
            "retention-risk",
            WARNING,
            f"Group {name} reads near the start of logs that are as large as retention.bytes "
            f"allows ({names(tps)}).",
            "As new records arrive, the oldest are deleted: unread ones are next.",
            f"pk groups describe {shlex.quote(name)}",
            (name, *map(partition_name, tps)),
        )


def _no_shorter(wanted_ms: int, topics: Iterable[Topic]) -> int:
    """A retention of at least `wanted_ms`, and no shorter than the current retention.ms of any
    partition of the topics; -1 means forever."""
    for topic in topics:
        for partition in topic.partitions.values():
            kept = number(topic.configs_of(partition).get("retention.ms"), -1)
            if kept < 0:
                return -1
            wanted_ms = max(wanted_ms, kept)
    return wanted_ms


def _near_size_limit(topic: Topic, p: Partition, commit: Commit) -> bool:
    configs = topic.configs_of(p)
    limit = number(configs.get("retention.bytes"), -1)
    if limit < 0 or p.size_bytes is None or p.start is None or p.end is None:
        return False
    if "delete" not in configs.get("cleanup.policy", "delete"):
        return False
    near = commit.offset - p.start < (p.end - p.start) * _NEAR_START
    return near and p.size_bytes > limit * 0.9


def _left(ms: int | None) -> str:
    if ms is None:
        return "the next one is deleted within hours"
    if ms <= 0:
        return "the next one may be deleted at any moment"
    return f"the next one may be deleted in {show_span(ms)}"


def lag_of(snapshot: ClusterSnapshot, group: str) -> int:
    """The number of records by which a group's committed offsets are behind the log ends. It
    includes records that were deleted unread, as in `pk groups lag` and Apache's tool. For a share
    group, it is the number that the coordinator reports."""
    total = 0
    for tp, commit in snapshot.groups[group].commits.items():
        p = snapshot.partition(tp)
        if commit.reported_lag is not None:
            total += commit.reported_lag
        elif p is not None and p.end is not None:
            total += max(p.end - commit.offset, 0)
    return total


def _has_unread(snapshot: ClusterSnapshot, group: str) -> bool:
    """Whether the log has records that a group has not read. Deleted ones do not count."""
    found = snapshot.groups[group].commits.items()
    return any(
        (p := snapshot.partition(tp)) is not None
        and p.end is not None
        and p.end > max(commit.offset, p.start or 0)
        and commit.reported_lag != 0
        for tp, commit in found
    )


def groups_without_members(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Groups with unread records and no members."""
    bad = {
        name: lag
        for name, group in snapshot.groups.items()
        if group.state in _EMPTY_STATES
        and _has_unread(snapshot, name)
        and (lag := lag_of(snapshot, name))
    }
    if bad:
        worst = sorted(bad, key=lambda name: -bad[name])
        listed = join([f"{name} (lag {bad[name]:,})" for name in worst], 4)
        yield Finding(
            "groups-without-members",
            WARNING,
            f"{count(len(bad), 'group')} with unread records and no member: {listed}.",
            (
                "Its consumers are stopped, or the group is unused and will trigger lag alerts."
                if len(bad) == 1
                else "Their consumers are stopped, or the groups are unused and will trigger lag "
                "alerts."
            ),
            f"pk why lag {shlex.quote(worst[0])}",
            tuple(worst),
        )


def _empty_or_gone(p: Partition | None) -> bool:
    return p is None or (p.end is not None and p.end == p.start)


def dead_groups(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Groups without members that have read all of topics that are empty now, or whose topics are
    all deleted. `out_of_range` reports those whose unread records were deleted."""
    bad = [
        name
        for name, group in sorted(snapshot.groups.items())
        if group.state in _EMPTY_STATES
        and group.commits
        and all(_empty_or_gone(snapshot.partition(tp)) for tp in group.commits)
        and not lag_of(snapshot, name)
    ]
    if bad:
        yield Finding(
            "dead-groups",
            NOTE,
            (
                f"{count(len(bad), 'group')} without members whose topics are empty or deleted: "
                f"{join(bad, 4)}."
            ),
            (
                "Left over; their offsets expire after offsets.retention.minutes, those of share "
                "groups never do."
            ),
            f"pk groups delete {' '.join(map(shlex.quote, bad[:6]))}",
            tuple(bad),
        )


def unread_topics(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    """Topics with records that no group has committed an offset for, and no member is assigned.
    Topics whose names begin with two underscores have readers of their own, such as the brokers."""
    if not snapshot.groups_whole:
        return
    read = {tp.topic for group in snapshot.groups.values() for tp in group.commits}
    read.update(name for group in snapshot.groups.values() for name in group.assigned)
    bad = [
        name
        for name, topic in snapshot.topics.items()
        if not topic.internal
        and not name.startswith("__")
        and name not in read
        and any((p.end or 0) > (p.start or 0) for p in topic.partitions.values())
    ]
    if bad:
        yield Finding(
            "unread-topics",
            NOTE,
            f"{topics_counted(bad)} with records that no group reads.",
            (
                "Judged by committed offsets; readers without a group are not known. These "
                "records may not be needed."
            ),
            f"pk topics describe {' '.join(map(shlex.quote, sorted(bad)[:6]))}",
            tuple(sorted(bad)),
        )
