"""The simplest machine that needs all of the coordinator runtime: a deal is written down, then told
to everybody, then done."""

from __future__ import annotations

from typing import Any, ClassVar, Final, NamedTuple

from pk.core.machine import Compute, Decision, Effect
from pk.core.meta.image import Changes, MetadataImage

TOPIC: Final = "deals"
EVERYBODY: Final = ("anna", "ben", "cleo")


class Record(NamedTuple):
    """A deal is written down, or done."""

    name: str
    done: bool


class Tell(Effect, frozen=True):
    """Tell everybody of a deal, and say so to the machine for each."""

    name: str


class Deals:
    """The machine."""

    log_is_compacted: ClassVar[bool] = False

    def __init__(self) -> None:
        self.deals: dict[str, bool] = {}
        self.unanswered: dict[str, set[str]] = {}
        """Soft."""
        self.images: list[int] = []
        """The offsets of those it was handed."""

    def make(self, name: str, now_ms: int) -> Decision[Record, Any]:
        return Decision([Record(name, done=False)], reply=name, effects=[Tell(name)])

    def reported(self, name: str, whom: str, now_ms: int) -> Decision[Record, Any]:
        unanswered = self.unanswered.get(name, set())
        unanswered.discard(whom)
        done = not unanswered and self.deals.get(name) is False
        return Decision([Record(name, done=True)] if done else [])

    def count(self, now_ms: int) -> Decision[Record, Any]:
        """Off the loop, against what there is now."""
        names = frozenset(self.deals)
        return Decision(reply=True, effects=[Compute(lambda: f"sum-{len(names)}", Deals.counted)])

    def counted(self, result: str, now_ms: int) -> Decision[Record, Any]:
        return Decision([Record(result, done=True)])

    def encode(self, record: Record, /) -> tuple[bytes, bytes | None]:
        return record.name.encode(), b"done" if record.done else b"made"

    def decode(self, key: bytes, value: bytes | None, /) -> Record:
        return Record(key.decode(), value == b"done")

    def replay(self, record: Record, record_offset: int, producer_id: int) -> None:
        self.deals[record.name] = record.done
        if record.done:
            self.unanswered.pop(record.name, None)
        else:
            self.unanswered[record.name] = set(EVERYBODY)

    def replay_end_marker(self, producer_id: int, *, committed: bool) -> None:
        pass

    def follow(self, image: MetadataImage, delta: Changes, now_ms: int) -> Decision[Record, Any]:
        self.images.append(image.offset)
        return Decision()

    def loaded(self, now_ms: int) -> Decision[Record, Any]:
        return Decision(effects=[Tell(name) for name in self.unanswered])

    def fire(self, key: Any, now_ms: int) -> Decision[Record, Any]:
        raise AssertionError("no timers")
