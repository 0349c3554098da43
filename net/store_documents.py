"""The CBOR documents in a shared metadata store, the same for each kind of store."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from msgspec import Struct

from pk.core import cbor
from pk.core.meta import snapshot
from pk.core.meta.events import Endpoint, Event, pack, unpack
from pk.core.meta.image import ContradictoryEvent, MetadataImage
from pk.core.meta.store import Leader, StoreFailed

_VERSION: Final = 1


class EventsMissing(StoreFailed):
    """The log lacks the next events: it was trimmed meanwhile, or is damaged."""


class Documents(Struct, frozen=True):
    """The CBOR documents of one kind of store. Reading a damaged document raises an exception that
    `damage` converts."""

    kind: str
    """The prefix of the documents' type marks."""

    store: str
    """The store's name in messages."""

    @contextmanager
    def damage(self) -> Generator[None]:
        """Convert the exceptions for a damaged document to StoreFailed."""
        try:
            yield
        except (cbor.CborError, KeyError, TypeError) as e:
            raise StoreFailed(f"{self.store}: a document is damaged: {e}") from e

    def epoch(self, leader: Leader) -> bytes:
        """Encode the last campaign."""
        body = {"id": leader.controller_id, "epoch": leader.epoch}
        return cbor.dumps(f"{self.kind}.epoch", _VERSION, body)

    def read_epoch(self, data: bytes | None) -> Leader | None:
        """Decode the last campaign. An empty document belongs to a candidate that was not elected
        yet."""
        if not data:
            return None
        _, body = cbor.loads(f"{self.kind}.epoch", data, _VERSION)
        return Leader(body["id"], body["epoch"])

    def leader(self, leader: Leader, endpoint: Endpoint) -> bytes:
        """Encode the controller and its address."""
        body = {"id": leader.controller_id, "epoch": leader.epoch, "endpoint": list(endpoint)}
        return cbor.dumps(f"{self.kind}.leader", _VERSION, body)

    def read_leader(self, data: bytes) -> tuple[int, Endpoint]:
        """Decode the controller's id and address."""
        _, body = cbor.loads(f"{self.kind}.leader", data, _VERSION)
        return body["id"], Endpoint(*body["endpoint"])

    def append(self, events: Sequence[Event]) -> bytes:
        """Encode the events of one append."""
        body = {"count": len(events), "events": [pack(event) for event in events]}
        return cbor.dumps(f"{self.kind}.append", _VERSION, body)

    def pieces_of_append(self, count: int, folder: str, pieces: int, crc: int) -> bytes:
        """Encode an append of `count` events, whose own document is split into `pieces` in
        `folder`."""
        body = {"count": count, "folder": folder, "pieces": pieces, "crc": crc}
        return cbor.dumps(f"{self.kind}.append", _VERSION, body)

    def read_append(self, data: bytes) -> dict[str, Any]:
        """Decode an append: `count` and either `events` (packed) or `folder`, `pieces` and
        `crc`."""
        return cbor.loads(f"{self.kind}.append", data, _VERSION)[1]

    def snapshot(self, offset: int, folder: str, pieces: int, crc: int) -> bytes:
        """Encode the name of the valid snapshot."""
        body = {"offset": offset, "folder": folder, "pieces": pieces, "crc": crc}
        return cbor.dumps(f"{self.kind}.snapshot", _VERSION, body)

    def read_snapshot(self, data: bytes | None) -> dict[str, Any] | None:
        """Decode `offset`, `folder`, `pieces` and `crc` of the valid snapshot; None if there is
        none."""
        return cbor.loads(f"{self.kind}.snapshot", data, _VERSION)[1] if data else None

    def image_of(
        self, data: bytes | None, offsets: list[int], appends: list[bytes]
    ) -> MetadataImage:
        """Build the image from a snapshot and the appends after it. This takes long, so call it in
        a thread. Raises EventsMissing, and StoreFailed if they contradict each other.
        """
        image = snapshot.load(data) if data is not None else MetadataImage()

        def events() -> Iterator[Event]:
            expected = image.offset
            for offset, document in zip(offsets, appends, strict=True):
                if offset != expected:
                    raise EventsMissing(f"{self.store}: events {expected} to {offset} are missing")
                packed = self.read_append(document)["events"]
                expected += len(packed)
                yield from map(unpack, packed)

        try:
            return image.apply(events())
        except (ContradictoryEvent, IndexError) as e:
            raise StoreFailed(f"{self.store}: the metadata log is inconsistent: {e!r}") from e
