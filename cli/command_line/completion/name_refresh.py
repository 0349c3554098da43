"""Starts a process in the background that fetches the names for completion.

Completion answers from the files of `pk.cli.runtime.name_cache`. If those are old, it starts this
program once more, detached, to fetch the names again (`pk.cli.cluster.completion_names`); the next
Tab shows them. The process writes nothing but those files and ends within seconds, whether the
cluster answers or not. The process gets the address of the cluster and the credentials in the
environment, which, unlike arguments, other users cannot read.
"""

import json
import os
import sys
import time
from collections.abc import Mapping
from typing import Any

from pk.cli.runtime.paths import make_user_dir

STALE_S = 30.0
"""Names older than this are fetched again when they are needed."""

_CHANGED_S = 2.0
GIVEN = "PK_REFRESH"
"""The environment variable that tells the process how to connect to the cluster, as JSON."""

CONNECTING = ("bootstrap_server", "profile", "client_properties", "config_file")
"""The options that name the cluster, and how to connect to it."""


def refresh_soon(bootstrap: str, given: Mapping[str, Any], *, changed: bool = False) -> bool:
    """Start a process that fetches the names of a cluster, unless one was started recently. Returns
    whether it started one.

    `given` has the values of the options in CONNECTING. If `changed`, the names are fetched even if
    they are new. PK_COMPLETION_REFRESH=never in the environment disables refreshes.
    """
    if os.environ.get("PK_COMPLETION_REFRESH") == "never":
        return False
    try:
        if not _claim(bootstrap, _CHANGED_S if changed else STALE_S):
            return False
        _spawn({name: given[name] for name in CONNECTING if given.get(name)})
    except OSError:
        return False
    return True


def _claim(bootstrap: str, age_s: float) -> bool:
    """Whether no process was started within the last `age_s` seconds; if so, record that one starts
    now."""
    import zlib

    stamp = os.path.join(make_user_dir("cache"), f"refreshed-{zlib.crc32(bootstrap.encode()):08x}")
    try:
        if 0 <= time.time() - os.stat(stamp).st_mtime < age_s:
            return False
        os.utime(stamp)
    except FileNotFoundError:
        os.close(os.open(stamp, os.O_CREAT | os.O_WRONLY, 0o600))
    return True


def _spawn(given: Mapping[str, Any]) -> None:
    command = [sys.executable, "-m", "pk.cli.main", "__refresh"]
    files: list[tuple[int, ...] | tuple[int, int, str, int, int]] = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    # If the child kept a pipe of the shell open, the shell would wait for the child's end.
    for name in os.listdir("/dev/fd"):
        if name.isdigit() and int(name) > 2:
            try:
                inherited = os.get_inheritable(int(name))
            except OSError:
                continue  # the descriptor from which the list was read
            if inherited:
                files.append((os.POSIX_SPAWN_CLOSE, int(name)))
    environment = {**os.environ, GIVEN: json.dumps(given)}
    try:
        os.posix_spawn(sys.executable, command, environment, file_actions=files, setsid=True)
    except NotImplementedError:  # no setsid in macOS; a new group keeps Ctrl-C away
        os.posix_spawn(sys.executable, command, environment, file_actions=files, setpgroup=0)
