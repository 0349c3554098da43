"""The metadata log as brokers follow it: whole appends from the broker's offset, or a snapshot if
that offset is too old."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import trio
import trio.testing

from pk.core.broker.controller.metadata_feed import MetadataFeed
from pk.core.broker.offload import inline
from pk.core.meta import snapshot
from pk.core.meta.events import ControllerElected, Event, ProducerIdsAllocated, TopicCreated, decode
from pk.core.meta.image import MetadataImage
from pk.core.record.batch import iter_headers, records


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with inline():
        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def topic(number: int) -> TopicCreated:
    return TopicCreated(f"t{number}", number.to_bytes(16, "big"))


def add(feed: MetadataFeed, *events: Event) -> MetadataImage:
    image = feed.image.apply(events)
    feed.add(events, image, 1_000)
    return image


def started(**options: int) -> MetadataFeed:
    """A feed whose log begins with a controller of epoch 1."""
    feed = MetadataFeed(**options)
    feed.restart(MetadataImage())
    add(feed, ControllerElected(0, 1))
    return feed


def kept_bytes(feed: MetadataFeed) -> int:
    """How much of the log can be read."""
    return len(feed.read(feed.start_offset, 1 << 30) or b"")


def events_in(data: bytes | None, first: int) -> list[Event]:
    """The events from offset `first` on, as a follower finds them."""
    assert data is not None
    found = []
    for position, header in iter_headers(data):
        batch = memoryview(data)[position : position + header.size]
        found += [(r.offset, decode(r.value or b"")) for r in records(batch, header)]
    assert (
        [offset for offset, _ in found] == list(range(found[0][0], found[-1][0] + 1))
        if found
        else True
    )
    return [event for offset, event in found if offset >= first]


def test_a_follower_gets_every_event_in_order() -> None:
    feed = started()
    wanted: list[Event] = [ControllerElected(0, 1)]
    for number in range(1, 40, 3):
        made = [topic(number), topic(number + 1), topic(number + 2)]
        wanted += made
        add(feed, *made)
    image, got = MetadataImage(), []
    while image.offset < feed.end_offset:
        more = events_in(feed.read(image.offset, 400, image.controller_epoch), image.offset)
        assert more, "at least one append, whatever the limit"
        got += more
        image = image.apply(more)
    assert got == wanted
    assert image == feed.image
    assert feed.read(feed.end_offset, 400, 1) == b""


def test_an_append_is_never_cut() -> None:
    feed = started()
    add(feed, *[topic(n) for n in range(1, 50)])
    assert len(events_in(feed.read(1, 1), 0)) == 49
    assert len(events_in(feed.read(20, 1), 0)) == 49, "the whole batch, as from any log"


def test_who_is_behind_the_tail_needs_a_snapshot() -> None:
    async def main() -> None:
        feed = started(tail_bytes=2_000)
        for number in range(1, 200):
            add(feed, topic(number))
        assert 1_000 < kept_bytes(feed) <= 2_000
        assert feed.start_offset > 100
        assert feed.read(feed.start_offset - 1, 1 << 20) is None
        made = await feed.snapshot(5)
        assert snapshot.load(made.data) == feed.image
        assert (made.end_offset, made.epoch) == (200, 1)
        add(feed, topic(200))
        assert events_in(feed.read(made.end_offset, 1 << 20, made.epoch), 200) == [topic(200)]
        assert await feed.snapshot(6) is made, "it still leads up to the tail"
        assert feed.find_snapshot(200, 1) is made
        for number in range(201, 400):
            add(feed, topic(number))
        other = await feed.snapshot(7)
        assert other.end_offset == 400 and feed.find_snapshot(200, 1) is made, (
            "who reads it may finish"
        )
        for number in range(400, 600):
            add(feed, topic(number))
        await feed.snapshot(8)
        assert feed.find_snapshot(200, 1) is None, "memory is bounded"

    run(main)


def test_the_last_append_stays_whatever_its_size() -> None:
    feed = started(tail_bytes=100)
    add(feed, *[topic(n) for n in range(1, 100)])
    assert kept_bytes(feed) > 100
    assert len(events_in(feed.read(1, 1, 1), 1)) == 99


def test_a_log_that_is_not_ours_is_not_continued() -> None:
    feed = started()
    add(feed, topic(1))
    add(feed, ControllerElected(0, 3))
    add(feed, topic(2))
    assert feed.read(4, 1 << 20, 3) == b""
    assert feed.read(5, 1 << 20, 3) is None, "beyond the end"
    assert feed.read(4, 1 << 20, 2) is None, "another epoch for the last event"
    assert feed.read(2, 1 << 20, 3) is None and feed.read(2, 1 << 20, 1)
    assert feed.read(0, 1 << 20, -1)


def test_a_new_controller_goes_on_behind_what_the_store_had() -> None:
    feed = MetadataFeed()
    image = MetadataImage().apply([ControllerElected(1, 7), topic(1)])
    feed.restart(image)
    add(feed, ControllerElected(2, 8))
    assert feed.read(1, 1 << 20) is None
    assert events_in(feed.read(2, 1 << 20, 7), 2) == [ControllerElected(2, 8)]
    assert feed.read(2, 1 << 20, 6) is None
    feed.close()
    feed.restart(feed.image)
    assert feed.read(2, 1 << 20, 7), "what was kept leads up to there"
    feed.restart(feed.image.apply([ProducerIdsAllocated(1, 1, 5)]))
    assert feed.start_offset == feed.end_offset == 4, "somebody else wrote meanwhile"


def test_waiting_ends_with_news_with_time_and_with_the_leadership() -> None:
    async def main() -> None:
        feed = started()
        assert await feed.wait_for_event(0, trio.current_time())
        before = trio.current_time()
        assert not await feed.wait_for_event(1, before + 5)
        assert trio.current_time() == before + 5
        outcomes: list[bool] = []

        async def wait(offset: int) -> None:
            outcomes.append(await feed.wait_for_event(offset, before + 60))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait, 1)
            nursery.start_soon(wait, 2)
            await trio.testing.wait_all_tasks_blocked()
            add(feed, topic(1))
            await trio.testing.wait_all_tasks_blocked()
            assert outcomes == [True]
            feed.close()
        assert outcomes == [True, False] and trio.current_time() == before + 5

    run(main)
