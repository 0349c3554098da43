"""The files that a cluster's Python workers need to run pk's tasks without an installed pk:
`pk spark package`.

There are two files. `pk.zip` has pk itself, with entries for its directories (without them Python's
zip importer does not find packages). `pk-deps.tar.gz` has the libraries that tasks import, as
installed here. Some are compiled, so the workers need the same Python version and platform. Spark
unpacks the archive in the workers' directory, which is on their PYTHONPATH.
"""

import importlib.metadata
import os
import re
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from pk.spark.errors import SparkMissing

ZIP: Final = "pk.zip"
DEPENDENCIES: Final = "pk-deps.tar.gz"

_TOP: Final = "pk/__init__.py"
_PACKAGES: Final = ("core", "net", "spark")
_ROOTS: Final = (
    *("trio", "msgspec", "cbor2", "crc32c", "cramjam", "xxhash", "cryptography"),
    *("numpy", "pandas", "pyarrow"),
)
"""The distributions with the modules that tasks import; their requirements are added."""

_SCHEMAS: Final = ("fastavro", "protobuf", "proto-schema-parser", "jsonschema")
"""The distributions that tasks with schemas need, from the extra `schemas`; added if they are
installed."""

_STORES: Final = ("obstore",)
"""The distribution that tasks need to write to object storage, from the extra `urls`; added if it
is installed."""

_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)


_FIND_BESIDE: Final = """\
import os
import sys

_folder = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [p for n in {names!r} if (p := os.path.join(_folder, n)) not in sys.path]
"""


def write_zip(path: Path, beside: Sequence[str] = ()) -> Path:
    """Write pk as a zip that Python can import from. When pk is imported, it adds the folders
    `beside` the zip to the front of Python's path: workers of a Spark Connect server have no other
    way to find them. Raises OSError."""
    start = _FIND_BESIDE.format(names=tuple(beside)).encode() if beside else b""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        folders: set[str] = set()
        for name, content in sorted(sources()):
            for folder in reversed(Path(name).parents[:-1]):
                if str(folder) not in folders:
                    folders.add(str(folder))
                    out.writestr(zipfile.ZipInfo(f"{folder}/", _EPOCH), b"")
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            out.writestr(entry, start if name == _TOP else content)
    return path


def sources() -> Iterator[tuple[str, bytes]]:
    """The files of pk that tasks may need, by their path relative to the import path."""
    yield _TOP, b""
    for package in _PACKAGES:
        spec = find_spec(f"pk.{package}")
        assert spec is not None and spec.submodule_search_locations
        folder = Path(next(iter(spec.submodule_search_locations)))
        for path in folder.rglob("*"):
            inside = path.relative_to(folder)
            if path.is_file() and "__pycache__" not in inside.parts:
                yield f"pk/{package}/{inside.as_posix()}", path.read_bytes()
    source = find_spec("pyspark_pk")
    assert source is not None and source.origin is not None
    yield "pyspark_pk.py", Path(source.origin).read_bytes()


def write_dependencies(path: Path) -> Path:
    """Write an archive with the libraries that tasks import. Raises OSError, SparkMissing."""
    with tarfile.open(path, "w:gz", compresslevel=1) as out:
        for name, source in sorted(_files()):
            out.add(source, name, recursive=False)
    return path


def _files() -> Iterator[tuple[str, Path]]:
    for name in _closure():
        for file in importlib.metadata.distribution(name).files or ():
            if file.parts[0] == ".." or "__pycache__" in file.parts or "tests" in file.parts:
                continue
            source = Path(str(file.locate()))
            if source.is_file():
                yield file.as_posix(), source


def _closure() -> list[str]:
    """The distributions that tasks import, with all their requirements."""
    found: set[str] = set()
    waiting = [*_ROOTS, *_SCHEMAS, *_STORES]
    while waiting:
        name = waiting.pop()
        key = re.sub(r"[-_.]+", "-", name).lower()
        if key in found:
            continue
        try:
            required = importlib.metadata.requires(name) or ()
        except importlib.metadata.PackageNotFoundError:
            if name in _ROOTS:
                raise SparkMissing(f"{name} is not installed, so it cannot be packed") from None
            continue  # it is not installed, or is for another platform or Python
        found.add(key)
        for line in required:
            match = _NAME.match(line)
            if match is not None and "extra ==" not in line:
                waiting.append(match[0])
    return sorted(found)


def python_of_workers() -> str:
    """The name of the interpreter that workers must have on their PATH, with this interpreter's
    version."""
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def archive_name(archive: str) -> str:
    """The name of the folder into which the workers unpack an archive: the part after #, or the
    file's name."""
    file, _, name = archive.partition("#")
    return name or os.path.basename(file).partition(".")[0]
