"""Encodes rows as sealed record batches, in a task: complete except for the fields that are
determined when they are published.

Rows are collected until they fill several batches, and are then sorted by topic and partition and
encoded together. The batches have no producer yet: the publisher adds its identity and the sequence
numbers (pk.spark.sink.publish).
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pk.core.errors import ErrorCode, KafkaError
from pk.core.record.columns import HEADERS_FIELD, from_arrow
from pk.core.record.compress import Codec
from pk.net.client.config import ProducerConfig
from pk.spark.errors import SparkError
from pk.spark.sink.murmur2 import Ints, partitions_for_keys

ROWS_BYTES: Final = 16 << 20
"""The size in bytes of the rows that are sealed together."""

_compute: Final[Any] = pc


class RowRefused(SparkError):
    """A row cannot be converted to a record."""


class Sealed(NamedTuple):
    """Consecutive record batches of one partition, in the order of the rows."""

    topic: str
    partition: int
    records: int
    data: bytearray


def seal(
    batches: Iterable[pa.RecordBatch],
    *,
    topic: str | None,
    config: ProducerConfig,
    partitions_of: Callable[[str], int],
    turn: int = 0,
    timestamps: bool = False,
) -> Iterator[Sealed]:
    """Encode rows as record batches. The rows of a partition keep their order.

    `partitions_of` returns the number of a topic's partitions. Rows without key and partition are
    sent to the partitions in turn, beginning with number `turn`. With `timestamps`, records have
    the times in the column `timestamp`; otherwise all have the time of sealing. Raises RowRefused,
    KafkaError(MESSAGE_TOO_LARGE).
    """
    sealer = _Sealer(topic, config, partitions_of, turn, timestamps)
    gathered: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        gathered.append(batch)
        size += batch.nbytes
        if size >= ROWS_BYTES:
            yield from sealer.seal(gathered)
            gathered, size = [], 0
    if gathered:
        yield from sealer.seal(gathered)


class _Sealer:
    def __init__(
        self,
        topic: str | None,
        config: ProducerConfig,
        partitions_of: Callable[[str], int],
        turn: int,
        timestamps: bool,
    ) -> None:
        self._topic = topic
        self._config = config
        self._partitions_of = partitions_of
        self._turn = turn
        self._timestamps = timestamps
        self._codec = Codec.from_name(config.compression_type)

    def seal(self, batches: list[pa.RecordBatch]) -> Iterator[Sealed]:
        [rows] = pa.Table.from_batches(batches).combine_chunks().to_batches()
        names = rows.schema.names
        columns = {"value": _binary(rows["value"])}
        if "key" in names:
            columns["key"] = _binary(rows["key"])
        if "headers" in names:
            columns["headers"] = rows["headers"].cast(HEADERS_FIELD.type)
        if self._timestamps:
            columns["timestamp"] = rows["timestamp"]
        records = pa.RecordBatch.from_pydict(columns)
        chosen = rows["partition"] if "partition" in names else pa.nulls(len(rows), pa.int32())
        if self._topic is not None:
            yield from self._seal_topic(self._topic, records, chosen)
            return
        topics = rows["topic"]
        if topics.null_count:
            raise RowRefused(
                "a row has no topic: its column topic is null; give it a value, or the option topic"
            )
        for topic in topics.unique().to_pylist():
            which = _compute.indices_nonzero(_compute.equal(topics, topic))
            yield from self._seal_topic(topic, records.take(which), chosen.take(which))

    def _seal_topic(
        self, topic: str, records: pa.RecordBatch, chosen: pa.Array
    ) -> Iterator[Sealed]:
        where = self._partitions(topic, records, chosen)
        order = np.argsort(where, kind="stable")
        numbers, starts = np.unique(where[order], return_index=True)
        for partition, rows in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
            piece = records if len(numbers) == 1 else records.take(pa.array(rows))
            data = bytearray()
            for batch, _ in from_arrow(
                piece,
                batch_bytes=self._config.batch_size,
                now_ms=time.time_ns() // 1_000_000,
                codec=self._codec,
                level=self._config.compression_level,
            ):
                if len(batch) > self._config.max_request_size:
                    raise KafkaError(
                        ErrorCode.MESSAGE_TOO_LARGE,
                        f"a record for {topic}/{partition} takes {len(batch)} bytes;"
                        f" kafka.max.request.size is {self._config.max_request_size}",
                    )
                data += batch
            yield Sealed(topic, partition, piece.num_rows, data)

    def _partitions(self, topic: str, records: pa.RecordBatch, chosen: pa.Array) -> Ints:
        """The partition of each row: the one in its column, otherwise that of its key, otherwise
        the next in turn."""
        count = self._partitions_of(topic)
        given = pc.fill_null(chosen, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        named = ~np.asarray(chosen.is_null())
        wrong = given[named & ((given < 0) | (given >= count))]
        if len(wrong):
            raise RowRefused(f"topic {topic} has no partition {wrong[0]}; it has {count}")
        if named.all():
            return given
        if "key" in records.schema.names:
            keys = records["key"]
            keyless = np.asarray(keys.is_null())
            found = partitions_for_keys(keys, count)
        else:
            keyless = np.ones(len(records), bool)
            found = np.zeros(len(records), np.int64)
        keyless &= ~named
        if keyless.any():
            found[keyless] = self._in_turn(records["value"], keyless, count)
        return np.where(named, given, found)

    def _in_turn(self, values: pa.Array, which: Any, count: int) -> Ints:
        """Assign rows to one partition until a batch is full, then to the next."""
        sizes = pc.fill_null(_compute.binary_length(values), 0).to_numpy().astype(np.int64)[which]
        block = np.cumsum(sizes + 16) // self._config.batch_size
        first = self._turn
        self._turn += int(block[-1]) + 1
        return (first + block) % count


def _binary(column: pa.Array) -> pa.Array:
    return pc.cast(column, pa.binary())
