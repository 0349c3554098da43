"""Internal topics of streams groups: asks the broker to create missing ones.

All of this is soft: members send heartbeats until their topics exist, and each heartbeat may
request them. A topic is not requested again while the broker works on it, nor soon after its
creation failed; until then members get the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from pk.core.machine import Effect
from pk.core.wire.messages.create_topics import CreatableTopic

FAILURES_MAX: Final = 3
"""Topics whose failure a status names."""


class CreateInternalTopics(Effect, frozen=True):
    """Make these topics. `StreamsGroups.topics_created` gets the result."""

    group_id: str
    topics: tuple[CreatableTopic, ...]
    timeout_ms: int


class _Failure(NamedTuple):
    message: str
    until_ms: int
    """When the topic may be requested again."""


class InternalTopics:
    """Those of the groups of one partition."""

    def __init__(self) -> None:
        self._asked: dict[str, dict[str, int]] = {}
        """Group → topic → until when the broker works on it."""
        self._failed: dict[str, dict[str, _Failure]] = {}
        """Group → topic → why it was not made."""

    def create(
        self, group_id: str, missing: Mapping[str, CreatableTopic], timeout_ms: int, now_ms: int
    ) -> CreateInternalTopics | None:
        """Request the topics of `missing` that may be requested now; None if there are none."""
        asked = self._asked.setdefault(group_id, {})
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
        """Take the result of an effect: why topics could not be created, by topic."""
        asked = self._asked.get(effect.group_id, {})
        for topic in effect.topics:
            asked.pop(topic.name, None)
        until_ms = now_ms + effect.timeout_ms
        if refused:
            self._failed.setdefault(effect.group_id, {}).update(
                {name: _Failure(message, until_ms) for name, message in refused.items()}
            )

    def failures(self, group_id: str, missing: Collection[str], now_ms: int) -> str:
        """The text of a status about topics that could not be created; empty if there are none."""
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
        """Forget groups that have ended."""
        for of_groups in (self._asked, self._failed):
            for group_id in [g for g in of_groups if g not in groups]:
                del of_groups[group_id]
