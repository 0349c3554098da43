"""Reports how much of the partitions that a broker leads was copied to remote storage, and why the
rest was not.

pk only. Apache Kafka has no such API.
"""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Int64


@message(versions=(0, 0))
class PkRemoteStorageRequest(Request["PkRemoteStorageResponse"]):
    """The request of PkRemoteStorage."""


@struct
class RemotePartitionState(Struct):
    """One of `PkRemoteStorageResponse.partitions`."""

    topic: str = ""
    partition: Int32 = 0
    segments: Int32 = 0
    """The number of segments that can be read in remote storage."""
    bytes: Int64 = 0
    lag_segments: Int32 = 0
    """The number of closed segments that were not copied."""
    lag_bytes: Int64 = 0
    unfinished: Int32 = 0
    """The number of segments whose copy or deletion was not completed."""
    copy_disabled: bool = False
    restoring: bool = False
    """Whether the log must be restored before the broker can lead."""
    why: str = ""
    """The reason why the last round did not do all that was due; "" if it did."""
    orphans: Int32 = 0
    """The number of objects that belong to no segment, and that the leader's last check did not
    delete."""
    orphan: str = ""
    """The name of one of these objects."""


@message(versions=(0, 0))
class PkRemoteStorageResponse(Response):
    """The response of PkRemoteStorage."""

    error_code: Int16 = 0
    error_message: str | None = field(default=None, nullable=0)
    partitions: list[RemotePartitionState] = field(default_factory=list)
