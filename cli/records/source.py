"""What the records of a batch have in common."""

from typing import NamedTuple


class Source(NamedTuple):
    """What the records of a batch have in common."""

    topic: str
    partition: int
    timestamp_type: int = 0
    """0: the producer's time, 1: the time of the append."""

    leader_epoch: int = -1
    profile: str | None = None
    """The profile of the cluster, where there is one: permalinks name it."""

    attributes: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    """As the batch has them; None where records are read one by one and nobody knows."""

    log_start: int | None = None
    last_stable: int | None = None
    high_watermark: int | None = None
    """Where the partition begins and ends, as the fetch that brought the batch had it; None where no fetch did."""
