"""Fetch sessions (KIP-227): epochs, and which session is evicted when the cache is full."""

from random import Random

import pytest

from pk.core.broker.replication.fetch_sessions import (
    FetchedPartition,
    FetchSessions,
    Partitions,
    forget,
)
from pk.core.errors import ErrorCode, KafkaError

MINUTE_MS = 60_000


def sessions(slots: int) -> FetchSessions:
    return FetchSessions(slots, 2 * MINUTE_MS, Random(1))


def open_one(cache: FetchSessions, now_ms: int = 0, privileged: bool = False) -> int | None:
    partitions: Partitions = {("t", 0): FetchedPartition("t", b"", 0)}
    session = cache.open(partitions, by_id=False, privileged=privileged, now_ms=now_ms)
    return session.id if session is not None else None


def test_epochs_count_up_and_a_stale_one_is_refused() -> None:
    cache = sessions(10)
    session_id = open_one(cache)
    assert session_id
    assert cache.next(session_id, 1, False, 0).epoch == 2
    assert cache.next(session_id, 2, False, 0).epoch == 3
    for stale in (2, 4, 1):
        with pytest.raises(KafkaError) as caught:
            cache.next(session_id, stale, False, 0)
        assert caught.value.code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_the_epoch_wraps_to_one() -> None:
    cache = sessions(10)
    session_id = open_one(cache)
    assert session_id
    session = cache.next(session_id, 1, False, 0)
    session.epoch = 0x7FFFFFFF
    assert cache.next(session_id, 0x7FFFFFFF, False, 0).epoch == 1


def test_an_unknown_session_and_a_change_of_names() -> None:
    cache = sessions(10)
    with pytest.raises(KafkaError) as caught:
        cache.next(77, 1, False, 0)
    assert caught.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    session_id = open_one(cache)
    assert session_id
    with pytest.raises(KafkaError) as caught:
        cache.next(session_id, 1, True, 0)
    assert caught.value.code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_full_cache_opens_a_session_only_for_an_idle_one() -> None:
    cache = sessions(2)
    first, second = open_one(cache, 0), open_one(cache, 0)
    assert first and second
    assert open_one(cache, 2 * MINUTE_MS) is None, "both were used two minutes ago, not longer"
    cache.next(first, 1, False, 2 * MINUTE_MS)
    third = open_one(cache, 2 * MINUTE_MS + 1)
    assert third
    with pytest.raises(KafkaError):
        cache.next(second, 1, False, 0)
    cache.next(first, 2, False, 0)


def test_a_follower_puts_a_consumer_out_but_not_another_follower() -> None:
    cache = sessions(2)
    consumer, follower = open_one(cache, 0), open_one(cache, 0, privileged=True)
    assert consumer and follower
    assert open_one(cache, 1, privileged=True)
    assert open_one(cache, 1, privileged=True) is None
    cache.next(follower, 1, False, 1)


def test_forgetting() -> None:
    cache = sessions(2)
    session_id = open_one(cache)
    assert session_id
    session = cache.next(session_id, 1, False, 0)
    for key in ("t", 0), ("t", 9):
        forget(session, key)
    assert session.partitions == {}
