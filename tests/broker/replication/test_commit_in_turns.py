"""A broker that takes thousands of changed partitions from an image lets others have the loop
meanwhile; an image counts for clients when all of it is done."""

from __future__ import annotations

import trio
from nodes import caller_of, make_topic, running_node, trio_test

from pk.core.broker.replication.replicas import COMMITTED_AT_ONCE
from pk.core.meta.events import PartitionChanged
from pk.core.meta.image import changes
from pk.core.values import TopicPartition

PARTITIONS = 8 * COMMITTED_AT_ONCE


@trio_test
async def test_thousands_of_new_leaders_are_taken_in_turns() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t", PARTITIONS)
        broker = node.broker
        before, epochs = broker.image, {p.tp: p.leader_epoch for p in broker.replicas}
        topic = before.topics["t"]
        after = before.apply(
            [
                PartitionChanged(topic_id=topic.topic_id, partition=n, leader=broker.node_id)
                for n in range(PARTITIONS)
            ]
        )
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)
            await broker.replicas.commit(after, changes(before, after), [])
            nursery.cancel_scope.cancel()
        # The last turn may be the broker's first, which ends the count.
        assert turns >= PARTITIONS // COMMITTED_AT_ONCE - 2
        for number in range(PARTITIONS):
            partition = broker.replicas.partition("t", number)
            assert partition.leads
            assert partition.leader_epoch == epochs[TopicPartition("t", number)] + 1
