"""Basic authentication for a registry: a file with a line `name: password` for each user."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from pathlib import Path

from pk.net.http.messages import Request


def authenticator(path: str) -> Callable[[Request], bool]:
    """Return a function that tells whether a request comes from a known user. Blank lines, lines
    that begin with #, and text after a comma are ignored. Raises OSError, ValueError.
    """
    known: dict[str, bytes] = {}
    for number, line in enumerate(Path(path).read_text().splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, colon, rest = line.partition(":")
        password = rest.partition(",")[0].strip()
        if not colon or not name.strip() or not password:
            raise ValueError(f"{path}, line {number}: a line must be NAME: PASSWORD")
        if password.startswith(("CRYPT:", "MD5:", "OBF:")):
            raise ValueError(f"{path}, line {number}: hashed passwords are not supported")
        known[name.strip()] = _digest(password)
    if not known:
        raise ValueError(f"{path} names no user")
    no_password = _digest("")

    def is_user(request: Request) -> bool:
        given = request.user
        if given is None:
            return False
        return (
            hmac.compare_digest(known.get(given[0], no_password), _digest(given[1]))
            and given[0] in known
        )

    return is_user


def _digest(password: str) -> bytes:
    return hashlib.sha256(password.encode()).digest()
