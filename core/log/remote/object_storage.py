"""Remote storage in an object store: S3, Google Cloud Storage, Azure, or a local directory, through
the library obstore (the extra `tiered`).

An object of more than one part is uploaded in parts, several at a time, while the segment is read:
an upload takes `PART_BYTES * PARTS_AT_ONCE` of memory, and a piece of the segment. The store shows
an object only when its last part has been confirmed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import unquote

import obstore
from obstore.exceptions import BaseError
from obstore.store import from_url

from pk.core.log.files import Data
from pk.core.log.remote.storage import (
    Content,
    RemoteObjectMissing,
    RemoteStorageError,
    StoredObject,
)

PART_BYTES: Final = 8 << 20
"""The size of a part. S3 allows 10,000 parts, so a segment may have up to 80 GB."""
PARTS_AT_ONCE: Final = 4
PAUSE_SHARE: Final = 2
"""An upload pauses for this many times the time that reading and checking a piece of the segment
took, because producers come first. `scripts/bench --tiered` shows how much copying slows producers
down."""
PAUSE_MOST_S: Final = 0.02
"""The longest pause. A piece from a slow disk takes long to read, but little CPU time."""
LISTED_AT_ONCE: Final = 1000
KNOWN_SCHEMES: Final = "s3://, gs://, az://, abfss:// or file://"
_KIND_OF_ERROR: Final = re.compile(r"Generic \w+ error: ")


class ObjectStorage:
    """A `RemoteStorage` that uses obstore."""

    def __init__(self, store: Any) -> None:
        """Called only by `open`."""
        self._store = store

    @classmethod
    def open(cls, url: str, options: Mapping[str, str], *, create: bool = True) -> ObjectStorage:
        """Open the storage at `url`, such as `s3://bucket/prefix` or `file:///path`.

        `options` are settings of the store, named as object_store names them (`access_key_id`,
        `endpoint`, `region`); those that are missing come from the store's usual environment. No
        request is sent to the store yet. `create` creates a missing directory. Raises
        RemoteStorageError.
        """
        client: dict[str, Any] = {"timeout": "60s", "connect_timeout": "5s"}
        if url.startswith("http:") or options.get("endpoint", "").startswith("http:"):
            client["allow_http"] = True
        scheme, _, rest = url.partition("://")
        if not rest and scheme != "memory":
            raise RemoteStorageError(
                f"{url!r} is not the URL of a store, such as s3://BUCKET/PREFIX or file:///PATH"
            )
        path = Path(unquote(rest))
        if scheme == "file" and not create and not path.is_dir():
            raise RemoteStorageError(f"{path} is not a directory")
        try:
            if url.startswith("file:"):
                store: Any = from_url(url, mkdir=create)
            elif url.startswith("memory:"):
                store = from_url(url)
            else:
                config = cast(Any, dict(options))
                store = from_url(url, config=config, client_options=cast(Any, client))
        except (BaseError, ValueError, OSError) as e:
            why = _first_line(e)
            if why.startswith("Unable to recognise"):
                why = f"not a URL of a store that pk knows ({KNOWN_SCHEMES})"
            raise RemoteStorageError(f"{url}: {why}") from e
        return cls(store)

    def put(self, name: str, pieces: Callable[[], Iterable[Data]]) -> None:
        """See `RemoteStorage`."""
        failed: list[Exception] = []

        def content() -> Iterator[Data]:
            began = time.monotonic()
            try:
                for piece in pieces():
                    time.sleep(min(PAUSE_SHARE * (time.monotonic() - began), PAUSE_MOST_S))
                    yield piece
                    began = time.monotonic()
            except Exception as e:
                failed.append(e)
                raise

        try:
            obstore.put(
                self._store,
                name,
                content(),
                use_multipart=True,
                chunk_size=PART_BYTES,
                max_concurrency=PARTS_AT_ONCE,
            )
        except (BaseError, OSError) as e:
            if failed:  # the error is the disk's, not the store's
                raise failed[0] from None
            raise _error(name, e) from e

    def get(self, name: str, start: int = 0, length: int | None = None) -> Content:
        """See `RemoteStorage`."""
        if length == 0:
            return b""
        try:
            if length is None:
                found = obstore.get(self._store, name, options={"range": {"offset": start}})
                return memoryview(found.bytes())
            return memoryview(obstore.get_range(self._store, name, start=start, length=length))
        except (BaseError, OSError) as e:
            raise _error(name, e) from e

    def delete(self, name: str) -> None:
        """See `RemoteStorage`."""
        try:
            obstore.delete(self._store, name)
        except FileNotFoundError:
            pass
        except (BaseError, OSError) as e:
            raise _error(name, e) from e

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """See `RemoteStorage`."""
        try:
            for page in obstore.list(self._store, prefix or None, chunk_size=LISTED_AT_ONCE):
                for entry in page:
                    modified_ms = int(entry["last_modified"].timestamp() * 1000)
                    yield StoredObject(entry["path"], entry["size"], modified_ms)
        except (BaseError, OSError) as e:
            raise _error(prefix, e) from e


def _error(name: str, error: Exception) -> RemoteStorageError:
    if isinstance(error, FileNotFoundError):
        return RemoteObjectMissing(name)
    return RemoteStorageError(f"{name}: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    """Return an error's message without the source that obstore shows below it and the kind of
    store that it names before it."""
    return _KIND_OF_ERROR.sub("", str(error).strip().partition("\n")[0], count=1)
