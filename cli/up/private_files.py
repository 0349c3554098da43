"""Files with secrets: only the user can read them from their first byte on, and they are never seen
half written."""

import os

from pk.cli.exits import CommandError


def write_private(path: str, data: bytes) -> None:
    """Replace the file `path`. Raises CommandError."""
    scratch = f"{path}.{os.getpid()}"
    try:
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(data)
        os.replace(scratch, path)
    except OSError as e:
        raise CommandError(f"{path} cannot be written: {e.strerror}.") from None
