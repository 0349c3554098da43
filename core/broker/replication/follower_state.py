"""A follower as its leader knows it: the progress that its fetches reported, and the time when it
was last caught up.

Kafka's rule for "in sync" is about time, not about records. A follower is caught up at the moment
of a fetch from the leader's log end, or from the log end at the time of its previous fetch (then it
had everything at that earlier moment). So a follower that never quite reaches a moving log end
stays in sync, as long as it is no further behind than the time between two of its fetches.

A partition without changes is not checked in every fetch of its followers' sessions
(fetch_sessions.py): a follower that had everything at the last check still had it at the session's
last request.
"""

from typing import Final

from msgspec import Struct

from pk.core.broker.replication.fetch_sessions import FetchedPartition

UNKNOWN_OFFSET: Final = -1
NO_BROKER_EPOCH: Final = -1
"""The epoch of a Fetch too old to have one, and of a broker that has not fetched yet. It is not
checked."""
NEVER: Final = float("-inf")


class FollowerFetch(Struct):
    """The parts of a follower's Fetch request that are the same for all partitions. Times are
    seconds of trio's clock."""

    node_id: int
    broker_epoch: int
    """The epoch of the registration under which the follower fetches."""
    now: float = NEVER
    before: float = NEVER
    """The time of its session's previous request."""


class Follower:
    """One follower of one partition. Times are seconds of trio's clock."""

    __slots__ = (
        "_caught_up_at",
        "_fetched",
        "_fetched_at",
        "_leader_end",
        "broker_epoch",
        "log_end_offset",
        "log_start_offset",
        "node_id",
    )

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.broker_epoch: int | None = None
        """The epoch of the registration under which it fetches; -1 if its Fetch is too old to have
        one, None before its first Fetch."""
        self.log_end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self._caught_up_at = NEVER
        self._fetched_at = NEVER
        self._fetched: FetchedPartition | None = None
        """The partition in its last fetch."""
        self._leader_end = UNKNOWN_OFFSET
        """The leader's log end at its last fetch."""

    def reset(self, now: float, leader_end: int, *, new_leader: bool, in_sync: bool) -> None:
        """Begin a leader epoch: followers in sync according to the controller count as caught up,
        and the broker epoch must be reported again."""
        if new_leader:
            self.log_end_offset = self.log_start_offset = self._leader_end = UNKNOWN_OFFSET
            self._fetched_at = NEVER
        else:
            self._leader_end = leader_end
            self._fetched_at = now if in_sync else NEVER
        self._caught_up_at = now if in_sync else NEVER
        self._fetched = None
        self.broker_epoch = None

    def record_fetch(
        self, fetch: FollowerFetch, fetched: FetchedPartition, leader_end: int
    ) -> None:
        """Record a fetch from `fetched.fetch_offset`: the follower has every record below that
        offset. The leader's log ends at `leader_end`."""
        now, offset = fetch.now, fetched.fetch_offset
        if fetched.counted:
            self._fetched_at = max(self._fetched_at, fetch.before)
        fetched.counted = True
        if offset >= leader_end:
            self._caught_up_at = now
        elif offset >= self._leader_end:
            self._caught_up_at = max(self._caught_up_at, self._fetched_at)
        self.log_end_offset = offset
        self.log_start_offset = fetched.log_start_offset
        self.broker_epoch = fetch.broker_epoch
        self._leader_end = max(self._leader_end, leader_end)
        self._fetched_at = now
        self._fetched = fetched

    @property
    def caught_up_at(self) -> float:
        """The last time at which it had all of the leader's records, according to its fetches."""
        fetched = self._fetched
        if (
            fetched is not None
            and fetched.session is not None
            and self.log_end_offset >= self._leader_end
        ):
            return max(self._caught_up_at, fetched.session.used_at)
        return self._caught_up_at

    def is_caught_up(self, leader_end: int, now: float, lag_s: float) -> bool:
        """Return whether the follower has all records, or last had them at most `lag_s` ago."""
        return self.log_end_offset == leader_end or now - self.caught_up_at <= lag_s

    @property
    def confirmed_epoch(self) -> int:
        """Its broker epoch for AlterPartition: -1 if unknown."""
        return NO_BROKER_EPOCH if self.broker_epoch is None else self.broker_epoch
