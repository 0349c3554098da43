"""The portions of files: each of Spark's partitions is one block of a file."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from pk.spark.errors import SparkFailed
from pk.spark.importer.options import ImportRefused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Portion:
    """The rows of one of Spark's partitions: a block of a file, or a range of a table's keys."""

    name: str
    file: str
    begin: int
    bytes: int
    stamp: str
    """The current size and modification time of the file."""


def partitions_of(frame: "DataFrame") -> list[Any]:
    """The partitions into which Spark divides a data frame."""
    java: Any = frame._jdf
    return list(java.queryExecution().toRdd().partitions())


def file_portions(frame: "DataFrame") -> list[Portion]:
    """The portions that the partitions of a data frame of files read. Raises SparkFailed,
    ImportRefused."""
    return [portion for each in partitions_of(frame) for portion in _file_portion(each)]


MIXED_FILES: Final = (
    "an expression combines rows of different files (a window function or an aggregate); write "
    "its result to files, and import these"
)


def _file_portion(partition: Any) -> Iterable[Portion]:
    try:
        files: Sequence[Any] = list(partition.files())
    except Exception as e:
        if "FilePartition" in type(partition).__name__:
            raise
        if partition.getClass().getSimpleName() == "ParallelCollectionPartition":
            return []
        raise ImportRefused(MIXED_FILES) from e
    if len(files) != 1:
        raise SparkFailed(f"Spark reads {len(files)} files in one task, but pk asked for one")
    file = files[0]
    name = _readable(str(file.urlEncodedPath()))
    start, length = int(file.start()), int(file.length())
    stamp = f"{file.fileSize()} bytes of {file.modificationTime()}"
    return [Portion(f"{name}@{start}", name, start, length, stamp)]


def _readable(url: str) -> str:
    path = unquote(url)
    return str(Path(path.removeprefix("file://"))) if path.startswith("file:///") else path
