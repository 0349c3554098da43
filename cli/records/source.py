"""The source of the records of a batch."""

from typing import NamedTuple


class Source(NamedTuple):
    """The common properties of the records of a batch."""

    topic: str
    partition: int
    timestamp_type: int = 0
    """0: the producer's time (CreateTime), 1: the time of the append (LogAppendTime)."""

    leader_epoch: int = -1
    profile: str | None = None
    """The cluster's profile, for permalinks; None if it has none."""

    attributes: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    """The batch's own values; None if records were read one by one, which hides the batch."""

    log_start: int | None = None
    last_stable: int | None = None
    high_watermark: int | None = None
    """The partition's bounds as the batch's fetch response had them; None without a fetch."""
