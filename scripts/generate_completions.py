"""Writes completions/pk.bash, pk.zsh and pk.fish; a test says when they are stale."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts" / "path"))

from pk.cli.commands.completion import SCRIPTS

if __name__ == "__main__":
    for shell, script in SCRIPTS.items():
        (ROOT / "completions" / f"pk.{shell}").write_text(script, encoding="utf-8")
