"""Share sessions: the partitions that a member of a share group fetches, kept by each leader
(KIP-932).

A member names its partitions once, and afterwards only those that it adds or forgets. Both sides
count the session's epoch, so that they notice a lost request or response. A session has no id: the
group and the member id identify it.

    epoch  0    close the member's session if it has one, and open a new one; the request names
                every partition
    epoch  n    the next request of the session, if n is the expected epoch
    epoch -1    the last request of the session: it may acknowledge, and acquires nothing

Acknowledgements come with the requests of the session. A request with an unexpected epoch is
refused as a whole, so its acknowledgements cannot be applied twice. When a session ends, the caller
must release the member's records (`SharePartitionState.release`).

The number of sessions is bounded (`group.share.max.share.sessions`). No session is evicted in favor
of another, because its member would lose the records that it holds. A session ends with the
connection that opened it.
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
    """A member's share session."""

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
        """The partitions that the member fetches, in the order in which it added them."""
        return self._partitions.keys()

    def in_turn(self) -> list[TopicIdPartition]:
        """Return the partitions, beginning with a different one in each request, so that the first
        ones do not always use up the limits."""
        found = list(self._partitions)
        if not found:
            return found
        first = self.epoch % len(found)
        return found[first:] + found[:first]

    def update(
        self, added: Iterable[TopicIdPartition], forgotten: Iterable[TopicIdPartition]
    ) -> None:
        """Add partitions to the session, and remove the forgotten ones."""
        self._partitions.update(dict.fromkeys(added))
        for partition in forgotten:
            self._partitions.pop(partition, None)

    def advance(self) -> None:
        """Advance to the next epoch. The epoch after the last one is 1."""
        self.epoch = 1 if self.epoch == _LAST_EPOCH else self.epoch + 1


class ShareSessions:
    """The share sessions of one broker. `sessions_max` may be changed at any time."""

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
        """Return the session of a member, or None."""
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
        """Handle the session of a ShareFetch, which names partitions to add and to forget. Returns
        the updated session. After epoch -1, the caller must end it (`end`) once the
        acknowledgements are processed.

        Raises SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH, SHARE_SESSION_LIMIT_REACHED,
        and INVALID_REQUEST for a first request that `acknowledges`: a new session has acquired
        nothing.
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
        """Handle the session of a ShareAcknowledge. Returns the session. After epoch -1, the caller
        must end it, as for `fetch`.

        Raises SHARE_SESSION_NOT_FOUND and INVALID_SHARE_SESSION_EPOCH; the latter also for epoch 0,
        because a ShareAcknowledge cannot open a session.
        """
        if epoch == INITIAL_EPOCH:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session = self._expected(key, epoch)
        if epoch != FINAL_EPOCH:
            session.advance()
        return session

    def end(self, key: SessionKey) -> ShareSession | None:
        """End a member's session. Returns it, or None if there was none."""
        session = self._sessions.pop(key, None)
        if session is not None:
            of_connection = self._by_connection[session.connection_id]
            del of_connection[key]
            if not of_connection:
                del self._by_connection[session.connection_id]
        return session

    def disconnected(self, connection_id: str) -> list[ShareSession]:
        """End the sessions of a closed connection. Returns them: the caller must release their
        members' records."""
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
