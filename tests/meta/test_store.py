"""What every metadata store promises, asked of each: epochs fence, appends are whole, snapshots
stand for what they end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio

from pk.core.broker.metadata_log import EmbeddedStore
from pk.core.broker.offload import inline
from pk.core.log.memory_disk import MemoryDisk
from pk.core.meta.events import (
    ClusterCreated,
    ConfigChanged,
    Event,
    PartitionCreated,
    ProducerIdsAllocated,
    TopicCreated,
    TopicDeleted,
)
from pk.core.meta.image import MetadataImage
from pk.core.meta.store import Fenced, Leader, MemoryLog, MemoryStore, MetadataStore

Another = Callable[[], MetadataStore]
"""Makes one more store over the same log: another process, or the next one."""


def memory() -> Another:
    log = MemoryLog()
    return lambda: MemoryStore(log)


def embedded() -> Another:
    disk = MemoryDisk()
    disk.make("/data")
    disk.sync_dir("/")
    return lambda: EmbeddedStore(disk, "/data", lambda: 1)


STORES = {"memory": memory, "embedded": embedded}


@pytest.fixture(params=STORES)
def another(request: pytest.FixtureRequest) -> Another:
    return STORES[request.param]()


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def inside() -> None:
        with inline():
            await main()

    trio.run(inside)


def allocated(number: int) -> Event:
    return ProducerIdsAllocated(1, 1, number)


def test_an_empty_log_is_an_empty_image(another: Another) -> None:
    async def main() -> None:
        store = another()
        assert await store.leader() is None
        assert await store.campaign(1) == 1
        assert await store.leader() == Leader(1, 1)
        assert await store.load() == MetadataImage()
        assert store.bytes_since_snapshot == 0

    run(main)


def test_what_was_appended_is_loaded_by_the_next_one(another: Another) -> None:
    async def main() -> None:
        store = another()
        epoch = await store.campaign(1)
        events: list[Event] = [ClusterCreated("c"), TopicCreated("t", b"t" * 16)]
        events += [PartitionCreated(b"t" * 16, n, (1,), (1,), 1) for n in range(100)]
        await store.append(epoch, 0, events[:1])
        await store.append(epoch, 1, events[1:])
        await store.append(epoch, len(events), [])
        assert store.bytes_since_snapshot > 0
        assert await store.load() == MetadataImage().apply(events)
        await store.close()
        following = another()
        assert await following.campaign(2) == epoch + 1
        image = await following.load()
        assert image == MetadataImage().apply(events) and image.offset == len(events)
        assert following.bytes_since_snapshot > 0

    run(main)


def test_a_campaign_fences_who_came_before(another: Another) -> None:
    async def main() -> None:
        first, second = another(), another()
        old = await first.campaign(1)
        await first.append(old, 0, [ClusterCreated("c")])
        new = await second.campaign(2)
        assert new > old and await first.leader() == Leader(2, new)
        image = await second.load()
        for refused in (
            first.append(old, 1, [allocated(1)]),
            first.save_snapshot(old, image),
            first.trim(old),
        ):
            with pytest.raises(Fenced):
                await refused
        await second.append(new, 1, [allocated(2)])
        assert (await second.load()).producer_id_next == 2

    run(main)


def test_an_append_elsewhere_than_at_the_end_is_refused(another: Another) -> None:
    async def main() -> None:
        store = another()
        epoch = await store.campaign(1)
        await store.append(epoch, 0, [ClusterCreated("c")])
        for offset in (0, 2):
            with pytest.raises(Fenced):
                await store.append(epoch, offset, [allocated(1)])
        assert (await store.load()).offset == 1

    run(main)


def test_a_snapshot_and_what_follows_make_the_image(another: Another) -> None:
    async def main() -> None:
        store = another()
        epoch = await store.campaign(1)
        image, before = MetadataImage(), 0
        for turn in range(6):
            events: list[Event] = [
                TopicCreated(f"t{turn}", turn.to_bytes(16, "big")),
                ConfigChanged(2, f"t{turn}", "retention.ms", "1"),
            ]
            if turn:
                events.append(TopicDeleted((turn - 1).to_bytes(16, "big")))
            await store.append(epoch, image.offset, events)
            image = image.apply(events)
            before = store.bytes_since_snapshot
            assert before > 0
            if turn % 2 == 0:
                await store.save_snapshot(epoch, image)
                assert store.bytes_since_snapshot == 0
                await store.trim(epoch)
            assert await store.load() == image
        assert 0 < store.bytes_since_snapshot <= before
        await store.append(epoch, image.offset, [allocated(7)])
        await store.close()
        following = another()
        await following.campaign(1)
        assert await following.load() == image.apply([allocated(7)])

    run(main)
