"""A new cluster takes over the topics of a lost one from remote storage."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest
from broker.remote.tiered import FailingStorage, Tiered, tiered
from group.brokers import simulated

from pk.core.config import BrokerConfig
from pk.core.log.remote.checking import checked_objects
from pk.core.log.remote.metadata import SegmentState
from pk.core.log.remote.restoring import TopicFound, found_topics, producer_id_after
from pk.core.log.remote.storage import SegmentName
from pk.core.meta.events import ProducerIdsAllocated
from pk.core.meta.restored_topics import restore_topics
from pk.core.values import NO_LEADER, REMOTE_METADATA_TOPIC, Uuid
from pk.core.wire.messages.pk_restore_topics import (
    PkRestoreTopicsRequest,
    RestoredConfig,
    RestoredPartition,
    RestoredTopic,
)

LOST = "lost"


async def lost_cluster(segments: int = 3, brokers: int = 1) -> tuple[dict[str, bytes], Tiered]:
    """The objects in the store of a cluster that copied some segments, and the cluster."""
    async with tiered(brokers) as t:
        await t.create(*range(1, brokers + 1))
        await t.produce(segments)
        await t.turn()
        moved = {moved_to(LOST, name): data for name, data in t.storage.objects.items()}
        return moved, t


def moved_to(cluster_id: str, name: str) -> str:
    """The name of an object of the cluster `test` as another one would give it. The ids of segments
    come from a seed, so all clusters of a test give the same ones."""
    parsed = SegmentName.parse(name)
    if parsed.cluster_id != "test":
        return name
    other_id = bytes(byte ^ len(cluster_id) for byte in parsed.id)
    return str(parsed._replace(cluster_id=cluster_id, id=other_id))


@asynccontextmanager
async def new_cluster(objects: dict[str, bytes], brokers: int = 1) -> AsyncIterator[Tiered]:
    async with tiered(brokers) as t:
        t.storage.objects = dict(objects)
        everyone = range(1, brokers + 1)
        await t.cluster.create(*everyone, topic=REMOTE_METADATA_TOPIC, partitions=2)
        yield t


def found_in(storage: FailingStorage, *, records: bool = False) -> TopicFound:
    (topic,) = found_topics(checked_objects(storage, records=records), "test")
    return topic


def request_for(topic: TopicFound, storage: FailingStorage, factor: int) -> PkRestoreTopicsRequest:
    configs = topic.state.configs if topic.state is not None else {}
    return PkRestoreTopicsRequest(
        topics=[
            RestoredTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                replication_factor=factor,
                configs=[RestoredConfig(name=k, value=v) for k, v in configs.items()],
                partitions=[
                    RestoredPartition(
                        end_offset=one.plan.end_offset,
                        last_epoch=one.plan.last_epoch,
                        cluster_ids=list(one.cluster_ids),
                        left_out=[d.segment.id for d in one.damaged if d.segment is not None],
                        start_offset=one.plan.start_offset,
                    )
                    for one in topic.partitions
                ],
            )
        ],
        producer_id_next=max(
            producer_id_after(storage, "test", one.plan) for one in topic.partitions
        ),
    )


async def restore(t: Tiered, factor: int = 1, *, records: bool = False) -> TopicFound:
    """Decide to restore the topic, and wait until its leader leads."""
    topic = found_in(t.storage, records=records)
    await decide(t, request_for(topic, t.storage, factor))
    await t.cluster.until(lambda: t.cluster.partition(leader_of(t)).leads)
    return topic


async def decide(t: Tiered, request: PkRestoreTopicsRequest) -> None:
    config = BrokerConfig.parse(
        {"node.id": "1", "remote.log.storage.system.enable": "true", "pk.remote.url": "memory:///"}
    )
    decision = restore_topics(t.cluster.image, request, config, Random(1))
    assert [one.error_message for one in decision.reply.topics] == [None]
    await t.cluster.decide(*decision.records)


def leader_of(t: Tiered) -> int:
    found = t.cluster.image.partition("t", 0)
    assert found is not None
    return found.leader


def topic_id(t: Tiered) -> Uuid:
    return t.cluster.image.topics["t"].topic_id


class TestTheNewCluster:
    @simulated
    async def test_waits_for_an_object_that_the_store_lists_late(self) -> None:
        objects, old = await lost_cluster()
        async with new_cluster(objects) as t:
            topic = found_in(t.storage)
            request = request_for(topic, t.storage, 1)
            t.storage.objects = {}
            await decide(t, request)
            trouble = t.manager(1).trouble

            def says(what: str) -> bool:
                return any(what in why for why in trouble.values())

            await t.cluster.until(lambda: says("up to -1, but had them up to 23"))
            t.storage.objects = dict(sorted(objects.items())[1:])
            await t.cluster.until(lambda: says("from 8 on, but had them from 0 on"))
            t.storage.objects = dict(objects)
            await t.cluster.until(lambda: t.cluster.partition(1).leads)
            assert t.starts() == (0, 24, 24)
            assert await t.read() == old.sent[:24]

    @simulated
    async def test_has_every_record_that_was_copied_and_goes_on_behind_them(self) -> None:
        objects, old = await lost_cluster()
        async with new_cluster(objects) as t:
            await restore(t)
            assert topic_id(t) == old.topic_id
            assert t.cluster.image.topic_configs("t")["local.retention.bytes"] == "0"
            assert t.starts() == (0, 24, 24)
            assert await t.read() == old.sent[:24]
            await t.produce(2)
            assert await t.read() == old.sent[:24] + t.sent
            epochs = t.cluster.partition(1).log.state.epochs.entries
            assert [(e.epoch, e.start_offset) for e in epochs] == [(0, 0), (1, 24)]
            await t.turn()
            await t.retain(1)
            assert t.starts() == (0, 40, 42)
            assert await t.read() == old.sent[:24] + t.sent
            assert sum(name.startswith("test/") for name in t.storage.objects) == 2
            assert sum(name.startswith(LOST) for name in t.storage.objects) == 3

    @simulated
    async def test_replicates_what_was_restored(self) -> None:
        objects, old = await lost_cluster(brokers=3)
        async with new_cluster(objects, 3) as t:
            await restore(t, 3)
            first = leader_of(t)
            assert set(t.cluster.isr()) >= {first}
            await t.cluster.until(lambda: len(t.cluster.isr()) == 3)
            for node in (1, 2, 3):
                assert t.starts(node) == (0, 24, 24)
            await t.cluster.crash(first)
            second = next(node for node in (1, 2, 3) if node != first)
            others = tuple(node for node in (1, 2, 3) if node != first)
            await t.cluster.change(leader=second, isr=others)
            await t.cluster.until(lambda: t.cluster.partition(second).leads)
            await t.produce(1, second)
            assert await t.read(second) == old.sent[:24] + t.sent

    @simulated
    async def test_restores_again_what_a_crash_interrupted(self) -> None:
        objects, old = await lost_cluster()
        async with new_cluster(objects) as t:
            t.storage.fail = lambda operation, done: operation == "get"
            topic = found_topics(checked_objects(a_copy(objects), records=False), "test")[0]
            await decide(t, request_for(topic, a_copy(objects), 1))
            await t.cluster.until(lambda: bool(t.manager(1).trouble))
            assert not t.cluster.partition(1).leads
            assert (await t.fetch(0)).error_code != 0
            assert await t.cluster.produce(1, b"too soon") != 0
            await t.cluster.crash(1)
            t.storage.fail = lambda operation, done: False
            await t.cluster.start(1)
            await t.cluster.change(leader=1)
            await t.cluster.until(lambda: t.cluster.partition(1).leads)
            assert await t.read() == old.sent[:24]
            await t.cluster.crash(1, power=False)
            await t.cluster.start(1)
            await t.cluster.change(leader=1)
            await t.cluster.until(lambda: t.cluster.partition(1).remote is not None)
            await t.turn()
            assert t.starts() == (0, 24, 24)
            assert await t.read() == old.sent[:24]

    @simulated
    async def test_deletes_the_objects_of_the_lost_one_when_they_expire(self) -> None:
        objects, old = await lost_cluster()
        async with new_cluster(objects) as t:
            await restore(t)
            await t.produce(1)
            await t.cluster.configure("t", "retention.bytes", "3000")
            await t.turn()
            start = t.starts()[0]
            assert start > 0
            assert len([n for n in t.storage.objects if n.startswith(LOST)]) < 3
            assert await t.read(offset=start) == (old.sent[:24] + t.sent)[start:]

    @simulated
    async def test_leads_again_after_all_that_was_restored_has_expired(self) -> None:
        objects, _ = await lost_cluster()
        async with new_cluster(objects) as t:
            await restore(t)
            await t.cluster.configure("t", "retention.bytes", "0")
            await t.turn()
            await t.cluster.until(lambda: t.starts() == (24, 24, 24))
            await t.cluster.change(leader=NO_LEADER)
            await t.cluster.until(lambda: not t.cluster.partition(1).leads)
            await t.cluster.change(leader=1)
            await t.cluster.until(lambda: t.cluster.partition(1).leads)
            assert t.starts() == (24, 24, 24)
            await t.produce(0)
            assert await t.read(offset=24) == t.sent

    @simulated
    async def test_is_lost_and_restored_as_well(self) -> None:
        objects, old = await lost_cluster()
        async with new_cluster(objects) as t:
            await restore(t)
            await t.produce(2)
            await t.turn()
            sent, objects = t.sent, t.storage.objects
        renamed = {moved_to("second", name): data for name, data in objects.items()}
        async with new_cluster(renamed) as t:
            topic = await restore(t)
            assert topic.cluster_ids == (LOST, "second")
            assert await t.read() == old.sent[:24] + sent[:16]


class TestProducers:
    @simulated
    async def test_their_batches_are_still_known_as_sent_before(self) -> None:
        objects = await lost_cluster_of_7()
        async with new_cluster(objects) as t:
            await restore(t)
            assert t.cluster.image.producer_id_next == 8
            assert await produce_as_7(t, b"once") == 0
            assert t.starts() == (0, 1, 1)

    @simulated
    async def test_an_id_that_this_cluster_gave_out_is_another_producer(self) -> None:
        objects = await lost_cluster_of_7()
        async with new_cluster(objects) as t:
            await t.cluster.decide(ProducerIdsAllocated(1, 0, 1000))
            await restore(t)
            assert t.cluster.image.producer_id_next == 1000
            assert await produce_as_7(t, b"another") == 0
            assert await t.read() == [b"once", b"another"]

    @simulated
    async def test_for_a_follower_too_that_id_is_another_producer(self) -> None:
        objects = await lost_cluster_of_7()
        async with new_cluster(objects, 3) as t:
            await t.cluster.decide(ProducerIdsAllocated(1, 0, 1000))
            await restore(t, 3)
            second = await lead_with_another(t)
            assert await produce_as_7(t, b"another", second) == 0
            assert await t.read(second) == [b"once", b"another"]

    @simulated
    async def test_so_is_one_in_an_object_that_the_store_lists_late(self) -> None:
        objects = await lost_cluster_of_7(before=1)
        async with new_cluster(objects, 3) as t:
            await t.cluster.decide(ProducerIdsAllocated(1, 0, 1000))
            t.storage.objects = dict(sorted(objects.items())[:-1])
            request = request_for(found_in(t.storage), t.storage, 3)
            t.storage.objects = dict(objects)
            await decide(t, request)
            await t.cluster.until(lambda: t.cluster.partition(leader_of(t)).leads)
            second = await lead_with_another(t)
            assert await produce_as_7(t, b"another", second) == 0
            assert (await t.read(second))[-2:] == [b"once", b"another"]


class TestDamage:
    @pytest.mark.parametrize("damage", ["cut", "tail", "gone"])
    def test_in_the_middle_costs_what_is_before_it(self, damage: str) -> None:
        @simulated
        async def run() -> None:
            objects, old = await lost_cluster()
            spoil(objects, sorted(objects)[1], damage)
            async with new_cluster(objects) as t:
                topic = await restore(t)
                assert len(topic.partitions[0].damaged) == (damage != "gone")
                assert topic.partitions[0].plan.log_start_offset == 0
                assert t.starts() == (16, 24, 24)
                assert await t.read(offset=16) == old.sent[16:24]
                await t.turn()
                assert set(t.storage.objects) == set(objects), "a person may need them"

        run()

    @simulated
    async def test_an_upload_that_did_not_end_is_as_if_it_was_not_begun(self) -> None:
        objects, old = await lost_cluster()
        spoil(objects, sorted(objects)[2], "cut")
        async with new_cluster(objects) as t:
            await restore(t)
            assert t.starts() == (0, 16, 16)
            await t.produce(1)
            assert await t.read() == old.sent[:16] + t.sent

    @simulated
    async def test_in_records_is_found_if_they_are_checked(self) -> None:
        objects, old = await lost_cluster()
        spoil(objects, min(objects), "records")
        async with new_cluster(objects) as t:
            await restore(t, records=True)
            assert t.starts() == (8, 24, 24)
            assert await t.read(offset=8) == old.sent[8:24]

    @simulated
    async def test_objects_that_vanish_meanwhile_are_not_passed_over(self) -> None:
        objects, _ = await lost_cluster()
        async with new_cluster(objects) as t:
            request = request_for(found_in(t.storage), t.storage, 1)
            del t.storage.objects[max(t.storage.objects)]
            await decide(t, request)
            await t.cluster.until(lambda: bool(t.manager(1).trouble))
            assert "but had them up to 23" in next(iter(t.manager(1).trouble.values()))
            assert not t.cluster.partition(1).leads


@simulated
async def test_what_was_copied_twice_is_taken_once() -> None:
    objects, old = await lost_cluster()
    first = min(objects)
    twin = first[: -len("AAAAAAAAAAAAAAAAAAAAAA.segment")] + "A" * 22 + ".segment"
    objects[twin] = objects[first]
    async with new_cluster(objects) as t:
        await restore(t)
        assert await t.read() == old.sent[:24]
        await t.turn()
        assert len(t.storage.objects) == 3
        assert {s.state for s in t.segments()} == {SegmentState.COPY_FINISHED}
        assert await t.read() == old.sent[:24]


async def lost_cluster_of_7(before: int = 0) -> dict[str, bytes]:
    """The objects of a lost cluster whose last record is from producer 7. It is the only one unless
    segments are produced `before` it."""
    async with tiered() as t:
        await t.create(1)
        if before:
            await t.produce(before)
        assert await produce_as_7(t, b"once") == 0
        t.roll()
        await t.produce(0)
        await t.turn()
        return {moved_to(LOST, name): data for name, data in t.storage.objects.items()}


async def lead_with_another(t: Tiered) -> int:
    """Crash the leader once all three replicas are in sync; the node that leads then."""
    first = leader_of(t)
    await t.cluster.until(lambda: len(t.cluster.isr()) == 3)
    await t.cluster.crash(first)
    others = tuple(node for node in (1, 2, 3) if node != first)
    await t.cluster.change(leader=others[0], isr=others)
    await t.cluster.until(lambda: t.cluster.partition(others[0]).leads)
    return others[0]


async def produce_as_7(t: Tiered, value: bytes, node: int = 1) -> int:
    """The first batch of producer 7; the error code."""
    return await t.cluster.produce(node, value, producer_id=7, producer_epoch=0, base_sequence=0)


def a_copy(objects: dict[str, bytes]) -> FailingStorage:
    storage = FailingStorage()
    storage.objects = dict(objects)
    return storage


def spoil(objects: dict[str, bytes], name: str, damage: str) -> None:
    content = bytearray(objects[name])
    match damage:
        case "cut":
            objects[name] = bytes(content[:-100])
        case "tail":
            content[-50] ^= 1
            objects[name] = bytes(content)
        case "records":
            content[100] ^= 1
            objects[name] = bytes(content)
        case _:
            del objects[name]
