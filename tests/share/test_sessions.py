"""Share sessions: what each epoch does, and which members are refused."""

from __future__ import annotations

import pytest

from pk.core.errors import ErrorCode, KafkaError
from pk.core.share.sessions import SessionKey, ShareSession, ShareSessions
from pk.core.values import TopicIdPartition

E = ErrorCode
A, B = SessionKey("g", "a"), SessionKey("g", "b")
P = [TopicIdPartition(bytes(16), n) for n in range(4)]


def fetch(
    sessions: ShareSessions,
    epoch: int,
    *named: TopicIdPartition,
    key: SessionKey = A,
    connection: str = "1",
    forgotten: tuple[TopicIdPartition, ...] = (),
    acknowledges: bool = False,
) -> ShareSession | ErrorCode:
    """A ShareFetch: the session, or with which error it is refused."""
    try:
        return sessions.fetch(key, epoch, connection, named, forgotten, acknowledges=acknowledges)
    except KafkaError as e:
        return ErrorCode(e.code)


def acknowledge(sessions: ShareSessions, epoch: int) -> ErrorCode:
    """A ShareAcknowledge of member a."""
    try:
        sessions.acknowledge(A, epoch)
    except KafkaError as e:
        return ErrorCode(e.code)
    return E.NONE


def test_a_session_names_only_what_changes() -> None:
    sessions = ShareSessions(10)
    fetch(sessions, 0, P[0], P[1])
    session = fetch(sessions, 1, P[2], forgotten=(P[0], P[3]))
    assert isinstance(session, ShareSession)
    assert list(session.partitions) == [P[1], P[2]]
    assert fetch(sessions, 2) is session
    assert list(session.partitions) == [P[1], P[2]]


@pytest.mark.parametrize("wrong", [1, 2, 4, 100, -2])
def test_an_epoch_that_is_not_expected_changes_nothing(wrong: int) -> None:
    sessions = ShareSessions(10)
    fetch(sessions, 0, P[0])
    fetch(sessions, 1)
    assert acknowledge(sessions, 2) == E.NONE
    assert fetch(sessions, wrong, P[1]) == E.INVALID_SHARE_SESSION_EPOCH
    assert acknowledge(sessions, wrong) == E.INVALID_SHARE_SESSION_EPOCH
    session = fetch(sessions, 3)
    assert isinstance(session, ShareSession) and list(session.partitions) == [P[0]]


def test_a_session_must_be_opened_by_a_fetch_that_acknowledges_nothing() -> None:
    sessions = ShareSessions(10)
    for epoch in (1, -1):
        assert fetch(sessions, epoch, P[0]) == E.SHARE_SESSION_NOT_FOUND
        assert acknowledge(sessions, epoch) == E.SHARE_SESSION_NOT_FOUND
    assert acknowledge(sessions, 0) == E.INVALID_SHARE_SESSION_EPOCH
    assert fetch(sessions, 0, P[0], acknowledges=True) == E.INVALID_REQUEST
    assert len(sessions) == 0


def test_a_new_session_takes_the_place_of_the_old_one() -> None:
    sessions = ShareSessions(1)
    fetch(sessions, 0, P[0])
    fetch(sessions, 1)
    session = fetch(sessions, 0, P[1], connection="2")
    assert isinstance(session, ShareSession) and list(session.partitions) == [P[1]]
    assert sessions.disconnected("1") == []
    assert fetch(sessions, 1, acknowledges=True) is session


def test_the_last_request_leaves_the_session_to_be_ended() -> None:
    sessions = ShareSessions(10)
    fetch(sessions, 0, P[0])
    session = fetch(sessions, -1, acknowledges=True)
    assert session is not E.SHARE_SESSION_NOT_FOUND and sessions.end(A) is session
    assert sessions.end(A) is None
    assert acknowledge(sessions, -1) == E.SHARE_SESSION_NOT_FOUND


def test_a_full_broker_turns_new_members_away_and_keeps_the_others() -> None:
    sessions = ShareSessions(1)
    fetch(sessions, 0, P[0])
    assert fetch(sessions, 0, P[0], key=B) == E.SHARE_SESSION_LIMIT_REACHED
    assert acknowledge(sessions, 1) == E.NONE
    sessions.end(A)
    assert isinstance(fetch(sessions, 0, P[0], key=B), ShareSession)


def test_a_connection_takes_its_sessions_with_it() -> None:
    sessions = ShareSessions(10)
    fetch(sessions, 0, P[0])
    fetch(sessions, 0, P[0], key=B, connection="2")
    assert [one.key for one in sessions.disconnected("1")] == [A]
    assert sessions.find(A) is None and sessions.find(B) is not None
    assert sessions.disconnected("1") == []


def test_each_request_begins_with_another_partition() -> None:
    sessions = ShareSessions(10)
    session = fetch(sessions, 0, *P)
    assert isinstance(session, ShareSession)
    firsts: set[TopicIdPartition] = set()
    for epoch in range(1, 5):
        fetch(sessions, epoch)
        assert sorted(session.in_turn()) == sorted(P)
        firsts.add(session.in_turn()[0])
    assert firsts == set(P)


def test_after_the_last_epoch_comes_the_first() -> None:
    session = ShareSession(A, "1", ())
    session.epoch = (1 << 31) - 1
    session.advance()
    assert session.epoch == 1 and session.in_turn() == []
