"""The temporary folder of a session: its log, Spark's state and shuffle files, and files that Java
unpacks.

A session that is killed cannot remove its folder, and a pipeline that is killed every night would
fill the disk. So the session's processes hold a lock on a file in the folder, and the next session
removes the folders whose lock is free. All processes of a session inherit the lock, because a JVM
may outlive its driver for a moment.
"""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

_PREFIX: Final = "pk-spark-"
_LOCK: Final = "lock"


class SessionFolder:
    """A new temporary folder that only this user can access. Raises OSError."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        new = self.path / f"{_LOCK}.new"
        self.lock = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        """The descriptor of the lock, which the session's processes inherit."""

        fcntl.flock(self.lock, fcntl.LOCK_EX)
        # The lock file appears only once it is locked, so the folder never looks abandoned.
        new.rename(self.path / _LOCK)

    def close(self) -> None:
        """Remove the folder. Idempotent."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1


def remove_abandoned() -> None:
    """Remove the folders that this user's killed sessions left."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LOCK}"):
        try:
            lock = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # it is another user's, or is being removed
        try:
            if os.fstat(lock).st_uid == os.geteuid():
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(path.parent)
        except OSError:
            continue  # its session runs, or another session is removing it
        finally:
            os.close(lock)


def _remove(folder: Path) -> None:
    """Remove a folder, the lock file last: if this process is killed, the next session removes the
    rest."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        elif path.name != _LOCK:
            path.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
