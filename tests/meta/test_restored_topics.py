"""Topics of a lost cluster are created with their ids, or refused."""

from random import Random
from typing import Any

import pytest
from meta.world import cluster

from pk.core.config import BrokerConfig
from pk.core.errors import ErrorCode
from pk.core.meta.image import MetadataImage
from pk.core.meta.restored_topics import restore_topics
from pk.core.values import ZERO_UUID
from pk.core.wire.messages.pk_restore_topics import (
    PkRestoreTopicsRequest,
    RestoredConfig,
    RestoredPartition,
    RestoredTopic,
)

CONFIG = BrokerConfig.parse(
    {"node.id": "1", "remote.log.storage.system.enable": "true", "pk.remote.url": "memory:///"}
)
ID = b"a" * 16
THREE = cluster(None, None, None)


def topic(**fields: Any) -> RestoredTopic:
    given: dict[str, Any] = {
        "name": "t",
        "topic_id": ID,
        "replication_factor": 3,
        "configs": [RestoredConfig(name="remote.storage.enable", value="true")],
        "partitions": [
            RestoredPartition(
                end_offset=99,
                last_epoch=4,
                cluster_ids=["lost"],
                left_out=[b"d" * 16],
                start_offset=7,
            ),
            RestoredPartition(),
        ],
    }
    return RestoredTopic(**given | fields)


def decide(image: MetadataImage, *topics: RestoredTopic, next_id: int = 0) -> tuple[Any, Any]:
    request = PkRestoreTopicsRequest(topics=list(topics), producer_id_next=next_id)
    decision = restore_topics(image, request, CONFIG, Random(1))
    return image.apply(decision.records), [one.error_code for one in decision.reply.topics]


def test_a_partition_begins_with_its_leader_in_a_later_epoch() -> None:
    image, codes = decide(THREE, topic(), next_id=500)
    assert codes == [0]
    created = image.topics["t"]
    restored, empty = created.partitions
    assert created.topic_id == ID
    assert (restored.leader_epoch, restored.isr) == (5, (restored.leader,))
    assert len(restored.replicas) == 3
    assert restored.restored == (99, ("lost",), (b"d" * 16,), 0, 7)
    assert (empty.leader_epoch, len(empty.isr), empty.restored) == (0, 3, None)
    assert image.topic_configs("t") == {"remote.storage.enable": "true"}
    assert image.producer_id_next == 500
    again, codes = decide(image, topic(), next_id=800)
    assert codes == [0] and again == image, "it is there already"


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (topic(topic_id=ZERO_UUID), ErrorCode.INVALID_REQUEST),
        (topic(name="a b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic(replication_factor=4), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic(replication_factor=0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic(partitions=[]), ErrorCode.INVALID_PARTITIONS),
        (topic(configs=[]), ErrorCode.INVALID_CONFIG),
        (topic(configs=[RestoredConfig(name="nope", value="1")]), ErrorCode.INVALID_CONFIG),
    ],
)
def test_refused(wanted: RestoredTopic, code: ErrorCode) -> None:
    image, codes = decide(THREE, wanted)
    assert codes == [code] and image == THREE


def test_another_topic_has_the_name_or_the_id() -> None:
    image, _ = decide(THREE, topic())
    _, codes = decide(image, topic(topic_id=b"b" * 16), topic(name="u"))
    assert codes == [ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.INVALID_REQUEST]
    _, codes = decide(THREE, topic(), topic())
    assert codes == [ErrorCode.INVALID_REQUEST] * 2
