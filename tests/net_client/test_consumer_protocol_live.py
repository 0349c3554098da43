"""The consumer protocol (KIP-848) against a real broker: members that come, go, fall silent and
come back."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest
import trio
from clients.fixtures import Kafka
from clients.topics import configure_group
from net_client.support import trio_test
from net_client.test_group_live import Member as Live
from net_client.test_group_live import create, sizes, until
from net_client.test_group_live import member as classic_or_consumer

from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import INTERNAL_TOPICS, TopicPartition
from pk.net.client.admin import open_admin
from pk.net.client.connection import Connection
from pk.net.client.consumer import open_consumer
from pk.net.client.producer import open_producer
from pk.net.client.results import MemberDescription, NewPartitions

Fresh = Callable[[str], str]
CONSUMER: dict[str, object] = {
    "group.protocol": "consumer",
    "auto.offset.reset": "earliest",
    "fetch.max.wait.ms": 50,
    "metadata.max.age.ms": 300,
}


def member(kafka: Kafka, group: str, **more: object) -> AbstractAsyncContextManager[Live]:
    """A member as test_group_live has them, of the consumer protocol."""
    config = CONSUMER | {"group.id": group} | {k.replace("_", "."): v for k, v in more.items()}
    return classic_or_consumer(kafka, config, classic=False)


@pytest.mark.parametrize("assignor", [None, "uniform", "range"])
def test_members_come_and_go_and_topics_grow(
    kafka: Kafka, fresh: Fresh, assignor: str | None
) -> None:
    topic, group = fresh("grows"), fresh("group")

    @trio_test
    async def main() -> None:
        await create(kafka, topic, 4)
        async with member(kafka, group, group_remote_assignor=assignor) as one:
            one.subscribe(topic)
            await until(lambda: sizes(one) == [4], one)
            async with member(kafka, group, group_remote_assignor=assignor) as two:
                two.subscribe(topic)
                await until(lambda: sizes(one, two) == [2, 2], one, two)
                async with open_admin(kafka.bootstrap) as admin:
                    await admin.create_partitions({topic: NewPartitions(6)})
                    await until(lambda: sizes(one, two) == [3, 3], one, two)
                    described = (await admin.describe_groups([group])).value(group)
                    assert described.type == "Consumer"
                    assert described.assignor == (assignor or "uniform")
                taken = [what for what, _ in one.log if what == "revoked"]
                assert taken, "what the other was to have was given up before"
            await until(lambda: sizes(one) == [6], one)

    main()


def test_offsets_go_over_with_the_partitions(kafka: Kafka, fresh: Fresh) -> None:
    topic, group = fresh("offsets"), fresh("group")

    @trio_test
    async def main() -> None:
        await create(kafka, topic, 2)
        async with open_producer(kafka.bootstrap) as producer:
            for number in range(20):
                await producer.send(topic, b"%d" % number, partition=number % 2)
        async with member(kafka, group) as one:
            one.subscribe(topic)
            await until(lambda: len(one.values) == 20, one)
        async with member(kafka, group) as two:
            two.subscribe(topic)
            await until(lambda: sizes(two) == [2], two)
            async with open_producer(kafka.bootstrap) as producer:
                await producer.send(topic, b"new", partition=0)
            await until(lambda: bool(two.values), two)
            assert two.values == [b"new"]

    main()


def test_a_member_that_does_not_poll_leaves_and_comes_back(kafka: Kafka, fresh: Fresh) -> None:
    topic, group = fresh("idle"), fresh("group")

    @trio_test
    async def main() -> None:
        await create(kafka, topic, 2)
        config = CONSUMER | {"group.id": group, "max.poll.interval.ms": 3000}
        async with open_consumer(kafka.bootstrap, config) as idle:
            lost: list[tuple[TopicPartition, ...]] = []

            async def note(partitions: tuple[TopicPartition, ...]) -> None:
                lost.append(partitions)

            idle.subscribe([topic], on_lost=note)
            with trio.fail_after(60):
                while len(idle.assignment) < 2:
                    await idle.poll(timeout_ms=100)
                async with member(kafka, group) as other:
                    other.subscribe(topic)
                    await until(lambda: sizes(other) == [2], other)
                    while len(idle.assignment) != 1:
                        await idle.poll(timeout_ms=100)
                    await until(lambda: sizes(other) == [1], other)
            assert [len(partitions) for partitions in lost] == [2]

    main()


def test_a_static_member_takes_its_place_again(kafka: Kafka, fresh: Fresh) -> None:
    topic, group = fresh("static"), fresh("group")

    @trio_test
    async def main() -> None:
        await create(kafka, topic, 4)
        async with member(kafka, group, group_instance_id="a") as one:
            one.subscribe(topic)
            async with member(kafka, group, group_instance_id="b") as two:
                two.subscribe(topic)
                await until(lambda: sizes(one, two) == [2, 2], one, two)
                held = two.consumer.assignment
            async with member(kafka, group, group_instance_id="b") as again:
                again.subscribe(topic)
                await until(lambda: sizes(again) == [2], again)
                assert again.consumer.assignment == held
                assert sizes(one) == [2], "nothing moved"

    main()


def test_one_that_is_silent_is_fenced(kafka: Kafka, fresh: Fresh) -> None:
    topic, group = fresh("silent"), fresh("group")
    configure_group(kafka, group, {"consumer.session.timeout.ms": "1500"})

    @trio_test
    async def main() -> None:
        await create(kafka, topic, 2)
        async with member(kafka, group) as one:
            one.subscribe(topic)
            await until(lambda: sizes(one) == [2], one)
            coordinator = one.consumer.cluster
            node_id = await coordinator.coordinator(group)
            async with open_admin(kafka.bootstrap) as admin:
                from pk.core.wire.messages.consumer_group_heartbeat import (
                    ConsumerGroupHeartbeatRequest,
                )

                me = one.consumer.group_metadata
                leave = ConsumerGroupHeartbeatRequest(
                    group_id=group, member_id=me.member_id, member_epoch=-1
                )
                await admin.cluster.request(leave, node_id=node_id)
            await until(lambda: ("lost" in dict(one.log)) and sizes(one) == [2], one)

    main()


def test_what_the_broker_refuses_reaches_poll(kafka: Kafka, fresh: Fresh) -> None:
    topic, group = fresh("refused"), fresh("group")

    @trio_test
    async def main() -> None:
        await create(kafka, topic, 1)
        config = CONSUMER | {"group.id": group, "group.remote.assignor": "mine"}
        async with open_consumer(kafka.bootstrap, config) as consumer:
            consumer.subscribe([topic])
            with pytest.raises(KafkaError) as caught:
                await consumer.poll(timeout_ms=60_000)
            assert caught.value.code == ErrorCode.UNSUPPORTED_ASSIGNOR

    main()


async def the_member(kafka: Kafka, group: str) -> MemberDescription:
    """The group's only member, as its coordinator describes it."""
    async with open_admin(kafka.bootstrap) as admin:
        described = (await admin.describe_groups([group])).value(group)
        (found,) = described.members
        return found


