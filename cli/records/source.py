"""The source of the records of a batch."""

from typing import NamedTuple


class Source(NamedTuple):
    """The common properties of the records of a batch."""

    topic: str
    partition: int
    timestamp_type: int = 0
    """0 for the producer's time (CreateTime), 1 for the time of the append (LogAppendTime)."""

    leader_epoch: int = -1
    profile: str | None = None
    """The profile of the cluster, for permalinks; None if it has none."""

    attributes: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    """The batch's own values. None if records were read one by one, without their batch."""

    log_start: int | None = None
    last_stable: int | None = None
    high_watermark: int | None = None
    """The partition's bounds in the fetch response of the batch; None without a fetch."""
