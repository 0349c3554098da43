"""The shell's history: a file that only its owner can read, and that never contains a secret."""

import os
import re

from prompt_toolkit.history import FileHistory

_SECRET = re.compile(
    r"""(password|passwd|passphrase|secret|jaas\.config|keystore\.key|credential|token)[\w.-]*["']?\s*[=:]
        | --?[\w-]*(password|passphrase|secret)[\w-]*[\s=]""",
    re.IGNORECASE | re.VERBOSE,
)
_BYTES_MAX = 1 << 20


def holds_secret(line: str) -> bool:
    """Whether a line seems to contain a secret: `-X ssl.key.password=…`, `--password …`, JAAS."""
    return _SECRET.search(f"{line} ") is not None


class History(FileHistory):
    """Typed lines, which are kept for the next shell. Lines with a secret are kept only for this
    one. Raises OSError if the file is not writable."""

    def __init__(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
            _shorten(path, os.fstat(descriptor).st_size)
        finally:
            os.close(descriptor)
        super().__init__(path)

    def store_string(self, string: str) -> None:
        """Part of prompt_toolkit's History."""
        if not holds_secret(string):
            try:
                super().store_string(string)
            except OSError:
                return  # a full disk should not end the shell


def _shorten(path: str, size: int) -> None:
    """Remove the older half of a file that has become too large."""
    if size <= _BYTES_MAX:
        return
    with open(path, "rb") as file:
        file.seek(size - _BYTES_MAX // 2)
        newer = file.read()
    # Each entry starts with its time, on a line of its own.
    newer = newer[newer.find(b"\n# ") + 1 :]
    scratch = f"{path}.{os.getpid()}"
    with open(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(newer)
    os.replace(scratch, path)
