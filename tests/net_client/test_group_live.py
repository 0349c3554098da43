"""Group membership against a real broker: every assignor, rebalances, static members, fencing,
patterns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from clients.fixtures import Kafka
from net_client.support import known, trio_test

from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.racks import PartitionRacks
from pk.core.values import TopicPartition
from pk.net.client.admin import open_admin
from pk.net.client.assignment.assignors import Assignment, RebalanceProtocol, Subscriptions
from pk.net.client.connection import RequestTrace
from pk.net.client.consumer import Consumer, open_consumer
from pk.net.client.producer import open_producer
from pk.net.client.results import MemberToRemove, NewPartitions, NewTopic

Fresh = Callable[[str], str]
ALL = ["range", "roundrobin", "sticky", "cooperative-sticky"]
SHORT = {
    "auto.offset.reset": "earliest",
    "session.timeout.ms": 30_000,
    "heartbeat.interval.ms": 100,
    "fetch.max.wait.ms": 50,
    "metadata.max.age.ms": 300,
}


async def create(kafka: Kafka, topic: str, partitions: int) -> None:
    async with open_admin(kafka.bootstrap) as admin:
        answers = await admin.create_topics([NewTopic(topic, partitions, 1)])
        assert topic in answers.ok, answers
        await known(admin, topic, partitions)  # or a member's first assignment may be empty


class Member:
    """A consumer that polls in the background and writes down what happens to it."""

    def __init__(self, consumer: Consumer, requests: list[RequestTrace]) -> None:
        self.consumer = consumer
        self.requests = requests
        self.log: list[tuple[str, tuple[TopicPartition, ...]]] = []
        self.values: list[bytes | None] = []
        self.changed = trio.Event()

    def _note(self, what: str) -> Callable[[tuple[TopicPartition, ...]], Any]:
        async def note(partitions: tuple[TopicPartition, ...]) -> None:
            self.log.append((what, partitions))
            self._wake()

        return note

    def _wake(self) -> None:
        self.changed.set()
        self.changed = trio.Event()

    def subscribe(self, *topics: str, pattern: str | re.Pattern[str] | None = None) -> None:
        self.consumer.subscribe(
            topics,
            pattern=pattern,
            on_assigned=self._note("assigned"),
            on_revoked=self._note("revoked"),
            on_lost=self._note("lost"),
        )

    async def run(self) -> None:
        while True:
            self.values += [record.value for record in await self.consumer.poll()]
            self._wake()


@asynccontextmanager
async def member(
    kafka: Kafka, config: Mapping[str, object], *, classic: bool = True
) -> AsyncIterator[Member]:
    config = SHORT | dict(config) if classic else config
    requests: list[RequestTrace] = []
    async with open_consumer(kafka.bootstrap, config, on_request=requests.append) as consumer:
        who = Member(consumer, requests)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(who.run)
            yield who
            nursery.cancel_scope.cancel()


async def until(ready: Callable[[], bool], *members: Member) -> None:
    """Wait until the members are as they should be."""
    with trio.fail_after(60):
        while True:
            events = [who.changed for who in members]  # taken before looking: no change is missed
            if ready():
                return
            async with trio.open_nursery() as nursery:

                async def wait(event: trio.Event) -> None:
                    await event.wait()
                    nursery.cancel_scope.cancel()

                for event in events:
                    nursery.start_soon(wait, event)


def story(*members: Member) -> str:
    """The members' history, to explain a rare failure: their assignments, and the answers to the
    requests about them."""
    lines: list[str] = []
    for number, who in enumerate(members):
        lines += [f"member {number}: {what} {[*map(str, given)]}" for what, given in who.log]
        lines += [
            f"member {number}: {r.started:.3f} {r.api_name} {r.elapsed_ms:.0f} ms {r.error or ''}"
            for r in who.requests
            if r.api_name not in ("Fetch", "Metadata") or r.error
        ]
    return "\n".join(lines)


def sizes(*members: Member) -> list[int]:
    """How many partitions each has; 0 for all while two have the same one."""
    owned = Counter(p for m in members for p in m.consumer.assignment)
    if any(count > 1 for count in owned.values()):
        return [0] * len(members)
    return [len(m.consumer.assignment) for m in members]


@pytest.mark.parametrize("assignor", ALL)
def test_members_come_and_go_and_every_record_is_read(
    kafka: Kafka, fresh: Fresh, assignor: str
) -> None:
    topic, group = fresh(assignor), fresh("group")
    config: dict[str, object] = {
        "group.id": group,
        "partition.assignment.strategy": assignor,
        "auto.commit.interval.ms": 50,
    }

    @trio_test
    async def main() -> None:
        await create(kafka, topic, 6)
        sent: list[bytes] = []

        async def send(count: int) -> None:
            for _ in range(count):
                sent.append(b"%d" % len(sent))
                await producer.send(topic, sent[-1], partition=len(sent) % 6)

        async with open_producer(kafka.bootstrap) as producer:  # noqa: SIM117 - they end apart
            async with member(kafka, config) as first:
                first.subscribe(topic)
                await until(lambda: sizes(first) == [6], first)
                await send(60)
                async with member(kafka, config) as second:
                    second.subscribe(topic)
                    await until(lambda: sizes(first, second) == [3, 3], first, second)
                    kept = [p for p in first.log[0][1] if p in first.consumer.assignment]
                    if "sticky" in assignor:
                        assert len(kept) == 3
                    gone = {p for what, ps in first.log if what == "revoked" for p in ps}
                    assert len(gone) == (3 if assignor == "cooperative-sticky" else 6)
                    await send(60)
                    async with open_admin(kafka.bootstrap) as admin:
                        described = (await admin.describe_groups([group])).value(group)
                        assert described.assignor == assignor
                        given = {m.member_id: set(m.assignment) for m in described.members}
                        assert sorted(map(len, given.values())) == [3, 3]
                    await until(lambda: {*first.values, *second.values} == {*sent}, first, second)
                await until(lambda: sizes(first) == [6], first)
                await send(60)
                await until(lambda: {*first.values, *second.values} == {*sent}, first)
        read = Counter(first.values + second.values)
        repeated = [(v, v in first.values, v in second.values) for v, n in read.items() if n > 1]
        assert not repeated, f"{repeated}\n{story(first, second)}"

    main()


def test_a_member_that_was_removed_loses_its_partitions_and_joins_again(
    kafka: Kafka, fresh: Fresh
) -> None:
    topic, group = fresh("removed"), fresh("group")

    @trio_test
    async def main() -> None:
        await create(kafka, topic, 2)
        async with member(kafka, {"group.id": group}) as who, open_admin(kafka.bootstrap) as admin:
            who.subscribe(topic)
            await until(lambda: sizes(who) == [2], who)
            metadata = who.consumer.group_metadata
            member_id = metadata.member_id
            removed = MemberToRemove(member_id)
            assert (await admin.remove_members(group, [removed])).ok == {removed: None}
            await until(lambda: [what for what, _ in who.log].count("assigned") == 2, who)
            assert [what for what, _ in who.log] == ["assigned", "lost", "assigned"]
            metadata = who.consumer.group_metadata
            assert metadata.member_id != member_id

    main()


@pytest.mark.parametrize("knows", [False, True])
def test_a_commit_of_a_member_that_was_put_out_is_refused(
    kafka: Kafka, fresh: Fresh, knows: bool
) -> None:
    """Whether it knows or not: the group is empty, and would take a commit without a member."""
    topic, group = fresh("fenced"), fresh("group")
    config = SHORT | {"group.id": group, "enable.auto.commit": False}
    if not knows:
        config["heartbeat.interval.ms"] = 5000

    @trio_test
    async def main() -> None:
        await create(kafka, topic, 1)
        async with open_producer(kafka.bootstrap) as producer:
            await producer.send(topic, b"x")
        async with open_consumer(kafka.bootstrap, config) as consumer:
            consumer.subscribe([topic])
            assert len(await consumer.poll()) == 1
            metadata = consumer.group_metadata
            async with open_admin(kafka.bootstrap) as admin:
                await admin.remove_members(group, [MemberToRemove(metadata.member_id)])
                while knows and metadata.generation >= 0:  # a heartbeat tells it
                    await trio.sleep(0.01)
                    metadata = consumer.group_metadata
                for offsets in (None, {TopicPartition(topic, 0): 1}):
                    with pytest.raises(KafkaError) as caught:
                        await consumer.commit(offsets)
                    assert caught.value.code == ErrorCode.UNKNOWN_MEMBER_ID
                assert (await admin.list_group_offsets(group)).ok == {}

    main()


def test_a_static_member_that_returns_gets_its_partitions_back(kafka: Kafka, fresh: Fresh) -> None:
    topic, group = fresh("static"), fresh("group")

    def config(instance: str) -> dict[str, object]:
        return {"group.id": group, "group.instance.id": instance}

    @trio_test
    async def main() -> None:
        await create(kafka, topic, 4)
        async with member(kafka, config("b")) as stays:
            stays.subscribe(topic)
            await until(lambda: sizes(stays) == [4], stays)
            async with member(kafka, config("a")) as leaves:
                leaves.subscribe(topic)
                await until(lambda: sizes(stays, leaves) == [2, 2], stays, leaves)
                had = leaves.consumer.assignment
            steps = len(stays.log)
            async with member(kafka, config("a")) as returns:
                returns.subscribe(topic)
                await until(lambda: sizes(returns) == [2], returns)
                assert returns.consumer.assignment == had
            assert len(stays.log) == steps

    main()


def test_who_takes_a_static_members_name_puts_it_out(kafka: Kafka, fresh: Fresh) -> None:
    topic, group = fresh("usurped"), fresh("group")
    config = SHORT | {"group.id": group, "group.instance.id": "one"}

    @trio_test
    async def main() -> None:
        await create(kafka, topic, 1)
        async with open_consumer(kafka.bootstrap, config) as first:
            first.subscribe([topic])
            while not first.assignment:
                await first.poll(timeout_ms=50)
            async with member(kafka, config) as second:
                second.subscribe(topic)
                await until(lambda: sizes(second) == [1], second)
                for _ in range(2):
                    with pytest.raises(KafkaError) as caught:
                        while True:
                            await first.poll(timeout_ms=50)
                    assert caught.value.code == ErrorCode.FENCED_INSTANCE_ID

    main()


def test_a_pattern_follows_topics_as_they_come_and_grow(kafka: Kafka, fresh: Fresh) -> None:
    prefix, group = fresh("pattern"), fresh("group")

    @trio_test
    async def main() -> None:
        await create(kafka, f"{prefix}-one", 2)
        await create(kafka, f"not-{prefix}-one", 1)
        async with member(kafka, {"group.id": group}) as who, open_admin(kafka.bootstrap) as admin:
            who.subscribe(pattern=f"{prefix}-.*")
            await until(lambda: sizes(who) == [2], who)
            await create(kafka, f"{prefix}-two", 3)
            await until(lambda: sizes(who) == [5], who)
            assert who.consumer.subscription == {f"{prefix}-one", f"{prefix}-two"}
            await admin.create_partitions({f"{prefix}-one": NewPartitions(4)})
            await until(lambda: sizes(who) == [7], who)

    main()


def test_one_that_does_not_poll_is_put_out_and_may_return(kafka: Kafka, fresh: Fresh) -> None:
    topic, group = fresh("lazy"), fresh("group")

    @trio_test
    async def main() -> None:
        await create(kafka, topic, 2)
        config = SHORT | {"group.id": group, "max.poll.interval.ms": 6000}
        async with (
            open_consumer(kafka.bootstrap, config | {"max.poll.interval.ms": 300}) as lazy,
            member(kafka, {"group.id": group}) as other,
        ):
            lost: list[tuple[TopicPartition, ...]] = []

            async def on_lost(partitions: tuple[TopicPartition, ...]) -> None:
                lost.append(partitions)

            lazy.subscribe([topic], on_lost=on_lost)
            while not lazy.assignment:
                await lazy.poll(timeout_ms=50)
            before = len(lost)  # it may have been late already, and come back
            other.subscribe(topic)
            await until(lambda: sizes(other) == [2], other)  # it has been taken from the lazy one
            assert len(lost) == before
            while len(lost) == before:
                await lazy.poll(timeout_ms=50)
            while sizes(other) != [1] or len(lazy.assignment) != 1:
                await lazy.poll(timeout_ms=50)

    main()


def test_unsubscribing_leaves_the_group(kafka: Kafka, fresh: Fresh) -> None:
    topic, group = fresh("leave"), fresh("group")

    @trio_test
    async def main() -> None:
        await create(kafka, topic, 2)
        config = SHORT | {"group.id": group}
        async with (
            open_admin(kafka.bootstrap) as admin,
            open_consumer(kafka.bootstrap, config) as consumer,
        ):
            consumer.subscribe([topic])
            while not consumer.assignment:
                await consumer.poll(timeout_ms=50)
            await consumer.unsubscribe()
            described = (await admin.describe_groups([group])).value(group)
            assert described.state == "Empty"
            consumer.assign([TopicPartition(topic, 1)])
            assert await consumer.position(TopicPartition(topic, 1)) == 0

    main()


class Everything:
    """An assignor of a program's own: one member gets all partitions, the one with the last id."""

    name = "everything"
    protocols = (RebalanceProtocol.EAGER,)

    def __init__(self) -> None:
        self.calls = 0

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        return b"ours"

    def assign(
        self,
        partitions: Mapping[str, int],
        subscriptions: Subscriptions,
        racks: PartitionRacks | None = None,
    ) -> Assignment:
        self.calls += 1
        assert {subscription.user_data for subscription in subscriptions.values()} == {b"ours"}
        owner = max(subscriptions)
        every = [TopicPartition(t, n) for t, count in partitions.items() for n in range(count)]
        return {member: every if member == owner else [] for member in subscriptions}


