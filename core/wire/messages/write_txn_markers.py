"""Sent by a transaction's coordinator to the leaders of its partitions, which write the markers
that end it (KIP-98). v2 adds transaction versions (KIP-1228)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int8, Int16, Int32, Int64


@struct
class WritableTxnMarkerTopic(Struct):
    """One of `WritableTxnMarker.topics`."""

    name: str = ""
    partition_indexes: list[Int32] = field(default_factory=list)


@struct
class WritableTxnMarker(Struct):
    """One of `WriteTxnMarkersRequest.markers`."""

    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    transaction_result: bool = False
    topics: list[WritableTxnMarkerTopic] = field(default_factory=list)
    coordinator_epoch: Int32 = 0
    transaction_version: Int8 = field(default=0, since=2, ignorable=True)


@message(versions=(1, 2))
class WriteTxnMarkersRequest(Request["WriteTxnMarkersResponse"]):
    """The request of WriteTxnMarkers."""

    markers: list[WritableTxnMarker] = field(default_factory=list)


@struct
class WritableTxnMarkerPartitionResult(Struct):
    """One of `WritableTxnMarkerTopicResult.partitions`."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class WritableTxnMarkerTopicResult(Struct):
    """One of `WritableTxnMarkerResult.topics`."""

    name: str = ""
    partitions: list[WritableTxnMarkerPartitionResult] = field(default_factory=list)


@struct
class WritableTxnMarkerResult(Struct):
    """One of `WriteTxnMarkersResponse.markers`."""

    producer_id: Int64 = 0
    topics: list[WritableTxnMarkerTopicResult] = field(default_factory=list)


@message(versions=(1, 2))
class WriteTxnMarkersResponse(Response):
    """The response of WriteTxnMarkers."""

    markers: list[WritableTxnMarkerResult] = field(default_factory=list)
