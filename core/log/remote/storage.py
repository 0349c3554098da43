"""The interface of remote storage: objects, written whole, by name.

An implementation blocks, and any thread may call it. All operations are idempotent, since callers
repeat them after a failure or a crash: storing an object again replaces it, and deleting a missing
object succeeds. An object appears only once it is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, Protocol, TypeAlias

from pk.core import cbor
from pk.core.log.files import Data
from pk.core.log.remote.metadata import RemotePartition, RemoteSegment
from pk.core.values import TopicPartition, Uuid, uuid_from_text, uuid_text

SUFFIX: Final = ".segment"
HOME_KIND: Final = "pk.remote-segment.cluster"
HOME_VERSION: Final = 0


Content: TypeAlias = bytes | memoryview
"""The bytes of an object. Do not change them: readers share them."""


class RemoteStorageError(Exception):
    """A request to remote storage failed. It may have had an effect all the same."""


class RemoteObjectMissing(RemoteStorageError):
    """There is no object of this name."""


class DamagedObject(RemoteStorageError):
    """An object exists, but its content is invalid or does not match its name."""


class StoredObject(NamedTuple):
    """An object in the store."""

    name: str
    size: int
    """The size in bytes."""
    modified_ms: int


class RemoteStorage(Protocol):
    """A store of objects by name. Every operation raises RemoteStorageError."""

    def put(self, name: str, pieces: Callable[[], Iterable[Data]]) -> None:
        """Store an object. `pieces` returns its content, and is called again if the store
        retries."""
        ...

    def get(self, name: str, start: int = 0, length: int | None = None) -> Content:
        """Read `length` bytes from `start`, or everything from there; fewer only at the end of the
        object. Raises RemoteObjectMissing."""
        ...

    def delete(self, name: str) -> None:
        """Remove an object, if it exists."""
        ...

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """List the objects in the folder `prefix` ("" for all) and its subfolders, in no particular
        order. An object that was just stored may be missing, and one that was just deleted may be
        listed."""
        ...


class SegmentName(NamedTuple):
    """The name of a segment's object, from which it can be found without any metadata:
    `<cluster id>/<topic>-<topic id>/<partition>/<start offset>-<segment id>.segment`."""

    cluster_id: str
    partition: RemotePartition
    start_offset: int
    id: Uuid

    def __str__(self) -> str:
        folder = partition_folder(self.cluster_id, self.partition)
        return f"{folder}/{self.start_offset:020d}-{uuid_text(self.id)}{SUFFIX}"

    @classmethod
    def parse(cls, name: str) -> SegmentName:
        """Parse the name of an object. Raises ValueError if it is not that of a segment."""
        try:
            cluster_id, topic, partition, file = name.rsplit("/", 3)
        except ValueError:
            raise ValueError(f"not a segment: {name!r}") from None
        # An id has 22 characters, and may have hyphens itself.
        if not file.endswith(SUFFIX) or topic[-23:-22] != "-" or file[20:21] != "-":
            raise ValueError(f"not a segment: {name!r}")
        return cls(
            cluster_id,
            RemotePartition(topic[:-23], uuid_from_text(topic[-22:]), int(partition)),
            int(file[:20]),
            uuid_from_text(file[21 : -len(SUFFIX)]),
        )

    @property
    def tp(self) -> TopicPartition:
        """The partition, by the name of its topic."""
        return self.partition.tp


def segment_name(cluster_id: str, segment: RemoteSegment) -> str:
    """Return the name of the object of a segment that is in a cluster's metadata. A segment that
    was restored has the id of the cluster that copied it. Raises DamagedObject if another remote
    storage manager stored the segment."""
    home = segment.custom_metadata
    if home is not None:
        try:
            cluster_id = cbor.loads(HOME_KIND, home, HOME_VERSION)[1]
        except cbor.CborError:
            raise DamagedObject(f"{uuid_text(segment.id)} was not stored by pk") from None
    return str(SegmentName(cluster_id, segment.partition, segment.start_offset, segment.id))


def home_of(cluster_id: str) -> bytes:
    """Encode the custom metadata of a segment that another cluster copied."""
    return cbor.dumps(HOME_KIND, HOME_VERSION, cluster_id)


def partition_folder(cluster_id: str, partition: RemotePartition) -> str:
    """Return the folder of a partition's objects."""
    topic = f"{partition.topic}-{uuid_text(partition.topic_id)}"
    return f"{cluster_id}/{topic}/{partition.partition}"