def test_a_program_can_bring_an_assignor_and_ask_for_a_rebalance(
    kafka: Kafka, fresh: Fresh
) -> None:
    topic, group = fresh("own"), fresh("group")

    @trio_test
    async def main() -> None:
        await create(kafka, topic, 3)
        own = Everything()
        config = {"group.id": group, "partition.assignment.strategy": [own]}
        async with member(kafka, config) as one, member(kafka, config) as two:
            one.subscribe(topic)
            two.subscribe(topic)
            await until(lambda: sorted(sizes(one, two)) == [0, 3], one, two)
            calls = own.calls
            one.consumer.enforce_rebalance()
            await until(lambda: own.calls > calls and sorted(sizes(one, two)) == [0, 3], one, two)

    main()


def test_a_rebalance_is_not_for_everyone_to_ask_for(kafka: Kafka, fresh: Fresh) -> None:
    @trio_test
    async def main() -> None:
        async with open_consumer(kafka.bootstrap) as consumer:
            with pytest.raises(ValueError, match="not subscribed"):
                consumer.enforce_rebalance()
        config = {"group.id": fresh("group"), "group.protocol": "consumer"}
        async with open_consumer(kafka.bootstrap, config) as consumer:
            consumer.subscribe([fresh("t")])
            with pytest.raises(ValueError, match="the coordinator decides"):
                consumer.enforce_rebalance()

    main()
