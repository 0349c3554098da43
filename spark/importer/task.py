"""Seals the rows of a portion, in Spark's Python workers. Sealing has no effect on the topic."""

import pickle
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark import TaskContext

from pk.spark.connections import connections
from pk.spark.sink.messages import SealedMessage, collect, inline_limit
from pk.spark.sink.options import SinkOptions
from pk.spark.sink.seal import ROWS_BYTES, seal

SCHEMA: Final = "piece binary"
_RESULTS: Final = "spark.driver.maxResultSize"
_OUT: Final = pa.schema([pa.field("piece", pa.binary())])


class SealedRows(NamedTuple):
    """Sealed rows of a portion, from `begin` up to but not including `end`; `last` means that they
    are the last of the portion."""

    portion: int
    begin: int
    end: int
    last: bool
    message: SealedMessage


@dataclass(frozen=True)
class SealPortions:
    """A function for `mapInArrow` that seals rows. A task reads one portion, whose number is the
    number of the task's partition."""

    options: SinkOptions
    import_id: str
    skip: Mapping[int, int]
    """Portion number → the number of its first rows that are already published."""

    whole: bool
    """Whether all rows of a portion must be published together."""

    timestamps: bool
    at_once: int
    """The number of tasks whose results the driver receives together."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        number = context.partitionId()
        most = inline_limit(0, context.getLocalProperty(_RESULTS))
        limit = most * 8 // max(self.at_once, 8)
        for sealed in self.seal(number, batches, limit, self._count()):
            yield pa.RecordBatch.from_arrays(
                [pa.array([pickle.dumps(sealed)], pa.binary())], schema=_OUT
            )

    def seal(
        self,
        number: int,
        batches: Iterator[pa.RecordBatch],
        limit: int,
        partitions_of: Callable[[str], int],
    ) -> Iterator[SealedRows]:
        """Seal the rows of a portion, except those to skip. The first message has at most `limit`
        bytes and each following one at most half of the limit before; the rest is staged.

        Raises RowRefused, StagingFailed, KafkaError.
        """
        at = begin = self.skip.get(number, 0)
        left = at
        gathered: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            skipped = min(left, batch.num_rows)
            left -= skipped
            rows = batch.slice(skipped)
            if not rows.num_rows:
                continue
            gathered.append(rows)
            at += rows.num_rows
            size += rows.nbytes
            if size >= ROWS_BYTES and not self.whole:
                yield self._sealed(number, begin, at, gathered, limit, partitions_of)
                begin, gathered, size = at, [], 0
                limit //= 2
        yield self._sealed(number, begin, at, gathered, limit, partitions_of, last=True)

    def _sealed(
        self,
        number: int,
        begin: int,
        end: int,
        rows: list[pa.RecordBatch],
        limit: int,
        partitions_of: Callable[[str], int],
        *,
        last: bool = False,
    ) -> SealedRows:
        sealed = seal(
            rows,
            topic=self.options.topic,
            config=self.options.config,
            partitions_of=partitions_of,
            turn=number + begin,
            timestamps=self.timestamps,
        )
        message = collect(
            sealed,
            limit=limit,
            place=self.options.staging,
            # A folder of its own, which is removed once these rows are published.
            name=f"import-{self.import_id}-{uuid.uuid4()}/{number}/rows",
            query_id=None,
        )
        return SealedRows(number, begin, end, last, message)

    def _count(self) -> Callable[[str], int]:
        kept, options = connections(), self.options

        async def count(topic: str) -> int:
            cluster = await kept.cluster(options.bootstrap, options.config)
            info = await cluster.topic(topic, timeout_ms=options.config.max_block_ms)
            return len(info.partitions)

        return lambda topic: kept.run(count, topic)
