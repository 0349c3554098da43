"""The admin API of every client: topics, configs, groups, offsets by time, deletion of records.

Each test does the same work with another client and asserts what Apache Kafka answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiokafka
import aiokafka.admin
import confluent_kafka
import confluent_kafka.admin
import kafka.admin as python_admin
import pytest
from aiokafka.admin.config_resource import ConfigResource as AioConfigResource
from aiokafka.admin.config_resource import ConfigResourceType as AioResourceType
from confluent_kafka import TopicPartition
from confluent_kafka.cimpl import NewPartitions, NewTopic
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as PythonPartition

from clients import apache_kafka
from clients.fixtures import Kafka, clients_of_others, fresh_name
from clients.members import Kind, Member
from clients.topics import (
    TIMEOUT_S,
    admin,
    commit,
    create_topic,
    members,
    produce,
    wait_for_commit,
    wait_for_shares,
    wait_until,
)
from pk.core.api_keys import OWN_KEYS

# Some of its names are typed as private, though they are what its documentation names.
librdkafka: Any = confluent_kafka.admin
PythonOffsetSpec: Any = vars(python_admin)["OffsetSpec"]
TIMES_MS = (1_700_000_000_000, 1_700_000_010_000, 1_700_000_020_000)


def _timed_topic(kafka: Kafka, partitions: int = 1) -> str:
    """A topic whose partition 0 holds one record at each of TIMES_MS."""
    # Kept for ever, or retention would come upon records this old in the middle of a test.
    topic = create_topic(kafka, fresh_name("timed"), partitions, {"retention.ms": "-1"})
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    for time_ms in TIMES_MS:
        producer.produce(topic, b"at", partition=0, timestamp=time_ms)
    assert producer.flush(TIMEOUT_S) == 0
    return topic


def _group_with_commits(kafka: Kafka, topic: str, partitions: int, offset: int) -> str:
    """A group, empty by now, that has committed `offset` in each partition."""
    group = fresh_name("admin-group")
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": kafka.bootstrap, "group.id": group, "log_level": 0}
    )
    commit(consumer, [TopicPartition(topic, p, offset) for p in range(partitions)])
    consumer.close()
    return group


def _code(error: BaseException) -> int:
    assert isinstance(error, confluent_kafka.KafkaException)
    return error.args[0].code()


# -- confluent-kafka


def test_confluent_topics(kafka: Kafka) -> None:
    client, name = admin(kafka), fresh_name("confluent")
    new: Any = NewTopic(name, 3, 1, config={"retention.ms": "60000"})
    client.create_topics([new], validate_only=True)[name].result(TIMEOUT_S)
    assert name not in client.list_topics(timeout=TIMEOUT_S).topics
    client.create_topics([new])[name].result(TIMEOUT_S)
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        client.create_topics([new])[name].result(TIMEOUT_S)
    assert _code(caught.value) == confluent_kafka.KafkaError.TOPIC_ALREADY_EXISTS

    more: Any = NewPartitions(name, 5)
    client.create_partitions([more])[name].result(TIMEOUT_S)
    names = confluent_kafka.TopicCollection([name])

    def grown() -> Any:
        try:
            described = client.describe_topics(names)[name].result(TIMEOUT_S)
        except confluent_kafka.KafkaException as error:  # Apache's broker has not heard of it
            assert _code(error) == confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART
            return None
        return described if len(described.partitions) == 5 else None

    described = wait_until("five partitions", grown)
    assert [p.id for p in described.partitions] == [0, 1, 2, 3, 4]
    assert all(len(p.replicas) == len(p.isr) == 1 and p.leader for p in described.partitions)
    fewer: Any = NewPartitions(name, 2)
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        client.create_partitions([fewer])[name].result(TIMEOUT_S)
    assert _code(caught.value) == confluent_kafka.KafkaError.INVALID_PARTITIONS

    client.delete_topics([name])[name].result(TIMEOUT_S)
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        client.delete_topics([name])[name].result(TIMEOUT_S)
    assert _code(caught.value) == confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART


@pytest.mark.parametrize(
    ("name", "partitions", "replicas", "config", "code"),
    [
        ("no spaces", 1, 1, {}, "TOPIC_EXCEPTION"),
        ("x" * 250, 1, 1, {}, "TOPIC_EXCEPTION"),
        ("..", 1, 1, {}, "TOPIC_EXCEPTION"),
        ("zero-partitions", 0, 1, {}, "INVALID_PARTITIONS"),
        ("many-replicas", 1, 9, {}, "INVALID_REPLICATION_FACTOR"),
        ("bad-key", 1, 1, {"retention.mss": "1"}, "INVALID_CONFIG"),
        ("bad-value", 1, 1, {"retention.ms": "soon"}, "INVALID_CONFIG"),
        ("bad-policy", 1, 1, {"cleanup.policy": "burn"}, "INVALID_CONFIG"),
    ],
)
def test_confluent_refused_topics(
    kafka: Kafka, name: str, partitions: int, replicas: int, config: dict[str, str], code: str
) -> None:
    new: Any = NewTopic(name, partitions, replicas, config=config)
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        admin(kafka).create_topics([new])[name].result(TIMEOUT_S)
    assert _code(caught.value) == getattr(confluent_kafka.KafkaError, code)


def test_confluent_configs(kafka: Kafka) -> None:
    client = admin(kafka)
    topic = create_topic(kafka, fresh_name("configs"), 1, {"retention.ms": "60000"})

    def described() -> dict[str, Any]:
        asked = [librdkafka.ConfigResource(librdkafka.ResourceType.TOPIC, topic)]
        [answer] = client.describe_configs(asked).values()
        return answer.result(TIMEOUT_S)

    before = described()
    assert (before["retention.ms"].value, before["retention.ms"].is_default) == ("60000", False)
    assert (before["cleanup.policy"].value, before["cleanup.policy"].is_default) == ("delete", True)
    set_, delete = librdkafka.AlterConfigOpType.SET, librdkafka.AlterConfigOpType.DELETE
    append = librdkafka.AlterConfigOpType.APPEND
    changes = [
        librdkafka.ConfigEntry("retention.ms", None, incremental_operation=delete),
        librdkafka.ConfigEntry("max.message.bytes", "12345", incremental_operation=set_),
        librdkafka.ConfigEntry("cleanup.policy", "compact", incremental_operation=append),
    ]
    asked = [
        librdkafka.ConfigResource(librdkafka.ResourceType.TOPIC, topic, incremental_configs=changes)
    ]
    [answer] = client.incremental_alter_configs(asked).values()
    answer.result(TIMEOUT_S)

    def seen() -> dict[str, Any] | None:
        after = described()
        return after if after["max.message.bytes"].value == "12345" else None

    after = wait_until("changed configs", seen)
    assert after["retention.ms"].value == "604800000" and after["retention.ms"].is_default
    assert after["cleanup.policy"].value == "delete,compact"
    bad = [librdkafka.ConfigEntry("max.message.bytes", "-7", incremental_operation=set_)]
    [answer] = client.incremental_alter_configs(
        [librdkafka.ConfigResource(librdkafka.ResourceType.TOPIC, topic, incremental_configs=bad)]
    ).values()
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        answer.result(TIMEOUT_S)
    assert _code(caught.value) == confluent_kafka.KafkaError.INVALID_CONFIG


def test_confluent_offsets_and_deleted_records(kafka: Kafka) -> None:
    client, topic = admin(kafka), _timed_topic(kafka)
    partition = confluent_kafka.TopicPartition(topic, 0)

    def offset(spec: Any) -> int:
        [answer] = client.list_offsets({partition: spec}).values()
        return answer.result(TIMEOUT_S).offset

    assert [
        offset(s) for s in (librdkafka.OffsetSpec.earliest(), librdkafka.OffsetSpec.latest())
    ] == [0, 3]
    assert offset(librdkafka.OffsetSpec.max_timestamp()) == 2
    assert offset(librdkafka.OffsetSpec.for_timestamp(TIMES_MS[0] + 1)) == 1
    assert offset(librdkafka.OffsetSpec.for_timestamp(TIMES_MS[1])) == 1
    assert offset(librdkafka.OffsetSpec.for_timestamp(TIMES_MS[2] + 1)) == -1
    to = confluent_kafka.TopicPartition(topic, 0, 2)
    [deleted] = client.delete_records([to]).values()
    assert deleted.result(TIMEOUT_S).low_watermark == 2
    assert offset(librdkafka.OffsetSpec.earliest()) == 2
    beyond = confluent_kafka.TopicPartition(topic, 0, 9)
    [answer] = client.delete_records([beyond]).values()
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        answer.result(TIMEOUT_S)
    assert _code(caught.value) == confluent_kafka.KafkaError.OFFSET_OUT_OF_RANGE


def test_confluent_groups(kafka: Kafka) -> None:
    client, topic = admin(kafka), create_topic(kafka, fresh_name("groups"), 2)
    produce(kafka, topic, 2, 5)
    group = _group_with_commits(kafka, topic, 2, 3)
    listed = client.list_consumer_groups().result(TIMEOUT_S)
    [entry] = [each for each in listed.valid if each.group_id == group]
    assert entry.state == confluent_kafka.ConsumerGroupState.EMPTY

    with Member(Kind("confluent-kafka"), kafka.bootstrap, topic, group) as member:
        wait_for_shares(kafka, group, [2])
        wait_for_commit(kafka, group, 2, 5)
        wait_until("what it read", lambda: len(member.seen) >= 4)  # it tells of it by a pipe
        assert sorted(member.seen) == [(p, o) for p in range(2) for o in (3, 4)]
        described = client.describe_consumer_groups([group])[group].result(TIMEOUT_S)
        assert (described.partition_assignor, len(described.members)) == ("range", 1)
        with pytest.raises(confluent_kafka.KafkaException) as caught:
            client.delete_consumer_groups([group])[group].result(TIMEOUT_S)
        assert _code(caught.value) == confluent_kafka.KafkaError.NON_EMPTY_GROUP
        member.leave()
    wait_until("an empty group", lambda: members(kafka, group) is None)
    back = confluent_kafka.TopicPartition(topic, 0, 1)
    [altered] = client.alter_consumer_group_offsets(
        [confluent_kafka.ConsumerGroupTopicPartitions(group, [back])]
    ).values()
    assert [p.error for p in altered.result(TIMEOUT_S).topic_partitions] == [None]
    client.delete_consumer_groups([group])[group].result(TIMEOUT_S)
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        client.delete_consumer_groups([group])[group].result(TIMEOUT_S)
    assert _code(caught.value) == confluent_kafka.KafkaError.GROUP_ID_NOT_FOUND


# -- kafka-python


@contextlib.contextmanager
def _python_admin(broker: Kafka) -> Iterator[Any]:
    client = python_admin.KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        yield client
    finally:
        client.close()


def test_kafka_python_topics_and_configs(kafka: Kafka) -> None:
    name = fresh_name("python")
    with _python_admin(kafka) as client:
        client.create_topics({name: {"num_partitions": 2, "replication_factor": 1}})
        wait_until("the topic", lambda: name in client.list_topics())
        client.create_partitions({name: 4})

        def partitions() -> list[int]:
            [topic] = client.describe_topics([name])
            return sorted(p["partition_index"] for p in topic["partitions"])

        wait_until("four partitions", lambda: partitions() == [0, 1, 2, 3])
        paged = client.describe_topic_partitions([name], response_partition_limit=3)
        assert len(paged["topics"][0]["partitions"]) == 3
        cursor = paged["next_cursor"]
        assert (cursor["topic_name"], cursor["partition_index"]) == (name, 3)

        topic_type = python_admin.ConfigResourceType.TOPIC
        change = python_admin.ConfigResource(topic_type, name, {"retention.ms": "7777"})
        client.alter_configs([change])
        resource = python_admin.ConfigResource(topic_type, name)

        def altered() -> bool:
            configs = client.describe_configs([resource], config_filter="all")
            return str(configs["topic"][name]["retention.ms"]["value"]) == "7777"

        wait_until("altered configs", altered)
        assert len(client.describe_cluster()["brokers"]) == 1

        def directories() -> int:
            [directory] = client.describe_log_dirs()[0]["log_dirs"]
            assert directory["error_code"] == 0
            return sum(len(t["partitions"]) for t in directory["topics"] if t["name"] == name)

        # Apache's broker makes them after it tells of the partitions.
        wait_until("their directories", lambda: directories() == 4)
        client.delete_topics([name])
        wait_until("deleted", lambda: name not in client.list_topics())


def test_kafka_python_groups_and_offsets(kafka: Kafka) -> None:
    topic = _timed_topic(kafka, 2)
    group = _group_with_commits(kafka, topic, 2, 0)
    first, second = PythonPartition(topic, 0), PythonPartition(topic, 1)
    with _python_admin(kafka) as client:
        assert group in {each["group_id"] for each in client.list_groups()}
        described = client.describe_groups([group])[group]
        assert described["error"] is None and described["group_state"] == "Empty"
        client.alter_group_offsets(group, {first: OffsetAndMetadata(2, "why", -1)})
        [offsets] = client.list_group_offsets({group: [first, second]}).values()
        assert (offsets[first].offset, offsets[first].metadata) == (2, "why")
        assert offsets[second].offset == 0
        client.delete_group_offsets(group, [second])
        [offsets] = client.list_group_offsets({group: None}).values()
        assert set(offsets) == {first}

        asked = {first: PythonOffsetSpec.LATEST, second: PythonOffsetSpec.EARLIEST}
        found = client.list_partition_offsets(asked)
        assert (found[first].offset, found[second].offset) == (3, 0)
        found = client.list_partition_offsets({first: TIMES_MS[1] - 5})
        assert (found[first].offset, found[first].timestamp) == (1, TIMES_MS[1])
        client.delete_records({first: 1})
        assert client.list_partition_offsets({first: PythonOffsetSpec.EARLIEST})[first].offset == 1
        assert client.delete_groups([group]) == {group: "OK"}


# -- aiokafka


def _wait_for_partitions(kafka: Kafka, topic: str, count: int) -> list[int]:
    def seen() -> bool:
        return len(admin(kafka).list_topics(topic, TIMEOUT_S).topics[topic].partitions) == count

    wait_until(f"{count} partitions", seen)
    return [count]


@contextlib.asynccontextmanager
async def _aio_admin(broker: Kafka) -> AsyncIterator[aiokafka.admin.AIOKafkaAdminClient]:
    client = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await client.start()
    try:
        yield client
    finally:
        await client.close()


def test_aiokafka_admin(kafka: Kafka) -> None:
    name, timed = fresh_name("aio"), _timed_topic(kafka)
    group = _group_with_commits(kafka, timed, 1, 2)

    async def run() -> None:
        async with _aio_admin(kafka) as client:
            new = aiokafka.admin.NewTopic(name, 2, 1, topic_configs={"retention.ms": "5000"})
            await client.create_topics([new])
            more = aiokafka.admin.NewPartitions(3)
            await client.create_partitions({name: more})
            # The broker may learn of the third partition a moment after the controller made it.
            topics = await asyncio.to_thread(lambda: _wait_for_partitions(kafka, name, 3))
            assert [len(t["partitions"]) for t in await client.describe_topics([name])] == topics
            resource = AioConfigResource(AioResourceType.TOPIC, name)
            answer: Any
            [answer] = await client.describe_configs([resource])
            entries = {entry[0]: entry[1] for entry in answer.resources[0][4]}
            assert entries["retention.ms"] == "5000"
            assert len((await client.describe_cluster())["brokers"]) == 1
            # A group that never had a member has no protocol type.
            assert (group, "") in [each[:2] for each in await client.list_consumer_groups()]
            partition = aiokafka.TopicPartition(timed, 0)
            offsets = await client.list_consumer_group_offsets(group)
            assert offsets[partition].offset == 2
            records = aiokafka.admin.RecordsToDelete(before_offset=1)
            assert await client.delete_records({partition: records}) == {partition: 1}
            await client.delete_topics([name])
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=kafka.bootstrap)
        await consumer.start()
        try:
            assert await consumer.beginning_offsets([partition]) == {partition: 1}
            assert await consumer.end_offsets([partition]) == {partition: 3}
            by_time = await consumer.offsets_for_times({partition: TIMES_MS[1] + 1})
            assert by_time[partition].offset == 2
        finally:
            await consumer.stop()

    asyncio.run(run())


# -- Apache's command-line tools


def _tool(kafka: Kafka, name: str, *args: str) -> str:
    ran = apache_kafka.run_tool(
        f"org.apache.kafka.tools.{name}", "--bootstrap-server", kafka.bootstrap, *args
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@clients_of_others
@pytest.mark.peer
def test_apache_topic_and_config_tools(kafka: Kafka) -> None:
    name = fresh_name("tools")
    _tool(kafka, "TopicCommand", "--create", "--topic", name, "--partitions", "2")
    _tool(kafka, "TopicCommand", "--alter", "--topic", name, "--partitions", "3")
    configs = ("--bootstrap-server", kafka.bootstrap, "--entity-type", "topics")
    ran = apache_kafka.run_tool(
        "kafka.admin.ConfigCommand",
        *(*configs, "--entity-name", name, "--alter", "--add-config", "retention.ms=4321"),
    )
    assert ran.returncode == 0, ran.stderr
    assert name in _tool(kafka, "TopicCommand", "--list").splitlines()
    described = _tool(kafka, "TopicCommand", "--describe", "--topic", name)
    assert "PartitionCount: 3" in described and "retention.ms=4321" in described
    ran = apache_kafka.run_tool(
        "kafka.admin.ConfigCommand", *configs, "--entity-name", name, "--describe"
    )
    assert "retention.ms=4321 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG" in ran.stdout
    _tool(kafka, "TopicCommand", "--delete", "--topic", name)
    assert name not in _tool(kafka, "TopicCommand", "--list").splitlines()


@clients_of_others
@pytest.mark.peer
def test_apache_group_and_offset_tools(kafka: Kafka, tmp_path: Path) -> None:
    topic = _timed_topic(kafka)
    group = _group_with_commits(kafka, topic, 1, 1)
    command = "consumer.group.ConsumerGroupCommand"
    assert group in _tool(kafka, command, "--list").split()
    described = _tool(kafka, command, "--describe", "--group", group)
    [row] = [line.split() for line in described.splitlines() if topic in line]
    assert row[:6] == [group, topic, "0", "1", "3", "2"]
    reset = ("--reset-offsets", "--group", group, "--topic", topic, "--execute")
    # 2023-11-14T22:13:30 UTC is TIMES_MS[1].
    out = _tool(kafka, command, *reset, "--to-datetime", "2023-11-14T22:13:31.000Z")
    [row] = [line.split() for line in out.splitlines() if topic in line]
    assert row[:4] == [group, topic, "0", "2"]
    for when, offset in (("earliest", 0), ("latest", 3), ("max-timestamp", 2)):
        out = _tool(kafka, "GetOffsetShell", "--topic", topic, "--time", when)
        assert out.split() == [f"{topic}:0:{offset}"]
    out = _tool(kafka, "GetOffsetShell", "--topic", topic, "--time", str(TIMES_MS[1]))
    assert out.split() == [f"{topic}:0:1"]
    plan = tmp_path / "delete.json"
    partitions = [{"topic": topic, "partition": 0, "offset": 2}]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    out = _tool(kafka, "DeleteRecordsCommand", "--offset-json-file", str(plan))
    assert f"partition: {topic}-0\tlow_watermark: 2" in out
    out = _tool(kafka, command, "--delete", "--group", group)
    assert "was successful" in out
    out = _tool(kafka, "LogDirsCommand", "--describe", "--topic-list", topic)
    answer = json.loads(out[out.index("{") :])
    [directory] = answer["brokers"][0]["logDirs"]
    assert [p["partition"] for p in directory["partitions"]] == [f"{topic}-0"]


@pytest.mark.peer
def test_apache_version_tool_knows_every_api(kafka: Kafka) -> None:
    """Every API that the broker advertises, unless it is pk's own, is named, and usable by the
    newest Java client."""
    out = _tool(kafka, "BrokerApiVersionsCommand")
    assert "Produce(0)" in out and "Fetch(1)" in out and "DescribeTopicPartitions(75)" in out
    assert all(int(key) >= OWN_KEYS for key in re.findall(r"UNKNOWN\((\d+)\)", out))
