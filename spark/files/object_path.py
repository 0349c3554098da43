"""Objects in object storage, with the methods of `pathlib.Path` that a checkpoint needs."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pk.spark.files.store import ObjectStore

_HADOOP: Final = {"s3": "s3a"}


@dataclass(frozen=True)
class ObjectPath:
    """An object, or the prefix that corresponds to a directory."""

    store: ObjectStore
    path: str = ""

    def __truediv__(self, name: str) -> "ObjectPath":
        return ObjectPath(self.store, f"{self.path}/{name}".lstrip("/"))

    def __str__(self) -> str:
        return self.store.url_of(self.path).rstrip("/")

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    def read_text(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The text of the object. Raises FileNotFoundError, OSError."""
        return self.store.read(self.path).decode(encoding, errors)

    def write_text(self, text: str) -> None:
        """Replace the object. Raises OSError."""
        self.store.write(self.path, text.encode())

    def replace_text(self, text: str, version: Mapping[str, str] | None) -> Mapping[str, str]:
        """Replace the object if it still has this version, and return the new version. Raises
        Overtaken, OSError."""
        return self.store.replace(self.path, text.encode(), version)

    def read_version(self) -> tuple[str, Mapping[str, str]]:
        """The text and its version. Raises FileNotFoundError, OSError."""
        data, version = self.store.read_version(self.path)
        return data.decode(), version

    def age_s(self) -> float:
        """The seconds since the object was written, by this machine's clock. Raises
        FileNotFoundError, OSError."""
        return self.store.age_s(self.path)

    def exists(self) -> bool:
        """Whether the object exists. Raises OSError."""
        try:
            self.store.read(self.path)
        except FileNotFoundError:
            return False
        return True

    def touch(self) -> None:
        """Replace the object with an empty one. Raises OSError."""
        self.write_text("")

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the object if it exists. Raises OSError."""
        self.store.remove([self.path])

    def iterdir(self) -> Iterator["ObjectPath"]:
        """The entries of the directory; none if it does not exist. Raises OSError."""
        for name in sorted(
            {each[len(self.path) :].lstrip("/").partition("/")[0] for each in self._below()}
        ):
            yield self / name

    def _below(self) -> list[str]:
        return self.store.names(self.path)


Place = Path | ObjectPath


def spark_url(place: Place | str) -> str:
    """The URL by which Spark's file systems know a location: there S3 is `s3a`."""
    text = f"file://{place}" if isinstance(place, Path) else str(place)
    known, slashes, rest = text.partition("://")
    return f"{_HADOOP.get(known, known)}{slashes}{rest}"


def write_json(place: Place, value: object) -> None:
    """Write JSON, replacing the file atomically. Raises OSError."""
    text = json.dumps(value, indent=1) + "\n"
    if isinstance(place, ObjectPath):
        place.write_text(text)
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    part = place.with_name(f".{place.name}.{os.getpid()}")
    part.write_text(text)
    part.replace(place)
