"""Share coordinators on a broker: their log outlives it, and its beginning is deleted when no group
needs it."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from group.brokers import TestBroker, running, simulated
from nodes import decide

from pk.core.broker.replication.partition import Partition
from pk.core.errors import ErrorCode
from pk.core.log.memory_disk import MemoryDisk
from pk.core.machine import Decision
from pk.core.meta.events import PartitionChanged
from pk.core.share.coordinator import PRUNING
from pk.core.share.records import ShareKey
from pk.core.values import SHARE_STATE_TOPIC
from pk.core.wire.messages import initialize_share_group_state as initializing
from pk.core.wire.messages import read_share_group_state as reading
from pk.core.wire.messages import write_share_group_state as writing
from pk.core.wire.messages.delete_topics import DeleteTopicsRequest
from pk.core.wire.messages.find_coordinator import FindCoordinatorRequest


class Leader:
    """The leader of partition 0 of a topic, as a share coordinator sees it."""

    def __init__(self, test: TestBroker, group_id: str = "g") -> None:
        self._test = test
        self.key = ShareKey(group_id, test.broker.image.topics["t"].topic_id, 0)

    async def find(self) -> None:
        asked = FindCoordinatorRequest(key_type=2, coordinator_keys=[self.key.coordinator_key])
        await self._test.ask(asked)
        await self._test.loaded()

    async def initialize(self, offset: int = 0) -> None:
        data = initializing.PartitionData(start_offset=offset)
        topic = initializing.InitializeStateData(topic_id=self.key.topic_id, partitions=[data])
        request = initializing.InitializeShareGroupStateRequest(group_id="g", topics=[topic])
        answer = await self._test.ask(request)
        assert answer.results[0].partitions[0].error_code == 0

    async def write(self, first: int, last: int, count: int = 1) -> None:
        batch = writing.StateBatch(
            first_offset=first, last_offset=last, delivery_state=0, delivery_count=count
        )
        data = writing.PartitionData(start_offset=-1, state_batches=[batch])
        topic = writing.WriteStateData(topic_id=self.key.topic_id, partitions=[data])
        request = writing.WriteShareGroupStateRequest(group_id="g", topics=[topic])
        answer = await self._test.ask(request)
        assert answer.results[0].partitions[0].error_code == 0

    async def read(self) -> Any:
        topic = reading.ReadStateData(
            topic_id=self.key.topic_id, partitions=[reading.PartitionData()]
        )
        request = reading.ReadShareGroupStateRequest(group_id="g", topics=[topic])
        return (await self._test.ask(request)).results[0].partitions[0]


@simulated
async def test_the_state_outlives_the_broker() -> None:
    disk = MemoryDisk()
    async with running(disk) as test:
        await test.create_topics("t")
        leader = Leader(test)
        await leader.find()
        await leader.initialize(5)
        await leader.write(7, 9, 2)
        before = await leader.read()
        assert before.start_offset == 5
    async with running(disk) as test:
        await test.loaded()
        assert await Leader(test).read() == before


@simulated
async def test_what_no_share_partition_needs_is_deleted_from_the_log() -> None:
    async with running(share_coordinator_snapshot_update_records_per_snapshot="3") as test:
        await test.create_topics("t")
        leader = Leader(test)
        await leader.find()
        await leader.initialize()
        for offset in range(10):
            await leader.write(offset, offset)
        before = await leader.read()
        coordinator = test.broker.groups.share_coordinators.coordinator(leader.key.coordinator_key)
        log = coordinator.partition.log
        assert log.state.log_start_offset == 0
        await trio.sleep(301)
        # The snapshots are at 0, 4 and 8. The records before the last one are gone, and the last
        # one is there.
        assert log.state.log_start_offset == 8
        assert await leader.read() == before


@pytest.mark.parametrize("late", [False, True], ids=["at once", "when it is safe"])
@simulated
async def test_a_disk_that_fails_while_the_log_is_cut_takes_its_directory_with_it(
    late: bool,
) -> None:
    disk = MemoryDisk()
    config = {"share_coordinator_snapshot_update_records_per_snapshot": "3"}
    async with running(disk, **config) as test:
        await test.create_topics("t")
        leader = Leader(test)
        await leader.find()
        await leader.initialize()
        coordinator = test.broker.groups.share_coordinators.coordinator(leader.key.coordinator_key)
        partition = coordinator.partition
        for offset in range(10):
            if offset == 5:
                partition.log.segments.roll(test.broker.clock.now_ms())
            await leader.write(offset, offset)
        if late:
            await in_sync(test, partition, 1, 2)
            with pytest.raises(AssertionError, match=str(int(ErrorCode.COORDINATOR_NOT_AVAILABLE))):
                await leader.write(10, 10)
        disk.fail_next("rename", suffix=".log")
        coordinator.fire(PRUNING)
        if late:
            assert partition.log.state.log_start_offset == 0
            await in_sync(test, partition, 1)
            await trio.testing.wait_all_tasks_blocked()
        assert partition.offline is not None


async def in_sync(test: TestBroker, partition: Partition, *nodes: int) -> None:
    """Give a partition replicas, all of them in sync."""
    event = PartitionChanged(partition.topic_id, partition.tp.partition, replicas=nodes, isr=nodes)
    await decide(test.broker, lambda image: Decision([event]))


@simulated
async def test_the_state_of_a_deleted_topic_is_forgotten() -> None:
    async with running() as test:
        await test.create_topics("t")
        leader = Leader(test)
        await leader.find()
        await leader.initialize()
        coordinator = test.broker.groups.share_coordinators.coordinator(leader.key.coordinator_key)
        assert leader.key in coordinator.machine.states
        await test.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
        assert leader.key not in coordinator.machine.states


@simulated
async def test_a_broker_that_does_not_coordinate_says_so() -> None:
    async with running() as test:
        await test.create_topics("t")
        assert (await Leader(test).read()).error_code == ErrorCode.NOT_COORDINATOR
        assert SHARE_STATE_TOPIC not in test.broker.image.topics
