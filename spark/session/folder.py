"""The folder of a session: its log, the state and shuffles of Spark, what Java unpacks.

A session that is killed cannot remove it, and a pipeline that is killed each night would fill the
disk. So the session's processes hold a lock in it, and the next session removes the folders whose
lock no process holds. All processes of a session inherit the lock, because a JVM may outlive its
driver for a moment.
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
    """A new folder among the temporary files, which only this user may enter. Raises OSError."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        new = self.path / f"{_LOCK}.new"
        self.lock = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        """The descriptor that the session's processes inherit."""

        fcntl.flock(self.lock, fcntl.LOCK_EX)
        new.rename(self.path / _LOCK)  # visible when it is held: never taken for abandoned

    def close(self) -> None:
        """Removes the folder. Idempotent."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1


def remove_abandoned() -> None:
    """Removes this user's folders of sessions that were killed."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LOCK}"):
        try:
            lock = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # another user's, or it is being removed
        try:
            if os.fstat(lock).st_uid == os.geteuid():
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(path.parent)
        except OSError:
            continue  # its session runs, or another removes it now
        finally:
            os.close(lock)


def _remove(folder: Path) -> None:
    """The lock last: a kill in here leaves the rest to the next session."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        elif path.name != _LOCK:
            path.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
