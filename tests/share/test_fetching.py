"""The records that a share group gets from logs with holes: retention, compaction, transactions,
several partitions and large batches."""

from __future__ import annotations

from broker.cluster import running_cluster
from group.brokers import simulated
from share.clients import GROUP_ID, KEYS, Member, prepare
from txn.clients import KEYS as TRANSACTION_KEYS
from txn.clients import TransactionalProducer

from pk.core.errors import ErrorCode
from pk.core.meta.events import GROUP, ConfigChanged, FeatureChanged
from pk.core.meta.features import TRANSACTION_VERSION
from pk.core.values import TRANSACTIONS_TOPIC
from pk.core.wire.messages.share_fetch import ShareFetchRequest

E = ErrorCode


async def all_of(member: Member, count: int) -> list[bytes | None]:
    """The values of the next records, all accepted."""
    values: list[bytes | None] = []
    while len(values) < count:
        for seen in await member.fetch(100):
            values.append(seen.value)
            assert await member.say(seen.offset) == E.NONE
    return values


@simulated
async def test_what_retention_has_removed_is_skipped() -> None:
    async with running_cluster(KEYS, brokers=1) as cluster:
        topic_id = await prepare(cluster, (1,))
        for value in (b"a", b"b", b"c", b"d"):
            assert await cluster.produce(1, value) == E.NONE
        member = Member(cluster, topic_id)
        assert [seen.offset for seen in await member.fetch(2)] == [0, 1]
        cluster.partition(1).delete_before(3)
        assert await member.say(0) == E.NONE  # it is before the window by now: done with
        assert await all_of(member, 1) == [b"d"]
        assert await cluster.produce(1, b"e") == E.NONE
        assert await all_of(member, 1) == [b"e"]


@simulated
async def test_a_group_that_reads_committed_records_gets_no_others() -> None:
    async with running_cluster({**KEYS, **TRANSACTION_KEYS}) as cluster:
        topic_id = await prepare(cluster)
        await cluster.decide(
            FeatureChanged(TRANSACTION_VERSION, 2),
            ConfigChanged(GROUP, GROUP_ID, "share.isolation.level", "read_committed"),
        )
        await cluster.create(1, 2, 3, topic=TRANSACTIONS_TOPIC)
        producer = TransactionalProducer(cluster)
        assert await producer.init() == E.NONE
        assert await producer.send("t", b"aborted") == E.NONE
        assert await producer.end(commit=False) == E.NONE
        assert await producer.send("t", b"committed") == E.NONE
        member = Member(cluster, topic_id)
        assert await member.fetch(wait_ms=500) == []
        assert await producer.end() == E.NONE
        assert await all_of(member, 1) == [b"committed"]
        other = TransactionalProducer(cluster, "other")
        assert await other.init() == E.NONE
        assert await other.send("t", b"open") == E.NONE
        assert await cluster.produce(3, b"behind it") == E.NONE
        assert await member.fetch(wait_ms=500) == []
        assert await other.end(commit=False) == E.NONE
        assert await all_of(member, 1) == [b"behind it"]


@simulated
async def test_a_group_that_reads_everything_gets_records_of_open_transactions() -> None:
    async with running_cluster({**KEYS, **TRANSACTION_KEYS}) as cluster:
        topic_id = await prepare(cluster)
        await cluster.decide(FeatureChanged(TRANSACTION_VERSION, 2))
        await cluster.create(1, 2, 3, topic=TRANSACTIONS_TOPIC)
        producer = TransactionalProducer(cluster)
        assert await producer.init() == E.NONE
        assert await producer.send("t", b"open") == E.NONE
        assert await all_of(Member(cluster, topic_id), 1) == [b"open"]


@simulated
async def test_a_batch_that_is_larger_than_a_look_goes_out_whole() -> None:
    async with running_cluster(KEYS, brokers=1) as cluster:
        topic_id = await prepare(cluster, (1,))
        large = [bytes([n]) * 200_000 for n in range(4)]
        for value in large:
            assert await cluster.produce(1, value) == E.NONE
        assert await all_of(Member(cluster, topic_id), 4) == large


@simulated
async def test_a_new_group_begins_at_the_end_and_stays_there_when_its_leader_dies() -> None:
    async with running_cluster(KEYS) as cluster:
        topic_id = await prepare(cluster)
        await cluster.decide(ConfigChanged(GROUP, GROUP_ID, "share.auto.offset.reset", "latest"))
        assert await cluster.produce(3, b"before") == E.NONE
        assert await Member(cluster, topic_id).fetch(wait_ms=100) == []
        await cluster.change(leader=1)
        assert await cluster.produce(1, b"after") == E.NONE
        assert await all_of(Member(cluster, topic_id), 1) == [b"after"]


@simulated
async def test_an_unknown_acquire_mode_is_refused() -> None:
    async with running_cluster(KEYS, brokers=1) as cluster:
        topic_id = await prepare(cluster, (1,))
        assert await cluster.produce(1, b"a") == E.NONE
        member = Member(cluster, topic_id)
        request = ShareFetchRequest(
            group_id=GROUP_ID, member_id=member.member_id, max_records=1, share_acquire_mode=2
        )
        answer = await cluster.ask(1, request, 2)
        assert answer.error_code == E.INVALID_REQUEST
