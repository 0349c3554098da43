"""The controller's listener and what brokers pass on to it, over real sockets."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from many_nodes import CONTROLLER, Cluster, caller, running_cluster
from nodes import Caller, make_topic, refusing, trio_test
from wire.values import Maker

from pk.core.api.index import CONTROLLER_APIS
from pk.core.api_keys import API_KEYS
from pk.core.auth.principal import KafkaPrincipal
from pk.core.broker.controller.client_identity import address_bytes, principal_bytes
from pk.core.broker.controller.embedded_store import TOPIC_ID
from pk.core.errors import ErrorCode, ProtocolError
from pk.core.meta import brokers, snapshot
from pk.core.meta.events import decode
from pk.core.meta.features import supported_features
from pk.core.meta.image import MetadataImage
from pk.core.record.batch import iter_headers, records
from pk.core.values import METADATA_TOPIC, NO_OFFSET
from pk.core.wire.codec import decode_whole
from pk.core.wire.header import frame_request, parse_response_header
from pk.core.wire.index import MESSAGES
from pk.core.wire.messages import (
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    create_topics,
    describe_configs,
    elect_leaders,
    fetch,
    fetch_snapshot,
    incremental_alter_configs,
    list_partition_reassignments,
)
from pk.core.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from pk.core.wire.messages.api_versions import ApiVersionsRequest
from pk.core.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from pk.core.wire.messages.broker_registration import BrokerRegistrationRequest, Listener
from pk.core.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
)
from pk.core.wire.messages.controller_registration import Listener as ControllerListener
from pk.core.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from pk.core.wire.messages.delete_topics import DeleteTopicsRequest
from pk.core.wire.messages.describe_cluster import DescribeClusterRequest
from pk.core.wire.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from pk.core.wire.messages.envelope import EnvelopeRequest
from pk.core.wire.messages.init_producer_id import InitProducerIdRequest
from pk.core.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from pk.core.wire.messages.unregister_broker import UnregisterBrokerRequest
from pk.core.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

QUORUM = DescribeQuorumRequest(
    topics=[TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData(partition_index=0)])]
)
SEEDS = 4


@asynccontextmanager
async def at_controller(**keys: str) -> AsyncIterator[tuple[Cluster, Caller]]:
    """A cluster of two brokers, and a connection to its controller."""
    async with running_cluster(2, **keys) as cluster, caller(cluster, CONTROLLER) as one:
        yield cluster, one


def topics(*names: str, partitions: int = 2, factor: int = 2, **options: Any) -> Any:
    return create_topics.CreateTopicsRequest(
        topics=[
            create_topics.CreatableTopic(
                name=name, num_partitions=partitions, replication_factor=factor
            )
            for name in names
        ],
        **options,
    )


def metadata_fetch(offset: int, version: int, epoch: int = -1, **options: Any) -> Any:
    partition = fetch.FetchPartition(
        fetch_offset=offset, last_fetched_epoch=epoch, partition_max_bytes=1 << 20
    )
    topic = fetch.FetchTopic(partitions=[partition])
    if version >= 13:
        topic.topic_id = TOPIC_ID
    else:
        topic.topic = METADATA_TOPIC
    return fetch.FetchRequest(**{"max_wait_ms": 0, "max_bytes": 1 << 20, **options}, topics=[topic])


def replayed(data: Any, image: MetadataImage) -> MetadataImage:
    view = memoryview(bytes(data))
    return image.apply(
        decode(record.value or b"")
        for position, header in iter_headers(view)
        for record in records(view[position : position + header.size], header)
        if record.offset >= image.offset
    )


# --- every version ---


@pytest.mark.parametrize("api_key", [api.key for api in CONTROLLER_APIS])
def test_every_version_answers(api_key: int, caplog: pytest.LogCaptureFixture) -> None:
    api = next(api for api in CONTROLLER_APIS if api.key == api_key)

    @trio_test
    async def run() -> None:
        async with running_cluster(1) as cluster:
            for version in range(api.versions[0], api.versions[1] + 1):
                for seed in range(SEEDS):
                    request = Maker(seed, small=True).message(MESSAGES[api_key].request, version)
                    for name in ("max_wait_ms", "timeout_ms"):
                        if hasattr(request, name):
                            setattr(request, name, 0)
                    async with caller(cluster, CONTROLLER) as one:
                        response = await one.call(request, version)
                        assert type(response) is MESSAGES[api_key].response

    with caplog.at_level(logging.WARNING):
        run()
    faults = [r for r in caplog.records if r.exc_info or r.levelno >= logging.ERROR]
    assert not faults, faults[0].exc_text or faults[0].getMessage()


@trio_test
async def test_a_controller_serves_what_apaches_does_and_no_more() -> None:
    async with at_controller() as (_, one):
        response = await one.call(
            ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4
        )
        reported = {k.api_key: (k.min_version, k.max_version) for k in response.api_keys}
        assert reported == {api.key: api.versions for api in CONTROLLER_APIS}
        for key, (low, high) in reported.items():
            assert low <= MESSAGES[key].versions[0] and high == MESSAGES[key].versions[1]


@trio_test
async def test_brokers_serve_nothing_that_is_between_nodes() -> None:
    async with running_cluster(1) as cluster:
        for api in CONTROLLER_APIS:
            if API_KEYS[api.key].served != "controller":
                continue
            async with caller(cluster, 1) as one:
                await one.send(MESSAGES[api.key].request(), api.versions[1])
                assert await one.at_end(), MESSAGES[api.key].name


# --- the life of a broker ---


@trio_test
async def test_a_broker_registers_lives_is_fenced_and_goes() -> None:
    async with at_controller() as (cluster, one):
        image = cluster.image
        registration = BrokerRegistrationRequest(
            broker_id=7,
            cluster_id=image.cluster_id,
            incarnation_id=b"i" * 16,
            features=supported_features(),
            listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=1)],
            log_dirs=[b"d" * 16],
        )
        answers = [await one.call(registration, version) for version in range(5)]
        assert [answer.error_code for answer in answers] == [0] * 5
        epoch = answers[-1].broker_epoch
        assert epoch == cluster.image.brokers[7].broker_epoch and cluster.image.brokers[7].fenced

        async def beat(version: int = 2, broker_epoch: int = epoch, **wants: Any) -> Any:
            request = BrokerHeartbeatRequest(
                broker_id=7,
                broker_epoch=broker_epoch,
                current_metadata_offset=cluster.image.offset - 1,
                **wants,
            )
            return await one.call(request, version)

        assert (await beat(broker_epoch=epoch - 1)).error_code == ErrorCode.STALE_BROKER_EPOCH
        answer = await beat(0, want_fence=True)
        assert answer.is_fenced and answer.is_caught_up
        answer = await beat(1)
        assert not answer.is_fenced and not cluster.image.brokers[7].fenced
        other = BrokerRegistrationRequest(
            broker_id=7,
            cluster_id=image.cluster_id,
            incarnation_id=b"j" * 16,
            log_dirs=[b"d" * 16],
            features=supported_features(),
        )
        answer = await one.call(other, 4)
        assert answer.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION, "the other one lives"
        led = create_topics.CreatableReplicaAssignment(partition_index=0, broker_ids=[7, 1])
        topic = create_topics.CreatableTopic(
            name="t", num_partitions=-1, replication_factor=-1, assignments=[led]
        )
        wanted = create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=60_000)
        assert (await one.call(wanted, 7)).topics[0].error_code == 0
        assert cluster.image.topics["t"].partitions[0].leader == 7
        answer = await beat(want_shut_down=True)
        assert not answer.should_shut_down and cluster.image.brokers[7].in_controlled_shutdown
        assert cluster.image.topics["t"].partitions[0].leader == 1
        while not (await beat(want_shut_down=True)).should_shut_down:  # noqa: ASYNC110
            await trio.sleep(0.01)  # the others tell how far they are in their own heartbeats
        assert cluster.image.brokers[7].fenced
        for expected in (0, ErrorCode.BROKER_ID_NOT_REGISTERED):
            answer = await one.call(UnregisterBrokerRequest(broker_id=7), 0)
            assert answer.error_code == expected
        assert 7 not in cluster.image.brokers


@trio_test
async def test_who_breaks_off_and_does_not_listen_is_fenced_at_once() -> None:
    with refusing() as port:
        # A session longer than the test's own time.
        async with at_controller(broker__session__timeout__ms="600000") as (cluster, one):
            answering = cluster.nodes[1].listeners[0].advertised.port
            epochs = {}
            for node, at in ((7, port), (8, answering)):
                registration = BrokerRegistrationRequest(
                    broker_id=node,
                    cluster_id=cluster.image.cluster_id,
                    incarnation_id=bytes([node]) * 16,
                    features=supported_features(),
                    listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=at)],
                    log_dirs=[bytes([node]) * 16],
                )
                epochs[node] = (await one.call(registration, 4)).broker_epoch
            async with caller(cluster, CONTROLLER) as own:
                for node, epoch in epochs.items():
                    request = BrokerHeartbeatRequest(
                        broker_id=node,
                        broker_epoch=epoch,
                        current_metadata_offset=cluster.image.offset,
                    )
                    assert not (await own.call(request, 2)).is_fenced
            await cluster.until(lambda: cluster.image.brokers[7].fenced)
            assert not cluster.image.brokers[8].fenced, "somebody answers there"


@trio_test
async def test_who_is_silent_is_fenced_after_its_session() -> None:
    async with at_controller(broker__session__timeout__ms="5000") as (cluster, one):
        registration = BrokerRegistrationRequest(
            broker_id=7,
            cluster_id=cluster.image.cluster_id,
            incarnation_id=b"i" * 16,
            features=supported_features(),
            log_dirs=[b"d" * 16],
        )
        epoch = (await one.call(registration, 4)).broker_epoch
        request = BrokerHeartbeatRequest(
            broker_id=7, broker_epoch=epoch, current_metadata_offset=cluster.image.offset
        )
        started = trio.current_time()
        assert not (await one.call(request, 2)).is_fenced
        await cluster.until(lambda: cluster.image.brokers[7].fenced)
        assert trio.current_time() - started > 4.9
        assert not any(cluster.image.brokers[n].fenced for n in (1, 2)), "those send heartbeats"


@trio_test
async def test_producer_ids_come_in_blocks_of_their_own() -> None:
    async with at_controller() as (cluster, one):
        epoch = cluster.image.brokers[1].broker_epoch
        blocks = []
        for _ in range(2):
            answer = await one.call(AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch), 0)
            assert answer.error_code == 0
            blocks.append((answer.producer_id_start, answer.producer_id_len))
        assert blocks[1][0] == blocks[0][0] + blocks[0][1]
        answer = await one.call(AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch - 1), 0)
        assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH
        given = set()
        for node in (1, 2):
            async with caller(cluster, node) as client:
                answer = await client.call(InitProducerIdRequest(transactional_id=None), 5)
                assert answer.error_code == 0
                given.add(answer.producer_id)
        assert len(given) == 2 and not given & set(range(blocks[0][0], sum(blocks[1])))


@trio_test
async def test_an_isr_changes_in_either_version() -> None:
    async with at_controller() as (cluster, one):
        async with caller(cluster, 1) as client:
            topic_id = await make_topic(client, "t")
            answer = await client.call(topics("u", partitions=1), 7)
            topic_id = answer.topics[0].topic_id
        for version in (2, 3):
            partition = cluster.image.topics["u"].partitions[0]
            leader = partition.leader
            wanted = alter_partition.PartitionData(
                partition_index=0,
                leader_epoch=partition.leader_epoch,
                partition_epoch=partition.partition_epoch,
            )
            if version == 2:
                wanted.new_isr = [leader]
            else:
                wanted.new_isr_with_epochs = [alter_partition.BrokerState(broker_id=leader)]
            request = alter_partition.AlterPartitionRequest(
                broker_id=leader,
                broker_epoch=cluster.image.brokers[leader].broker_epoch,
                topics=[alter_partition.TopicData(topic_id=topic_id, partitions=[wanted])],
            )
            answer = await one.call(request, version)
            data = answer.topics[0].partitions[0]
            assert (data.error_code, data.isr) == (0, [leader])
            answer = await one.call(request, version)
            assert answer.topics[0].partitions[0].error_code == ErrorCode.INVALID_UPDATE_VERSION
            # The follower joins again: it has everything.
            await cluster.until(lambda: len(cluster.image.topics["u"].partitions[0].isr) == 2)


@trio_test
async def test_a_fault_of_ours_is_an_answer_to_the_node_itself_too() -> None:
    """An exception that another node would get as an error must not end the tasks of this one."""
    async with running_cluster(1) as cluster:
        broker = cluster.controller.broker
        assert broker.cluster.controller is not None

        def fail(image: MetadataImage, *args: Any, **options: Any) -> Any:
            raise RuntimeError("not foreseen")

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(brokers, "heartbeat", fail)
            request = BrokerHeartbeatRequest(broker_id=1, broker_epoch=1)
            answer = await broker.cluster.controller_client.request(request, timeout_ms=60_000)
        assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


# --- the metadata log ---


@pytest.mark.parametrize("version", range(4, 19))
def test_the_metadata_log_is_fetched(version: int) -> None:
    @trio_test
    async def run() -> None:
        async with at_controller() as (cluster, one):
            image = MetadataImage()
            while image.offset < cluster.image.offset:
                answer = await one.call(metadata_fetch(image.offset, version, max_bytes=1), version)
                data = answer.responses[0].partitions[0]
                assert (answer.error_code, data.error_code) == (0, 0)
                assert data.high_watermark == cluster.image.offset
                image = replayed(data.records, image)
            assert image == cluster.image
            waiting = metadata_fetch(image.offset, version, max_wait_ms=30_000)
            await one.send(waiting, version)
            async with caller(cluster, 1) as client:
                await make_topic(client, "t")
            answer = await one.receive(1, version)
            image = replayed(answer.responses[0].partitions[0].records, image)
            assert "t" in image.topics

    run()


@trio_test
async def test_fetches_that_cannot_be_are_told_why() -> None:
    async with at_controller() as (cluster, one):
        end, epoch = cluster.image.offset, cluster.image.controller_epoch

        async def asked(request: Any, version: int = 18) -> Any:
            answer = await one.call(request, version)
            return answer.responses[0].partitions[0]

        request = metadata_fetch(end + 5, 18)
        assert (await asked(request)).diverging_epoch.end_offset == end
        assert (await asked(metadata_fetch(end, 18, epoch + 1))).diverging_epoch.end_offset == end
        request = metadata_fetch(end + 5, 11)
        assert (await asked(request, 11)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        for claimed, code in (
            (epoch - 1, ErrorCode.FENCED_LEADER_EPOCH),
            (epoch + 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ):
            request = metadata_fetch(0, 18)
            request.topics[0].partitions[0].current_leader_epoch = claimed
            assert (await asked(request)).error_code == code
        request = metadata_fetch(0, 18)
        request.topics[0].topic_id = b"x" * 16
        assert (await asked(request)).error_code == ErrorCode.UNKNOWN_TOPIC_ID
        request = metadata_fetch(0, 12)
        request.topics[0].partitions[0].partition = 1
        assert (await asked(request, 12)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        answer = await one.call(metadata_fetch(0, 18, cluster_id="another"), 18)
        assert answer.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID


@trio_test
async def test_an_answer_names_its_controller_though_its_own_broker_has_not_reacted_yet() -> None:
    """Else a follower, which has the events of that controller, takes it for one that was
    replaced."""
    async with at_controller() as (cluster, one):
        image, broker = cluster.image, cluster.controller.broker
        broker.state.image = MetadataImage(
            controller_id=7, controller_epoch=image.controller_epoch - 1
        )
        request = metadata_fetch(image.offset, 18, cluster_id=image.cluster_id)
        answer = await one.call(request, 18)
        assert answer.error_code == ErrorCode.NONE
        leader = answer.responses[0].partitions[0].current_leader
        assert (leader.leader_id, leader.leader_epoch) == (CONTROLLER, image.controller_epoch)
        broker.state.image = image


@trio_test
async def test_who_is_far_behind_loads_a_snapshot_in_pieces() -> None:
    async with at_controller() as (cluster, one):
        controller = cluster.controller.broker.cluster.controller
        assert controller is not None
        await cluster.kill(2)
        await cluster.until(lambda: cluster.image.brokers[2].fenced)
        # From here on, every append evicts the one before it.
        controller.feed._tail_bytes = 1
        async with caller(cluster, 1) as client:
            for name in "abc":
                await client.call(topics(name, factor=1), 7)
            answer = await one.call(metadata_fetch(0, 17), 17)
            image = cluster.image
            wanted = answer.responses[0].partitions[0].snapshot_id
            while wanted.end_offset != image.offset:  # a broker has changed an ISR
                answer = await one.call(metadata_fetch(0, 17), 17)
                image = cluster.image
                wanted = answer.responses[0].partitions[0].snapshot_id

            async def part(end: int, position: int, version: int) -> Any:
                snapshot_id = fetch_snapshot.SnapshotId(end_offset=end, epoch=wanted.epoch)
                partition = fetch_snapshot.PartitionSnapshot(
                    current_leader_epoch=-1, snapshot_id=snapshot_id, position=position
                )
                topic = fetch_snapshot.TopicSnapshot(name=METADATA_TOPIC, partitions=[partition])
                request = fetch_snapshot.FetchSnapshotRequest(max_bytes=100, topics=[topic])
                return (await one.call(request, version)).topics[0].partitions[0]

            end = wanted.end_offset
            for version in (0, 1):
                data, size = b"", 1
                while len(data) < size:
                    answer = await part(end, len(data), version)
                    assert answer.error_code == 0 and answer.position == len(data)
                    assert 0 < len(answer.unaligned_records) <= 100
                    data, size = data + bytes(answer.unaligned_records), answer.size
                assert snapshot.load(data) == image
                answer = await part(end, size, version)
                assert answer.error_code == ErrorCode.POSITION_OUT_OF_RANGE
                answer = await part(end - 1, 0, version)
                assert answer.error_code == ErrorCode.SNAPSHOT_NOT_FOUND
        node = await cluster.start(2)
        assert node.broker.image.topics.keys() >= {"a", "b", "c"}, "it loaded the snapshot"
        assert node.broker.image.offset <= cluster.image.offset


@pytest.mark.parametrize("version", range(3))
def test_the_quorum_is_described_by_any_node(version: int) -> None:
    @trio_test
    async def run() -> None:
        async with running_cluster(2) as cluster:

            def observed() -> bool:
                controller = cluster.controller.broker.cluster.controller
                return controller is not None and all(
                    (one := controller.observers.get(n)) is not None
                    and one.offset == cluster.image.offset
                    for n in (1, 2)
                )

            await cluster.until(observed)
            for node in (CONTROLLER, 1):
                async with caller(cluster, node) as one:
                    answer = await one.call(QUORUM, version)
                assert answer.error_code == 0
                data = answer.topics[0].partitions[0]
                assert (data.leader_id, data.leader_epoch) == (CONTROLLER, 1)
                assert data.high_watermark == cluster.image.offset
                assert [v.replica_id for v in data.current_voters] == [CONTROLLER]
                assert [o.replica_id for o in data.observers] == [1, 2]
                assert all(o.log_end_offset <= data.high_watermark for o in data.observers)
                if version >= 1:
                    assert all(o.last_caught_up_timestamp > 0 for o in data.observers)
                if version >= 2:
                    assert [n.node_id for n in answer.nodes] == [CONTROLLER]
                    port = cluster.controller.listeners[0].advertised.port
                    assert [x.port for x in answer.nodes[0].listeners] == [port]
                    assert any(data.current_voters[0].replica_directory_id)
                    for observer in data.observers:
                        dirs = cluster.image.brokers[observer.replica_id].log_dirs
                        assert observer.replica_directory_id == dirs[0]
            async with caller(cluster, 1) as one:
                other = DescribeQuorumRequest(
                    topics=[TopicData(topic_name="t", partitions=[PartitionData()])]
                )
                answer = await one.call(other, version)
            code = answer.topics[0].partitions[0].error_code
            assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run()


# --- what brokers pass on ---


@trio_test
async def test_a_client_of_any_broker_administers() -> None:
    async with running_cluster(2) as cluster, caller(cluster, 1) as one, caller(cluster, 2) as two:
        for version in range(8):
            answer = await one.call(topics(f"t{version}"), version)
            assert answer.topics[0].error_code == 0, version
            assert f"t{version}" in cluster.nodes[1].broker.image.topics, "shown where it was asked"
        answer = await one.call(topics("t7"), 7)
        assert answer.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        more = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="t0", count=5, assignments=None)], timeout_ms=60_000
        )
        assert (await two.call(more, 3)).results[0].error_code == 0
        assert len(cluster.nodes[2].broker.image.topics["t0"].partitions) == 5
        gone = DeleteTopicsRequest(topic_names=["t1"], timeout_ms=60_000)
        assert (await two.call(gone, 3)).responses[0].error_code == 0
        assert "t1" not in cluster.nodes[2].broker.image.topics
        answer = await one.call(MetadataRequest(topics=[]), 12)
        assert answer.controller_id == 1, (
            "a broker, which passes on; not a node that clients cannot reach"
        )
        created = MetadataRequest(topics=[MetadataRequestTopic(name="asked-for")])
        answer = await one.call(created, 12)
        assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await cluster.until(lambda: "asked-for" in cluster.nodes[1].broker.image.topics)
        assert (await one.call(created, 12)).topics[0].error_code == 0


@trio_test
async def test_configs_of_topics_and_brokers_are_changed_through_any_listener() -> None:
    async with running_cluster(2) as cluster, caller(cluster, 1) as one:
        await make_topic(one, "t")
        for node, name, value in (
            (1, "max.message.bytes", "5000"),
            (CONTROLLER, "retention.ms", "77"),
        ):
            change = incremental_alter_configs.AlterableConfig(name=name, value=value)
            resource = incremental_alter_configs.AlterConfigsResource(
                resource_type=2, resource_name="t", configs=[change]
            )
            request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])
            async with caller(cluster, node) as client:
                answer = await client.call(request, 1)
            assert answer.responses[0].error_code == 0
        assert cluster.image.topic_configs("t") == {
            "max.message.bytes": "5000",
            "retention.ms": "77",
        }
        # A broker judges its own keys; a controller takes those of any.
        resource.resource_type, resource.resource_name = 4, "2"
        change.name, change.value = "log.cleaner.threads", "2"
        assert (await one.call(request, 1)).responses[0].error_code == ErrorCode.INVALID_REQUEST
        async with caller(cluster, CONTROLLER) as client:
            answer = await client.call(request, 1)
            assert answer.responses[0].error_code == 0
            assert cluster.image.broker_configs(2) == {"log.cleaner.threads": "2"}
            old = alter_configs.AlterConfigsRequest(
                resources=[
                    alter_configs.AlterConfigsResource(
                        resource_type=2, resource_name="t", configs=[]
                    )
                ]
            )
            assert (await client.call(old, 2)).responses[0].error_code == 0
            assert cluster.image.topic_configs("t") == {}
            described = describe_configs.DescribeConfigsRequest(
                resources=[
                    describe_configs.DescribeConfigsResource(
                        resource_type=4, resource_name=str(CONTROLLER)
                    )
                ]
            )
            answer = await client.call(described, 4)
            found = {c.name: c.value for c in answer.results[0].configs}
            assert found["node.id"] == str(CONTROLLER)
            # Loggers are a process's own: the controller's, here.
            resource.resource_type, resource.resource_name = 8, str(CONTROLLER)
            change.name, change.value = "pk.none.such", "DEBUG"
            code = (await client.call(request, 1)).responses[0].error_code
            assert code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            resource.resource_name = "1"
            assert (await client.call(request, 1)).responses[
                0
            ].error_code == ErrorCode.INVALID_REQUEST


@trio_test
async def test_replicas_move_and_leaders_are_elected() -> None:
    async with running_cluster(3) as cluster, caller(cluster, 2) as one:
        assignment = create_topics.CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2])
        topic = create_topics.CreatableTopic(
            name="t", num_partitions=-1, replication_factor=-1, assignments=[assignment]
        )
        answer = await one.call(create_topics.CreateTopicsRequest(topics=[topic]), 7)
        assert answer.topics[0].error_code == 0

        def moving(replicas: list[int] | None) -> Any:
            partition = alter_partition_reassignments.ReassignablePartition(
                partition_index=0, replicas=replicas
            )
            return alter_partition_reassignments.AlterPartitionReassignmentsRequest(
                topics=[
                    alter_partition_reassignments.ReassignableTopic(
                        name="t", partitions=[partition]
                    )
                ]
            )

        for version in (0, 1):
            answer = await one.call(moving(None), version)
            code = answer.responses[0].partitions[0].error_code
            assert code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        answer = await one.call(moving([3, 2]), 1)
        assert answer.responses[0].partitions[0].error_code == 0
        await cluster.until(lambda: cluster.image.topics["t"].partitions[0].replicas == (3, 2))
        listing = list_partition_reassignments.ListPartitionReassignmentsRequest()
        assert (await one.call(listing, 0)).topics == []
        for version in range(3):
            wanted = elect_leaders.ElectLeadersRequest(
                topic_partitions=[elect_leaders.TopicPartitions(topic="t", partitions=[0])]
            )
            answer = await one.call(wanted, version)
            code = answer.replica_election_results[0].partition_result[0].error_code
            assert code in (0, ErrorCode.ELECTION_NOT_NEEDED)
            assert cluster.image.topics["t"].partitions[0].leader == 3


@trio_test
async def test_features_and_brokers_that_will_not_come_back() -> None:
    async with running_cluster(2) as cluster, caller(cluster, 1) as one:
        update = UpdateFeaturesRequest(
            feature_updates=[FeatureUpdateKey(feature="kraft.version", max_version_level=1)]
        )
        for version in range(3):
            answer = await one.call(update, version)
            assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION, "no broker supports it"
            assert not answer.results, "as Kafka: one error for all"
        await cluster.kill(2)
        await cluster.until(lambda: cluster.image.brokers[2].fenced)
        answer = await one.call(UnregisterBrokerRequest(broker_id=2), 0)
        assert answer.error_code == 0 and 2 not in cluster.image.brokers


@trio_test
async def test_controllers_are_described_by_their_listener() -> None:
    async with at_controller() as (cluster, one):
        registration = ControllerRegistrationRequest(
            controller_id=CONTROLLER + 1,
            incarnation_id=b"i" * 16,
            listeners=[ControllerListener(name="CONTROLLER", host="elsewhere", port=9)],
        )
        assert (await one.call(registration, 0)).error_code == 0
        await cluster.until(lambda: CONTROLLER + 1 in cluster.controller.broker.image.controllers)
        for version in (1, 2):
            answer = await one.call(DescribeClusterRequest(endpoint_type=2), version)
            assert (answer.endpoint_type, answer.controller_id) == (2, CONTROLLER)
            assert [(b.broker_id, b.host) for b in answer.brokers] == [
                (CONTROLLER, "127.0.0.1"),
                (CONTROLLER + 1, "elsewhere"),
            ]
        for version in (0, 1):
            answer = await one.call(DescribeClusterRequest(), version)
            assert answer.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE


# --- envelopes ---


def envelope(request: Any, version: int, **changed: Any) -> EnvelopeRequest:
    given = {
        "request_data": frame_request(request, version, 77, "client")[4:],
        "request_principal": principal_bytes(KafkaPrincipal("User", "alice")),
        "client_host_address": address_bytes("/10.1.2.3"),
    }
    return EnvelopeRequest(**{**given, **changed})


@trio_test
async def test_an_envelope_is_answered_in_the_clients_version() -> None:
    async with at_controller() as (cluster, one):
        for version in (2, 5, 7):
            answer = await one.call(envelope(topics(f"t{version}"), version), 0)
            assert answer.error_code == 0
            correlation_id, position = parse_response_header(answer.response_data, 19, version)
            inner: Any = decode_whole(
                MESSAGES[19].response, answer.response_data, version, position
            )
            assert correlation_id == 77 and inner.topics[0].error_code == 0
        assert len(cluster.image.topics) == 3


@trio_test
async def test_an_envelope_says_at_which_offset_its_change_is() -> None:
    async with at_controller() as (cluster, one):
        made = await one.call(envelope(topics("t"), 7), 0)
        assert "t" in cluster.image.topics
        assert made.image_offset == cluster.image.offset
        refused = await one.call(envelope(topics("t"), 7), 0)
        assert refused.image_offset == made.image_offset, "it was decided on that image"
        unknown = await one.call(envelope(topics("u"), 7, request_principal=None), 0)
        assert unknown.image_offset == NO_OFFSET, "nothing was decided"


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"request_data": b"\0"}, ErrorCode.INVALID_REQUEST),
        (
            {"request_data": frame_request(MetadataRequest(topics=[]), 12, 1, "c")[4:]},
            ErrorCode.INVALID_REQUEST,
        ),
        ({"request_data": frame_request(topics("t"), 7, 1, "c")[4:-3]}, ErrorCode.INVALID_REQUEST),
        (
            {"request_data": frame_request(QUORUM, 2, 1, "c")[4:6] + b"\0\x63" + bytes(8)},
            ErrorCode.UNSUPPORTED_VERSION,
        ),
        ({"request_principal": b"\0\7"}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        ({"request_principal": None}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        ({"client_host_address": b"\1\2"}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_envelope_that_cannot_be_opened(changed: dict[str, Any], code: ErrorCode) -> None:
    @trio_test
    async def run() -> None:
        async with running_cluster(1) as cluster, caller(cluster, CONTROLLER) as one:
            answer = await one.call(envelope(topics("t"), 7, **changed), 0)
            assert (answer.error_code, answer.response_data) == (code, None)
            assert not cluster.image.topics
            assert (await one.call(envelope(topics("t"), 7), 0)).error_code == 0

    run()


def test_principals_and_addresses_come_back_as_they_went() -> None:
    from pk.core.broker.controller.client_identity import host_of, principal_of

    for principal in map(KafkaPrincipal.parse, ("User:ANONYMOUS", "User:a:b", "Group:ü")):
        assert principal_of(principal_bytes(principal)) == principal
    for host in ("/127.0.0.1", "/::1", ""):
        assert host_of(address_bytes(host)) == host
    assert address_bytes("/fe80::1%eth0") == address_bytes("fe80::1")
    with pytest.raises(ProtocolError):
        decode_whole(MESSAGES[58].request, b"\0", 0)
