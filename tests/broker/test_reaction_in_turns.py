"""What becomes of an append that changes thousands of partitions, at the controller and at a
broker, is done in steps that are no longer for more partitions.

The longest step is counted in calls of functions and not in seconds. Turns are shortened, so that
partitions may be few.
"""

from __future__ import annotations

import pytest
import trio.testing
from loop_steps import counted
from nodes import decide, running_node, trio_test

from pk.core import turns
from pk.core.broker.broker import Broker
from pk.core.broker.controller import metadata_feed
from pk.core.broker.replication import assign_replicas_to_dirs, replica_fetcher_manager, replicas
from pk.core.machine import Decision
from pk.core.meta import image
from pk.core.meta.events import (
    TOPIC,
    ConfigChanged,
    Event,
    PartitionChanged,
    PartitionCreated,
    TopicCreated,
    TopicDeleted,
)
from pk.core.turns import Pace
from pk.core.values import Uuid

SHORTENED = 8
FEW, MANY = 1_000, 3_000
GROWTH = 1.75
"""A step that does everything grows threefold."""

CONSTANTS = (
    (turns, "AT_ONCE"),
    (turns, "FREED_AT_ONCE"),
    (image, "COMPARED_AT_ONCE"),
    (metadata_feed, "BATCHED_AT_ONCE"),
    (replicas, "OPEN_AT_ONCE"),
    (replica_fetcher_manager, "LOOKED_AT_ONCE"),
    (assign_replicas_to_dirs, "COMPARED_AT_ONCE"),
)


@pytest.fixture
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pace.__init__, "__defaults__", (turns.AT_ONCE // SHORTENED,))
    for module, name in CONSTANTS:
        monkeypatch.setattr(module, name, getattr(module, name) // SHORTENED)


class Many:
    """So many partitions of a broker, in one topic or in several."""

    def __init__(self, broker: Broker, count: int, topics: int) -> None:
        self.broker = broker
        self.ids: list[Uuid] = [(count * 100 + n).to_bytes(16, "big") for n in range(topics)]
        self.numbers = range(count // topics)

    def created(self) -> list[Event]:
        """Events that create them; their topics have configs of their own."""
        node = self.broker.node_id
        events: list[Event] = []
        for topic_id in self.ids:
            name = topic_id.hex()
            events.append(TopicCreated(name, topic_id))
            events.append(ConfigChanged(TOPIC, name, "retention.ms", "5000000"))
            events += [PartitionCreated(topic_id, n, (node,), (node,), node) for n in self.numbers]
        return events

    def led_again(self) -> list[Event]:
        """Events that give each another leader epoch."""
        node = self.broker.node_id
        return [
            PartitionChanged(topic_id=topic_id, partition=n, leader=node)
            for topic_id in self.ids
            for n in self.numbers
        ]

    def deleted(self) -> list[Event]:
        """Events that delete their topics."""
        return [TopicDeleted(topic_id) for topic_id in self.ids]

    async def longest_steps(self) -> list[int]:
        """The calls in the longest step for each of the three."""
        longest: list[int] = []
        for events in (self.created(), self.led_again(), self.deleted()):
            with counted() as steps:
                await decide(self.broker, lambda image, events=events: Decision(events))
                await trio.testing.wait_all_tasks_blocked(0.01)
            longest.append(steps.longest)
        return longest


@pytest.mark.usefixtures("short_turns")
@pytest.mark.parametrize("topics", [1, 20])
def test_the_longest_step_does_not_grow_with_the_partitions(topics: int) -> None:
    @trio_test
    async def run() -> None:
        async with running_node() as node:
            few = await Many(node.broker, FEW, topics).longest_steps()
        async with running_node() as node:
            many = await Many(node.broker, MANY, topics).longest_steps()
        for kind, less, more in zip(("created", "led", "deleted"), few, many, strict=True):
            assert more <= less * GROWTH, kind

    run()
