"""The command line with groups of the consumer protocol (KIP-848) that have members."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from group_parts import Fresh, Reader, Run

Readers = Callable[..., Reader]
BY_COORDINATOR = ("-X", "group.protocol=consumer")


def _members(at: Run, group: str, count: int) -> list[dict[str, Any]]:
    """The members, as soon as there are `count` and all of them have their target assignment."""
    while True:
        found = at("groups", "members", group, "-f", "json").json
        if len(found) == count and all(m["assignment"] == m["target"] for m in found):
            return found


def test_what_a_group_with_members_shows(
    at: Run, fresh: Fresh, timed_topic: str, readers: Readers
) -> None:
    group = fresh("consumer")
    readers(group, *BY_COORDINATOR, "-X", "client.id=one")
    (listed,) = at(
        "groups", "list", "--type", "consumer", "--where", f"group = {group}", "-f", "json"
    ).json
    assert (listed["type"], listed["state"]) == ("Consumer", "Stable")
    (member,) = at("groups", "members", group, "-f", "json").json
    both = [{"topic": timed_topic, "partition": p} for p in (0, 1)]
    assert member["assignment"] == member["target"] == both
    assert (member["client_id"], member["member_epoch"]) == ("one", 2)
    assert member["subscribed"] == [timed_topic]
    (found,) = at("groups", "describe", group, "-f", "json").json
    assert (found["group_epoch"], found["assignment_epoch"]) == (2, 2)
    wide = at("groups", "members", group, "-f", "wide").text
    assert "MEMBER-EPOCH" in wide and "TARGET" in wide
    refused = at("groups", "delete", group, "-y")
    assert refused.code == 5 and "is Stable" in refused.err


@pytest.mark.thorough
def test_members_of_both_protocols_share_a_group(
    at: Run, fresh: Fresh, timed_topic: str, readers: Readers
) -> None:
    group = fresh("both")
    readers(group, "-X", "client.id=classic")
    assert (
        at("groups", "list", "--where", f"group = {group}", "-f", "json").json[0]["type"]
        == "Classic"
    )
    readers(group, *BY_COORDINATOR, "-X", "client.id=newer", read=False)
    found = _members(at, group, 2)
    assert sorted(len(m["assignment"]) for m in found) == [1, 1]
    assert {m["client_id"] for m in found} == {"classic", "newer"}
    assert (
        at("groups", "list", "--where", f"group = {group}", "-f", "json").json[0]["type"]
        == "Consumer"
    )
