"""Publishes the records of an import, and records its progress as markers in the compacted topic
`__pk_spark_commits`.

The marker of a portion of the source (a block of a file, or a range of a table's keys) contains the
number of its rows that are in the topic. It is written in the transaction that publishes those
rows, so neither is ever visible without the other, regardless of which run and which tasks read the
rows. Another marker, for the import as a whole, describes the source and the settings of its first
run, so that later runs read the same.

As in pk.spark.sink.commit, the order of the steps makes the import exactly once: a run initializes
the transactional id, which contains the import's id, and only then reads the markers. Other runs
are fenced from then on, so the markers in memory stay correct. If the outcome of a commit is
unknown, the run repeats both steps.
"""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from msgspec.structs import replace

from pk.core.errors import ErrorCode, KafkaError
from pk.core.record.build import build_batch
from pk.core.values import TopicPartition
from pk.net.client.cluster import Cluster
from pk.net.client.errors import ClientError
from pk.net.client.results import IsolationLevel
from pk.net.client.transaction import Transactions
from pk.spark.connections import connections
from pk.spark.errors import SparkError
from pk.spark.sink.commit import abort, by_partition, may_retry
from pk.spark.sink.marker import Markers
from pk.spark.sink.messages import SealedMessage
from pk.spark.sink.options import SinkOptions
from pk.spark.sink.publish import Identity, Publisher

_ATTEMPTS: Final = 3
_TIMEOUT_MS: Final = 120_000
_FENCED: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)


class ImportOvertaken(SparkError):
    """Another run of the same import has taken over."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The number of a portion's rows that are in the topic, and facts about them."""

    rows: int
    """How many of the portion's rows are in the topic, counted from its first row."""

    records: int
    """The number of records made of these rows: expressions may make several of a row, or none."""

    done: bool
    stamp: str
    """The size and modification time of the portion's file when it was read."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive rows of a portion that a task sealed; they end with the row count of `mark`."""

    portion: str
    mark: Mark
    message: SealedMessage


class Ledger:
    """One import's markers. Runs in the process's loop (pk.spark.connections)."""

    def __init__(self, cluster: Cluster, options: SinkOptions, import_id: str) -> None:
        self.about: dict[str, Any] | None = None
        """The description of the import by its first run; None before that run."""

        self.marks: dict[str, Mark] = {}
        self._cluster = cluster
        self._options = options
        self._id = import_id
        self._name = f"import/{import_id}"
        self._markers = Markers(cluster, options, self._name)
        self._partition: TopicPartition | None = None
        self._transactions: Transactions | None = None
        self._identity = Identity()
        self._publisher: Publisher | None = None
        self._epoch = -1

    @classmethod
    async def of(cls, options: SinkOptions, import_id: str) -> "Ledger":
        """Create a ledger, with this process's connection to the cluster. Raises ConfigError."""
        kept = connections()
        return cls(await kept.cluster(options.bootstrap, options.config), options, import_id)

    async def take_over(self) -> None:
        """Fence earlier runs, and then read the markers."""
        config = replace(self._options.config, transactional_id=f"pk-spark-{self._name}")
        if "transaction.timeout.ms" not in self._options.client:
            config = replace(config, transaction_timeout_ms=_TIMEOUT_MS)
        self._identity = Identity()
        self._transactions = Transactions(self._cluster, config, self._identity)
        await self._transactions.begin()
        await self._read(IsolationLevel.READ_UNCOMMITTED)

    async def look(self) -> None:
        """Read the markers without fencing another run. Raises MarkerUnreadable, KafkaError,
        ClientError."""
        await self._read(IsolationLevel.READ_COMMITTED)

    async def _read(self, isolation: IsolationLevel) -> None:
        partition = self._partition = await self._markers.partition()
        begin, end = await self._markers.bounds(partition, isolation)
        name, prefix = self._name.encode(), f"{self._name}\n".encode()
        found = await self._markers.read(
            partition, begin, end, lambda key: key == name or key.startswith(prefix)
        )
        self.about, self.marks = None, {}
        for key, value in found:
            if key == name:
                self.about = json.loads(value)
            else:
                self.marks[key[len(prefix) :].decode()] = Mark(**json.loads(value))

    async def publish(self, pieces: Sequence[Piece], about: Mapping[str, Any] | None) -> None:
        """Publish the pieces with their marks, and `about` if it has changed, in one transaction.

        Skips pieces that turn out to be published already. Raises ImportOvertaken,
        MarkerUnreadable, StagingFailed, KafkaError, ClientError.
        """
        for attempt in range(_ATTEMPTS):
            try:
                if attempt:
                    await self.take_over()
                missing = [p for p in pieces if not self._has(p)]
                if missing or (about is not None and self.about != about):
                    await self._publish(missing, about)
                return
            except KafkaError as e:
                if e.code in _FENCED:
                    raise ImportOvertaken(
                        f"another run of the import {self._id} has begun and taken over"
                    ) from e
                if attempt == _ATTEMPTS - 1 or not may_retry(e):
                    raise
            except ClientError:
                if attempt == _ATTEMPTS - 1:
                    raise

    def _has(self, piece: Piece) -> bool:
        mark = self.marks.get(piece.portion)
        if mark is None:
            return False
        return mark.rows > piece.mark.rows or mark == piece.mark

    async def _publish(self, pieces: Sequence[Piece], about: Mapping[str, Any] | None) -> None:
        transactions, partition = self._transactions, self._partition
        assert transactions is not None and partition is not None
        if not transactions.open:
            await transactions.begin()
        if self._publisher is None or self._epoch != self._identity.producer_epoch:
            # Sequence numbers restart with a new epoch, and only then.
            self._epoch = self._identity.producer_epoch
            self._publisher = Publisher(
                self._cluster, self._options.config, self._identity, transactions
            )
        news: dict[str, Any] = {}
        if about is not None and self.about != about:
            news[self._name] = dict(about)
        marks = {piece.portion: piece.mark for piece in pieces}
        news |= {f"{self._name}\n{name}": asdict(mark) for name, mark in marks.items()}
        try:
            await self._publisher.publish(by_partition([piece.message for piece in pieces]))
            await self._publisher.publish({partition: [_encode(news)]})
            await transactions.end(commit=True)
        except BaseException as e:
            self._publisher = None
            await abort(transactions, e)
            raise
        if about is not None and self.about != about:
            self.about = dict(about)
        self.marks |= marks


def _encode(news: Mapping[str, Any]) -> bytearray:
    now_ms = time.time_ns() // 1_000_000
    entries: Iterable[Any] = [
        (now_ms, name.encode(), json.dumps(value).encode(), ()) for name, value in news.items()
    ]
    return build_batch(entries)
