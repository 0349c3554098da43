"""Share groups on several brokers: leaders of partitions and share coordinators die and move, and a
record is delivered until it is accepted, never accepted twice, and never held by two."""

from __future__ import annotations

from random import Random

import pytest
import trio
import trio.testing
from broker.cluster import Cluster, running_cluster
from group.brokers import simulated
from share.clients import GROUP_ID, KEYS, RELEASE, Member, Notes, prepare

from pk.core.broker.coordinator.share_state_client import ShareStateClient
from pk.core.errors import ErrorCode
from pk.core.share.batches import StateBatch
from pk.core.share.partition_state import StateWrite
from pk.core.share.records import ShareKey
from pk.core.values import SHARE_STATE_TOPIC
from pk.core.wire.messages import alter_share_group_offsets as altering
from pk.core.wire.messages.read_share_group_state import ReadShareGroupStateRequest
from pk.core.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

E = ErrorCode


async def until_some(member: Member) -> list[tuple[int, int]]:
    """(offset, delivery count) of the next records that come."""
    while not (found := await member.fetch()):
        pass
    return [(seen.offset, seen.delivery_count) for seen in found]


async def move(cluster: Cluster, topic: str, to: int) -> None:
    """Give a partition another leader."""
    await cluster.change(topic, leader=to)


@simulated
async def test_a_new_leader_knows_what_was_accepted_and_how_often_the_rest_was_delivered() -> None:
    async with running_cluster(KEYS) as cluster:
        topic_id = await prepare(cluster)
        assert await cluster.produce(3, b"a", b"b", b"c") == E.NONE
        member = Member(cluster, topic_id)
        assert await until_some(member) == [(0, 1), (1, 1), (2, 1)]
        assert await member.say(0) == E.NONE
        assert await member.say(1, RELEASE) == E.NONE
        await move(cluster, "t", 1)
        # The lock of the third died with its leader, and so did that delivery.
        assert await until_some(member) == [(1, 2), (2, 1)]
        for offset in (1, 2):
            assert await member.say(offset) == E.NONE
        await move(cluster, "t", 2)
        assert await cluster.produce(2, b"d") == E.NONE
        assert await until_some(member) == [(3, 1)]


@simulated
async def test_acknowledgements_wait_for_a_share_coordinator_that_moves() -> None:
    async with running_cluster(KEYS) as cluster:
        topic_id = await prepare(cluster)
        assert await cluster.produce(3, b"a", b"b") == E.NONE
        member = Member(cluster, topic_id)
        assert await until_some(member) == [(0, 1), (1, 1)]
        await cluster.change(SHARE_STATE_TOPIC, leader=-1)
        answers: list[ErrorCode | None] = []
        async with trio.open_nursery() as nursery:

            async def accept() -> None:
                answers.append(await member.say(0))

            nursery.start_soon(accept)
            await trio.sleep(2)
            assert answers == []
            await move(cluster, SHARE_STATE_TOPIC, 1)
        assert answers == [E.NONE]
        await move(cluster, "t", 1)
        assert await until_some(member) == [(1, 1)]


@simulated
async def test_what_is_said_while_something_is_stored_is_stored_after_it_and_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writes: list[StateWrite] = []
    first_goes_on = trio.Event()
    store = ShareStateClient.write

    async def held(
        self: ShareStateClient, key: ShareKey, leader_epoch: int, write: StateWrite
    ) -> None:
        writes.append(write)
        if len(writes) == 1:
            await first_goes_on.wait()
        await store(self, key, leader_epoch, write)

    async with running_cluster(KEYS, brokers=1) as cluster:
        topic_id = await prepare(cluster, (1,))
        assert await cluster.produce(1, b"a", b"b", b"c") == E.NONE
        members = [Member(cluster, topic_id) for _ in range(3)]
        for offset, member in enumerate(members):
            assert await member.fetch(1) == [(offset, [b"a", b"b", b"c"][offset], 1)]
        monkeypatch.setattr(ShareStateClient, "write", held)
        async with trio.open_nursery() as nursery:
            for offset, member in enumerate(members):
                nursery.start_soon(member.say, offset)
                await trio.testing.wait_all_tasks_blocked()
            assert [one.batches for one in writes] == [(StateBatch(0, 0, 2, 1),)]
            first_goes_on.set()
        assert [(one.delivery_complete_count, one.batches) for one in writes[1:]] == [
            (2, (StateBatch(1, 2, 2, 1),))
        ]


