"""Followers that a test plays itself."""

import trio

from pk.core.broker.replication.fetch_sessions import FetchedPartition
from pk.core.broker.replication.follower_state import FollowerFetch
from pk.core.broker.replication.partition import Partition
from pk.core.wire.messages.fetch import FetchPartition


def follower_fetches(partition: Partition, node_id: int, broker_epoch: int, offset: int) -> None:
    """A follower fetches from `offset`, so it has everything below that."""
    fetched = FetchedPartition(partition.tp.topic, partition.topic_id, partition.tp.partition)
    fetched.update(FetchPartition(fetch_offset=offset, log_start_offset=0))
    fetch = FollowerFetch(node_id, broker_epoch, trio.current_time())
    partition.follower_fetched(fetch, fetched)
