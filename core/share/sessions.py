"""Share sessions: the partitions that a member of a share group fetches, kept by each leader
(KIP-932).

A member names its partitions once, and afterwards only the ones it adds or forgets. Both sides
count the epoch of the session, so that a lost request or answer is noticed. The session is the
member's: group and member id name it, it has no id.

    epoch  0    close the member's session if it has one, open a new one; the request names every
                partition
    epoch  n    the next request of the session, n is what we expect
    epoch -1    the last request of the session: it may acknowledge, and acquires nothing

Acknowledgements come with the requests of the session, so an epoch that is not the expected one
refuses them all: they cannot count twice. When a session ends, the caller must release the member's
records (`SharePartitionState.release`).

The number of sessions is bounded (`group.share.max.share.sessions`), and none is evicted for
another: its member would lose the records that it holds. A session ends with the connection that it
was opened on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicIdPartition

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_LAST_EPOCH: Final = (1 << 31) - 1


class SessionKey(NamedTuple):
    """A member of a group."""

    group_id: str
    member_id: str


class ShareSession:
    """The session of one member."""

    __slots__ = ("_partitions", "connection_id", "epoch", "key")

    def __init__(
        self, key: SessionKey, connection_id: str, partitions: Iterable[TopicIdPartition]
    ) -> None:
        self.key = key
        self.connection_id = connection_id
        self.epoch = 1
        """The epoch that the next request must have."""
        self._partitions = dict.fromkeys(partitions)

    @property
    def partitions(self) -> Collection[TopicIdPartition]:
        """The partitions that the member fetches, in the order in which it named them."""
        return self._partitions.keys()

    def in_turn(self) -> list[TopicIdPartition]:
        """The partitions, beginning with another one in each request: the first ones must not use
        up every limit."""
        found = list(self._partitions)
        if not found:
            return found
        first = self.epoch % len(found)
        return found[first:] + found[:first]

    def update(
        self, added: Iterable[TopicIdPartition], forgotten: Iterable[TopicIdPartition]
    ) -> None:
        """The member fetches `added` too, and `forgotten` no more."""
        self._partitions.update(dict.fromkeys(added))
        for partition in forgotten:
            self._partitions.pop(partition, None)

    def advance(self) -> None:
        """Expect the next epoch; after the last one comes 1."""
        self.epoch = 1 if self.epoch == _LAST_EPOCH else self.epoch + 1


class ShareSessions:
    """The sessions of one broker. `sessions_max` may be changed at any time."""

    def __init__(self, sessions_max: int) -> None:
        self.sessions_max = sessions_max
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._by_connection: dict[str, dict[SessionKey, None]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def has_group(self, group_id: str) -> bool:
        """Whether a member of the group has a session."""
        return any(key.group_id == group_id for key in self._sessions)

    def find(self, key: SessionKey) -> ShareSession | None:
        """The session of a member, None if it has none."""
        return self._sessions.get(key)

    def fetch(
        self,
        key: SessionKey,
        epoch: int,
        connection_id: str,
        named: Collection[TopicIdPartition],
        forgotten: Collection[TopicIdPartition],
        *,
        acknowledges: bool,
    ) -> ShareSession:
        """A ShareFetch with the partitions that it names and forgets. Returns the session, brought
        up to date; after epoch -1 the caller must end it (`end`) when the acknowledgements are
        through.

        Raises SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH, SHARE_SESSION_LIMIT_REACHED,
        and INVALID_REQUEST for a first request that `acknowledges`: nothing was acquired in this
        session.
        """
        if epoch == INITIAL_EPOCH:
            if acknowledges:
                raise KafkaError(ErrorCode.INVALID_REQUEST)
            self.end(key)
            return self._open(key, connection_id, named)
        session = self._expected(key, epoch)
        if epoch != FINAL_EPOCH:
            session.update(named, forgotten)
            session.advance()
        return session

    def acknowledge(self, key: SessionKey, epoch: int) -> ShareSession:
        """A ShareAcknowledge. Returns the session; after epoch -1 the caller must end it, as for
        `fetch`.

        Raises SHARE_SESSION_NOT_FOUND and INVALID_SHARE_SESSION_EPOCH: also for epoch 0, which
        opens none here.
        """
        if epoch == INITIAL_EPOCH:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session = self._expected(key, epoch)
        if epoch != FINAL_EPOCH:
            session.advance()
        return session

    def end(self, key: SessionKey) -> ShareSession | None:
        """End a member's session. Returns it, None if there was none."""
        session = self._sessions.pop(key, None)
        if session is not None:
            of_connection = self._by_connection[session.connection_id]
            del of_connection[key]
            if not of_connection:
                del self._by_connection[session.connection_id]
        return session

    def disconnected(self, connection_id: str) -> list[ShareSession]:
        """A connection has closed. Returns the sessions that ended with it, whose members' records
        must be released."""
        ended = [self.end(key) for key in list(self._by_connection.get(connection_id, ()))]
        return [session for session in ended if session is not None]

    def _open(
        self, key: SessionKey, connection_id: str, named: Collection[TopicIdPartition]
    ) -> ShareSession:
        if len(self._sessions) >= self.sessions_max:
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = ShareSession(key, connection_id, named)
        self._sessions[key] = session
        self._by_connection.setdefault(connection_id, {})[key] = None
        return session

    def _expected(self, key: SessionKey, epoch: int) -> ShareSession:
        session = self._sessions.get(key)
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch not in (FINAL_EPOCH, session.epoch):
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        return session
