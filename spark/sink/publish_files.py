"""Publishes the sealed files of a large batch from the executors, exactly once and without sending
them through the driver.

A task publishes a lane: its files one after the other, each in its own transaction, which also
writes the file's marker. All transactions of a lane have the same transactional id, made of the
query's id and the lane, which is part of the files' names. The order of the steps makes this
exactly once:

1. Initialize the transactional id. The coordinator ends the open transaction of an earlier
   task of the lane, and fences that task from then on.
2. Read the markers of files. Everything that was committed earlier is visible now.
3. Publish the files without markers, together with their markers.

So publishing a batch can be repeated as often as necessary, at any later time.
"""

import time
from collections.abc import Sequence
from typing import Final

from pk.core.errors import KafkaError
from pk.core.values import TopicPartition, uuid_text
from pk.net.client.cluster import Cluster
from pk.net.client.errors import ClientError
from pk.net.client.transaction import Transactions
from pk.spark.connections import connections
from pk.spark.files.store import Store
from pk.spark.sink.commit import abort, by_partition, may_retry, open_transactions
from pk.spark.sink.marker import TOPIC, Markers, MarkerUnreadable, encode_file
from pk.spark.sink.options import SinkOptions
from pk.spark.sink.publish import Identity, Publisher
from pk.spark.sink.sealed_files import SealedFile, SealedList, loaded

_ATTEMPTS: Final = 3


def lane_transactions(
    cluster: Cluster, options: SinkOptions, listed: SealedList, lane: int
) -> tuple[Identity, Transactions]:
    """The producer of a lane: its identity and transactions."""
    size = max((file.size for file in listed.lanes[lane]), default=0)
    return open_transactions(cluster, options, f"{listed.query_id}-lane-{lane}", size)


async def publish_lane(options: SinkOptions, store: Store, listed: SealedList, lane: int) -> int:
    """Publish the files of a lane that have no marker, and return their number.

    Raises MarkerUnreadable, StagingFailed, KafkaError, ClientError.
    """
    cluster = await connections().cluster(options.bootstrap, options.config)
    count = failures = 0
    while True:
        publisher = _LanePublisher(cluster, options, store, listed, lane)
        try:
            await publisher.run()
            return count + publisher.count
        except (KafkaError, ClientError) as e:
            failures = 1 if publisher.count else failures + 1
            count += publisher.count
            if failures == _ATTEMPTS or not may_retry(e):
                raise


async def end_lanes(options: SinkOptions, listed: SealedList) -> None:
    """End the open transactions of earlier tasks of the lanes, so that readers of markers need not
    wait for them. Raises KafkaError, ClientError."""
    cluster = await connections().cluster(options.bootstrap, options.config)
    for lane in listed.lanes:
        _, transactions = lane_transactions(cluster, options, listed, lane)
        await transactions.begin()
        transactions.leave()


async def published_files(options: SinkOptions, listed: SealedList) -> set[str] | None:
    """The names of the files that have a marker; None if the whole batch has one.

    Raises MarkerUnreadable, KafkaError, ClientError.
    """
    cluster = await connections().cluster(options.bootstrap, options.config)
    markers = Markers(cluster, options, listed.query_id)
    partition = await markers.partition()
    topic_id = uuid_text(cluster.metadata.topic_id(TOPIC))
    if partition.partition != listed.partition or topic_id != listed.topic_id:
        raise MarkerUnreadable(
            f"batch {listed.batch_id} of query {listed.query_id} began with another topic"
            f" {TOPIC}: another cluster, or the topic has been deleted since"
        )
    names, batch = await markers.files(partition, listed.position)
    return None if batch >= listed.batch_id else names


class _LanePublisher:
    """One attempt to publish a lane."""

    def __init__(
        self,
        cluster: Cluster,
        options: SinkOptions,
        store: Store,
        listed: SealedList,
        lane: int,
    ) -> None:
        self.count = 0
        """The number of files that this attempt has published."""

        self._cluster = cluster
        self._options = options
        self._store = store
        self._listed = listed
        self._partition = TopicPartition(TOPIC, listed.partition)
        self._files: Sequence[SealedFile] = listed.lanes[lane]
        self._identity, self._transactions = lane_transactions(cluster, options, listed, lane)
        self._publisher: Publisher | None = None
        self._epoch = -1

    async def run(self) -> None:
        await self._transactions.begin()
        there = await published_files(self._options, self._listed)
        self._transactions.leave()
        if there is None:
            return
        for file in self._files:
            if file.name not in there:
                await self._publish(file)
                self.count += 1

    async def _publish(self, file: SealedFile) -> None:
        await self._transactions.begin()
        if self._publisher is None or self._epoch != self._identity.producer_epoch:
            # Sequence numbers restart with a new epoch, and only then.
            self._epoch = self._identity.producer_epoch
            self._publisher = Publisher(
                self._cluster, self._options.config, self._identity, self._transactions
            )
        try:
            await self._publisher.publish(by_partition([loaded(self._store, file)]))
            now_ms = time.time_ns() // 1_000_000
            marker = encode_file(self._listed.query_id, file.name, file.records, now_ms)
            await self._publisher.publish({self._partition: [marker]})
            await self._transactions.end(commit=True)
        except BaseException as e:
            await abort(self._transactions, e)
            raise
