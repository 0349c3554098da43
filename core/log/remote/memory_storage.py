"""Remote storage in memory, for `pk up --memory`, tests and the simulator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from pk.core.log.files import Data
from pk.core.log.remote.storage import RemoteObjectMissing, StoredObject


class MemoryStorage:
    """A `RemoteStorage` with all objects in a dict, `objects`."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def put(self, name: str, pieces: Callable[[], Iterable[Data]]) -> None:
        """See `RemoteStorage`."""
        self.objects[name] = b"".join(pieces())

    def get(self, name: str, start: int = 0, length: int | None = None) -> bytes:
        """See `RemoteStorage`."""
        content = self.objects.get(name)
        if content is None:
            raise RemoteObjectMissing(name)
        return content[start:] if length is None else content[start : start + length]

    def delete(self, name: str) -> None:
        """See `RemoteStorage`."""
        self.objects.pop(name, None)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """See `RemoteStorage`."""
        for name, content in list(self.objects.items()):
            if not prefix or name.startswith(prefix + "/"):
                yield StoredObject(name, len(content), 0)
