"""The level, of eight, from which a client's quota comes, and the clients that share its rate."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pk.core.quota.entity import CLIENT_ID, IP, USER, Limit, QuotaTable, entity_of

KEY = "producer_byte_rate"
LEVELS: tuple[Mapping[str, str | None], ...] = (
    {USER: "alice", CLIENT_ID: "app"},
    {USER: "alice", CLIENT_ID: None},
    {USER: "alice"},
    {USER: None, CLIENT_ID: "app"},
    {USER: None, CLIENT_ID: None},
    {USER: None},
    {CLIENT_ID: "app"},
    {CLIENT_ID: None},
)
SHARED = (
    ("alice", "app"),
    ("alice", "app"),
    ("alice", ""),
    ("alice", "app"),
    ("alice", "app"),
    ("alice", ""),
    ("", "app"),
    ("", "app"),
)
OTHERS: tuple[Mapping[str, str | None], ...] = (
    {USER: "bob", CLIENT_ID: "app"},
    {USER: "alice", CLIENT_ID: "other"},
    {USER: "bob"},
    {CLIENT_ID: "other"},
    {IP: None},
)


def table(*entities: Mapping[str, str | None]) -> QuotaTable:
    return QuotaTable({entity_of(e): {KEY: float(n)} for n, e in enumerate(entities, 1)}, KEY)


@pytest.mark.parametrize("level", range(len(LEVELS)))
def test_the_first_level_that_fits_counts(level: int) -> None:
    found = table(*LEVELS[level:], *OTHERS).limit("alice", "app")
    assert found == Limit(1.0, SHARED[level])


def test_without_a_quota_that_fits_there_is_no_limit() -> None:
    assert table(*OTHERS).limit("alice", "app") is None
    assert not table({IP: "1.2.3.4"})


def test_a_client_without_a_client_id_has_the_quotas_of_its_user_only() -> None:
    assert table({USER: "alice", CLIENT_ID: None}, {CLIENT_ID: None}).limit("alice", "") is None
    everything = table(*LEVELS)
    assert everything.limit("alice", "") == Limit(3.0, ("alice", ""))
    assert everything.limit("bob", "") == Limit(6.0, ("bob", ""))


def test_each_key_has_levels_of_its_own() -> None:
    quotas = {
        entity_of({USER: "alice"}): {"consumer_byte_rate": 1.0},
        entity_of({CLIENT_ID: "app"}): {KEY: 2.0},
    }
    assert QuotaTable(quotas, KEY).limit("alice", "app") == Limit(2.0, ("", "app"))


def test_names_of_many_clients_are_not_kept() -> None:
    known = table({USER: None})
    for number in range(QuotaTable.CACHED_MAX + 10):
        assert known.limit(f"u{number}", "") == Limit(1.0, (f"u{number}", ""))
    assert len(known._limits) <= QuotaTable.CACHED_MAX
