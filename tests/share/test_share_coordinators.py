"""Share coordinators on a broker: their log outlives it, and its beginning is deleted when no group
needs it."""

from __future__ import annotations

from typing import Any

import trio
from group.brokers import TestBroker, running, simulated

from pk.core.errors import ErrorCode
from pk.core.log.memory_disk import MemoryDisk
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
        coordinator = test.broker.share_coordinators.coordinator(leader.key.coordinator_key)
        log = coordinator.partition.log
        assert log.log_start_offset == 0
        await trio.sleep(301)
        # The snapshots are at 0, 4 and 8: what is before the last one is gone, and the last one is
        # there.
        assert log.log_start_offset == 8
        assert await leader.read() == before


@simulated
async def test_the_state_of_a_deleted_topic_is_forgotten() -> None:
    async with running() as test:
        await test.create_topics("t")
        leader = Leader(test)
        await leader.find()
        await leader.initialize()
        coordinator = test.broker.share_coordinators.coordinator(leader.key.coordinator_key)
        assert leader.key in coordinator.machine.states
        await test.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
        assert leader.key not in coordinator.machine.states


@simulated
async def test_a_broker_that_does_not_coordinate_says_so() -> None:
    async with running() as test:
        await test.create_topics("t")
        assert (await Leader(test).read()).error_code == ErrorCode.NOT_COORDINATOR
        assert SHARE_STATE_TOPIC not in test.broker.image.topics
