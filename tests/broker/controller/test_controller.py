"""The controller's runtime: one decision after another, several in one append, no answer too
early, failures."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from group.brokers import NoPeers
from meta.memory_store import MemoryLog, MemoryStore

from pk.core.broker.controller.controller import Controller
from pk.core.broker.controller.controller_client import OutcomeUnknown
from pk.core.broker.state import BrokerState
from pk.core.config import BrokerConfig
from pk.core.errors import ErrorCode, KafkaError
from pk.core.machine import Decision
from pk.core.meta.events import Event, ProducerIdsAllocated, TopicCreated
from pk.core.meta.image import ContradictoryEvent, MetadataImage
from pk.core.meta.store import MetadataLost, MetadataStore, StoreFailed, StoreFull
from pk.core.record.batch import iter_headers, records
from pk.core.values import NO_NODE


class Watched(MemoryStore):
    """A store whose appends wait until they are let through, and that lists them."""

    def __init__(self, log: MemoryLog | None = None) -> None:
        super().__init__(log, self._fail)
        self.appended: list[int] = []
        self.gate: trio.Event | None = None
        self.failing: dict[str, int] = {}
        self.failure: type[StoreFailed] = StoreFailed
        self.done: list[str] = []

    def _fail(self, operation: str) -> None:
        self.done.append(operation)
        if self.failing.get(operation, 0) > 0:
            self.failing[operation] -= 1
            raise self.failure(f"no {operation}")

    async def append(self, epoch: int, offset: int, events: Sequence[Event]) -> None:
        if self.gate is not None:
            await self.gate.wait()
        await super().append(epoch, offset, events)
        self.appended.append(len(events))


class Running:
    """A controller that runs, and the images that it published."""

    def __init__(self, store: Watched, controller: Controller, nursery: trio.Nursery) -> None:
        self.store = store
        self.controller = controller
        self.published: list[MetadataImage] = []
        self.showing: trio.Event | None = None
        """If set, the broker waits for it before it reacts."""
        self.ended = trio.Event()
        """When `run` has returned."""
        self._nursery = nursery

    async def publish(self, image: MetadataImage) -> None:
        await trio.lowlevel.checkpoint()
        if self.showing is not None:
            await self.showing.wait()
        self.published.append(image)

    async def allocate(self) -> int:
        """The next number, decided on the image."""
        return await self.controller.submit(allocate)

    def stop(self) -> None:
        """Cancel it."""
        self._nursery.cancel_scope.cancel()

    async def reopen(self) -> None:
        """Take the leadership (again)."""
        await self.controller.open("c")
        await self._nursery.start(self._run)

    async def _run(self, *, task_status: trio.TaskStatus[None]) -> None:
        self.ended = trio.Event()
        await self.controller.run(self.publish, task_status)
        self.ended.set()


def made(store: MetadataStore, node: int, **options: Any) -> Controller:
    """A controller that is none yet."""
    keys = {"node.id": str(node), "log.dirs": "/d", "listeners": "PLAINTEXT://h:1"}
    state = BrokerState(BrokerConfig.parse(keys), node_id=node, cluster_id="")
    return Controller(store, state, NoPeers(), **options)


def allocate(image: MetadataImage) -> Decision[Event, Any]:
    return Decision(
        [ProducerIdsAllocated(1, 1, image.producer_id_next + 1)], reply=image.producer_id_next
    )


@asynccontextmanager
async def running(store: Watched | None = None, **options: Any) -> AsyncIterator[Running]:
    store = store if store is not None else Watched()
    async with trio.open_nursery() as nursery:
        one = Running(store, made(store, 1, **options), nursery)
        await one.reopen()
        yield one
        nursery.cancel_scope.cancel()


def run(main: Callable[[], Any]) -> None:
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def error_of(one: Running) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        await one.allocate()
    return caught.value


def test_decisions_are_made_one_after_another() -> None:
    async def main() -> None:
        async with running() as one:
            replies: list[int] = []

            async def ask() -> None:
                replies.append(await one.allocate())

            async with trio.open_nursery() as nursery:
                for _ in range(100):
                    nursery.start_soon(ask)
            assert sorted(replies) == list(range(100))
            assert one.controller.image.producer_id_next == 100
            await trio.testing.wait_all_tasks_blocked()
            assert one.published[-1] is one.controller.image
            assert await one.store.load() == one.controller.image

    run(main)


def test_what_queues_up_goes_into_one_append() -> None:
    async def main() -> None:
        async with running() as one:
            one.store.gate = trio.Event()
            one.store.appended.clear()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(one.allocate)
                await trio.testing.wait_all_tasks_blocked()
                for _ in range(50):
                    nursery.start_soon(one.allocate)
                await trio.testing.wait_all_tasks_blocked()
                one.store.gate.set()
            assert one.store.appended == [1, 50]

    run(main)


def test_nobody_sees_what_is_not_safe() -> None:
    async def main() -> None:
        async with running() as one:
            one.store.gate = trio.Event()
            before, published = one.controller.image, len(one.published)
            answered = trio.Event()

            async def ask() -> None:
                await one.allocate()
                assert one.controller.image.producer_id_next == 1, "safe before it is answered"
                answered.set()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask)
                await trio.testing.wait_all_tasks_blocked()
                assert one.controller.image is before and len(one.published) == published
                assert not answered.is_set()
                one.store.gate.set()
            assert answered.is_set()

    run(main)


def test_a_decision_that_fails_fails_alone() -> None:
    async def main() -> None:
        async with running() as one:
            results: list[Any] = []

            def refuse(image: MetadataImage) -> Decision[Event, Any]:
                raise KafkaError(ErrorCode.POLICY_VIOLATION, "no")

            def contradict(image: MetadataImage) -> Decision[Event, Any]:
                return Decision([TopicCreated("t", b"t" * 16)] * 2)

            async def ask(decide: Callable[[MetadataImage], Decision[Event, Any]]) -> None:
                try:
                    results.append(await one.controller.submit(decide))
                except (KafkaError, ContradictoryEvent) as e:
                    results.append(type(e))

            one.store.gate = trio.Event()
            async with trio.open_nursery() as nursery:
                for decide in (allocate, refuse, contradict, allocate):
                    nursery.start_soon(ask, decide)
                await trio.testing.wait_all_tasks_blocked()
                one.store.gate.set()
            wanted = [0, 1, KafkaError, ContradictoryEvent]
            assert sorted(map(str, results)) == sorted(map(str, wanted))
            assert one.controller.image.topics == {}
            assert await one.store.load() == one.controller.image

    run(main)


def test_a_decision_without_events_needs_no_append() -> None:
    async def main() -> None:
        async with running() as one:
            appended, published = len(one.store.appended), len(one.published)
            offset = one.controller.image.offset
            assert await one.controller.submit(lambda image: Decision(reply=image.offset)) == offset
            assert (len(one.store.appended), len(one.published)) == (appended, published)

    run(main)


@pytest.mark.parametrize("moment, happened", [("append", 0), ("appended", 1)])
def test_after_a_failure_the_log_decides_what_happened(moment: str, happened: int) -> None:
    async def main() -> None:
        log = MemoryLog()
        async with running(Watched(log)) as one:
            one.store.failing[moment] = 1
            error = await error_of(one)
            assert isinstance(error, OutcomeUnknown) and error.code == ErrorCode.REQUEST_TIMED_OUT
            await one.ended.wait()
            assert (await error_of(one)).code == ErrorCode.NOT_CONTROLLER
            assert one.controller.image.producer_id_next == 0, "no answer says what is not known"
            await one.reopen()
            assert one.controller.image.producer_id_next == happened
            assert await one.allocate() == happened
            await trio.testing.wait_all_tasks_blocked()
            assert await one.store.load() == one.controller.image == one.published[-1]

    run(main)


def test_where_there_is_no_room_nothing_happens_and_the_leadership_is_kept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with running() as one:
            one.store.failure, one.store.failing["append"] = StoreFull, 3
            epoch = one.controller.epoch
            for _ in range(3):
                assert (await error_of(one)).code == ErrorCode.KAFKA_STORAGE_ERROR
            assert await one.allocate() == 0
            assert one.controller.active and one.controller.epoch == epoch
            await trio.testing.wait_all_tasks_blocked()
            assert await one.store.load() == one.controller.image == one.published[-1]
        assert caplog.text.count("no disk space") == 1

    run(main)


def test_a_node_that_holds_logs_begins_no_cluster() -> None:
    """Its metadata was lost: with none at all every log would be a stray."""

    async def main() -> None:
        log = MemoryLog()
        controller = made(Watched(log), 1)
        with pytest.raises(MetadataLost, match="7 partitions"):
            await controller.open("c", logs_held=7)
        assert not controller.active and not log.records
        await controller.open("c", logs_held=0)
        assert log.records
        again = made(Watched(log), 1)
        await again.open("c", logs_held=7)
        assert again.active

    run(main)


def test_who_asked_meanwhile_knows_that_nothing_happened() -> None:
    async def main() -> None:
        async with running() as one:
            one.store.gate = trio.Event()
            one.store.failing["appended"] = 1
            outcomes: list[int] = []

            async def ask() -> None:
                outcomes.append((await error_of(one)).code)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask)
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(ask)
                await trio.testing.wait_all_tasks_blocked()
                one.store.gate.set()
            assert sorted(outcomes) == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER]
            assert (await one.store.load()).producer_id_next == 1

    run(main)


def test_a_store_that_stays_away_elects_no_controller() -> None:
    async def main() -> None:
        async with running() as one:
            one.store.failing.update(append=1, campaign=1)
            await error_of(one)
            await one.ended.wait()
            with pytest.raises(StoreFailed):
                await one.controller.open("c")
            assert not one.controller.active

    run(main)


def test_a_lost_session_ends_it_at_once() -> None:
    async def main() -> None:
        async with running() as one:
            one.store.gate = trio.Event()
            outcomes: list[int] = []

            async def ask() -> None:
                try:
                    outcomes.append(await one.allocate())
                except KafkaError as e:
                    outcomes.append(-e.code)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask)
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(ask)
                await trio.testing.wait_all_tasks_blocked()
                for lost in one.store.lost:
                    lost(one.controller.epoch - 1, "an older session")
                assert one.controller.active
                for lost in one.store.lost:
                    lost(one.controller.epoch, "the session is over")
                assert not one.controller.active
                await trio.testing.wait_all_tasks_blocked()
                assert outcomes == [-ErrorCode.NOT_CONTROLLER], "what was queued did not happen"
                one.store.gate.set()
            assert outcomes == [-ErrorCode.NOT_CONTROLLER, 0], "what the store took did"
            await one.ended.wait()

    run(main)


def test_a_session_lost_while_taking_over_elects_no_controller() -> None:
    async def main() -> None:
        store = Watched()
        controller = made(store, 1)
        store.gate = trio.Event()
        async with trio.open_nursery() as nursery:

            async def take() -> None:
                with pytest.raises(StoreFailed):
                    await controller.open("c")

            nursery.start_soon(take)
            await trio.testing.wait_all_tasks_blocked()
            store.lost[0](controller.epoch, "the session is over")
            store.gate.set()
        assert not controller.active
        store.gate = None
        await controller.open("c")
        assert controller.active

    run(main)


def test_a_slow_broker_holds_back_neither_the_next_append_nor_the_others() -> None:
    async def main() -> None:
        async with running() as one:
            one.showing = trio.Event()
            seen: list[int] = []

            async def ask() -> None:
                seen.append(await one.allocate())

            async with trio.open_nursery() as nursery:
                for _ in range(4):
                    nursery.start_soon(ask)
                    await trio.testing.wait_all_tasks_blocked()
                assert seen == [0, 1, 2, 3]
                assert one.controller.image.producer_id_next == 4
                assert one.controller.feed.end_offset == one.controller.image.offset
                published = len(one.published)
                one.showing.set()
                await trio.testing.wait_all_tasks_blocked()
            assert len(one.published) == published + 2, "what had piled up came at once"
            assert one.published[-1] is one.controller.image

    run(main)


def test_a_broker_that_is_reacting_finishes_when_the_leadership_is_lost() -> None:
    async def main() -> None:
        async with running() as one:
            one.showing = trio.Event()
            outcomes: list[int] = []

            async def ask() -> None:
                outcomes.append(await one.allocate())

            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask)
                await trio.testing.wait_all_tasks_blocked()
                one.store.lost[0](one.controller.epoch, "the session is over")
                await trio.testing.wait_all_tasks_blocked()
                assert outcomes == [0], "it is in the store, and when it is shown is unknown"
                assert not one.ended.is_set() and one.published[-1].producer_id_next == 0
                one.showing.set()
                await one.ended.wait()
            assert one.published[-1].producer_id_next == 1

    run(main)


def test_the_feed_has_what_the_store_has() -> None:
    async def main() -> None:
        log = MemoryLog()
        async with running(Watched(log)) as one:
            for _ in range(5):
                await one.allocate()
            feed = one.controller.feed
            data = feed.read(0, 1 << 20)
            assert data is not None
            values = [
                bytes(r.value or b"")
                for position, header in iter_headers(data)
                for r in records(memoryview(data)[position : position + header.size], header)
            ]
            assert values == log.records
            one.store.failing["append"] = 1
            await error_of(one)
            assert not await feed.wait_for_event(feed.end_offset, float("inf")), (
                "no caller waits on"
            )
            await one.ended.wait()
            await one.reopen()
            assert feed.start_offset == 0 and feed.end_offset == one.controller.image.offset

    run(main)


def test_duties_end_with_the_leadership() -> None:
    async def main() -> None:
        async with running() as one:
            doing: list[str] = []

            async def duty() -> None:
                doing.append("begun")
                try:
                    await trio.sleep_forever()
                finally:
                    doing.append("ended")

            one.controller.duties.append(duty)
            one.store.failing["append"] = 1
            await error_of(one)
            await one.ended.wait()
            assert doing == []
            await one.reopen()
            await trio.testing.wait_all_tasks_blocked()
            assert doing == ["begun"]
            one.store.failing["append"] = 1
            await error_of(one)
            await one.ended.wait()
            assert doing == ["begun", "ended"]

    run(main)


def test_who_is_fenced_writes_nothing_and_says_so() -> None:
    async def main() -> None:
        log = MemoryLog()
        async with running(Watched(log)) as one, running(Watched(log)) as other:
            assert await other.allocate() == 0
            assert (await error_of(one)).code == ErrorCode.NOT_CONTROLLER
            assert not one.controller.active and other.controller.active
            assert (await error_of(one)).code == ErrorCode.NOT_CONTROLLER
            assert await other.allocate() == 1
            assert (await other.store.load()).producer_id_next == 2

    run(main)


def test_the_next_controller_goes_on_where_the_last_one_ended() -> None:
    async def main() -> None:
        log = MemoryLog()
        async with running(Watched(log)) as one:
            assert await one.allocate() == 0
            epoch = one.controller.epoch
        assert (await error_of(one)).code == ErrorCode.NOT_CONTROLLER
        async with running(Watched(log)) as other:
            assert other.controller.epoch == epoch + 1 == other.controller.image.controller_epoch
            assert await other.allocate() == 1

    run(main)


def test_a_controller_knows_whom_it_follows() -> None:
    async def main() -> None:
        log = MemoryLog()
        async with trio.open_nursery() as nursery:
            for node, predecessor in ((1, NO_NODE), (2, 1), (2, NO_NODE), (1, 2)):
                controller = made(MemoryStore(log), node)
                await Running(Watched(log), controller, nursery).reopen()
                assert controller.predecessor == predecessor
            nursery.cancel_scope.cancel()

    run(main)


def test_a_log_of_another_cluster_is_refused() -> None:
    async def main() -> None:
        log = MemoryLog()
        await made(MemoryStore(log), 1).open("c")
        with pytest.raises(KafkaError) as caught:
            await made(MemoryStore(log), 1).open("other")
        assert caught.value.code == ErrorCode.INCONSISTENT_CLUSTER_ID

    run(main)


def test_who_belongs_to_no_cluster_yet_takes_the_logs() -> None:
    async def main() -> None:
        log = MemoryLog()
        first = made(MemoryStore(log), 1)
        await first.open("", new_cluster_id="fresh")
        assert first.image.cluster_id == "fresh"
        second = made(MemoryStore(log), 2)
        await second.open("", new_cluster_id="another")
        assert second.image.cluster_id == "fresh"

    run(main)


def test_a_snapshot_is_made_when_enough_was_appended() -> None:
    async def main() -> None:
        async with running(snapshot_bytes=500) as one:
            for _ in range(40):
                await one.allocate()
            await trio.testing.wait_all_tasks_blocked()
            assert 1 < one.store.done.count("save_snapshot") < 20
            assert one.store.log.first > 0
            assert await one.store.load() == one.controller.image
            one.store.failing["save_snapshot"] = 1000
            before = one.store.done.count("save_snapshot")
            for _ in range(40):
                await one.allocate()
            assert one.controller.active, "a snapshot that fails harms nothing"
            tried = one.store.done.count("save_snapshot") - before
            assert 1 < tried < 20, "it is tried again, and not with every append"

    run(main)


def test_who_waits_when_the_controller_ends_is_told() -> None:
    async def main() -> None:
        store = Watched()
        errors: list[int] = []
        async with trio.open_nursery() as outer, running(store) as one:
            store.gate = trio.Event()

            async def ask() -> None:
                errors.append((await error_of(one)).code)

            outer.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            outer.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
        assert sorted(errors) == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER]

    run(main)
