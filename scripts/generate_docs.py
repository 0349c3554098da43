"""Writes the command reference, `docs/commands.md`, from the command tree. A test says when it is stale."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts" / "path"))

from pk.cli.command_line.manual import reference

if __name__ == "__main__":
    (ROOT / "docs" / "commands.md").write_text(reference(), encoding="utf-8")
