"""Incremental fetch sessions (KIP-227).

A consumer of a thousand partitions that listed them all in each fetch would send and receive a
hundred kilobytes to learn that nothing is new. In a session it lists only what has changed since
its last request, and gets only what has changed since the last response. Both sides count the epoch
of the session, so that a lost request or response is noticed.

    epoch  0, any id    close that session, open a new one; the request is full
    epoch -1, any id    close that session; the request is full, without a session
    epoch  n, id        the next request of that session, n is the expected epoch

The cache is bounded (`max.incremental.fetch.session.cache.slots`). A full cache opens a session
only by evicting one that was idle for `min.incremental.fetch.session.eviction.ms`, or a consumer's
for a follower's; other clients get responses without a session, session id 0.

A session may have thousands of partitions of which a few change at a time. Each partition notifies
the sessions that watch it when it has changed (`Partition.watch`). A request reads these (`dirty`),
and those it lists, and no other. A partition stays dirty until a request has reached the end of its
log, and has nothing to report.

librdkafka, and the many clients that are built on it, have no sessions: they list all partitions in
each fetch, each time beginning with a different one, and need all of them in the response.
`RepeatedFetch` is what a connection remembers of such fetches. It works like a session that the
client does not know.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from random import Random

from pk.core.auth.authorizer import Authorizer
from pk.core.errors import ErrorCode, KafkaError
from pk.core.wire.messages.fetch import FetchPartition, PartitionData

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
NO_SESSION = 0


class FetchedPartition:
    """A session's state of one partition: the client's request, and the last response."""

    __slots__ = (
        "counted",
        "current_leader_epoch",
        "fetch_offset",
        "high_watermark",
        "idle",
        "key",
        "last_fetched_epoch",
        "log_start_offset",
        "partition",
        "partition_max_bytes",
        "sent_log_start_offset",
        "session",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, topic_id: bytes, partition: int) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.key: Hashable = (topic_id or topic, partition)
        """The partition's key in its session; it has the topic's id if the client uses ids."""
        self.session: FetchSession | None = None
        """The session that contains it, until that session ends."""
        self.counted = False
        """Whether an earlier request has reported this follower's progress to the partition."""
        self.fetch_offset = 0
        self.partition_max_bytes = 0
        self.current_leader_epoch = -1
        self.last_fetched_epoch = -1
        self.log_start_offset = -1
        self.high_watermark = -1
        """The high watermark in the last response to the client."""
        self.sent_log_start_offset = -1
        self.idle: PartitionData | None = None
        """The result in a RepeatedFetch until the partition changes."""

    def update(self, requested: FetchPartition) -> None:
        """Set the parameters of the request for this partition."""
        self.fetch_offset = requested.fetch_offset
        self.partition_max_bytes = requested.partition_max_bytes
        self.current_leader_epoch = requested.current_leader_epoch
        self.last_fetched_epoch = requested.last_fetched_epoch
        self.log_start_offset = requested.log_start_offset


Partitions = dict[Hashable, FetchedPartition]


class FetchSession:
    """One client's session."""

    __slots__ = (
        "authorizer",
        "by_id",
        "created_ms",
        "dirty",
        "epoch",
        "id",
        "last_used_ms",
        "partitions",
        "privileged",
        "used_at",
    )

    def __init__(
        self, session_id: int, partitions: Partitions, by_id: bool, privileged: bool, now_ms: int
    ) -> None:
        self.id = session_id
        self.authorizer: Authorizer | None = None
        """The authorizer at its last request: another one may refuse what this one allowed."""
        self.epoch = 1
        self.partitions = partitions
        self.by_id = by_id
        self.privileged = privileged
        """Whether it is a follower's: it is not evicted for a consumer's."""
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.used_at = float("-inf")
        """The time of its last request, in seconds of trio's clock."""
        self.dirty: Partitions = dict(partitions)
        """The partitions that may have something to report; the last ones served are at the end."""
        for fetched in partitions.values():
            fetched.session = self

    @property
    def is_over(self) -> bool:
        """Whether the session was closed or evicted."""
        return self.epoch == FINAL_EPOCH

    def end(self) -> None:
        """End the session, also for one of its requests that still waits."""
        self.epoch = FINAL_EPOCH
        for fetched in self.partitions.values():
            fetched.session = None


class RepeatedFetch(FetchSession):
    """The partitions of a connection's fetches without a session."""

    __slots__ = ("conditions", "in_use")

    def __init__(self) -> None:
        super().__init__(NO_SESSION, {}, by_id=False, privileged=False, now_ms=0)
        self.in_use = False
        """Whether a fetch is using it. The connection's next fetch may come before that one gets
        its response."""
        self.conditions: tuple[object, ...] = ()
        """The conditions of the results, other than the partitions and the client's parameters for
        each."""

    def begin(self, conditions: tuple[object, ...], partitions_max: int) -> None:
        """Begin a fetch under these conditions."""
        self.in_use = True
        if len(self.partitions) > partitions_max:
            for fetched in self.partitions.values():
                fetched.session = None
            self.partitions.clear()
            self.dirty.clear()
        if conditions != self.conditions:
            self.conditions = conditions
            self.dirty.update(self.partitions)


class FetchSessions:
    """All sessions of a broker, the least recently used first."""

    def __init__(self, slots: int, eviction_ms: int, random: Random) -> None:
        self._slots = slots
        self._eviction_ms = eviction_ms
        self._random = random
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def open(
        self, partitions: Partitions, *, by_id: bool, privileged: bool, now_ms: int
    ) -> FetchSession | None:
        """Open a session with `partitions`. Returns None if the cache is full and no session can be
        evicted."""
        if len(self._sessions) >= self._slots and not self._evict(privileged, now_ms):
            return None
        session_id = 0
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._random.randrange(1, 1 << 31)
        session = FetchSession(session_id, partitions, by_id, privileged, now_ms)
        self._sessions[session_id] = session
        return session

    def close(self, session_id: int) -> FetchSession | None:
        """Close a session, if it exists, also for one of its requests that still waits. Returns
        it."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.end()
        return session

    def next(self, session_id: int, epoch: int, by_id: bool, now_ms: int) -> FetchSession:
        """Return the session for its next request.

        Raises KafkaError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH,
        FETCH_SESSION_TOPIC_ID_ERROR.
        """
        session = self._sessions.get(session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_id != by_id:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = 1 if epoch == 0x7FFFFFFF else epoch + 1
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session_id)
        return session

    def _evict(self, privileged: bool, now_ms: int) -> bool:
        """Evict a session for a new one, by KIP-227's rules. Returns whether there was one."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is not None and now_ms - oldest.last_used_ms > self._eviction_ms:
            self.close(oldest.id)
            return True
        if privileged:
            for session in self._sessions.values():
                if not session.privileged:
                    self.close(session.id)
                    return True
        return False


def forget(session: FetchSession, key: Hashable) -> None:
    """Drop a partition that the client no longer fetches."""
    fetched = session.partitions.pop(key, None)
    if fetched is not None:
        fetched.session = None
        session.dirty.pop(key, None)
