"""Opening a file in the user's editor."""

import os
import shlex
import subprocess

from pk.cli.exits import CommandError


def edit_file(path: str) -> None:
    """Opens `path` in $VISUAL, $EDITOR or vi and waits for its end. Raises CommandError where it fails."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        ended = subprocess.run([*shlex.split(editor), path], check=False)
    except (OSError, ValueError) as e:
        reason = e.strerror if isinstance(e, OSError) else e
        raise CommandError(
            f"{editor} cannot be started ({reason}); $EDITOR names another."
        ) from None
    if ended.returncode:
        raise CommandError(f"{editor} ended with {ended.returncode}; what was edited is in {path}.")
