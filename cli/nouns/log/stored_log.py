"""Partitions in remote storage, read like their files, without a broker."""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from pk.cli.cluster.remote_store import opened_store
from pk.cli.exits import CommandError
from pk.cli.nouns.log.file_positions import ReadableLog
from pk.cli.options.values import Pair
from pk.cli.phrases import join
from pk.core.log.index import OFFSET_ENTRY
from pk.core.log.remote.checking import checked_objects
from pk.core.log.remote.metadata import SegmentState
from pk.core.log.remote.reading import remote_file
from pk.core.log.remote.restoring import PartitionFound, found_topics
from pk.core.log.remote.segment_object import Tail, read_tail
from pk.core.log.remote.segments import RemoteRange, RemoteSegments, in_lineage
from pk.core.log.remote.storage import RemoteStorage, RemoteStorageError, segment_name
from pk.core.log.tools.inspect import Batch, Scan

OBJECTS_AT_ONCE: Final = 16
NO_CLUSTER: Final = ""
"""The id of a cluster that copied none of the objects, so that all objects name the cluster that
copied them."""


def is_store(path: str) -> bool:
    """Whether `path` is the URL of a store."""
    return "://" in path


def stored_logs(
    url: str, topics: Sequence[str], numbers: Sequence[int], configs: Sequence[Pair]
) -> list[ReadableLog]:
    """The partitions with segments in a store, only those of `topics` and `numbers` if these are
    not empty. Raises CommandError."""
    storage = opened_store(url, configs)
    try:
        checked = checked_objects(storage, topics, records=False, at_once=OBJECTS_AT_ONCE)
        found = found_topics(checked, NO_CLUSTER)
    except RemoteStorageError as e:
        raise CommandError(f"{e}.") from e
    if missing := sorted(set(topics) - {topic.name for topic in found}):
        raise CommandError(f"The store has no topic {join(missing)}.")
    partitions = [one for topic in found for one in topic.partitions if one.plan.last is not None]
    wanted = [one for one in partitions if not numbers or one.partition.partition in numbers]
    for number in numbers:
        if not any(one.partition.partition == number for one in wanted):
            raise CommandError(f"The store has no partition {number}.")
    if not wanted:
        raise CommandError(f"{url} has no segments.")
    return [StoredLog(storage, url, one) for one in wanted]


class StoredLog(ReadableLog):
    """A partition as `pk cluster restore` would restore it."""

    def __init__(self, storage: RemoteStorage, url: str, found: PartitionFound) -> None:
        self.tp = found.partition.tp
        self.start = found.plan.start_offset
        self.end = found.plan.end_offset + 1
        self.where = f"{url}, {self.tp}"
        self.check = f"pk log remote {url} --verify"
        self._storage = storage
        segments = RemoteSegments(found.partition)
        for segment in found.plan.segments:
            segments.replay(replace(segment, state=SegmentState.COPY_FINISHED))
        self._ranges = list(in_lineage(segments, found.plan.lineage, self.start, self.end))

    def batches(self, offset: int) -> Iterator[Batch]:
        """The batches from the one that contains `offset` on. Raises CommandError."""
        try:
            for found in self._ranges:
                if found.end_offset >= offset:
                    yield from self._batches_of(found, max(offset, found.start_offset))
        except RemoteStorageError as e:
            raise CommandError(f"{e}.") from e

    def _batches_of(self, found: RemoteRange, offset: int) -> Iterator[Batch]:
        name = segment_name(NO_CLUSTER, found.segment)
        tail = read_tail(self._storage, name, found.segment.size)
        scan = Scan(
            remote_file(self._storage, name, tail),
            position=_position_before(tail, offset),
            size=tail.size,
        )
        for batch in scan:
            if batch.header.base_offset > found.end_offset:
                return
            if batch.header.last_offset >= offset:
                yield batch
        if scan.problems:
            raise CommandError(
                f"{name}: {scan.problems[0].what}; `{self.check}` shows what is damaged."
            )


def _position_before(tail: Tail, offset: int) -> int:
    """The position of a batch at or before the one with `offset`, from the segment's index."""
    position = 0
    for relative, at in OFFSET_ENTRY.iter_unpack(tail.offset_index):
        if tail.start_offset + relative > offset:
            break
        position = at
    return position
