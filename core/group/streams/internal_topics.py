"""Internal topics of streams groups: requests that the broker create missing ones.

All of this is soft state: members send heartbeats until their topics exist, and each heartbeat may
request them. A topic is not requested again while the broker works on it, nor soon after its
creation failed; until then members get the reason of the failure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from pk.core.machine import Effect
from pk.core.wire.messages.create_topics import CreatableTopic

FAILURES_MAX: Final = 3
"""The maximum number of topics whose failures a status names."""


class CreateInternalTopics(Effect, frozen=True):
    """Create these topics. The result goes to `StreamsGroups.topics_created`."""

    group_id: str
    topics: tuple[CreatableTopic, ...]
    timeout_ms: int


class _Failure(NamedTuple):
    message: str
    until_ms: int
    """When the topic may be requested again."""


class InternalTopics:
    """The requested internal topics of the groups of one partition."""

    def __init__(self) -> None:
        self._requested: dict[str, dict[str, int]] = {}
        """The time until which the broker works on each topic, by group."""
        self._failed: dict[str, dict[str, _Failure]] = {}
        """The reason why each topic was not created, by group."""

    def create(
        self, group_id: str, missing: Mapping[str, CreatableTopic], timeout_ms: int, now_ms: int
    ) -> CreateInternalTopics | None:
        """Request those topics of `missing` that may be requested now. Returns None if there are
        none."""
        asked = self._requested.setdefault(group_id, {})
        failed = self._failed.get(group_id, {})
        new = [
            topic
            for name, topic in missing.items()
            if now_ms >= asked.get(name, 0)
            and (name not in failed or now_ms >= failed[name].until_ms)
        ]
        if not new:
            return None
        asked.update(dict.fromkeys((topic.name for topic in new), now_ms + timeout_ms))
        return CreateInternalTopics(group_id, tuple(new), timeout_ms)

    def created(
        self, effect: CreateInternalTopics, refused: Mapping[str, str], now_ms: int
    ) -> None:
        """Apply the result of an effect. `refused` has the reasons why topics could not be
        created."""
        asked = self._requested.get(effect.group_id, {})
        for topic in effect.topics:
            asked.pop(topic.name, None)
        until_ms = now_ms + effect.timeout_ms
        if refused:
            self._failed.setdefault(effect.group_id, {}).update(
                {name: _Failure(message, until_ms) for name, message in refused.items()}
            )

    def failures(self, group_id: str, missing: Collection[str], now_ms: int) -> str:
        """Return the text of a status about topics that could not be created, or "" if there are
        none."""
        found = [
            f"{name} ({failure.message})"
            for name, failure in self._failed.get(group_id, {}).items()
            if name in missing and now_ms < failure.until_ms
        ]
        if not found:
            return ""
        more = len(found) - FAILURES_MAX
        text = ", ".join(found[:FAILURES_MAX]) + (f" and {more} more" if more > 0 else "")
        return f"; Creation failed: {text}."

    def keep_only(self, groups: Collection[str]) -> None:
        """Forget groups that no longer exist."""
        for of_groups in (self._requested, self._failed):
            for group_id in [g for g in of_groups if g not in groups]:
                del of_groups[group_id]
