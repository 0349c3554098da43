"""The admin client against a real broker: every operation, every item answered on its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from clients.fixtures import Kafka
from net_client.support import eventually, known, trio_test

from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import ZERO_UUID, TopicPartition
from pk.net.client.admin import Admin, open_admin
from pk.net.client.answers import Answers
from pk.net.client.errors import NoBrokers
from pk.net.client.producer import open_producer
from pk.net.client.results import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    ElectionType,
    EpochEndOffset,
    NewPartitions,
    NewTopic,
    OffsetAndMetadata,
    ResourceType,
)

Fresh = Callable[[str], str]


def code_of(answer: object) -> int:
    """The error code of an answer that has to be an error."""
    assert isinstance(answer, KafkaError), answer
    return answer.code


async def create(admin: Admin, name: str, partitions: int = 1, **configs: str | None) -> None:
    """Makes a topic, and waits until the broker tells of it: the controller answers before."""
    new = NewTopic(
        name, partitions, 1, configs={k.replace("_", "."): v for k, v in configs.items()}
    )
    (await admin.create_topics([new])).value(name)
    await known(admin, name, partitions)


async def produce(kafka: Kafka, topic: str, values: list[bytes], partition: int = 0) -> None:
    async with open_producer(kafka.bootstrap) as producer:
        for index, value in enumerate(values):
            await producer.send(topic, value, partition=partition, timestamp_ms=1000 + index)


def test_the_cluster_is_described(kafka: Kafka) -> None:
    @trio_test
    async def main() -> None:
        async with open_admin(kafka.bootstrap) as admin:
            cluster = await admin.describe_cluster()
            assert cluster.cluster_id
            node = next(b for b in cluster.brokers if b.node_id == cluster.controller_id)
            assert node.port == kafka.port
            ranges = {a.api_key: a for a in await admin.api_versions(node.node_id)}
            assert ranges[0].name == "Produce"
            assert ranges[0].used_version == min(ranges[0].max_version, 13)
            assert set(await admin.api_versions_all()) == {b.node_id for b in cluster.brokers}
            features = await admin.describe_features()
            assert all(f.min_version <= f.max_version for f in features.supported)

    main()


def test_topics_live_and_die(kafka: Kafka, fresh: Fresh) -> None:
    name, other = fresh("topic"), fresh("other")

    @trio_test
    async def main() -> None:
        async with open_admin(kafka.bootstrap) as admin:
            made = await admin.create_topics(
                [
                    NewTopic(name, 3, 1, configs={"retention.ms": "1000000"}),
                    NewTopic("not/allowed", 1, 1),
                ]
            )
            created = made.value(name)
            assert created.partitions == 3
            assert created.topic_id != ZERO_UUID
            assert code_of(made.errors["not/allowed"]) == ErrorCode.INVALID_TOPIC_EXCEPTION
            again = await admin.create_topics([NewTopic(name, 1, 1)])
            assert code_of(again.errors[name]) == ErrorCode.TOPIC_ALREADY_EXISTS
            await admin.create_topics([NewTopic(other, 1, 1)], validate_only=True)
            await known(admin, name, 3)
            listed = {t.name: t for t in await admin.list_topics()}
            assert listed[name].partition_count == 3
            assert other not in listed

            described = await admin.describe_topics([name, other])
            topic = described.value(name)
            assert [p.partition for p in topic.partitions] == [0, 1, 2]
            assert all(p.leader_id in p.isr for p in topic.partitions)
            assert code_of(described.errors[other]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            by_id = await admin.describe_topics_by_id([created.topic_id, bytes(15) + b"\1"])
            assert created.topic_id in by_id.ok
            assert code_of(by_id.errors[bytes(15) + b"\1"]) == ErrorCode.UNKNOWN_TOPIC_ID
            assert name in await admin.describe_topics()

            grown = await admin.create_partitions({name: NewPartitions(5), other: NewPartitions(2)})
            assert name in grown.ok
            assert code_of(grown.errors[other]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            shrunk = await admin.create_partitions({name: NewPartitions(2)})
            assert code_of(shrunk.errors[name]) == ErrorCode.INVALID_PARTITIONS

            gone = await admin.delete_topics([name, other])
            assert name in gone.ok
            assert code_of(gone.errors[other]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

            made = (await admin.create_topics([NewTopic(other, partitions=1)])).value(other)
            gone = await admin.delete_topics_by_id([made.topic_id, bytes(15) + b"\1"])
            assert made.topic_id in gone.ok
            assert code_of(gone.errors[bytes(15) + b"\1"]) == ErrorCode.UNKNOWN_TOPIC_ID

    main()


def test_offsets_by_time_and_records_deleted(kafka: Kafka, fresh: Fresh) -> None:
    name = fresh("offsets")
    first, second, missing = (TopicPartition(name, p) for p in (0, 1, 7))

    @trio_test
    async def main() -> None:
        async with open_admin(kafka.bootstrap) as admin:
            await create(admin, name, 2, retention_ms="-1")  # the records have timestamps of 1970
            await produce(kafka, name, [b"%d" % i for i in range(10)])

            async def offset(timestamp: int) -> int:
                return (await admin.list_offsets({first: timestamp})).value(first).offset

            assert await offset(LATEST) == 10
            assert await offset(EARLIEST) == 0
            assert await offset(MAX_TIMESTAMP) == 9
            assert await offset(1004) == 4
            assert await offset(2000) == -1
            listed = await admin.list_offsets(dict.fromkeys((first, second, missing), LATEST))
            assert second in listed.ok
            assert code_of(listed.errors[missing]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

            ends = await admin.offsets_for_leader_epochs({first: 0})
            assert ends.value(first) == EpochEndOffset(0, 10)

            deleted = await admin.delete_records({first: 4, second: 5})
            assert deleted.value(first) == 4
            assert code_of(deleted.errors[second]) == ErrorCode.OFFSET_OUT_OF_RANGE
            assert await offset(EARLIEST) == 4
            assert (await admin.delete_records({first: -1})).value(first) == 10

            states = (await admin.describe_producers([first])).value(first)
            assert states[0].last_sequence == 9
            await admin.delete_topics([name])

    main()


def test_configs_are_changed_key_by_key(kafka: Kafka, fresh: Fresh) -> None:
    name = fresh("configs")
    topic = ConfigResource(ResourceType.TOPIC, name)
    nobody = ConfigResource(ResourceType.TOPIC, fresh("nobody"))

    @trio_test
    async def main() -> None:
        async with open_admin(kafka.bootstrap) as admin:
            await create(admin, name)

            async def own() -> dict[str, str | None]:
                entries = (await admin.describe_configs([topic])).value(topic)
                assert len(entries) > 20
                return {e.name: e.value for e in entries if e.source == ConfigSource.TOPIC}

            narrowed = await admin.describe_configs([topic], keys=["retention.ms"])
            assert [e.name for e in narrowed.value(topic)] == ["retention.ms"]
            assert await own() == {}
            change = ConfigChange("retention.ms", "12345")
            await admin.alter_configs({topic: [change]}, validate_only=True)
            assert await own() == {}
            answers = await admin.alter_configs({topic: [change], nobody: [change]})
            assert topic in answers.ok
            assert code_of(answers.errors[nobody]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            await eventually(own, {"retention.ms": "12345"})

            append = ConfigChange("cleanup.policy", "compact", ConfigOperation.APPEND)
            assert (await admin.alter_configs({topic: [append]})).value(topic) is None
            both = {"retention.ms": "12345", "cleanup.policy": "delete,compact"}
            await eventually(own, both)
            drop = ConfigChange("retention.ms", None, ConfigOperation.DELETE)
            assert (await admin.alter_configs({topic: [drop]})).value(topic) is None
            await eventually(own, {"cleanup.policy": "delete,compact"})

            wrong = await admin.alter_configs({topic: [ConfigChange("no.such.key", "1")]})
            assert code_of(wrong.errors[topic]) == ErrorCode.INVALID_CONFIG
            node_id = (await admin.describe_cluster()).brokers[0].node_id
            broker = ConfigResource(ResourceType.BROKER, str(node_id))
            entries = (await admin.describe_configs([broker])).value(broker)
            assert len(entries) > 50
            await admin.delete_topics([name])

    main()


def test_group_offsets_are_committed_listed_and_deleted(kafka: Kafka, fresh: Fresh) -> None:
    name, group = fresh("grouped"), fresh("group")
    first, second = TopicPartition(name, 0), TopicPartition(name, 1)

    @trio_test
    async def main() -> None:
        async with open_admin(kafka.bootstrap) as admin:
            await create(admin, name, 2)
            missing = await admin.describe_groups([group])
            assert code_of(missing.errors[group]) == ErrorCode.GROUP_ID_NOT_FOUND
            wanted = {first: OffsetAndMetadata(3, 0, "why"), second: OffsetAndMetadata(0)}
            assert set((await admin.alter_group_offsets(group, wanted)).ok) == {first, second}
            assert (await admin.list_group_offsets(group)).ok == wanted
            other = TopicPartition(name, 5)
            assert (await admin.list_group_offsets(group, [first, other])).ok == {
                first: wanted[first],
                other: None,
            }
            listed = await admin.list_groups()
            assert group in {g.group_id for g in listed.groups}
            assert not listed.errors
            described = (await admin.describe_groups([group])).value(group)
            assert (described.type, described.state) == ("Classic", "Empty")
            assert (await admin.delete_group_offsets(group, [first])).value(first) is None
            assert (await admin.list_group_offsets(group)).ok == {second: wanted[second]}
            answers = await admin.delete_groups([group, fresh("absent")])
            assert list(answers.ok) == [group]
            assert [code_of(e) for e in answers.errors.values()] == [ErrorCode.GROUP_ID_NOT_FOUND]
            await admin.delete_topics([name])

    main()


def test_replicas_are_found_in_their_directories(kafka: Kafka, fresh: Fresh) -> None:
    name = fresh("dirs")

    @trio_test
    async def main() -> None:
        async with open_admin(kafka.bootstrap) as admin:
            await create(admin, name, retention_ms="-1")
            await produce(kafka, name, [b"x" * 1000])
            partition = TopicPartition(name, 0)
            answers = await admin.describe_log_dirs(partitions=[partition])
            (dirs,) = answers.ok.values()
            replicas = [replica for d in dirs for replica in d.replicas]
            assert [replica.partition for replica in replicas] == [partition]
            assert replicas[0].size_bytes > 1000
            await admin.delete_topics([name])

    main()


def test_leaders_and_replicas_stay_where_they_are(kafka: Kafka, fresh: Fresh) -> None:
    """With one broker nothing can move; a broker that does not serve these requests gets a clear
    error."""
    partition = TopicPartition(fresh("moves"), 0)

    @trio_test
    async def main() -> None:
        async with open_admin(kafka.bootstrap) as admin:
            await create(admin, partition.topic)
            served = {a.api_key for a in await admin.api_versions()}

            async def code(api_key: int, answers: Awaitable[Answers[TopicPartition, None]]) -> int:
                if api_key in served:
                    return code_of((await answers).errors[partition])
                with pytest.raises(KafkaError, match="does not serve") as caught:
                    await answers
                assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION
                return expected

            expected = ErrorCode.ELECTION_NOT_NEEDED
            election = admin.elect_leaders(ElectionType.PREFERRED, [partition])
            assert await code(43, election) == expected
            expected = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
            assert await code(45, admin.alter_reassignments({partition: None})) == expected
            if 46 in served:
                assert await admin.list_reassignments() == {}
            await admin.delete_topics([partition.topic])

    main()


@trio_test
async def test_no_broker_there_fails_at_once_and_says_whom_it_asked() -> None:
    async with open_admin("127.0.0.1:1,localhost:2") as admin:
        with pytest.raises(NoBrokers, match=r"127.0.0.1:1: connection refused.*localhost:2"):
            await admin.list_topics()
