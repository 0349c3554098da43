"""Parses the address of a shared metadata store: `zookeeper://h:p,h:p/path`,
`etcd://h:p,h:p/path`."""

from __future__ import annotations

import re
from typing import Final

DEFAULT_PATH: Final = "/pk"
_HOST: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:/,\[\]]+)(:[0-9]{1,5})?")


def parse_address(text: str) -> tuple[str, str]:
    """Parse `h:p,h:p/path`, with or without a scheme, into `h:p,h:p` and the path; the default path
    is /pk. Raises ValueError for anything else."""
    hosts, slash, path = text.rpartition("://")[2].partition("/")
    path = f"/{path.strip('/')}" if slash and path.strip("/") else DEFAULT_PATH
    for host in hosts.split(","):
        found = _HOST.fullmatch(host)
        if not found or not 0 <= int((found[2] or ":0")[1:]) < 1 << 16:
            raise ValueError(f"{host!r} is not HOST:PORT")
    if any(part in ("", ".", "..") or not part.isprintable() for part in path[1:].split("/")):
        raise ValueError(f"{path!r} is not a path")
    return hosts, path
