"""The promises of every metadata store, tested on each: epochs fence, appends are whole, snapshots
stand for what they end.

etcd and ZooKeeper are the real ones. The effects of leases and sessions are tested in
tests/net/test_etcd.py and tests/net/test_zookeeper.py.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import trio
from etcd_server import EtcdServers
from etcd_stores import EtcdStores
from meta.memory_store import MemoryLog, MemoryStore
from store_events import allocated
from zookeeper_server import ZooKeeperServer
from zookeeper_stores import ZooKeeperStores

from pk.core.broker.controller.embedded_store import EmbeddedStore
from pk.core.broker.offload import inline
from pk.core.log.memory_disk import MemoryDisk
from pk.core.meta.events import (
    ClusterCreated,
    ConfigChanged,
    Event,
    PartitionCreated,
    TopicCreated,
    TopicDeleted,
)
from pk.core.meta.image import MetadataImage
from pk.core.meta.store import Fenced, Leader, MetadataStore


class Stores:
    """Stores over one log. Calling it makes one more: another process, or the next one."""

    def __init__(self, make: Callable[[int], MetadataStore]) -> None:
        self._make = make
        self.made: list[MetadataStore] = []

    def __call__(self, controller_id: int = 1) -> MetadataStore:
        self.made.append(self._make(controller_id))
        return self.made[-1]

    async def depose(self, store: MetadataStore) -> None:
        """Make the store elect another controller while this one lives."""

    async def close(self) -> None:
        for store in self.made:
            await store.close()


class OnEtcd(Stores):
    def __init__(self, servers: EtcdServers) -> None:
        self.stores = EtcdStores(servers)
        super().__init__(self.stores.make)

    async def depose(self, store: Any) -> None:
        await self.stores.expire(store)


class OnZooKeeper(Stores):
    def __init__(self, server: ZooKeeperServer) -> None:
        self.stores = ZooKeeperStores(server)
        super().__init__(self.stores.make)

    async def depose(self, store: Any) -> None:
        await self.stores.expire(store)


@pytest.fixture(
    params=["memory", "embedded", "etcd", pytest.param("zookeeper", marks=pytest.mark.peer)]
)
def another(request: pytest.FixtureRequest) -> Iterator[Stores]:
    if request.param == "memory":
        log = MemoryLog()
        yield Stores(lambda _: MemoryStore(log))
    elif request.param == "embedded":
        disk = MemoryDisk()
        disk.make("/data")
        disk.sync_dir("/")
        yield Stores(lambda _: EmbeddedStore(disk, "/data", lambda: 1))
    elif request.param == "etcd":
        yield OnEtcd(request.getfixturevalue("etcd"))
    else:
        yield OnZooKeeper(request.getfixturevalue("zookeeper"))


def run(another: Stores, main: Callable[[], Awaitable[None]]) -> None:
    async def inside() -> None:
        with inline(), trio.fail_after(180):
            async with trio.open_nursery() as nursery:
                if isinstance(another, OnEtcd):
                    another.stores.nursery = nursery
                try:
                    await main()
                finally:
                    await another.close()
                nursery.cancel_scope.cancel()

    trio.run(inside)


DIRECTORIES = 60
"""The number of directories of each partition below. It makes an event about 1 kB long, so that few
events are 3 MB."""


def topics(first: int, count: int, partitions: int) -> list[Event]:
    """Events that differ, as those of a large cluster do."""
    events: list[Event] = []
    for n in range(first, first + count):
        topic_id = n.to_bytes(16, "big")
        events.append(TopicCreated(f"a-topic-with-a-name-of-some-length-{n}", topic_id))
        events += [
            PartitionCreated(
                topic_id,
                p,
                (1, 2, 3),
                (1, 2, 3),
                1,
                directories=tuple(os.urandom(16) for _ in range(DIRECTORIES)),
            )
            for p in range(partitions)
        ]
    return events


def test_an_empty_log_is_an_empty_image(another: Stores) -> None:
    async def main() -> None:
        store = another()
        assert await store.leader() is None
        assert await store.campaign(1) == 1
        assert await store.leader() == Leader(1, 1)
        assert await store.load() == MetadataImage()
        assert store.bytes_since_snapshot == 0

    run(another, main)


def test_what_was_appended_is_loaded_by_the_next_one(another: Stores) -> None:
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
        following = another(2)
        assert await following.campaign(2) == epoch + 1
        image = await following.load()
        assert image == MetadataImage().apply(events) and image.offset == len(events)
        assert following.bytes_since_snapshot > 0

    run(another, main)


def test_a_campaign_fences_who_came_before(another: Stores) -> None:
    async def main() -> None:
        first, second = another(1), another(2)
        old = await first.campaign(1)
        await first.append(old, 0, [ClusterCreated("c")])
        await another.depose(first)
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

    run(another, main)


def test_leaderships_come_and_go_and_every_append_that_was_taken_is_there(another: Stores) -> None:
    async def main() -> None:
        stores = [another(1), another(2), another(3)]
        end, epochs = 0, [0]
        for turn in range(6):
            store = stores[turn % 3]
            epochs.append(await store.campaign(turn % 3 + 1))
            assert (await store.load()).offset == end
            for _ in range(3):
                await store.append(epochs[-1], end, [allocated(end + 1), allocated(end + 2)])
                end += 2
            for other in stores:
                with pytest.raises(Fenced):
                    await other.append(epochs[-2], end, [allocated(0)])
            await another.depose(store)
        assert epochs == sorted(set(epochs))
        last = another(4)
        await last.campaign(4)
        image = await last.load()
        assert (image.offset, image.producer_id_next) == (36, 36)

    run(another, main)


def test_an_append_elsewhere_than_at_the_end_is_refused(another: Stores) -> None:
    async def main() -> None:
        store = another()
        epoch = await store.campaign(1)
        await store.append(epoch, 0, [ClusterCreated("c")])
        for offset in (0, 2):
            with pytest.raises(Fenced):
                await store.append(epoch, offset, [allocated(1)])
        assert (await store.load()).offset == 1

    run(another, main)


@pytest.mark.thorough
def test_an_append_is_whole_whatever_its_size(another: Stores) -> None:
    """3 MB of events are more than any request to ZooKeeper or etcd, 600 kB more than a node."""

    async def main() -> None:
        store, image = another(), MetadataImage()
        epoch = await store.campaign(1)
        for count, partitions in ((1, 3_000), (60, 10), (1, 1)):
            events = topics(image.offset, count, partitions)
            await store.append(epoch, image.offset, events)
            image = image.apply(events)
            assert await store.load() == image
        await store.close()
        following = another(2)
        epoch = await following.campaign(2)
        assert await following.load() == image
        await following.append(epoch, image.offset, [allocated(9)])
        assert await following.load() == image.apply([allocated(9)])

    run(another, main)


@pytest.mark.thorough
def test_thousands_of_appends_are_loaded_in_order(another: Stores) -> None:
    async def main() -> None:
        store = another()
        epoch = await store.campaign(1)
        for n in range(2_500):
            await store.append(epoch, n, [ConfigChanged(2, "t", f"key-{n % 7}", str(n))])
        image = await store.load()
        assert image.offset == 2_500
        assert image.configs[2, "t"] == {f"key-{n % 7}": str(n) for n in range(2_493, 2_500)}
        await store.save_snapshot(epoch, image)
        await store.trim(epoch)
        for n in range(2_500, 2_600):
            await store.append(epoch, n, [ConfigChanged(2, "t", "key-0", str(n))])
        await store.save_snapshot(epoch, await store.load())
        await store.trim(epoch)
        assert (await store.load()).configs[2, "t"]["key-0"] == "2599"

    run(another, main)


@pytest.mark.thorough
def test_a_large_snapshot_comes_back(another: Stores) -> None:
    async def main() -> None:
        store = another()
        epoch = await store.campaign(1)
        events = topics(0, 200, 15)
        await store.append(epoch, 0, events)
        image = MetadataImage().apply(events)
        await store.save_snapshot(epoch, image)
        await store.trim(epoch)
        assert await store.load() == image
        await store.close()
        following = another(2)
        await following.campaign(2)
        assert await following.load() == image

    run(another, main)


def test_a_snapshot_and_what_follows_make_the_image(another: Stores) -> None:
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
        following = another(2)
        await following.campaign(2)
        assert await following.load() == image.apply([allocated(7)])

    run(another, main)
