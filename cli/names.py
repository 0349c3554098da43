"""Names seen lately (topics, groups, brokers), kept in a file per cluster so that completion never has to ask a broker.

Each command that lists names leaves them here. A lost or broken file costs nothing but candidates.
"""

import json
import os
import zlib
from collections.abc import Iterable

from pk.cli.paths import make_user_dir, user_dir


def _file(directory: str, bootstrap: str) -> str:
    return os.path.join(directory, f"names-{zlib.crc32(bootstrap.encode()):08x}.json")


def recall(bootstrap: str, kind: str) -> list[str]:
    """The names of `kind` seen last in the cluster behind `bootstrap`."""
    try:
        with open(_file(user_dir("cache"), bootstrap), encoding="utf-8") as file:
            found = json.load(file).get(kind, [])
    except (OSError, ValueError, AttributeError):
        return []
    return [name for name in found if isinstance(name, str)]


def remember(bootstrap: str, kind: str, names: Iterable[str]) -> None:
    """Keeps `names` for completion; does nothing where the file cannot be written."""
    try:
        path = _file(make_user_dir("cache"), bootstrap)
        try:
            with open(path, encoding="utf-8") as file:
                known = json.load(file)
        except (OSError, ValueError):
            known = {}
        if not isinstance(known, dict):
            known = {}
        wanted = sorted(names)[:20_000]
        if known.get(kind) == wanted:
            return
        known[kind] = wanted
        scratch = f"{path}.{os.getpid()}"
        with open(scratch, "w", encoding="utf-8") as file:
            json.dump(known, file)
        os.replace(scratch, path)
    except OSError:
        return
