"""A small disk for a broker, in a mount namespace of its own: it can be filled and made read-only,
and goes with its holder.

Needs Linux's `unshare` and `nsenter` (util-linux); a user other than root also gets a user
namespace, if the machine allows it.
"""

from __future__ import annotations

import errno
import functools
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from clients.pk_broker import PkBroker, pk_command


class SmallDisk:
    """A tmpfs of `megabytes` at `path`, seen by those that `inside` starts; here it is seen at
    `outside`."""

    def __init__(self, path: Path, megabytes: int) -> None:
        self.path = path
        path.mkdir(parents=True)
        mount = f"mount -t tmpfs -o size={megabytes}m pk '{path}' && echo mounted && exec cat"
        user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        self._holder = subprocess.Popen(
            ["unshare", *user, "--mount", "sh", "-c", mount],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._user = [] if not user else ["--user", "--preserve-credentials"]
        assert self._holder.stdout is not None and self._holder.stderr is not None
        if self._holder.stdout.readline() != "mounted\n":
            raise OSError(self._holder.stderr.read())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._holder.stdin is not None
        self._holder.communicate()

    @property
    def outside(self) -> Path:
        """The path at which this process finds its files."""
        return Path(f"/proc/{self._holder.pid}/root{self.path}")

    def inside(self, *command: str) -> list[str]:
        """The command line that runs another command in the namespace of the mount."""
        pid = str(self._holder.pid)
        return ["nsenter", "--target", pid, *self._user, "--mount", *command]

    def remount(self, option: str) -> None:
        """Make it read-only (`ro`) or writable (`rw`)."""
        subprocess.run(self.inside("mount", "-o", f"remount,{option}", str(self.path)), check=True)

    def free_bytes(self) -> int:
        status = os.statvfs(self.outside)
        return status.f_bavail * status.f_frsize

    def fill(self, leave_bytes: int) -> None:
        """Fill the disk with a file that is not the broker's. The broker may write at the same
        time."""
        with (self.outside / "ballast").open("ab", buffering=0) as file:
            while (left := self.free_bytes() - leave_bytes) > 0:
                try:
                    file.write(bytes(min(left, 1 << 20)))
                except OSError as e:
                    if e.errno != errno.ENOSPC:
                        raise
                    file.truncate(max(file.tell() - leave_bytes, 0))
                    return

    def make_room(self) -> None:
        (self.outside / "ballast").unlink()


class BrokerInside(PkBroker):
    """A broker that sees a small disk."""

    def __init__(self, disk: SmallDisk, directory: Path, config: dict[str, str]) -> None:
        super().__init__(directory=directory, config=config)
        self._disk = disk

    def start_process(self, **options: Any) -> subprocess.Popen[Any]:
        return subprocess.Popen(self._disk.inside(*pk_command(*self.words())), **options)


@functools.cache
def why_not(commands: Sequence[str] = ("unshare", "nsenter", "mount")) -> str | None:
    """Why there can be no small disk here, if so."""
    for command in commands:
        if shutil.which(command) is None:
            return f"{command} is not installed"
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    ran = subprocess.run(
        ["unshare", *user, "--mount", "true"], capture_output=True, text=True, check=False
    )
    return ran.stderr.strip() or None if ran.returncode else None
