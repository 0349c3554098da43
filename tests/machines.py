"""Machines of a test's own: network namespaces on one bridge, each with processes and mounts of its
own.

A holder keeps each of them. When its standard input ends, by `close` or with the test's process,
the first process of its namespace ends, and the kernel ends the others and removes the interfaces:
nothing stays behind.

Needs Linux, root, `ip` (iproute2), `unshare`, `nsenter` and `setpriv` (util-linux).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

PREFIX = "10.77.0"
_BITS = 24
_BRIDGE = "bridge0"
_NEEDED = ("ip", "unshare", "nsenter", "setpriv", "mount")


def why_not() -> str | None:
    """The reason why this machine cannot have any, or None."""
    if sys.platform != "linux":
        return "not Linux"
    if lacking := [name for name in _NEEDED if shutil.which(name) is None]:
        return f"{', '.join(lacking)} is not installed"
    words = ["unshare", "--net", "--mount", "ip", "link", "add", _BRIDGE, "type", "bridge"]
    tried = subprocess.run(words, capture_output=True, text=True, check=False)
    return None if tried.returncode == 0 else tried.stderr.strip()


class Machine:
    """One machine. `hides` are folders that are empty there, `binds` folders that are also
    elsewhere, for those below a hidden one."""

    def __init__(
        self, address: str, hides: Sequence[Path] = (), binds: Sequence[tuple[Path, Path]] = ()
    ) -> None:
        self.address = address
        steps = ["ip link set lo up"]
        for here, there in binds:
            there.mkdir(parents=True, exist_ok=True)
            steps.append(f"mount --bind '{here}' '{there}'")
        steps += [f"mount -t tmpfs none '{folder}'" for folder in hides]
        steps += ["cd /", "echo ready", "exec cat"]
        self._holder = subprocess.Popen(
            [
                *("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child"),
                *("--mount-proc", "sh", "-c", " && ".join(steps)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._holder.stdout is not None and self._holder.stderr is not None
        if self._holder.stdout.readline() != "ready\n":
            raise OSError(self._holder.stderr.read())
        children = Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children")
        [self.pid] = map(int, children.read_text().split())

    @property
    def enter(self) -> tuple[str, ...]:
        """The first words of a command line that runs there, in the root directory. A kill reaches
        only `nsenter`, so the process there dies with its parent."""
        nsenter = ("nsenter", "--target", str(self.pid), "--net", "--mount", "--pid", "--")
        return (*nsenter, "setpriv", "--pdeathsig", "KILL", "--")

    def command(self, *words: str, folder: Path = Path("/")) -> list[str]:
        """The command line that runs another there, in a folder."""
        return [*self.enter, "sh", "-c", 'cd "$0" && exec "$@"', str(folder), *words]

    def network(self, *words: str) -> None:
        """Runs `ip` there, in this machine's PID namespace. Raises CalledProcessError."""
        enter = ["nsenter", f"--net=/proc/{self.pid}/ns/net"]
        subprocess.run([*enter, "ip", *words], check=True)

    def received_bytes(self) -> int:
        """The bytes received from other machines, as the kernel counts them."""
        # Interface, then its numbers; the first is the bytes received.
        rows = Path(f"/proc/{self.pid}/net/dev").read_text().splitlines()
        return sum(int(row.split()[1]) for row in rows if row.lstrip().startswith("eth0: "))

    def close(self) -> None:
        """Ends all processes there."""
        self._holder.communicate()


class Machines:
    """A machine with a bridge, `hub`, and machines connected to it. As a context manager, it stops
    them all on exit."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.hub = self._machine(1)
        self.hub.network("link", "add", _BRIDGE, "type", "bridge")
        self.hub.network("addr", "add", f"{self.hub.address}/{_BITS}", "dev", _BRIDGE)
        self.hub.network("link", "set", _BRIDGE, "up")
        self._count = 1

    def _machine(
        self,
        number: int,
        hides: Sequence[Path] = (),
        binds: Sequence[tuple[Path, Path]] = (),
    ) -> Machine:
        made = Machine(f"{PREFIX}.{number}", hides, binds)
        self._stack.callback(made.close)
        return made

    def add(self, hides: Sequence[Path] = (), binds: Sequence[tuple[Path, Path]] = ()) -> Machine:
        """Another machine, which reaches the hub and the others."""
        self._count += 1
        made = self._machine(self._count, hides, binds)
        name = f"to{self._count}"
        peer = ("peer", "name", "eth0", "netns", str(made.pid))
        self.hub.network("link", "add", name, "type", "veth", *peer)
        self.hub.network("link", "set", name, "master", _BRIDGE, "up")
        made.network("addr", "add", f"{made.address}/{_BITS}", "dev", "eth0")
        made.network("link", "set", "eth0", "up")
        return made

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()
