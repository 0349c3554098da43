"""Following the metadata log: what a controller sends, in order and otherwise; nothing is believed
that does not follow."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest
import trio
import trio.testing

from pk.core.broker.controller.metadata_feed import MetadataFeed
from pk.core.broker.controller.metadata_follower import MetadataBroken, MetadataFollower, replay
from pk.core.broker.offload import inline
from pk.core.broker.peers import Answered, PeerLost
from pk.core.config import BrokerConfig
from pk.core.errors import ErrorCode
from pk.core.meta import snapshot
from pk.core.meta.events import (
    ClusterCreated,
    ControllerElected,
    Endpoint,
    Event,
    ProducerIdsAllocated,
    TopicDeleted,
)
from pk.core.meta.image import MetadataImage
from pk.core.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
    SnapshotId,
)
from pk.core.wire.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    ResponsePartitionSnapshot,
    ResponseTopicSnapshot,
)

CONFIG = BrokerConfig.parse(
    {
        "node.id": "1",
        "process.roles": "broker",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "c:1",
        "controller.quorum.fetch.snapshot.max.bytes": "100",
    }
)
WHERE = Endpoint("CONTROLLER", "c", 1, 0)


def grown(image: MetadataImage, events: list[Event]) -> tuple[MetadataImage, bytes]:
    """The image after one append, and the batch of it."""
    feed = MetadataFeed()
    feed.restart(image)
    after = image.apply(events)
    feed.add(events, after, 0)
    return after, feed.read(image.offset, 1 << 20) or b""


START, FIRST = grown(MetadataImage(), [ClusterCreated("c"), ControllerElected(7, 3)])


def ids(next_id: int) -> list[Event]:
    return [ProducerIdsAllocated(1, 1, next_id)]


class Controller:
    """Gives the listed answers. For None it is silent until the connection is closed."""

    def __init__(self, *answers: Callable[[Any], Any] | None) -> None:
        self.answers = list(answers)
        self.asked: list[Any] = []
        self.connections = 0
        self.found: tuple[int, Endpoint] | None = (7, WHERE)
        self.lost: list[PeerLost] = []
        """Errors that end the next connections."""

    async def find(self) -> tuple[int, Endpoint] | None:
        await trio.lowlevel.checkpoint()
        return self.found

    async def connect(self, host: str, port: int, *, timeout_ms: float) -> Channel:
        await trio.lowlevel.checkpoint()
        self.connections += 1
        if self.lost:
            raise self.lost.pop(0)
        return Channel(self)


class Channel:
    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._closed = trio.Event()

    @property
    def usable(self) -> bool:
        return not self._closed.is_set()

    def when_lost(self, tell: Callable[[], None]) -> None:
        raise AssertionError("a follower does not ask for it")

    def version_of(self, api_key: int) -> int:
        return 17

    async def request(self, request: Any, *, timeout_ms: float, version: int | None = None) -> Any:
        await trio.lowlevel.checkpoint()
        self._controller.asked.append(request)
        answers = self._controller.answers
        answer = answers.pop(0) if answers else None
        if answer is None:
            with trio.move_on_after(timeout_ms / 1000):
                await self._closed.wait()
            raise PeerLost("closed")
        return answer(request)

    def send(self, request: Any, *, timeout_ms: float, then: Answered) -> None:
        raise AssertionError("a follower of the metadata waits for its answers")

    def close(self) -> None:
        self._closed.set()


def fetched(data: bytes = b"", **fields: Any) -> Callable[[Any], FetchResponse]:
    def answer(_: Any) -> FetchResponse:
        partition = PartitionData(records=memoryview(data), **fields)
        return FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])])

    return answer


def piece_of(data: bytes, **changed: Any) -> Callable[[Any], FetchSnapshotResponse]:
    def answer(request: FetchSnapshotRequest) -> FetchSnapshotResponse:
        wanted = request.topics[0].partitions[0]
        piece = data[wanted.position : wanted.position + request.max_bytes]
        fields: dict[str, Any] = {
            "snapshot_id": wanted.snapshot_id,
            "size": len(data),
            "position": wanted.position,
            "unaligned_records": piece,
        }
        part = ResponsePartitionSnapshot(**fields | changed)
        return FetchSnapshotResponse(topics=[ResponseTopicSnapshot(partitions=[part])])

    return answer


class Node:
    """A follower's node: its newest image, and whether its own controller is active."""

    def __init__(self, controller: Controller, image: MetadataImage = MetadataImage()) -> None:
        self.image = image
        self.published: list[MetadataImage] = []
        self.refused: list[tuple[int, Endpoint]] = []
        self.leads = False
        self.controller = controller
        self.follower = MetadataFollower(
            CONFIG, self, locator=controller, peers=controller, random=Random(1)
        )

    @property
    def newest(self) -> MetadataImage:
        return self.image

    def controller_refused(self, controller_id: int, endpoint: Endpoint) -> None:
        self.refused.append((controller_id, endpoint))

    async def publish(self, image: MetadataImage) -> None:
        await trio.lowlevel.checkpoint()
        self.image = image
        self.published.append(image)

    def follow(self, seconds: float = 1) -> Node:
        """Follow for this time."""

        async def main() -> None:
            with inline(), trio.move_on_after(seconds):
                await self.follower.run()

        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
        return self


def test_batches_are_replayed_and_the_next_ones_asked_for() -> None:
    second, more = grown(START, ids(1000))
    third, most = grown(second, ids(2000))
    controller = Controller(fetched(FIRST), fetched(more + most), fetched(b""))
    node = Node(controller).follow()
    assert node.published == [START, third]
    asked = [request.topics[0].partitions[0] for request in controller.asked]
    assert [(p.fetch_offset, p.last_fetched_epoch) for p in asked] == [
        (0, -1),
        (START.offset, 3),
        (third.offset, 3),
        (third.offset, 3),
    ]
    assert [request.cluster_id for request in controller.asked] == [None, "c", "c", "c"]
    assert {request.replica_state.replica_id for request in controller.asked} == {1}
    assert controller.connections == 1


