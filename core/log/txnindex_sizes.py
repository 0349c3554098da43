"""Notes that a clean shutdown writes about the indexes of aborted transactions: `.pk_aborted`,
CBOR, next to the checkpoints.

Most segments have no such index, so nothing would show that one was lost while no broker was
running, and a reader that gets too few entries takes aborted records for committed ones. The note
has the size of each segment's index. It exists only if there are any. It is removed together with
the marker of the clean shutdown, since it is only valid while logs are closed.

body        {"<topic>-<partition>": {base offset of a segment: bytes of its index; -1: it was lost}}
"""

from collections.abc import Iterable, Mapping
from typing import Final

from pk.core import cbor
from pk.core.cbor import CborError
from pk.core.log.segment import Segment
from pk.core.values import TopicPartition

NOTE: Final = ".pk_aborted"
KIND: Final = "pk.aborted"
VERSION: Final = 0
LOST: Final = -1

Sizes = dict[int, int]
"""Base offset of a segment → the size of its index in bytes."""


def sizes_of(segments: Iterable[Segment]) -> Sizes:
    """Return the sizes to note for a log."""
    return {
        segment.base_offset: LOST if segment.txn_index.lost else segment.txn_index.size
        for segment in segments
        if not segment.txn_index.empty
    }


def mark_lost(segments: Iterable[Segment], noted: Sizes) -> None:
    """Mark indexes as lost if their sizes differ from the noted ones. They are rebuilt when a
    reader needs them."""
    for segment in segments:
        if noted.get(segment.base_offset, segment.txn_index.size) != segment.txn_index.size:
            segment.txn_index.lost = True


def format_note(noted: Mapping[TopicPartition, Sizes]) -> bytes:
    """Encode the note."""
    return cbor.dumps(KIND, VERSION, {str(tp): sizes for tp, sizes in noted.items()})


def parse_note(content: bytes) -> dict[str, Sizes]:
    """Decode the note: the sizes, by the name of a log's directory. Raises CborError."""
    _, body = cbor.loads(KIND, content, VERSION)
    try:
        return {
            str(name): {int(b): int(s) for b, s in sizes.items()} for name, sizes in body.items()
        }
    except (AttributeError, TypeError, ValueError) as e:
        raise CborError(f"{KIND}: {e}") from None
