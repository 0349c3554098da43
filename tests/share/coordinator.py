"""A share coordinator's machine with a log: its decisions are encoded, decoded and replayed, as its
coordinator would do."""

from __future__ import annotations

from typing import Any

from pk.core.machine import Decision
from pk.core.meta.image import Changes, MetadataImage, PartitionImage, TopicImage
from pk.core.share.batches import StateBatch
from pk.core.share.coordinator import (
    PruneLog,
    ShareCoordinatorMachine,
    ShareCoordinatorSettings,
)
from pk.core.share.records import Record, ShareKey

START_MS = 1_000_000
TOPIC_ID = bytes(range(16))
KEY = ShareKey("g", TOPIC_ID, 0)
KEY_1 = ShareKey("g", TOPIC_ID, 1)


def image() -> MetadataImage:
    """A cluster with one topic of two partitions."""
    partitions = tuple(PartitionImage(n, (1,), (1,), 1, 0, 0) for n in range(2))
    topic = TopicImage("t", TOPIC_ID, partitions)
    return MetadataImage(topics={"t": topic}, topics_by_id={TOPIC_ID: topic})


class Coordinator:
    """The machine of one partition of the topic."""

    def __init__(self, settings: ShareCoordinatorSettings | None = None) -> None:
        self.settings = settings or ShareCoordinatorSettings()
        self.now_ms = START_MS
        self.log: dict[int, tuple[bytes, bytes | None]] = {}
        self.end_offset = 0
        self.timers: dict[Any, int] = {}
        self.machine = ShareCoordinatorMachine(self.settings)
        self._begin()

    def _begin(self) -> None:
        self.take(self.machine.follow(image(), Changes(), self.now_ms))
        self.take(self.machine.loaded(self.now_ms))

    def take(self, decision: Decision[Record, Any]) -> Any:
        """Append, replay, carry out the effects; the reply."""
        for record in decision.records:
            entry = self.machine.encode(record)
            self.log[self.end_offset] = entry
            assert self.machine.decode(*entry) == record
            self.machine.replay(record, self.end_offset)
            self.end_offset += 1
        for effect in decision.effects:
            assert isinstance(effect, PruneLog)
            self.log = {n: one for n, one in self.log.items() if n >= effect.before_offset}
        for key, when_ms in decision.timers:
            assert when_ms is not None
            self.timers[key] = when_ms
        return decision.reply

    def fail_over(self) -> None:
        """Another coordinator reads the log."""
        self.machine = ShareCoordinatorMachine(self.settings)
        for offset, entry in self.log.items():
            record = self.machine.decode(*entry)
            assert record is not None
            self.machine.replay(record, offset)
        self.timers = {}
        self._begin()

    def after(self, ms: int) -> None:
        """Let time pass; timers fire."""
        until = self.now_ms + ms
        while self.timers and min(self.timers.values()) <= until:
            key = min(self.timers, key=lambda k: self.timers[k])
            self.now_ms = max(self.now_ms, self.timers.pop(key))
            self.take(self.machine.fire(key, self.now_ms))
        self.now_ms = until

    def initialize(self, key: ShareKey = KEY, state_epoch: int = 0, start_offset: int = 0) -> None:
        """InitializeShareGroupState."""
        self.take(self.machine.initialize(key, state_epoch, start_offset, self.now_ms))

    def read(self, key: ShareKey = KEY, leader_epoch: int = 0) -> Any:
        """ReadShareGroupState."""
        return self.take(self.machine.read(key, leader_epoch, self.now_ms))

    def summary(self, key: ShareKey = KEY) -> Any:
        """ReadShareGroupStateSummary."""
        return self.take(self.machine.read_summary(key, self.now_ms))

    def delete(self, key: ShareKey = KEY) -> None:
        """DeleteShareGroupState."""
        self.take(self.machine.delete(key, self.now_ms))

    def write(
        self,
        *batches: StateBatch,
        key: ShareKey = KEY,
        state_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = -1,
        count: int = 0,
    ) -> None:
        """WriteShareGroupState."""
        self.take(
            self.machine.write(
                key, state_epoch, leader_epoch, start_offset, count, batches, self.now_ms
            )
        )
