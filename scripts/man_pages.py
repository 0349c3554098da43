"""A hook for hatchling: adds man pages to the wheel, generated from the commands."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManPages(BuildHookInterface[Any]):
    """Writes the man pages to a directory that exists during the build, and adds them to the
    wheel."""

    _directory: tempfile.TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the man pages before a wheel is built."""
        if version == "editable":
            return
        sys.path.insert(0, str(Path(self.root) / "scripts" / "path"))
        from pk.cli.command_line.manual import man_pages

        self._directory = tempfile.TemporaryDirectory(prefix="pk-man-")
        for name, text in man_pages().items():
            path = Path(self._directory.name) / name
            path.write_text(text, encoding="utf-8")
            build_data["shared_data"][str(path)] = f"share/man/man{name[-1]}/{name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Delete the directory after the wheel is built."""
        if self._directory is not None:
            self._directory.cleanup()
