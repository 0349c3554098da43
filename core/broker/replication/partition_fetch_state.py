"""The state of a partition that this broker follows, as the fetcher of its leader keeps it."""

from __future__ import annotations

from typing import NamedTuple

from pk.core.broker.replication.partition import Partition
from pk.core.values import TopicIdPartition


class FetchPosition(NamedTuple):
    """A partition's fields in a fetch request: the end of this broker's log, and its epoch."""

    leader_epoch: int
    offset: int
    last_epoch: int
    """The leader epoch of the last record."""
    log_start_offset: int


class PartitionFetchState:
    """One partition in one leader epoch."""

    __slots__ = (
        "backoff_s",
        "checked",
        "in_sync",
        "key",
        "known_position",
        "leader_epoch",
        "partition",
        "paused_until",
        "since",
    )

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.key = TopicIdPartition(partition.topic_id, partition.tp.partition)
        self.leader_epoch = partition.leader_epoch
        self.since = 0
        """The number of the first request that may include it. Responses to earlier requests are
        ignored, because they are about a previous state."""
        self.known_position: FetchPosition | None = None
        """The position in the leader's fetch session; None if the session does not include the
        partition."""
        self.paused_until = 0.0
        self.backoff_s = 0.0
        self.checked = False
        """Whether the log is known to be a prefix of the leader's. Only needed if the leader does
        not check this itself."""
        self.in_sync = False
        """Whether the last response contained all committed records. A replica in sync is not
        throttled."""
