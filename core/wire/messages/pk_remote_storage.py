"""Shows how much of the partitions that a broker leads was copied to remote storage, and why the
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
    """The segments that can be read in remote storage."""
    bytes: Int64 = 0
    lag_segments: Int32 = 0
    """The closed segments that were not copied."""
    lag_bytes: Int64 = 0
    unfinished: Int32 = 0
    """The segments whose copy or deletion did not end."""
    copy_disabled: bool = False
    restoring: bool = False
    """Whether the log must still be restored before the broker leads."""
    why: str = ""
    """Why the last turn did not do all that was due; "" if it did."""
    orphans: Int32 = 0
    """The objects that belong to no segment, and that were kept when the leader last looked."""
    orphan: str = ""
    """The name of one of them."""


@message(versions=(0, 0))
class PkRemoteStorageResponse(Response):
    """The response of PkRemoteStorage."""

    error_code: Int16 = 0
    error_message: str | None = field(default=None, nullable=0)
    partitions: list[RemotePartitionState] = field(default_factory=list)
