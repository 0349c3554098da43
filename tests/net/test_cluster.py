"""Clusters of nodes over real sockets: roles, registration, leaders that go and come back, the
controller that does."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from nodes import Cluster, caller_of, config_of, running_cluster, trio_test
from replicated_topic import (
    agree,
    in_sync,
    make_replicated,
    produce,
    produce_once,
    state,
)

from pk.core.broker.node_lifecycle import StartError
from pk.core.config import BrokerConfig
from pk.core.errors import ErrorCode
from pk.core.log.failures import LogDirMismatch
from pk.core.log.memory_disk import MemoryDisk
from pk.core.meta.image import MetadataImage
from pk.core.values import NO_LEADER
from pk.core.wire.messages.broker_registration import BrokerRegistrationRequest
from pk.core.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from pk.core.wire.messages.init_producer_id import InitProducerIdRequest
from pk.core.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from pk.core.wire.messages.unregister_broker import UnregisterBrokerRequest
from pk.net.node import Node


@trio_test
async def test_what_is_acknowledged_is_on_every_replica() -> None:
    async with running_cluster() as cluster:
        await make_replicated(cluster, "t", 3)
        assert {state(cluster, "t", n).leader for n in range(3)} == {1, 2, 3}
        assert [await produce(cluster, b"%d" % n) for n in range(5)] == [0, 1, 2, 3, 4]
        for node_id in (1, 2, 3):
            log = cluster.nodes[node_id].broker.data.replicas.partition("t", 0).log
            assert log.state.log_end_offset == 5, "acks=all waited for it"
        await agree(cluster, 5)


@trio_test
async def test_brokers_name_one_another_and_not_the_controller() -> None:
    async with running_cluster() as cluster:
        for node_id in (1, 2, 3):
            async with caller_of(cluster.nodes[node_id]) as caller:
                answer = await caller.call(MetadataRequest(topics=[]), 9)
                assert [broker.node_id for broker in answer.brokers] == [1, 2, 3]
                assert answer.cluster_id == cluster.image.cluster_id
        image = await cluster.until(lambda image: bool(image.controllers))  # in the background
        assert 0 not in image.brokers
        assert list(image.controllers) == [0]


@trio_test
async def test_when_a_leader_dies_another_goes_on_and_it_comes_back() -> None:
    async with running_cluster(broker__session__timeout__ms="180000") as cluster:
        await make_replicated(cluster, "t")
        await produce(cluster, b"before")
        dead, epoch = state(cluster).leader, state(cluster).leader_epoch
        await cluster.crash(dead)
        with trio.fail_after(60):  # long before the end of its session
            assert await produce(cluster, b"meanwhile") == 1
        assert state(cluster).leader != dead
        assert state(cluster).leader_epoch > epoch
        assert dead not in state(cluster).isr
        await cluster.start(dead)
        await in_sync(cluster, 3)
        await agree(cluster, 2)
        assert await produce(cluster, b"after") == 2
        await agree(cluster, 3)


@trio_test
async def test_a_broker_that_stops_hands_over_first() -> None:
    async with running_cluster() as cluster:
        await make_replicated(cluster, "t")
        await produce(cluster, b"before")
        leader = state(cluster).leader
        broker_epoch = cluster.image.brokers[leader].broker_epoch
        seen: list[int] = []
        controller = cluster.controller.broker.cluster.controller
        assert controller is not None
        controller.commit_listeners.append(
            lambda _, image: seen.append(image.topics["t"].partitions[0].leader)
        )
        await cluster.stop(leader)
        assert NO_LEADER not in seen
        assert state(cluster).leader not in (leader, NO_LEADER)
        assert cluster.image.brokers[leader].fenced
        assert await produce(cluster, b"meanwhile") == 1
        mark = cluster.disks[leader].read("/data/.kafka_cleanshutdown")
        assert str(broker_epoch).encode() in mark
        await cluster.start(leader)
        await in_sync(cluster, 3)
        await agree(cluster, 2)


@trio_test
async def test_the_answer_with_the_next_leader_still_names_the_broker_that_died(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """librdkafka gives up a broker that is not named, and may drop the new leader with it, for up
    to a second."""
    monkeypatch.setattr("pk.core.broker.requests.recently_fenced.RECENT_S", 60)
    async with running_cluster() as cluster:
        await make_replicated(cluster, "t")
        leader = state(cluster).leader
        other = next(n for n in (1, 2, 3) if n != leader)
        await cluster.crash(leader)
        broker = cluster.nodes[other].broker
        await broker.purgatory.until(
            lambda: broker.image.brokers[leader].fenced, (MetadataImage,), float("inf")
        )
        async with caller_of(cluster.nodes[other]) as caller:
            asked = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
            answer = await caller.call(asked, 9)
        [partition] = answer.topics[0].partitions
        assert {b.node_id for b in answer.brokers} == {1, 2, 3}
        assert partition.leader_id not in (leader, NO_LEADER)
        assert partition.offline_replicas == [leader]


@trio_test
async def test_brokers_go_on_while_the_controller_is_away() -> None:
    async with running_cluster() as cluster:
        await make_replicated(cluster, "t")
        await produce(cluster, b"before")
        known = state(cluster)
        await cluster.crash(cluster.CONTROLLER)
        async with caller_of(cluster.nodes[known.leader]) as caller:
            assert await produce_once(caller, "t", b"without it", -1) == (0, 1)
        await cluster.start(cluster.CONTROLLER)
        await make_replicated(cluster, "u")
        assert await produce(cluster, b"x", topic="u") == 0
        assert state(cluster).leader == known.leader, (
            "no broker was fenced for the controller's absence"
        )
        assert await produce(cluster, b"after") == 2


@trio_test
async def test_a_broker_that_was_away_for_long_loads_a_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pk.core.broker.controller.metadata_feed.TAIL_BYTES", 1)
    async with running_cluster() as cluster:
        await cluster.stop(3)
        async with caller_of(cluster.nodes[1]) as caller:
            for n in range(20):
                topic = CreatableTopic(name=f"t{n}", num_partitions=1, replication_factor=2)
                answer = await caller.call(CreateTopicsRequest(topics=[topic]), 7)
                assert answer.topics[0].error_code == 0
        node = await cluster.start(3)
        assert set(node.broker.image.topics) == {f"t{n}" for n in range(20)}


@trio_test
async def test_no_two_brokers_give_out_one_producer_id() -> None:
    async with running_cluster() as cluster:
        given: list[int] = []
        for node_id in (1, 2, 3, 1, 2, 3):
            async with caller_of(cluster.nodes[node_id]) as caller:
                answer = await caller.call(InitProducerIdRequest(transactional_id=None), 4)
                assert answer.error_code == 0
                given.append(answer.producer_id)
        assert len(set(given)) == 6


@trio_test
async def test_a_client_of_any_broker_finds_its_topic_at_once() -> None:
    async with running_cluster() as cluster:
        for node_id in (1, 2, 3):
            name = f"by-{node_id}"
            async with caller_of(cluster.nodes[node_id]) as caller:
                topic = CreatableTopic(name=name, num_partitions=1, replication_factor=3)
                answer = await caller.call(CreateTopicsRequest(topics=[topic]), 7)
                assert answer.topics[0].error_code == 0
                asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
                (found,) = (await caller.call(asked, 9)).topics
                assert (found.error_code, len(found.partitions)) == (0, 1)


# --- several controllers ---


def voting_config(store: str, node_id: int, roles: str) -> BrokerConfig:
    listeners = "PLAINTEXT://127.0.0.1:0"
    if "controller" in roles:
        listeners += ",CONTROLLER://127.0.0.1:0"
    return config_of(
        node__id=str(node_id),
        process__roles=roles,
        listeners=listeners,
        controller__listener__names="CONTROLLER",
        pk__metadata__store=store,
    )


def test_another_takes_the_leadership_of_a_controller_that_dies(voting_store: str) -> None:
    @trio_test
    async def run() -> None:
        nodes: dict[int, Node] = {}
        scopes: dict[int, trio.CancelScope] = {}
        roles = {1: "broker,controller", 2: "broker,controller", 3: "broker"}
        async with trio.open_nursery() as nursery:

            async def start(node_id: int, task_status: trio.TaskStatus[None]) -> None:
                config = voting_config(voting_store, node_id, roles[node_id])
                nodes[node_id] = Node(config, disk=MemoryDisk())
                with trio.CancelScope() as scopes[node_id]:
                    await nodes[node_id].run(lambda _: task_status.started())

            for node_id in roles:
                await nursery.start(lambda n, task_status: start(n, task_status), node_id)
            controller = nodes[3].broker.image.controller_id
            assert controller in (1, 2)
            await create(nodes[3], "before")
            scopes[controller].cancel()
            del nodes[controller]
            await create(nodes[3], "after")
            (other,) = {1, 2} - {controller}
            broker = nodes[3].broker
            assert broker.image.controller_id == other
            assert await broker.purgatory.until(
                lambda: broker.image.brokers[controller].fenced,
                (MetadataImage,),
                trio.current_time() + 60,
            )
            assert set(nodes[3].broker.image.topics) == {"before", "after"}
            for node in nodes.values():
                node.stop()

    run()


async def create(node: Node, name: str) -> None:
    async with caller_of(node) as caller:
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=2)
        answer = await caller.call(CreateTopicsRequest(topics=[topic]), 7)
        assert answer.topics[0].error_code == 0, answer


# --- who may not come in ---


async def failure_of(cluster: Cluster, node: Node) -> BaseException:
    """The error of a node that does not start."""
    try:
        with trio.fail_after(60):
            await node.run(lambda _: pytest.fail("it started"))
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        return error
    except (StartError, LogDirMismatch) as e:
        return e
    raise AssertionError("it ended")


@trio_test
async def test_a_second_node_of_one_id_does_not_get_in() -> None:
    async with running_cluster(1) as cluster:
        twin = cluster.config(
            1,
            listeners="PLAINTEXT://127.0.0.1:0",
            initial__broker__registration__timeout__ms="5000",
        )
        error = await failure_of(cluster, Node(twin, disk=MemoryDisk()))
        assert "DUPLICATE_BROKER_REGISTRATION, another running process is broker 1" in str(error)
        assert not cluster.image.brokers[1].fenced


@trio_test
async def test_a_directory_of_another_cluster_does_not_get_in() -> None:
    async with running_cluster(1) as one, running_cluster(1) as other:
        await one.stop(1)
        node = Node(other.config(1, listeners="PLAINTEXT://127.0.0.1:0"), disk=one.disks[1])
        error = await failure_of(other, node)
        assert (
            "INCONSISTENT_CLUSTER_ID, the controller belongs to another cluster, this broker to "
            f"{one.image.cluster_id}"
        ) in str(error)


@trio_test
async def test_a_broker_that_finds_no_controller_gives_up_and_keeps_its_clean_mark() -> None:
    async with running_cluster(1) as cluster:
        await cluster.stop(1)
        mark = cluster.disks[1].read("/data/.kafka_cleanshutdown")
        await cluster.crash(cluster.CONTROLLER)
        keys = {"initial__broker__registration__timeout__ms": "300"}
        error = await failure_of(cluster, Node(cluster.config(1, **keys), disk=MemoryDisk()))
        assert isinstance(error, StartError)
        assert "300 ms" in str(error)
        waiting = Node(cluster.config(1), disk=cluster.disks[1])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(waiting.run, lambda _: None)
            await trio.sleep(0.1)
            waiting.stop()
        assert cluster.disks[1].read("/data/.kafka_cleanshutdown") == mark


@trio_test
async def test_a_broker_that_was_forgotten_comes_back_whatever_it_hears_first() -> None:
    """Its new registration may be in the metadata log that it follows before it has the answer that
    tells its epoch."""
    async with running_cluster(2, broker__heartbeat__interval__ms="200") as cluster:
        client, controller = (
            cluster.nodes[1].broker.cluster.controller_client,
            cluster.controller.broker.cluster.controller,
        )
        assert controller is not None
        ask, registered = client.request, trio.Event()

        async def late(request: Any, *, timeout_ms: float) -> Any:
            answer = await ask(request, timeout_ms=timeout_ms)
            if isinstance(request, BrokerRegistrationRequest):
                while True:
                    follower = controller.observers.get(1)
                    if follower is not None and follower.offset > answer.broker_epoch:
                        break
                    await trio.sleep(0.005)
                registered.set()
            return answer

        client.request = late
        epoch = cluster.image.brokers[1].broker_epoch
        async with caller_of(cluster.nodes[2]) as caller:
            answer = await caller.call(UnregisterBrokerRequest(broker_id=1), 0)
            assert answer.error_code == ErrorCode.NONE
        await registered.wait()
        assert cluster.image.brokers[1].broker_epoch > epoch
        with trio.fail_after(60):
            await cluster.until(lambda image: image.brokers[1].may_lead)


@trio_test
async def test_one_node_with_a_controllers_listener_takes_other_brokers_in() -> None:
    keys = {
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "controller__listener__names": "CONTROLLER",
    }
    async with trio.open_nursery() as nursery:
        first, ready, joined = (
            Node(config_of(**keys), disk=MemoryDisk()),
            trio.Event(),
            trio.Event(),
        )
        nursery.start_soon(first.run, lambda _: ready.set())
        await ready.wait()
        assert first.controller_address is not None
        second = Node(
            config_of(
                node__id="2",
                process__roles="broker",
                controller__listener__names="CONTROLLER",
                controller__quorum__voters=f"1@{first.controller_address}",
            ),
            disk=MemoryDisk(),
        )
        nursery.start_soon(second.run, lambda _: joined.set())
        await joined.wait()
        async with caller_of(second) as caller:
            topic = CreatableTopic(name="t", num_partitions=1, replication_factor=2)
            answer = await caller.call(CreateTopicsRequest(topics=[topic]), 7)
            assert answer.topics[0].error_code == 0
        assert sorted(first.broker.image.brokers) == [1, 2]
        second.stop()
        first.stop()


@trio_test
async def test_a_replica_for_which_a_disk_had_no_room_is_made_once_there_is() -> None:
    async with running_cluster(2, replica__lag__time__max__ms="500") as cluster:
        disk = cluster.disks[2]
        disk.bytes_max = 0
        async with caller_of(cluster.nodes[1]) as caller:
            assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2])
            topic = CreatableTopic(
                name="t", num_partitions=-1, replication_factor=-1, assignments=[assignment]
            )
            answer = await caller.call(CreateTopicsRequest(topics=[topic]), 7)
            assert answer.topics[0].error_code == 0, answer
        await produce(cluster, b"x", acks=1)
        left = await cluster.until(lambda _: state(cluster).isr == (1,))
        broker = cluster.nodes[2].broker
        assert await broker.purgatory.until(
            lambda: broker.image.offset >= left.offset, (MetadataImage,), trio.current_time() + 60
        )
        assert broker.data.replicas.find("t", 0) is None
        disk.bytes_max = None
        await cluster.until(lambda _: state(cluster).isr == (1, 2))  # and no image came but this
        assert broker.data.replicas.partition("t", 0).log.state.log_end_offset == 1
