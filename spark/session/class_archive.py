"""The archive of classes that a Spark of ours starts from.

Half of what a JVM does in a short job is reading, checking and linking 15,000 classes from Spark's
300 jars. Java can write the result to a file, which later JVMs map into memory (class data sharing,
JEP 350): Spark starts in half the time. `pk spark warm-up` makes the file, and sessions use it if
they find it (pk.spark.session.warm_up).

A JVM looks whether the archive is of its own build and of the same jars, and starts without it if
not. Each Java and each pyspark has an archive of its own.
"""

import hashlib
import os
import sys
from pathlib import Path
from typing import Final

from pk.spark.java import Java

_SUFFIX: Final = ".jsa"
_QUIET: Final = "-Xlog:cds=off"
"""A JVM that cannot use an archive says so on its standard output."""


def archives_folder() -> Path:
    """Where this user's archives are. It may be missing."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    under = "Library/Caches" if sys.platform == "darwin" else ".cache"
    cache = Path(given) if os.path.isabs(given) else Path.home() / under
    return cache / "pk" / "spark"


def archive_path(java: Java, jars: Path) -> Path:
    """Where the archive of this Java and these jars is, or would be. Raises OSError."""
    parts = (jars, java.program.resolve())
    words = [f"{part} {int(part.stat().st_mtime)}" for part in parts]
    digest = hashlib.sha256("\n".join(words).encode()).hexdigest()
    return archives_folder() / f"{digest[:16]}{_SUFFIX}"


def options_to_use(java: Java, jars: Path) -> list[str]:
    """The options by which a JVM starts from the archive; none if there is no archive."""
    try:
        path = archive_path(java, jars)
        return [f"-XX:SharedArchiveFile={path}", _QUIET] if path.is_file() else []
    except OSError:
        return []


def options_to_make(path: Path) -> list[str]:
    """The options by which a JVM writes an archive as it ends."""
    return [f"-XX:ArchiveClassesAtExit={path}", _QUIET]
