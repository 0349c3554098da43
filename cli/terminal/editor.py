"""Opening a file in the user's editor."""

import os
import shlex
import subprocess

from pk.cli.runtime.exits import CommandError, Refused

_FOR_TERMINALS = frozenset(
    ("vi", "vim", "nvim", "view", "nano", "pico", "emacs", "joe", "mcedit", "micro", "hx", "kak")
)
"""Editors that draw on a terminal; where there is none they fill a log with escape sequences, or hang."""


def _editor() -> str:
    named = (os.environ.get(name, "").strip() for name in ("VISUAL", "EDITOR"))
    return next(filter(None, named), "vi")


def check_editor(instead: str) -> None:
    """Raises Refused where the editor wants a terminal and there is none; `instead` says what else can be done."""
    program = os.path.basename(next(iter(_editor().split()), ""))
    if program in _FOR_TERMINALS and not (os.isatty(0) and os.isatty(1)):
        raise Refused(f"There is no terminal for {program}, so nothing was changed; {instead}.")


def edit_file(path: str) -> None:
    """Opens `path` in $VISUAL, $EDITOR or vi and waits for its end. Raises CommandError where it fails."""
    editor = _editor()
    try:
        ended = subprocess.run([*shlex.split(editor), path], check=False)
    except (OSError, ValueError) as e:
        reason = e.strerror if isinstance(e, OSError) else e
        raise CommandError(
            f"{editor} cannot be started ({reason}); $EDITOR names another."
        ) from None
    if ended.returncode:
        raise CommandError(f"{editor} ended with {ended.returncode}; what was edited is in {path}.")