@simulated
async def test_a_leader_that_does_not_know_that_it_is_deposed_stores_nothing() -> None:
    async with running_cluster(KEYS) as cluster:
        topic_id = await prepare(cluster)
        assert await cluster.produce(3, b"a") == E.NONE
        old, new = Member(cluster, topic_id), Member(cluster, topic_id)
        assert await until_some(old) == [(0, 1)]
        cluster.lagging.add(3)
        await move(cluster, "t", 1)
        assert await until_some(new) == [(0, 1)]
        old._leader = lambda: (3, 0)  # type: ignore[method-assign]
        assert await old.say(0) == E.NOT_LEADER_OR_FOLLOWER
        assert await new.say(0) == E.NONE


@simulated
async def test_a_broker_that_stops_gives_nobody_what_a_member_holds() -> None:
    async with running_cluster(KEYS) as cluster:
        topic_id = await prepare(cluster)
        assert await cluster.produce(3, b"a") == E.NONE
        holder, other = Member(cluster, topic_id), Member(cluster, topic_id)
        assert await until_some(holder) == [(0, 1)]
        # It still leads, in the same epoch, until it is gone.
        await cluster.broker(3).groups.stop()
        assert await other.fetch() == []
        assert await holder.say(0) == E.NOT_LEADER_OR_FOLLOWER


@simulated
async def test_offsets_that_are_set_count_although_the_last_session_ended_while_it_was_loaded() -> (
    None
):
    async with running_cluster(KEYS) as cluster:
        topic_id = await prepare(cluster)
        assert await cluster.produce(3, b"a", b"b", b"c") == E.NONE
        is_read, goes_on = trio.Event(), trio.Event()

        async def hold(asker: int, asked: int, request: object) -> None:
            if isinstance(request, ReadShareGroupStateRequest):
                is_read.set()
                await goes_on.wait()

        cluster.before = hold
        member = Member(cluster, topic_id)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(member.fetch)
            await is_read.wait()
            await member.leave()
            nursery.cancel_scope.cancel()
        goes_on.set()
        await trio.testing.wait_all_tasks_blocked()
        await empty_the_group(cluster)
        await set_offset(cluster, 2)
        assert await until_some(Member(cluster, topic_id)) == [(2, 1)]


@simulated
async def test_offsets_may_be_set_back_to_where_the_group_begins_by_itself() -> None:
    async with running_cluster(KEYS) as cluster:
        topic_id = await prepare(cluster)
        assert await cluster.produce(3, b"a", b"b") == E.NONE
        await empty_the_group(cluster)
        for _ in range(3):
            member = Member(cluster, topic_id)
            assert await until_some(member) == [(0, 1), (1, 1)]
            assert await member.say(0) == E.NONE
            await member.leave()
            await set_offset(cluster, -1)
            await set_offset(cluster, -1)


async def empty_the_group(cluster: Cluster) -> None:
    """Have the member leave that initialized the group."""
    request = ShareGroupHeartbeatRequest(group_id=GROUP_ID, member_id="first", member_epoch=-1)
    assert (await cluster.ask(1, request, 1)).error_code == E.NONE


async def set_offset(cluster: Cluster, offset: int) -> None:
    """Have the group go on at `offset`."""
    partition = altering.AlterShareGroupOffsetsRequestPartition(start_offset=offset)
    topic = altering.AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=[partition])
    request = altering.AlterShareGroupOffsetsRequest(group_id=GROUP_ID, topics=[topic])
    answer = await cluster.ask(1, request, 0)
    assert answer.responses[0].partitions[0].error_code == E.NONE


@simulated
async def test_deliveries_count_of_each_session_that_ends_with_its_connection() -> None:
    async with running_cluster(KEYS, brokers=1) as cluster:
        topic_id = await prepare(cluster, (1,))
        members = [Member(cluster, topic_id) for _ in range(3)]
        for member in members:
            member.node, member.connection_id = 1, 1
        before, holder, after = members
        assert await before.fetch() == []
        assert await cluster.produce(1, b"a") == E.NONE
        assert await until_some(holder) == [(0, 1)]
        assert await after.fetch() == []
        await holder.leave()
        assert await until_some(Member(cluster, topic_id)) == [(0, 2)]


