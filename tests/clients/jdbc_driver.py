"""JDBC drivers, which Spark needs to read and write databases: fetched once, with Maven."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from clients.apache_kafka import locked

SQLITE = "org.xerial:sqlite-jdbc:3.46.1.3"
POSTGRES = "org.postgresql:postgresql:42.7.4"


def sqlite_driver() -> Path:
    """The jar of SQLite's driver; skips the test where Maven is missing."""
    return _driver(SQLITE)


def postgres_driver() -> Path:
    """The jar of PostgreSQL's driver; skips the test where Maven is missing."""
    return _driver(POSTGRES)


def _driver(artifact: str) -> Path:
    _, name, version = artifact.split(":")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pk-jdbc"
    jar = cache / f"{name}-{version}.jar"
    with locked(cache / "lock"):
        if not jar.exists():
            if shutil.which("mvn") is None:
                pytest.skip("mvn is not installed")
            part = cache / "part"
            goal = ["dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={part}"]
            subprocess.run(["mvn", "-q", "-B", *goal], check=True, timeout=600)
            (part / jar.name).rename(jar)
    return jar
