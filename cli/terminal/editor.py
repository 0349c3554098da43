"""Opens a file in the user's editor."""

import os
import shlex
import subprocess

from pk.cli.exits import CommandError, Refused

_FOR_TERMINALS = frozenset(
    ("vi", "vim", "nvim", "view", "nano", "pico", "emacs", "joe", "mcedit", "micro", "hx", "kak")
)
"""Editors that need a terminal. Without one, they fill a log with escape sequences, or hang."""


def _editor() -> str:
    named = (os.environ.get(name, "").strip() for name in ("VISUAL", "EDITOR"))
    return next(filter(None, named), "vi")


def check_editor(instead: str) -> None:
    """Raise Refused if the editor needs a terminal and there is none; `instead` says what the user
    can do."""
    program = os.path.basename(next(iter(_editor().split()), ""))
    if program in _FOR_TERMINALS and not (os.isatty(0) and os.isatty(1)):
        raise Refused(f"Nothing was changed: {program} needs a terminal; {instead}.")


def edit_file(path: str) -> None:
    """Open `path` in $VISUAL, $EDITOR or vi and wait until it exits. Raises CommandError if it
    fails."""
    editor = _editor()
    try:
        ended = subprocess.run([*shlex.split(editor), path], check=False)
    except (OSError, ValueError) as e:
        reason = e.strerror if isinstance(e, OSError) else e
        raise CommandError(
            f"{editor} cannot be started ({reason}); set $EDITOR to another editor."
        ) from None
    if ended.returncode:
        raise CommandError(
            f"{editor} failed with exit code {ended.returncode}; the text is in {path}."
        )
