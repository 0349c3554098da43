"""`write_batch`: writes a micro-batch to topics from `foreachBatch`, exactly once.

`foreachBatch` runs in the driver's session, so it can start two jobs. The tasks of the first seal
rows. For a large batch, the tasks of the second publish them (pk.spark.sink.large_batch).
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import types as t

from pk.spark.connections import connections
from pk.spark.errors import OptionError
from pk.spark.files.store import Store, store_at
from pk.spark.session.collector import freeze_modules
from pk.spark.sink import DRIVER_BYTES
from pk.spark.sink.large_batch import LIST, LargeBatch
from pk.spark.sink.messages import Section, StagingFailed, inline_limit
from pk.spark.sink.options import Delivery, SinkOptions
from pk.spark.sink.publish_files import publish_lane
from pk.spark.sink.sealed_files import Part, SealedFile, SealedList, keep
from pk.spark.sink.writer import encoded_rows, publish_now, seal_rows, task_property
from pk.spark.source import KafkaSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FOLDER: Final = "pk-sealed"
"""The directory in the checkpoint for sealed rows."""

_COLUMNS: Final = ("key", "value", "headers", "topic", "partition")
_QUERY: Final = "sql.streaming.queryId"
_RESULTS: Final = "spark.driver.maxResultSize"

_PART: Final = (
    t.StructType()
    .add("task", t.IntegerType())
    .add("number", t.IntegerType())
    .add("sections", t.StringType())
    .add("file", t.StringType())
    .add("lane", t.IntegerType())
    .add("data", t.BinaryType())
)
_PART_ROWS: Final = pa.schema(
    [
        ("task", pa.int32()),
        ("number", pa.int32()),
        ("sections", pa.string()),
        ("file", pa.string()),
        ("lane", pa.int32()),
        ("data", pa.binary()),
    ]
)
_PUBLISHED: Final = t.StructType().add("files", t.LongType())


def write_batch(
    frame: "DataFrame",
    batch_id: int,
    options: Mapping[str, str],
    *,
    checkpoint: str | Path,
    query_id: str | None = None,
    atomic: bool = False,
    driver_bytes: int = DRIVER_BYTES,
    kind: Callable[..., LargeBatch] = LargeBatch,
    lanes_kind: "Callable[..., PublishLanes] | None" = None,
) -> None:
    """See `pk.spark.write_batch`. `kind` and `lanes_kind` create the batch and the function of the
    second job."""
    if query_id is None:
        query_id = _query_id(frame.sparkSession, store_at(checkpoint))
    given = {name.lower(): value for name, value in options.items()}
    given |= {"queryid": query_id, "batchid": str(batch_id)}
    sink, encoders = KafkaSource(given).writing(frame.schema)
    place = given.get("staginglocation")
    store = store_at(checkpoint).child(FOLDER) if place is None else store_at(place)
    batch = kind(sink, store, query_id, batch_id, None if atomic else driver_bytes)
    names = {name for name in _COLUMNS if name in frame.columns}
    rows = frame.select(*(f"`{name}`" for name in frame.columns if name in names))
    sealing = SealRows(sink, tuple(encoders), store, batch.folder, batch_id, batch.driver_bytes)

    def seal() -> Iterable[Part]:
        found = rows.mapInArrow(lambda batches: sealing(batches), _PART).toArrow()
        return [_part(row) for row in found.to_pylist()]

    def publish(listed: SealedList) -> None:
        lanes = sorted(listed.lanes)
        make = lanes_kind or PublishLanes
        publishing = make(sink, store, f"{batch.folder}/{LIST}", lanes)
        numbers = frame.sparkSession.range(0, len(lanes), 1, len(lanes))
        numbers.mapInArrow(lambda batches: publishing(batches), _PUBLISHED).collect()

    batch.write(seal, publish)


def _query_id(spark: "SparkSession", checkpoint: Store) -> str:
    """The id of the query that is running in this thread. Raises OptionError."""
    with suppress(PySparkException):  # a session of Spark Connect has no SparkContext
        found = spark.sparkContext.getLocalProperty(_QUERY)
        if found is not None:
            return found
    try:
        return str(json.loads(checkpoint.read("metadata"))["id"])
    except (OSError, ValueError, KeyError) as e:
        raise OptionError(
            f"{checkpoint.url} is not the checkpoint of a running query ({e}); give its"
            " checkpointLocation, or a query_id"
        ) from e


@dataclass(frozen=True)
class SealRows:
    """A function for `mapInArrow` that seals rows and yields the parts that contain them."""

    options: SinkOptions
    encoders: tuple[Any, ...]
    store: Store
    folder: str
    batch_id: int
    driver_bytes: int | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        freeze_modules()
        context = TaskContext.get()
        assert context is not None
        task = context.partitionId()
        rows = encoded_rows(iter(batches), self.encoders)
        sealed = seal_rows(rows, self.options, task + self.batch_id)
        if self.options.delivery is Delivery.AT_LEAST_ONCE:
            publish_now(sealed, self.options)
            return
        limit = inline_limit(task, task_property(_RESULTS), self.driver_bytes)
        for part in keep(sealed, store=self.store, folder=self.folder, task=task, limit=limit):
            yield _row(part)


@dataclass(frozen=True)
class PublishLanes:
    """A function for `mapInArrow` that takes numbers of lanes and publishes these lanes."""

    options: SinkOptions
    store: Store
    listed: str
    """The path of the list in the store."""

    lanes: list[int]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        freeze_modules()
        numbers = [n for batch in batches for n in batch.column("id").to_pylist()]
        if not numbers:
            return
        try:
            listed = SealedList.decode(self.store.read(self.listed))
        except OSError as e:
            url = self.store.url_of(self.listed)
            raise StagingFailed(
                f"{url} cannot be read ({e}): another driver has published the batch, or the "
                "driver and the executors do not share the checkpoint"
            ) from e
        for number in numbers:
            lane = self.lanes[number]
            count = connections().run(publish_lane, self.options, self.store, listed, lane)
            yield pa.RecordBatch.from_pydict({"files": pa.array([count], pa.int64())})


def _row(part: Part) -> pa.RecordBatch:
    file = part.file
    row = {
        "task": part.task,
        "number": part.number,
        "sections": json.dumps(part.sections),
        "file": None if file is None else file.name,
        "lane": None if file is None else file.lane,
        "data": part.data,
    }
    return pa.RecordBatch.from_pylist([row], _PART_ROWS)


def _part(row: Any) -> Part:
    task, number, text, name, lane, data = row.values()
    sections = [Section(*each) for each in json.loads(text)]
    size = sum(section.size for section in sections)
    file = None if name is None else SealedFile(name, lane, size, sections)
    return Part(task, number, sections, file, data)
