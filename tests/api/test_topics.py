"""CreateTopics, DeleteTopics and CreatePartitions on a broker: versions, time limits, and that the
logs follow."""

from __future__ import annotations

import pytest
from api.admin import asking
from group.brokers import simulated

from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import ZERO_UUID
from pk.core.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from pk.core.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pk.core.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState


def create(
    name: str = "t", own: dict[str, str] | None = None, *, timeout_ms: int = 30_000
) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=2,
                replication_factor=1,
                configs=[CreatableTopicConfig(name=k, value=v) for k, v in (own or {}).items()],
            )
        ],
        timeout_ms=timeout_ms,
    )


@pytest.mark.parametrize("version", range(8))
def test_every_version_creates(version: int) -> None:
    @simulated
    async def main() -> None:
        async with asking() as admin:
            (topic,) = (await admin.ask(create(), version)).topics
            made = admin.broker.image.topics["t"]
            assert (topic.name, topic.error_code) == ("t", 0)
            assert topic.topic_id == (made.topic_id if version >= 7 else ZERO_UUID)
            assert topic.num_partitions == (2 if version >= 5 else -1)
            assert topic.configs is not None
            assert len(topic.configs) == (33 if version >= 5 else 0)
            assert admin.broker.data.replicas.partition("t", 1).leads, (
                "it can be produced to at once"
            )
            (topic,) = (await admin.ask(create(), version)).topics
            assert topic.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
            assert bool(topic.error_message) == (version >= 1)

    main()


@simulated
async def test_a_topics_own_keys_reach_its_log() -> None:
    async with asking() as admin:
        await admin.ask(create(own={"max.message.bytes": "77", "segment.bytes": "1048576"}))
        log = admin.broker.data.replicas.partition("t", 0).log
        assert (log.state.config.max_message_bytes, log.state.config.segment_bytes) == (77, 1048576)


@simulated
async def test_no_time_is_too_little_but_the_topic_comes() -> None:
    async with asking() as admin:
        for request in (create("a", timeout_ms=0), create("b", timeout_ms=-1)):
            (topic,) = (await admin.ask(request)).topics
            assert topic.error_code == ErrorCode.REQUEST_TIMED_OUT
        await admin.create("c")
        assert set(admin.broker.image.topics) == {"a", "b", "c"}


@pytest.mark.parametrize("version", range(7))
def test_every_version_deletes(version: int) -> None:
    @simulated
    async def main() -> None:
        async with asking() as admin:
            await admin.create("t")
            topic_id = admin.broker.image.topics["t"].topic_id
            names = ["t", "nope"]
            request = (
                DeleteTopicsRequest(topic_names=names, timeout_ms=30_000)
                if version < 6
                else DeleteTopicsRequest(
                    topics=[DeleteTopicState(name=n) for n in names], timeout_ms=30_000
                )
            )
            answer = await admin.ask(request, version)
            assert [(r.name, r.error_code) for r in answer.responses] == [
                ("t", 0),
                ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ]
            assert answer.responses[0].topic_id == (topic_id if version >= 6 else ZERO_UUID)
            with pytest.raises(KafkaError):
                admin.broker.data.replicas.partition("t", 0)

    main()


@simulated
async def test_a_topic_made_again_is_another_one() -> None:
    async with asking() as admin:
        await admin.create("t")
        old = admin.broker.image.topics["t"].topic_id
        by_id = [DeleteTopicState(topic_id=old)]
        answer = await admin.ask(DeleteTopicsRequest(topics=by_id, timeout_ms=30_000))
        assert [(r.name, r.error_code) for r in answer.responses] == [("t", 0)]
        await admin.create("t")
        assert admin.broker.image.topics["t"].topic_id != old
        assert admin.broker.data.replicas.partition("t", 0).topic_id != old
        answer = await admin.ask(DeleteTopicsRequest(topics=by_id, timeout_ms=30_000))
        assert answer.responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("version", [2, 3])
def test_who_may_not_delete_is_told_so_in_a_code_that_the_version_has(version: int) -> None:
    @simulated
    async def main() -> None:
        async with asking(delete_topic_enable="false") as admin:
            await admin.create("t")
            request = DeleteTopicsRequest(topic_names=["t"], timeout_ms=30_000)
            (result,) = (await admin.ask(request, version)).responses
            disabled = ErrorCode.TOPIC_DELETION_DISABLED
            assert result.error_code == (disabled if version > 2 else ErrorCode.INVALID_REQUEST)
            assert "t" in admin.broker.image.topics

    main()


@pytest.mark.parametrize("version", range(4))
def test_every_version_adds_partitions(version: int) -> None:
    @simulated
    async def main() -> None:
        async with asking() as admin:
            await admin.create("t")
            request = CreatePartitionsRequest(
                topics=[
                    CreatePartitionsTopic(name="t", count=3, assignments=None),
                    CreatePartitionsTopic(name="nope", count=3, assignments=None),
                ],
                timeout_ms=30_000,
            )
            answer = await admin.ask(request, version)
            assert [(r.name, r.error_code) for r in answer.results] == [
                ("t", 0),
                ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ]
            assert admin.broker.data.replicas.partition("t", 2).leads
            request.timeout_ms = 0
            answer = await admin.ask(request, version)
            assert {r.error_code for r in answer.results} == {ErrorCode.REQUEST_TIMED_OUT}

    main()


@simulated
async def test_who_is_no_controller_any_more_says_so() -> None:
    async with asking() as admin:
        await admin.broker.cluster.controller._store.campaign(2)  # type: ignore[attr-defined]
        (topic,) = (await admin.ask(create(), at_controller=True)).topics
        assert topic.error_code == ErrorCode.NOT_CONTROLLER
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=30_000)
        (result,) = (await admin.ask(request, at_controller=True)).responses
        assert result.error_code == ErrorCode.NOT_CONTROLLER
