"""The embedded store: what a crash leaves at every moment, a log that does not grow, disks that
fail, damage."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from pk.core.broker.controller.embedded_store import DIRECTORY, EmbeddedStore
from pk.core.broker.offload import inline
from pk.core.log.memory_disk import MemoryDisk
from pk.core.meta.events import (
    ClusterCreated,
    Event,
    ProducerIdsAllocated,
    TopicCreated,
    TopicDeleted,
)
from pk.core.meta.image import MetadataImage
from pk.core.meta.store import StoreFailed, StoreFull

LOG = f"/data/{DIRECTORY}/__cluster_metadata-0"


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def inside() -> None:
        with inline():
            await main()

    trio.run(inside)


def new_disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make("/data")
    disk.sync_dir("/")
    return disk


async def opened(disk: MemoryDisk) -> tuple[EmbeddedStore, int, MetadataImage]:
    store = EmbeddedStore(disk, "/data", lambda: 1)
    epoch = await store.campaign(1)
    return store, epoch, await store.load()


async def with_snapshots(disk: MemoryDisk, count: int) -> tuple[EmbeddedStore, int, MetadataImage]:
    """A log of `count` appends of one event, a snapshot after each."""
    store, epoch, image = await opened(disk)
    for turn in range(count):
        await store.append(epoch, image.offset, some(turn, 1))
        image = image.apply(some(turn, 1))
        await store.save_snapshot(epoch, image)
        await store.trim(epoch)
    return store, epoch, image


def some(first: int, count: int) -> list[Event]:
    return [TopicCreated(f"t{n}", n.to_bytes(16, "big")) for n in range(first, first + count)]


def log_bytes(disk: MemoryDisk) -> int:
    return sum(entry.size for name, entry in disk.list(LOG).items() if name.endswith(".log"))


@pytest.mark.parametrize("names", ["lost", "kept"])
@pytest.mark.parametrize("zeroed", [False, True])
def test_what_was_appended_survives_a_crash(names: Any, zeroed: bool) -> None:
    async def main() -> None:
        disk = new_disk()
        store, epoch, image = await opened(disk)
        for turn in range(5):
            events = some(turn * 10, 10)
            await store.append(epoch, image.offset, events)
            image = image.apply(events)
            disk.crash(names=names, zeroed=zeroed)
            store, epoch, loaded = await opened(disk)
            assert loaded == image and epoch == turn + 2

    run(main)


def test_an_append_that_was_cut_is_whole_or_missing() -> None:
    """The last batch reaches the disk up to any of its bytes. Either no event of it is loaded, or
    every event."""

    async def main() -> None:
        kept = 0
        seen = set()
        while True:
            disk = new_disk()
            store, epoch, image = await opened(disk)
            await store.append(epoch, 0, some(0, 2))
            image = image.apply(some(0, 2))
            disk.fail_next("sync", suffix=".log")
            with pytest.raises(StoreFailed):
                await store.append(epoch, 2, some(2, 2))
            whole = disk.unsynced_bytes(f"{LOG}/{0:020d}.log")
            assert whole > 0
            disk.crash(lambda path, count, kept=kept: kept if path.endswith(".log") else 0)
            _, _, loaded = await opened(disk)
            after = image.apply(some(2, 2))
            assert loaded == (after if kept >= whole else image)
            seen.add(loaded.offset)
            if kept >= whole:
                break
            kept += 1
        assert seen == {2, 4}

    run(main)


def test_a_failed_sync_is_not_tried_again() -> None:
    async def main() -> None:
        disk = new_disk()
        store, epoch, _ = await opened(disk)
        disk.fail_next("sync", suffix=".log")
        with pytest.raises(StoreFailed):
            await store.append(epoch, 0, [ClusterCreated("c")])
        for again in (store.campaign(1), store.load(), store.append(epoch, 1, some(0, 1))):
            with pytest.raises(StoreFailed):
                await again
        await store.close()

    run(main)


def test_a_full_disk_refuses_and_the_log_goes_on() -> None:
    async def main() -> None:
        disk = new_disk()
        store, epoch, _ = await opened(disk)
        await store.append(epoch, 0, [ClusterCreated("c")])
        disk.fail_next("write", errno.ENOSPC, suffix=".log", after_bytes=10)
        with pytest.raises(StoreFull):
            await store.append(epoch, 1, some(0, 3))
        image = await store.load()
        assert image.offset == 1
        await store.append(epoch, 1, some(0, 3))
        assert set((await store.load()).topics) == {"t0", "t1", "t2"}

    run(main)


def test_snapshots_keep_the_log_short() -> None:
    async def main() -> None:
        disk = new_disk()
        store, epoch, image = await opened(disk)
        sizes = []
        for turn in range(8):
            events: list[Event] = [ProducerIdsAllocated(1, 1, turn * 1000 + n) for n in range(200)]
            await store.append(epoch, image.offset, events)
            image = image.apply(events)
            await store.save_snapshot(epoch, image)
            await store.trim(epoch)
            sizes.append(log_bytes(disk))
        assert max(sizes) == sizes[1] and sizes[-1] <= sizes[1]
        names = [n for n in disk.list(f"/data/{DIRECTORY}") if n.endswith(".image")]
        assert names == [f"{1400:020d}.image", f"{1600:020d}.image"]
        disk.crash()
        _, _, loaded = await opened(disk)
        assert loaded == image

    run(main)


def test_a_damaged_snapshot_gives_way_to_the_one_before(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        disk = new_disk()
        store, _epoch, image = await with_snapshots(disk, 3)
        await store.close()
        newest = f"/data/{DIRECTORY}/{3:020d}.image"
        disk.write(newest, disk.read(newest)[:-1])
        _, _, loaded = await opened(disk)
        assert loaded == image and "damaged" in caplog.text

    run(main)


def test_events_that_are_gone_without_a_snapshot_are_an_error() -> None:
    async def main() -> None:
        disk = new_disk()
        store, *_ = await with_snapshots(disk, 3)
        await store.close()
        for name in disk.list(f"/data/{DIRECTORY}"):
            if name.endswith(".image"):
                disk.remove(f"/data/{DIRECTORY}/{name}")
        with pytest.raises(StoreFailed, match="missing"):
            await opened(disk)

    run(main)


def test_a_log_that_was_taken_away_goes_on_from_its_snapshot() -> None:
    async def main() -> None:
        disk = new_disk()
        store, epoch, image = await opened(disk)
        await store.append(epoch, 0, some(0, 3))
        image = image.apply(some(0, 3))
        await store.save_snapshot(epoch, image)
        await store.close()
        disk.remove_tree(LOG)
        store, epoch, loaded = await opened(disk)
        assert loaded == image
        await store.append(epoch, 3, some(3, 1))
        await store.close()
        _, _, loaded = await opened(disk)
        assert loaded == image.apply(some(3, 1))

    run(main)


def test_a_damaged_record_is_a_reason_not_a_guess() -> None:
    async def main() -> None:
        disk = new_disk()
        store, _, _ = await opened(disk)
        await store.close()
        controller = f"/data/{DIRECTORY}/controller"
        disk.write(controller, b"\x00")
        with pytest.raises(StoreFailed, match="controller"):
            await opened(disk)

    run(main)


@pytest.mark.parametrize("event", [*some(0, 1), TopicDeleted(b"none" * 4)])
def test_an_event_that_contradicts_those_before_it_is_a_reason_too(event: Event) -> None:
    async def main() -> None:
        disk = new_disk()
        store, epoch, image = await opened(disk)
        await store.append(epoch, image.offset, [*some(0, 1), event])
        await store.close()
        with pytest.raises(StoreFailed, match="the event at 1, Topic"):
            await opened(disk)

    run(main)


def test_an_epoch_does_not_come_twice_where_its_file_was_lost() -> None:
    async def main() -> None:
        disk, epochs = new_disk(), []
        for turn in range(3):
            store, epoch, image = await opened(disk)
            epochs.append(epoch)
            await store.append(epoch, image.offset, some(turn, 1))
            await store.close()
        disk.remove(f"/data/{DIRECTORY}/controller")
        _, again, _ = await opened(disk)
        assert again == max(epochs) + 1

    run(main)


async def appended_each(count: int) -> tuple[MemoryDisk, list[int], MetadataImage]:
    """A log of `count` appends of one event, closed in order: the disk, where each batch begins,
    and the image."""
    disk = new_disk()
    store, epoch, image = await opened(disk)
    begins = []
    for turn in range(count):
        begins.append(log_bytes(disk))
        await store.append(epoch, turn, some(turn, 1))
        image = image.apply(some(turn, 1))
    await store.close()
    return disk, begins, image


@pytest.mark.parametrize(
    "at", [5, 10, 16, 17, 40, 65], ids=["offset", "length", "magic", "crc", "body", "key"]
)
def test_damage_that_events_lie_behind_is_refused_and_nothing_is_cut(at: int) -> None:
    """Wherever the bit flips: a crash tears the last batch only, so this is none, and a cut would
    take topics away."""

    async def main() -> None:
        disk, begins, _ = await appended_each(5)
        path = f"{LOG}/{0:020d}.log"
        data = bytearray(disk.read(path))
        data[begins[2] + at] ^= 0x10
        disk.write(path, bytes(data))
        for _ in range(2):
            with pytest.raises(StoreFailed, match=f"position {begins[2]}"):
                await opened(disk)
            assert disk.read(path) == data

    run(main)


def test_damage_in_an_earlier_segment_is_refused() -> None:
    async def main() -> None:
        disk = new_disk()
        store, epoch, image = await with_snapshots(disk, 3)
        await store.append(epoch, image.offset, some(3, 1))
        await store.close()
        first, *_, last = sorted(name for name in disk.list(LOG) if name.endswith(".log"))
        assert first != last and disk.read(f"{LOG}/{last}")
        disk.write(f"{LOG}/{first}", disk.read(f"{LOG}/{first}")[:-1])
        with pytest.raises(StoreFailed, match=first):
            await opened(disk)

    run(main)


def test_the_last_batch_may_be_torn_by_a_crash_and_only_that_one_goes() -> None:
    async def main() -> None:
        disk, begins, image = await appended_each(3)
        path = f"{LOG}/{0:020d}.log"
        whole = disk.read(path)
        last = len(whole.rstrip(b"\0"))
        for left in range(begins[2], last):
            disk.write(path, whole[:left] + bytes(len(whole) - left))
            store, _, loaded = await opened(disk)
            assert set(loaded.topics) == {"t0", "t1"}
            await store.close()
        disk.write(path, whole)
        _, _, loaded = await opened(disk)
        assert loaded == image

    run(main)
