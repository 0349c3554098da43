"""Creates the class data archive from which Spark starts (pk.spark.session.class_archive).

A Spark session performs a small sample of the work of pk's commands: it reads and writes through
Python data sources, writes parquet, parses JSON, and keeps state in a stream. When its JVM exits,
it writes the classes that it loaded.
"""

import contextlib
import fcntl
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from pk.spark.errors import SparkFailed
from pk.spark.java import Java, find_java, require_pyspark
from pk.spark.reasons import reason
from pk.spark.session.class_archive import ClassArchive, archive_of
from pk.spark.session.local import launch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CORES: Final = 2
_CONF: Final = {"spark.sql.shuffle.partitions": "2"}
_SCHEMA: Final = "value binary, timestamp timestamp"
_AT: Final = datetime(2024, 1, 1, tzinfo=UTC)
_VALUE: Final = b'{"n": 1}'
_UNFINISHED: Final = ".new"


def warm_up() -> Path:
    """Create or replace the archive, and return its path. Takes a minute of CPU.

    Raises SparkMissing; SparkFailed if Spark fails, if this Java cannot write archives, or if
    another process is writing the archive; OSError.
    """
    java = find_java()
    archive = archive_of(java, require_pyspark())
    archive.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(archive.path.with_suffix(".lock")):
        if archive.base is not None:
            with _written(archive.base) as unfinished:
                _make_base(java, unfinished)
        with _written(archive.path) as unfinished:
            _make(ClassArchive(unfinished, archive.base))
    return archive.path


@contextlib.contextmanager
def _written(path: Path) -> Iterator[Path]:
    """A path to write to, which becomes `path` atomically at the end of the block. Raises
    SparkFailed if the file is missing then."""
    for left in path.parent.glob(f"{path.stem}.*{_UNFINISHED}"):
        left.unlink(missing_ok=True)  # of a process that was killed; its JVM may still write
    unfinished = path.with_suffix(f".{os.getpid()}{_UNFINISHED}")
    try:
        yield unfinished
        if not unfinished.exists():
            raise SparkFailed("this Java cannot write an archive of its classes")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _make_base(java: Java, path: Path) -> None:
    command = [java.program, "-Xshare:dump", f"-XX:SharedArchiveFile={path}"]
    made = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if made.returncode:
        said = made.stdout.decode(errors="replace").strip()
        raise SparkFailed(f"the Java at {java.home} wrote no archive of its classes: {said[-500:]}")


def _make(archive: ClassArchive) -> None:
    with launch(cores=_CORES, conf=_CONF, archive=archive) as own:
        try:
            _work(own.session())
        except BaseException as e:
            own.kill()  # otherwise it would write an archive first
            if isinstance(e, (PySparkException, Py4JError)):
                raise SparkFailed(f"Spark failed: {reason(e)}") from e
            raise
    if own.exit_status:
        # The archive may be incomplete.
        raise SparkFailed(f"Spark's Java ended with {own.exit_status} while it wrote the archive")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    lock = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SparkFailed("another process is writing the archive of classes") from None
        yield
    finally:
        os.close(lock)


def _work(spark: "SparkSession") -> None:
    """Perform a sample of the work of pk's commands."""
    from pyspark.sql import functions

    spark.dataSource.register(_Rows)
    name = _Rows.name()
    with tempfile.TemporaryDirectory(prefix="pk-warm-up-") as folder:
        texts = spark.range(0, 2, 1, 2).mapInArrow(lambda _: iter([_batch()]), _SCHEMA)
        texts.write.parquet(f"file://{folder}/texts")
        fields = functions.from_json(functions.col("value").cast("string"), "n long")
        parsed = spark.read.parquet(f"file://{folder}/texts").withColumn("fields", fields)
        parsed.withColumn("n", parsed.fields.n).write.partitionBy("n").parquet(
            f"file://{folder}/parsed"
        )
        lines = Path(folder, "lines.json")
        lines.write_bytes(_VALUE)
        spark.read.json(f"file://{lines}").createOrReplaceTempView("lines")
        spark.sql("select n, count(*) from lines group by n").collect()
        spark.read.format(name).load().write.format(name).mode("append").save()
        stream = spark.readStream.format(name).load().withWatermark("timestamp", "1 minute")
        counts = stream.groupBy(functions.window("timestamp", "1 minute"), "value").count()
        query = (
            counts.select("value", functions.col("window.start").alias("timestamp"))
            .writeStream.format(name)
            .option("checkpointLocation", f"file://{folder}/checkpoint")
            .start()
        )
        query.processAllAvailable()
        query.stop()


def _batch() -> pa.RecordBatch:
    columns = [pa.array([_VALUE]), pa.array([_AT], pa.timestamp("us", "UTC"))]
    return pa.RecordBatch.from_arrays(columns, ["value", "timestamp"])


class _Rows(DataSource):
    """A data source with one row, to read and to write."""

    @classmethod
    def name(cls) -> str:
        return "pk_warm_up"

    def schema(self) -> str:
        return _SCHEMA

    def reader(self, schema: StructType) -> "_Reader":
        return _Reader()

    def streamReader(self, schema: StructType) -> "_StreamReader":
        return _StreamReader()

    def writer(self, schema: StructType, overwrite: bool) -> "_Writer":
        return _Writer()

    def streamWriter(self, schema: StructType, overwrite: bool) -> "_StreamWriter":
        return _StreamWriter()


class _Reader(DataSourceReader):
    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield _batch()


class _StreamReader(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:
        return {"row": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        return {"row": 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield _batch()


class _Writer(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


class _StreamWriter(DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()
