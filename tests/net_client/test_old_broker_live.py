"""A broker of 2.1: the same client, in the versions that were newest then, without what came
later."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from clients.fixtures import Kafka
from net_client.support import eventually, known, trio_test

from pk.core.errors import KafkaError
from pk.core.values import TopicPartition
from pk.net.client.admin import open_admin
from pk.net.client.connection import Connection
from pk.net.client.consumer import open_consumer
from pk.net.client.producer import open_producer
from pk.net.client.results import (
    EARLIEST,
    LATEST,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    NewTopic,
    OffsetAndMetadata,
    ResourceType,
)

Fresh = Callable[[str], str]

NEWEST_IN_2_1 = {
    0: 7,
    1: 10,
    2: 4,
    3: 7,
    8: 6,
    9: 5,
    10: 2,
    11: 3,
    12: 2,
    13: 2,
    14: 2,
    15: 2,
    16: 2,
    18: 2,
    19: 3,
    20: 3,
    21: 1,
    22: 1,
    23: 2,
    32: 2,
    33: 1,
    35: 1,
    37: 1,
    42: 1,
}


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers claim no more than 2.1 served."""
    agree = Connection.negotiate_versions

    async def agree_as_then(self: Connection) -> None:
        await agree(self)
        self.api_versions = {
            key: (self.api_versions[key][0], min(newest, self.api_versions[key][1]))
            for key, newest in NEWEST_IN_2_1.items()
            if key in self.api_versions
        }

    monkeypatch.setattr(Connection, "negotiate_versions", agree_as_then)


@pytest.mark.usefixtures("old")
def test_administration(kafka: Kafka, fresh: Fresh) -> None:
    topic, group = fresh("then"), fresh("group")
    first = TopicPartition(topic, 0)
    resource = ConfigResource(ResourceType.TOPIC, topic)

    @trio_test
    async def main() -> None:
        async with open_admin(kafka.bootstrap) as admin:
            assert (await admin.describe_cluster()).brokers
            answers = await admin.create_topics(
                [NewTopic(topic, 2, 1, configs={"retention.ms": "7000"})]
            )
            assert topic in answers.ok, answers
            await known(admin, topic, 2)
            described = (await admin.describe_topics([topic])).value(topic)
            assert described.partitions[0].elr is None
            with pytest.raises(KafkaError, match="UNSUPPORTED_VERSION"):
                await admin.create_topics([NewTopic(fresh("defaults"))])

            changes = [
                ConfigChange("segment.bytes", "1048576"),
                ConfigChange("cleanup.policy", "compact", ConfigOperation.APPEND),
            ]
            changed = await admin.alter_configs({resource: changes})
            assert resource in changed.ok

            async def own() -> dict[str, str | None]:
                entries = (await admin.describe_configs([resource])).value(resource)
                return {e.name: e.value for e in entries if e.source == ConfigSource.TOPIC}

            expected = {"retention.ms": "7000", "segment.bytes": "1048576"}
            await eventually(own, expected | {"cleanup.policy": "delete,compact"})
            listed = await admin.list_offsets({first: LATEST, TopicPartition(topic, 1): EARLIEST})
            assert len(listed.ok) == 2
            committed = {first: OffsetAndMetadata(0, -1, "m")}
            assert (await admin.alter_group_offsets(group, committed)).ok == {first: None}
            assert (await admin.list_group_offsets(group)).ok == committed
            seen = (await admin.describe_groups([group, fresh("none")])).value(group)
            assert seen.state == "Empty"
            assert group in {g.group_id for g in (await admin.list_groups()).groups}
            assert (await admin.delete_groups([group])).value(group) is None
            assert (await admin.delete_topics([topic])).value(topic) is None

    main()


@pytest.mark.usefixtures("old")
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_producing_and_reading_in_a_group(kafka: Kafka, fresh: Fresh, assignor: str) -> None:
    topic, group = fresh("then"), fresh("group")

    @trio_test
    async def main() -> None:
        async with open_admin(kafka.bootstrap) as admin:
            await admin.create_topics([NewTopic(topic, 3, 1)])
        sent = [b"%d" % number for number in range(500)]
        async with open_producer(kafka.bootstrap, {"compression.type": "zstd"}) as producer:
            await producer.send_many(topic, [(value, value) for value in sent])
        config = {
            "group.id": group,
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": assignor,
        }
        got: list[bytes | None] = []
        for _ in range(2):
            async with open_consumer(kafka.bootstrap, config) as consumer:
                consumer.subscribe([topic])
                limit = len(got) + 250
                while len(got) < limit:
                    records = await consumer.poll(records_max=limit - len(got))
                    got += [record.value for record in records]
        assert sorted(got, key=str) == sorted(sent, key=str)

    main()