def test_a_pattern_is_the_coordinators_to_match(kafka: Kafka, fresh: Fresh) -> None:
    prefix, group = fresh("pattern"), fresh("group")

    @trio_test
    async def main() -> None:
        await create(kafka, f"{prefix}-one", 2)
        await create(kafka, f"not-{prefix}-one", 1)
        async with member(kafka, group) as who:
            who.subscribe(pattern=f"{prefix}-.*")
            await until(lambda: sizes(who) == [2], who)
            assert (await the_member(kafka, group)).subscribed_regex == f"{prefix}-.*"
            await create(kafka, f"{prefix}-two", 3)
            await until(lambda: sizes(who) == [5], who)
            assert who.consumer.subscription == {f"{prefix}-one", f"{prefix}-two"}
            who.subscribe(f"not-{prefix}-one")
            await until(lambda: sizes(who) == [1], who)
            assert not (await the_member(kafka, group)).subscribed_regex

    main()


@pytest.mark.parametrize("reason", ["no RE2", "compiled", "old broker"])
def test_a_pattern_that_the_coordinator_cannot_match_is_matched_here(
    kafka: Kafka, fresh: Fresh, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix, group = fresh("pattern"), fresh("group")
    text = f"{prefix}-(?!two).*" if reason == "no RE2" else f"{prefix}-[^t].*"
    pattern = re.compile(text) if reason == "compiled" else text
    if reason == "old broker":
        version_of = Connection.version_of

        def old(self: Connection, api_key: int, *, low: int = 0, high: int = 32767) -> int:
            return version_of(self, api_key, low=low, high=0 if api_key == 68 else high)

        monkeypatch.setattr(Connection, "version_of", old)

    @trio_test
    async def main() -> None:
        await create(kafka, f"{prefix}-one", 2)
        await create(kafka, f"{prefix}-two", 1)
        async with member(kafka, group) as who:
            who.subscribe(pattern=pattern)
            await until(lambda: sizes(who) == [2], who)
            assert who.consumer.subscription == {f"{prefix}-one"}
            assert not (await the_member(kafka, group)).subscribed_regex
            await create(kafka, f"{prefix}-on", 3)
            await until(lambda: sizes(who) == [5], who)

    main()


def test_a_pattern_for_everything_hides_internal_topics(kafka: Kafka, fresh: Fresh) -> None:
    topic, group = fresh("some"), fresh("group")

    @trio_test
    async def main() -> None:
        await create(kafka, topic, 1)
        async with member(kafka, group) as who:
            who.subscribe(pattern=".*")
            await until(lambda: TopicPartition(topic, 0) in who.consumer.assignment, who)
            assert INTERNAL_TOPICS.isdisjoint(who.consumer.subscription)

    main()
