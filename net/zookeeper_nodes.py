"""What the nodes of the ZooKeeper store hold, and what kazoo's answers mean."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from kazoo.exceptions import KazooException, RolledBackError, RuntimeInconsistency  # pyright: ignore[reportMissingTypeStubs]

from pk.core import cbor
from pk.core.meta import snapshot
from pk.core.meta.events import Endpoint, Event, pack, unpack
from pk.core.meta.image import ContradictoryEvent, MetadataImage
from pk.core.meta.store import Leader, StoreFailed

_EPOCH_KIND: Final = "pk.zookeeper.epoch"
_LEADER_KIND: Final = "pk.zookeeper.leader"
_APPEND_KIND: Final = "pk.zookeeper.append"
_SNAPSHOT_KIND: Final = "pk.zookeeper.snapshot"
_VERSION: Final = 1


class EventsMissing(StoreFailed):
    """The log does not go on where it should: it was trimmed meanwhile, or it is damaged."""


def epoch_node(leader: Leader) -> bytes:
    """Who campaigned last."""
    return cbor.dumps(_EPOCH_KIND, _VERSION, {"id": leader.controller_id, "epoch": leader.epoch})


def read_epoch_node(data: bytes | None) -> Leader | None:
    """Who campaigned last; an empty node was made by somebody who was not elected yet."""
    if not data:
        return None
    _, body = cbor.loads(_EPOCH_KIND, data, _VERSION)
    return Leader(body["id"], body["epoch"])


def leader_node(leader: Leader, endpoint: Endpoint) -> bytes:
    """Who the controller is, and where it listens."""
    body = {"id": leader.controller_id, "epoch": leader.epoch, "endpoint": list(endpoint)}
    return cbor.dumps(_LEADER_KIND, _VERSION, body)


def read_leader_node(data: bytes) -> tuple[int, Endpoint]:
    """The controller's id, and where it listens."""
    _, body = cbor.loads(_LEADER_KIND, data, _VERSION)
    return body["id"], Endpoint(*body["endpoint"])


def append_node(events: Sequence[Event]) -> bytes:
    """The events of one append."""
    body = {"count": len(events), "events": [pack(event) for event in events]}
    return cbor.dumps(_APPEND_KIND, _VERSION, body)


def pieces_of_append_node(count: int, folder: str, pieces: int, crc: int) -> bytes:
    """An append of `count` events whose own node is split into `pieces` in `folder`."""
    body = {"count": count, "folder": folder, "pieces": pieces, "crc": crc}
    return cbor.dumps(_APPEND_KIND, _VERSION, body)


def read_append_node(data: bytes) -> dict[str, Any]:
    """`count` and either `events`, packed, or `folder`, `pieces` and `crc`."""
    return cbor.loads(_APPEND_KIND, data, _VERSION)[1]


def snapshot_node(offset: int, folder: str, pieces: int, crc: int) -> bytes:
    """Which snapshot counts."""
    body = {"offset": offset, "folder": folder, "pieces": pieces, "crc": crc}
    return cbor.dumps(_SNAPSHOT_KIND, _VERSION, body)


def read_snapshot_node(data: bytes | None) -> dict[str, Any] | None:
    """`offset`, `folder`, `pieces` and `crc` of the snapshot that counts, None where none does."""
    return cbor.loads(_SNAPSHOT_KIND, data, _VERSION)[1] if data else None


def image_of(data: bytes | None, offsets: list[int], documents: list[bytes]) -> MetadataImage:
    """The image that a snapshot and the appends after it make. It takes long: call it in a thread.

    Raises EventsMissing, StoreFailed where they contradict each other.
    """
    image = snapshot.load(data) if data is not None else MetadataImage()

    def events() -> Iterator[Event]:
        expected = image.offset
        for offset, document in zip(offsets, documents, strict=True):
            if offset != expected:
                raise EventsMissing(f"ZooKeeper: events {expected} to {offset} are missing")
            packed = read_append_node(document)["events"]
            expected += len(packed)
            yield from map(unpack, packed)

    try:
        return image.apply(events())
    except (ContradictoryEvent, IndexError) as e:
        raise StoreFailed(f"ZooKeeper: the metadata log contradicts itself: {e!r}") from e


def place_in_queue(name: str) -> int:
    """The number that ZooKeeper gave a sequential node."""
    return int(name.rpartition("-")[2])


@contextmanager
def failures() -> Generator[None]:
    """What kazoo and a damaged node raise, as the store's own errors."""
    try:
        yield
    except KazooException as e:
        raise StoreFailed(f"ZooKeeper: {type(e).__name__} {e}".rstrip()) from e
    except (cbor.CborError, KeyError, TypeError) as e:
        raise StoreFailed(f"ZooKeeper: a node is damaged: {e}") from e


def refusal(results: list[Any]) -> tuple[int, Exception] | None:
    """Which operation of a multi was refused, and why; None where the multi was taken."""
    undone = (RolledBackError, RuntimeInconsistency)
    for at, result in enumerate(results):
        if isinstance(result, Exception) and not isinstance(result, undone):
            return at, result
    return None
