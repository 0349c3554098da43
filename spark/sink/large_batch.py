"""Writes a stream's batch to topics in `foreachBatch`, exactly once and regardless of its size.

A task that seals more than a limit writes files. If the whole batch is small, the driver publishes
it in one transaction with the batch's marker (pk.spark.sink.commit). For a larger batch the driver
creates a list of the files, atomically and only if there is none. From then on, the list defines
the batch, and no part of it is computed again: executors publish the files, each with its own
marker (pk.spark.sink.publish_files), and finally the driver writes the batch's marker.

Two drivers may run the same batch by mistake, one of them after a pause of any length. The order of
the steps prevents conflicts. The first driver that creates the list determines the contents of the
batch. A driver that has created or found a list initializes the query's transactional id, and only
then checks whether the batch is published. A driver that publishes the batch itself initializes
that id too, and only then checks whether there is a list. So one of the two drivers always sees the
other's result, or is fenced.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from pk.core.errors import KafkaError
from pk.core.values import uuid_text
from pk.net.client.errors import ClientError
from pk.net.client.results import IsolationLevel
from pk.spark.connections import connections
from pk.spark.files.store import Store
from pk.spark.sink import DRIVER_BYTES
from pk.spark.sink.commit import BatchCommit, may_retry
from pk.spark.sink.marker import TOPIC
from pk.spark.sink.messages import StagingFailed
from pk.spark.sink.options import SinkOptions
from pk.spark.sink.publish_files import end_lanes
from pk.spark.sink.sealed_files import Part, SealedFile, SealedList, all_in_files, message_of

T = TypeVar("T")

LIST: Final = "files.json"
_ATTEMPTS: Final = 3

_cleaned: Final[set[str]] = set()
"""The directories from which this process has removed leftovers of earlier processes."""


class LargeBatch:
    """One batch of a query. Its files are in the directory `QUERY/BATCH` of the store."""

    def __init__(
        self,
        options: SinkOptions,
        store: Store,
        query_id: str,
        batch_id: int,
        driver_bytes: int | None = DRIVER_BYTES,
    ) -> None:
        """`driver_bytes` is the size above which executors publish; None means that the driver
        always publishes."""
        self.options = options
        self.store = store
        self.query_id = query_id
        self.batch_id = batch_id
        self.driver_bytes = driver_bytes
        self.folder = f"{query_id}/{batch_id}"

    def write(
        self,
        seal: Callable[[], Iterable[Part]],
        publish: Callable[[SealedList], None],
    ) -> None:
        """Write the batch, unless it is already written. `seal` computes the batch; `publish` runs
        a job that publishes the files of a list, and returns when all of them have a marker.

        Raises CheckpointTooOld, MarkerUnreadable, StagingFailed, KafkaError, ClientError, and the
        errors of `seal` and `publish`.
        """
        listed = self.listed()
        has_files = False
        if listed is None:
            parts = sorted(seal(), key=lambda part: (part.task, part.number))
            if not parts:
                return
            has_files = any(part.file is not None for part in parts)
            size = sum(part.size for part in parts)
            if self.driver_bytes is None or size <= self.driver_bytes:
                listed = self.publish_from_driver(parts, size)
            else:
                listed = self.make_list(parts)
        else:
            connections().run(end_lanes, self.options, listed)
        if listed is not None:
            self.publish_listed(listed, publish)
            has_files = True
        self.remove(has_files)

    def listed(self) -> SealedList | None:
        """The list of files; None if there is none. Raises StagingFailed."""
        url = self.store.url_of(f"{self.folder}/{LIST}")
        try:
            return SealedList.decode(self.store.read(f"{self.folder}/{LIST}"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as e:
            raise StagingFailed(f"{url} cannot be read: {e}") from e

    def publish_from_driver(self, parts: Sequence[Part], size: int) -> SealedList | None:
        """Publish the batch from this process, unless it is already published. If another driver
        has created a list, return that list instead."""
        messages = [message_of(self.store, part) for part in parts]
        records = sum(part.records for part in parts)

        def attempt() -> SealedList | None:
            commit = self._taken_over(size)
            if commit is None:
                return None
            listed = self.listed()
            if listed is not None:
                commit.leave()
                return listed
            connections().run(commit.publish, messages, records)
            return None

        return _with_retries(attempt)

    def make_list(self, parts: Sequence[Part]) -> SealedList:
        """Write all parts to files and create the list, unless another driver has created one.
        Returns the batch's list. Raises StagingFailed."""
        files = self._files(parts)
        listed = connections().run(self._list_of, files)
        return self.add_list(listed)

    def add_list(self, listed: SealedList) -> SealedList:
        """Create the list if there is none, and return the existing one. Raises StagingFailed."""
        try:
            self.store.add(f"{self.folder}/{LIST}", listed.encode())
        except FileExistsError:
            return self.listed() or listed
        except OSError as e:
            url = self.store.url_of(f"{self.folder}/{LIST}")
            raise StagingFailed(f"{url} cannot be written: {e}") from e
        return listed

    def publish_listed(self, listed: SealedList, publish: Callable[[SealedList], None]) -> None:
        """Publish the files of a list with executors, and then write the batch's marker, unless the
        batch is already published."""
        commit = _with_retries(lambda: self._taken_over(0))
        if commit is None:
            return
        publish(listed)
        names = [file.name for file in listed.files]
        first: list[BatchCommit] = [commit]

        def attempt() -> None:
            # The first attempt uses the transactional id as initialized above; later ones
            # initialize it again.
            commit = first.pop() if first else self._taken_over(0)
            if commit is not None:
                connections().run(commit.publish, (), listed.records, names)

        _with_retries(attempt)

    def remove(self, has_files: bool) -> None:
        """Remove the batch's files. The first call in a process also removes those of earlier
        batches. Raises StagingFailed."""
        url = self.store.url_of(self.query_id)
        try:
            if has_files:
                self.store.remove_folder(self.folder)
            if url in _cleaned:
                return
            names = self.store.names(self.query_id)
            batches = {name.removeprefix(f"{self.query_id}/").partition("/")[0] for name in names}
            for batch in batches:
                if batch.isdecimal() and int(batch) <= self.batch_id:
                    self.store.remove_folder(f"{self.query_id}/{batch}")
            _cleaned.add(url)
        except OSError as e:
            raise StagingFailed(f"the sealed records in {url} cannot be removed: {e}") from e

    def _taken_over(self, size: int) -> BatchCommit | None:
        """The initialized transaction of the batch; None if the batch is already published."""

        async def take_over() -> BatchCommit | None:
            options = self.options
            cluster = await connections().cluster(options.bootstrap, options.config)
            commit = BatchCommit(cluster, options, self.query_id, self.batch_id, size)
            return commit if await commit.take_over() else None

        return connections().run(take_over)

    def _files(self, parts: Sequence[Part]) -> list[SealedFile]:
        try:
            return all_in_files(self.store, self.folder, parts)
        except OSError as e:
            url = self.store.url_of(self.folder)
            raise StagingFailed(f"the sealed records cannot be kept in {url}: {e}") from e

    async def _list_of(self, files: Sequence[SealedFile]) -> SealedList:
        options = self.options
        cluster = await connections().cluster(options.bootstrap, options.config)
        markers = BatchCommit(cluster, options, self.query_id, self.batch_id, 0).markers
        partition = await markers.partition()
        _, end = await markers.bounds(partition, IsolationLevel.READ_UNCOMMITTED)
        return SealedList(
            query_id=self.query_id,
            batch_id=self.batch_id,
            topic_id=uuid_text(cluster.metadata.topic_id(TOPIC)),
            partition=partition.partition,
            position=end,
            files=tuple(files),
        )


def _with_retries(attempt: Callable[[], T]) -> T:
    """Repeat an attempt as long as another one may succeed, at most `_ATTEMPTS` times."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return attempt()
        except (KafkaError, ClientError) as e:
            if not may_retry(e):
                raise
    return attempt()
