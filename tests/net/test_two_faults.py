"""All brokers crash at once, and one comes back damaged: nothing acknowledged is lost, in whatever
order they return."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from nodes import running_cluster, trio_test
from replicated_topic import agree, in_sync, make_replicated, produce, state

from pk.core.log.memory_disk import MemoryDisk

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