def test_what_is_known_already_is_passed_over() -> None:
    second, more = grown(START, ids(1000))
    node = Node(Controller(fetched(FIRST + more)), START).follow()
    assert node.published == [second]


def _gap() -> bytes:
    second, _ = grown(START, ids(1000))
    return grown(second, ids(2000))[1]


def _older() -> bytes:
    stale = MetadataImage().apply([ClusterCreated("c"), ControllerElected(6, 2)])
    return grown(stale, ids(1000))[1]


def _damaged() -> bytes:
    data = bytearray(grown(START, ids(1000))[1])
    data[-1] ^= 1
    return bytes(data)


def _contradicting() -> bytes:
    feed = MetadataFeed()
    feed.restart(START)
    events: list[Event] = [TopicDeleted(bytes(16))]
    feed.add(events, START.apply(ids(1)), 0)
    return feed.read(START.offset, 1 << 20) or b""


@pytest.mark.parametrize("data", [_gap(), _older(), _damaged(), _contradicting()])
def test_what_does_not_follow_changes_nothing_and_is_asked_for_again(data: bytes) -> None:
    with pytest.raises(MetadataBroken):
        replay(START, data)
    after, good = grown(START, ids(1000))
    node = Node(Controller(fetched(data), fetched(good)), START).follow()
    assert node.published == [after]
    assert node.controller.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        fetched(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER),
        fetched(error_code=12345),
        fetched(current_leader=LeaderIdAndEpoch(leader_id=6, leader_epoch=2)),
        fetched(diverging_epoch=EpochEndOffset(epoch=2, end_offset=1)),
        fetched(snapshot_id=SnapshotId(end_offset=START.offset, epoch=3)),
        fetched(partition_index=1),
        lambda _: FetchResponse(responses=[]),
        lambda _: FetchResponse(error_code=ErrorCode.NOT_CONTROLLER),
    ],
)
def test_an_answer_that_cannot_be_costs_the_connection_only(answer: Callable[[Any], Any]) -> None:
    after, good = grown(START, ids(1000))
    node = Node(Controller(answer, fetched(good)), START).follow()
    assert node.published == [after]
    assert node.controller.connections == 2


def test_another_clusters_log_is_refused() -> None:
    other, data = grown(MetadataImage(), [ClusterCreated("other"), ControllerElected(7, 3)])
    node = Node(Controller(*[fetched(data)] * 5), MetadataImage(cluster_id="c")).follow()
    assert (node.published, other.offset) == ([], 2)


def test_a_snapshot_is_loaded_in_pieces() -> None:
    image = START.apply([event for n in range(40) for event in ids(n * 1000)])
    data = snapshot.dump(image)
    assert len(data) > 100, "more than one piece"
    offered = fetched(snapshot_id=SnapshotId(end_offset=image.offset, epoch=3))
    pieces = [piece_of(data)] * (len(data) // 100 + 1)
    after, more = grown(image, ids(99_000))
    node = Node(Controller(offered, *pieces, fetched(more))).follow()
    assert [found.offset for found in node.published] == [image.offset, after.offset]
    assert node.published[0] == image
    asked = [r for r in node.controller.asked if isinstance(r, FetchSnapshotRequest)]
    assert [r.topics[0].partitions[0].position for r in asked] == list(range(0, len(data), 100))


@pytest.mark.parametrize(
    "piece",
    [
        piece_of(snapshot.dump(START), position=7),
        piece_of(snapshot.dump(START), unaligned_records=b""),
        piece_of(snapshot.dump(START), size=1 << 40),
        piece_of(b"no snapshot at all"),
        piece_of(snapshot.dump(MetadataImage(cluster_id="c"))),
        piece_of(b"", error_code=ErrorCode.SNAPSHOT_NOT_FOUND),
    ],
)
def test_a_snapshot_that_cannot_be_is_refused(piece: Callable[[Any], Any]) -> None:
    offered = fetched(snapshot_id=SnapshotId(end_offset=START.offset, epoch=3))
    node = Node(Controller(offered, piece, fetched(FIRST))).follow()
    assert node.published == [START]
    assert node.controller.connections == 2
    assert isinstance(node.controller.asked[2], FetchRequest)


def test_where_nobody_listens_the_controller_is_told_of() -> None:
    controller = Controller(fetched(FIRST))
    controller.lost = [PeerLost("no answer"), PeerLost("refused", refused=True)]
    node = Node(controller).follow()
    assert node.refused == [(7, WHERE)], "silence says nothing"
    assert node.published == [START], "and it is tried again"


def test_it_goes_to_the_controller_of_now() -> None:
    controller = Controller(fetched(FIRST), None)
    node = Node(controller)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.follower.run)
            await trio.sleep(1)
            assert controller.connections == 1
            controller.found = (8, WHERE._replace(port=2))
            await trio.sleep(0.9)
            assert controller.connections == 2, "a controller that is silent is not waited for"
            controller.found = None
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_it_fetches_nothing_while_the_own_controller_is_active() -> None:
    controller = Controller(fetched(FIRST))
    node = Node(controller)

    async def main() -> None:
        with suppress(PeerLost):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(node.follower.run)
                await trio.sleep(0.3)
                node.leads = True
                node.follower.stop()
                await trio.sleep(10)
                asked = len(controller.asked)
                await trio.sleep(10)
                assert len(controller.asked) == asked
                node.leads = False
                await trio.sleep(1)
                assert len(controller.asked) > asked
                nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
