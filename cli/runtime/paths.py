"""The directories of pk's files for this user. They are those of platformdirs, which is not used
because it takes longer to import than completion may."""

import os
import sys

_KINDS = {
    "config": ("XDG_CONFIG_HOME", ".config", "Library/Application Support"),
    "state": ("XDG_STATE_HOME", ".local/state", "Library/Application Support"),
    "cache": ("XDG_CACHE_HOME", ".cache", "Library/Caches"),
}


def user_dir(kind: str) -> str:
    """The directory for pk's files of `kind`: config, state or cache. It may not exist."""
    variable, elsewhere, on_macos = _KINDS[kind]
    under = {"darwin": on_macos}.get(sys.platform, elsewhere)
    given = os.environ.get(variable)
    if given and os.path.isabs(given):
        return os.path.join(given, "pk")
    home = os.path.expanduser("~")
    return os.path.join(home, under, "pk")


def make_user_dir(kind: str) -> str:
    """Return the directory of `user_dir`, and create it if it is missing, readable only by the
    user. Raises OSError."""
    path = user_dir(kind)
    os.makedirs(path, mode=0o700, exist_ok=True)
    return path
