"""Assigns partitions to the fetchers of a broker: one for each leader and each of
`num.replica.fetchers`.

The fetchers follow the images. Before an image takes effect, `release` releases every partition
whose leader, leader epoch or presence it changes, and waits until none of these is being truncated.
After that, `follow` assigns each to the fetcher of its new leader. In between, nothing is appended
to them, so a partition never changes its role while a response is only partly processed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from zlib import crc32

from pk.core.broker.loop_time import let_others_run
from pk.core.broker.purgatory import Purgatory
from pk.core.broker.replication.partition import Partition
from pk.core.broker.replication.replica_fetcher import FetcherEnvironment, ReplicaFetcher
from pk.core.meta.image import Changes, PartitionImage
from pk.core.values import NO_LEADER, TopicPartition


class ReplicaFetcherManager:
    """All fetchers of a broker."""

    def __init__(
        self,
        environment: FetcherEnvironment,
        purgatory: Purgatory,
        start_soon: Callable[..., None],
    ) -> None:
        """`start_soon` runs the task of each fetcher."""
        self._environment = environment
        self._state = environment.state
        self._replicas = environment.replicas
        self._purgatory = purgatory
        self._start_soon = start_soon
        self._fetchers: dict[tuple[int, int], ReplicaFetcher] = {}
        self._fetcher_of: dict[Partition, ReplicaFetcher] = {}
        self._count = self._state.config.num_replica_fetchers

    def __iter__(self) -> Iterator[ReplicaFetcher]:
        return iter(self._fetchers.values())

    def leader_of(self, partition: Partition) -> int | None:
        """Return the broker from which a partition is fetched, or None."""
        fetcher = self._fetcher_of.get(partition)
        return fetcher.leader if fetcher is not None else None

    async def release(self, delta: Changes) -> None:
        """Stop fetching partitions for which `delta` has another leader, another epoch or no
        leader, or all if it reassigns partitions among fetchers. Returns when none of them is being
        truncated."""
        released: list[Partition] = []
        for topic in delta.topics_deleted:
            for one in topic.partitions:
                partition = self._replicas.find(topic.name, one.partition)
                if partition is not None and partition.topic_id == topic.topic_id:
                    released.append(partition)
                await let_others_run()
        for change in delta.partitions:
            await let_others_run()
            partition = self._replicas.find(*change.tp)
            if partition is not None and self._is_released(partition, change.new):
                released.append(partition)
        if self._state.config.num_replica_fetchers != self._count:
            released += self._fetcher_of
        for partition in released:
            self._remove(partition)
            await let_others_run()
        # All are released by now, so none of them will be truncated again.
        for partition in released:
            await let_others_run()
            if partition.busy:
                await self._purgatory.until(
                    lambda partition=partition: not partition.busy, (partition,), float("inf")
                )

    def _is_released(self, partition: Partition, new: PartitionImage) -> bool:
        return (
            new.leader_epoch != partition.leader_epoch
            or self._state.node_id not in new.replicas
            or new.leader != partition.leader
        )

    async def follow(self, opened: Iterable[Partition], delta: Changes) -> None:
        """Start the fetches that the image requires, which is current now."""
        if self._state.config.num_replica_fetchers != self._count:
            self._count = self._state.config.num_replica_fetchers
            changed = iter([partition.tp for partition in self._replicas])
        else:
            changed = chain((change.tp for change in delta.partitions), (p.tp for p in opened))
        # An opened partition may be listed twice, which does no harm.
        for tp in changed:
            await let_others_run()
            partition = self._replicas.find(*tp)
            if (
                partition is not None
                and partition not in self._fetcher_of
                and self._is_fetched(partition)
            ):
                self._add(partition)
        for key, fetcher in list(self._fetchers.items()):
            if not len(fetcher):
                fetcher.scope.cancel()
                del self._fetchers[key]

    def _is_fetched(self, partition: Partition) -> bool:
        return (
            partition.leader not in (self._state.node_id, NO_LEADER) and partition.offline is None
        )

    def _add(self, partition: Partition) -> None:
        key = partition.leader, self._index(partition.tp)
        fetcher = self._fetchers.get(key)
        if fetcher is None:
            fetcher = self._fetchers[key] = ReplicaFetcher(*key, self._environment)
            self._start_soon(fetcher.run)
        self._fetcher_of[partition] = fetcher
        fetcher.add(partition)

    def _remove(self, partition: Partition) -> None:
        fetcher = self._fetcher_of.pop(partition, None)
        if fetcher is not None:
            fetcher.remove(partition)

    def _index(self, tp: TopicPartition) -> int:
        """Return the index of a partition's fetcher among those of its leader: the same in every
        run of the broker."""
        return (crc32(tp.topic.encode()) + tp.partition) % self._count
