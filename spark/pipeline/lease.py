"""The lease of a pipeline whose checkpoint is in object storage, which has no file locks.

The process that runs the pipeline replaces an object every few seconds, each time only if no other
process has replaced it. Another process takes over the lease if the object has not changed for
`LEASE_S`, measured by that process, so the machines' clocks need not agree. If the earlier process
is still running, its next replacement fails, and it ends. Its last writes cause no duplicates:
tables and topics store the number of each batch.
"""

import contextlib
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self

from pk.spark.files.object_path import ObjectPath
from pk.spark.files.store import Overtaken

LEASE_S: Final = 30.0
RENEW_S: Final = 5.0
_POLL_S: Final = 1.0


class LeaseTaken(Exception):
    """Another process has the lease; the message is the name of its machine."""


class Lease:
    """A lease that a process holds while it runs a pipeline."""

    descriptors: tuple[int, ...] = ()

    def __init__(
        self, place: ObjectPath, lease_s: float = LEASE_S, renew_s: float = RENEW_S
    ) -> None:
        self._place = place
        self._lease_s = lease_s
        self._renew_s = renew_s
        self._owner = uuid.uuid4().hex
        self._count = 0
        self._version: Mapping[str, str] | None = None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="pk lease", daemon=True)
        self.lost = False
        """Whether another process has taken over the lease, or may have."""

    def __enter__(self) -> Self:
        """Acquire the lease. Waits until a lease that is not being renewed has expired. Raises
        LeaseTaken, OSError."""
        seen: Mapping[str, str] | None = None
        since = time.monotonic()
        while True:
            try:
                text, self._version = self._place.read_version()
            except FileNotFoundError:
                self._version = None
                break
            known: Any = json.loads(text)
            if known["free"]:
                break
            if seen is not None and self._version != seen:
                raise LeaseTaken(known["host"])
            seen = self._version
            if time.monotonic() - since > self._lease_s:
                break
            time.sleep(min(_POLL_S, self._renew_s))
        try:
            self._write()
        except Overtaken:
            raise LeaseTaken("another machine") from None
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end.set()
        self._thread.join()
        if not self.lost:
            with contextlib.suppress(Overtaken, OSError):  # the lease then expires by itself
                self._write(free=True)

    def _write(self, *, free: bool = False) -> None:
        """Replace the object. Raises Overtaken, OSError."""
        self._count += 1
        said = {
            "owner": self._owner,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "count": self._count,
            "free": free,
        }
        self._version = self._place.replace_text(json.dumps(said), self._version)

    def _renew(self) -> None:
        renewed = time.monotonic()
        while not self._end.wait(self._renew_s):
            try:
                self._write()
                renewed = time.monotonic()
            except Overtaken:
                self.lost = True
            except OSError:
                # Another process may take over after `_lease_s`, so this one gives up before that.
                self.lost = time.monotonic() - renewed > self._lease_s - 2 * self._renew_s
            if self.lost:
                return


def is_held(place: ObjectPath) -> bool:
    """Whether a process appears to hold the lease, by this machine's clock. Raises OSError."""
    try:
        free = json.loads(place.read_text())["free"]
        return not free and place.age_s() < LEASE_S
    except FileNotFoundError:
        return False