@simulated
async def test_a_lock_runs_out_and_the_last_delivery_ends_a_record() -> None:
    keys = {**KEYS, "group.share.delivery.count.limit": "2"}
    async with running_cluster(keys, brokers=1) as cluster:
        topic_id = await prepare(cluster, (1,))
        assert await cluster.produce(1, b"a") == E.NONE
        member = Member(cluster, topic_id)
        assert await until_some(member) == [(0, 1)]
        assert await member.fetch(wait_ms=29_000) == []
        other = Member(cluster, topic_id)
        assert await until_some(other) == [(0, 2)]
        assert await member.say(0) == E.INVALID_RECORD_STATE
        await trio.sleep(31)
        assert await member.fetch(wait_ms=1000) == []
        assert await cluster.produce(1, b"b") == E.NONE
        assert await until_some(member) == [(1, 1)]


async def trouble(cluster: Cluster, random: Random) -> None:
    """Leaders move, brokers crash and return, connections break."""
    for _ in range(12):
        await trio.sleep(random.uniform(0.1, 1.5))
        chance = random.random()
        topic = random.choice(["t", "t", SHARE_STATE_TOPIC])
        isr = cluster.isr(topic)
        if chance < 0.5:
            await move(cluster, topic, random.choice(isr))
        elif chance < 0.7:
            cluster.cut_channels(random.choice((1, 2, 3)))
        elif all(len(cluster.isr(name)) == 3 for name in ("t", SHARE_STATE_TOPIC)):
            found = cluster.image.partition(topic, 0)
            assert found is not None
            node = found.leader
            await cluster.crash(node, power=random.random() < 0.5)
            for name in ("t", SHARE_STATE_TOPIC, "__consumer_offsets"):
                left = tuple(n for n in cluster.isr(name) if n != node)
                led = cluster.image.partition(name, 0)
                assert led is not None
                if led.leader == node:
                    await cluster.change(name, leader=random.choice(left), isr=left)
                else:
                    await cluster.change(name, isr=left)
            await trio.sleep(random.uniform(0.1, 1))
            await cluster.start(node)


async def live(seed: int) -> Notes:
    """A group's life in trouble; at the end everything must have been accepted."""
    random = Random(seed)
    async with running_cluster(KEYS) as cluster:
        topic_id = await prepare(cluster)
        notes, over = Notes(), trio.Event()
        made: list[int] = []
        async with trio.open_nursery() as nursery:
            members = [Member(cluster, topic_id, notes) for _ in range(3)]
            for member in members:
                nursery.start_soon(member.work, Random(random.random()), over)

            async def produce() -> None:
                while len(made) < 60:
                    found = cluster.image.partition("t", 0)
                    assert found is not None
                    if found.leader > 0 and cluster._members[found.leader].broker is not None:
                        values = [b"%d" % (len(made) + n) for n in range(random.randint(1, 4))]
                        if await cluster.produce(found.leader, *values) == E.NONE:
                            made.extend(range(len(values)))
                    await trio.sleep(0.15)

            nursery.start_soon(produce)
            await trouble(cluster, random)
            await cluster.until(lambda: len(made) >= 60)
            leader = cluster.image.partition("t", 0)
            assert leader is not None
            end = cluster.partition(leader.leader, "t").log.state.log_end_offset

            def settled() -> bool:
                known = notes.accepted.keys() | notes.maybe
                return all(
                    offset in known or notes.deliveries[offset] >= 10 for offset in range(end)
                )

            await cluster.until(settled, within_s=300)
            over.set()
        return notes


@pytest.mark.parametrize("seed", range(12))
@simulated
async def test_a_record_is_delivered_until_it_is_accepted_and_accepted_once(seed: int) -> None:
    notes = await live(seed)
    assert len(notes.accepted) >= 50


@simulated
async def test_the_check_finds_a_leader_that_answers_before_it_has_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def forget(
        self: ShareStateClient, key: ShareKey, leader_epoch: int, write: StateWrite
    ) -> None:
        return None

    monkeypatch.setattr(ShareStateClient, "write", forget)
    for seed in range(12):
        try:
            await live(seed)
        except BaseExceptionGroup as e:
            if e.subgroup(AssertionError):
                return
            raise
    raise AssertionError("nothing was found")
