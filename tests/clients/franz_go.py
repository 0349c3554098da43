"""Builds the program with which tests drive franz-go (`franz/`)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

BUILD_S = 900.0


def build_franz(folder: Path) -> Path:
    """The program, built into `folder`. Skips the test where Go is missing."""
    if shutil.which("go") is None:
        pytest.skip("go is not installed")
    program = folder / "franz"
    build = ["go", "build", "-o", str(program), "."]
    subprocess.run(build, cwd=Path(__file__).with_name("franz"), check=True, timeout=BUILD_S)
    return program
