"""All brokers crash at once, and one comes back damaged: no acknowledged record is lost, regardless
of the order in which they return."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from nodes import running_cluster, trio_test
from replicated_topic import agree, in_sync, make_replicated, produce, state

from pk.core.log.memory_disk import MemoryDisk
from pk.core.values import TopicPartition
from pk.net.client.admin import open_admin

RECORDS = 30
LOG = "/data/t-0/00000000000000000000.log"


def removed(disk: MemoryDisk) -> None:
    """The partition's directory is gone."""
    disk.remove_tree("/data/t-0")


def lost(disk: MemoryDisk) -> None:
    """The disk was replaced."""
    disk.remove_tree("/data")


def torn(disk: MemoryDisk) -> None:
    """Half of the log is gone."""
    file = disk.open(LOG)
    file.truncate(file.size() // 2 + 5)


def flipped(disk: MemoryDisk) -> None:
    """One bit in the middle is another."""
    file = disk.open(LOG)
    at = file.size() // 2
    file.pwrite(bytes([file.pread(1, at)[0] ^ 1]), at)


def emptied(disk: MemoryDisk) -> None:
    """Its log file is gone."""
    disk.remove(LOG)


@trio_test
async def test_an_operator_sees_what_a_partition_waits_for_and_decides() -> None:
    async with running_cluster() as cluster:
        await make_replicated(cluster, "t")
        for number in range(RECORDS):
            await produce(cluster, b"%d" % number)
        await agree(cluster, RECORDS)
        for node_id in (1, 2, 3):
            await cluster.crash(node_id)
        torn(cluster.disks[1])
        await cluster.start(1)
        await cluster.start(2)
        await cluster.until(lambda image: not image.brokers[2].fenced)
        tp = TopicPartition("t", 0)
        address = cluster.nodes[1].listeners[0].advertised
        async with open_admin(f"{address.host}:{address.port}") as admin:
            with trio.fail_after(60):
                while (await admin.unclean_recovery([tp]))[tp].awaits != (3,):  # noqa: ASYNC110
                    await trio.sleep(0.01)
            known = (await admin.unclean_recovery())[tp]
            assert known.leader_id == -1 and known.why
            assert sorted(known.needed) == [1, 2, 3]
            ends = {one.broker_id: one.end_offset for one in known.replicas if one.reported}
            assert ends[2] == RECORDS and ends[1] < RECORDS
            refused = (await admin.unclean_recovery([tp], leader=3))[tp]
            assert refused.error is not None
            answer = (await admin.unclean_recovery([tp], leader=2))[tp]
            assert answer.error is None
        await cluster.start(3)
        await in_sync(cluster, 3)
        await agree(cluster, RECORDS)
        assert state(cluster).unclean_epoch >= 0


@trio_test
async def test_one_damaged_replica_is_copied_again_and_says_so_until_it_is() -> None:
    async with running_cluster() as cluster:
        await make_replicated(cluster, "t")
        for number in range(RECORDS):
            await produce(cluster, b"%d" % number)
        await agree(cluster, RECORDS)
        await cluster.crash(1)
        flipped(cluster.disks[1])
        node = await cluster.start(1)
        await in_sync(cluster, 3)
        await agree(cluster, RECORDS)
        log = node.broker.data.replicas.partition("t", 0).log
        with trio.fail_after(60):
            while log.mark is not None:  # noqa: ASYNC110 - its file goes in a thread
                await trio.sleep(0.01)
        assert not [n for n in cluster.disks[1].list("/data/t-0") if n.endswith(".damaged")]


@pytest.mark.parametrize("damage", [removed, lost, torn, flipped, emptied])
@pytest.mark.parametrize("order", [(2, 3, 1), (1, 2, 3)])
def test_nothing_is_lost_when_all_crash_and_one_comes_back_damaged(
    damage: Callable[[MemoryDisk], None], order: tuple[int, ...]
) -> None:
    @trio_test
    async def run() -> None:
        async with running_cluster() as cluster:
            await make_replicated(cluster, "t")
            for number in range(RECORDS):
                await produce(cluster, b"%d" % number)
            await agree(cluster, RECORDS)
            for node_id in (1, 2, 3):
                await cluster.crash(node_id)
            damage(cluster.disks[1])
            for node_id in order:
                await cluster.start(node_id)
            await in_sync(cluster, 3)
            await agree(cluster, RECORDS)
            assert state(cluster).leader != 1
            assert await produce(cluster, b"more") == RECORDS

    run()
