"""The data source as a session of Spark Connect registers it, for a server that does not have pk
(pk.spark.connect.register): it carries pk with it.

Spark shows the files of a session to tasks, but not to the processes of streams, which run beside
the driver and look for files in the folder of another job. Pickled objects reach them all. So this
module is pickled by value, with pk's source in the class; the readers and writers that it returns
bring pk along when they are pickled in turn. Nothing is written to the server's disk.

Being sent by value, nothing here may use what this module imports from pk.
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
    """Modules for `load_packed`, by their paths: `pk/spark/source.py`."""
    return zlib.compress(pickle.dumps(dict(sorted(files.items()))))


class PackedModules(MetaPathFinder, SourceLoader):
    """Imports modules from memory. A file's name in a traceback is its path in the package."""

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
    """Has this process import pk from `packed`, unless it has imported a pk already."""
    if "pk" not in sys.modules:
        sys.meta_path.insert(0, PackedModules(pickle.loads(zlib.decompress(packed))))
        __import__("pk")


def restored(packed: bytes, pickled: bytes) -> Any:
    """Restores the result of `carrying` in another process."""
    load_packed(packed)
    kind, state = pickle.loads(pickled)
    made = kind.__new__(kind)
    made.__dict__.update(state)
    return made


def carrying(made: T, packed: bytes) -> T:
    """`made`, which brings pk along when it is pickled."""
    kind: Any = type(made)

    class Carrying(kind):
        def __reduce__(self) -> Any:
            return restored, (packed, cloudpickle.dumps((kind, self.__getstate__())))

    made.__class__ = Carrying
    return made


class RemoteSource(DataSource):
    """Acts as a `KafkaSource`. Its methods raise OptionError."""

    packed: bytes
    """pk's modules, as `pack` has them; a subclass has them."""

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
    """The class to register."""
    return type("RemoteSource", (RemoteSource,), {"packed": pack(files)})
