"""The data source that a Spark Connect session registers with a server that does not have pk
(pk.spark.connect.register): its pickle contains pk.

Spark makes the files of a session available to tasks, but not to the processes of streams, which
run next to the driver and look for files in another job's folder. Pickled objects reach all of
them. So this module is pickled by value, with pk's source code in the class; the pickles of its
readers and writers contain pk too. Nothing is written to the server's disk.

Because this module is sent by value, its functions must not use names that it imports from pk.
"""

from __future__ import annotations

import pickle
import sys
import zlib
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from pk.spark.read.batch_reader import KafkaReader
    from pk.spark.sink.writer import KafkaBatchWriter, KafkaStreamWriter
    from pk.spark.source import KafkaSource
    from pk.spark.stream.reader import KafkaStreamReader

T = TypeVar("T")


def pack(files: Mapping[str, bytes]) -> bytes:
    """The source code of modules for `load_packed`, by path: `pk/spark/source.py`."""
    return zlib.compress(pickle.dumps(dict(sorted(files.items()))))


class PackedModules(MetaPathFinder, SourceLoader):
    """An importer of modules that are in memory. In a traceback, a file's name is its path in the
    package."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if self._path(fullname) is None:
            return None
        return spec_from_loader(fullname, self)

    def _path(self, fullname: str) -> str | None:
        stem = fullname.replace(".", "/")
        return next((p for p in (f"{stem}.py", f"{stem}/__init__.py") if p in self._files), None)

    def get_filename(self, fullname: str) -> str:
        path = self._path(fullname)
        if path is None:
            raise ImportError(f"no module {fullname}", name=fullname)
        return path

    def get_data(self, path: str) -> bytes:
        if path not in self._files:
            raise FileNotFoundError(path)
        return self._files[path]


def load_packed(packed: bytes) -> None:
    """Make pk importable in this process from `packed`, unless a pk is already imported."""
    if "pk" not in sys.modules:
        sys.meta_path.insert(0, PackedModules(pickle.loads(zlib.decompress(packed))))
        __import__("pk")


def restored(packed: bytes, pickled: bytes) -> Any:
    """Restore the result of `carrying` in another process."""
    load_packed(packed)
    kind, state = pickle.loads(pickled)
    made = kind.__new__(kind)
    made.__dict__.update(state)
    return made


def carrying(made: T, packed: bytes) -> T:
    """Wrap `made` so that its pickle contains pk."""
    kind: Any = type(made)

    class Carrying(kind):
        def __reduce__(self) -> Any:
            return restored, (packed, cloudpickle.dumps((kind, self.__getstate__())))

    made.__class__ = Carrying
    return made


class RemoteSource(DataSource):
    """A data source that delegates to `KafkaSource`. Its methods raise OptionError."""

    packed: bytes
    """pk's modules, as `pack` returns them; a subclass sets them."""

    @classmethod
    def name(cls) -> str:
        return "pk"

    def _source(self) -> KafkaSource:
        load_packed(self.packed)
        from pk.spark.source import KafkaSource

        return KafkaSource(self.options)

    def schema(self) -> str | StructType:
        return self._source().schema()

    def reader(self, schema: StructType) -> KafkaReader:
        return carrying(self._source().reader(schema), self.packed)

    def writer(self, schema: StructType, overwrite: bool) -> KafkaBatchWriter:
        return carrying(self._source().writer(schema, overwrite), self.packed)

    def streamReader(self, schema: StructType) -> KafkaStreamReader:
        return carrying(self._source().streamReader(schema), self.packed)

    def streamWriter(self, schema: StructType, overwrite: bool) -> KafkaStreamWriter:
        return carrying(self._source().streamWriter(schema, overwrite), self.packed)


def with_modules(files: Mapping[str, bytes]) -> type[RemoteSource]:
    """The subclass to register, which contains these modules."""
    return type("RemoteSource", (RemoteSource,), {"packed": pack(files)})
