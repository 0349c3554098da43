"""Runs pytest with pk's plugin in a project outside this repository, and removes the project."""

import os
import re
import socket
import subprocess
import sys
import time
from importlib.metadata import entry_points
from pathlib import Path

import pytest

OTHER_PLUGINS = ("-p", "no:anyio", "-p", "no:faker", "-p", "no:hypothesispytest")
"""Not loaded: they are installed here, and take longer to import than most of these tests run."""


def run_project(
    directory: Path, *words: str, env: dict[str, str] | None = None
) -> tuple[str, float]:
    """The output of pytest for the project, and its duration. Removes the project."""
    temporary = directory / "tmp"
    temporary.mkdir()
    known = {point.value for point in entry_points(group="pytest11")}
    # An environment that is older than the plugin lacks its entry point.
    plugin = [] if "pk.testing.plugin" in known else ["-p", "pk.testing.plugin"]
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "PK_"))}
    before = set(directory.iterdir())
    started = time.perf_counter()
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-p", "no:cacheprovider",
            *OTHER_PLUGINS, "-rP", *plugin, *words,
        ],
        check=False,
        cwd=directory,
        env=clean | {"TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"} | (env or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )  # fmt: skip
    seconds = time.perf_counter() - started
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(directory.iterdir()) == before
    assert not [p.name for p in temporary.iterdir() if not p.name.startswith("pytest-of-")]
    for port in re.findall(r"(?m)^URL 127\.0\.0\.1:(\d+)$", done.stdout):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", int(port)))
    return done.stdout, seconds
