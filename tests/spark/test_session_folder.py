"""The folder of a Spark session goes with the session, and after a kill with the next one."""

import os
import select
import signal
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pk.spark.session.folder import SessionFolder, remove_abandoned
from pk.spark.session.local import launch

HOLDS = """
import subprocess, sys
from pk.spark.session.folder import SessionFolder
folder = SessionFolder()
(folder.path / "state").mkdir()
(folder.path / "state" / "0.sst").write_bytes(b"rows")
other = subprocess.Popen(["sleep", "600"], pass_fds=(folder.lock,))
print(folder.path, other.pid, flush=True)
sys.stdin.read()
"""
"""A driver, with a process that inherits its lock as the JVM does."""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def test_the_folder_of_a_session_that_runs_stays_until_it_is_closed() -> None:
    folder = SessionFolder()
    (folder.path / "log").write_text("")
    remove_abandoned()
    assert (folder.path / "log").exists()
    folder.close()
    folder.close()
    assert not folder.path.exists()


def test_the_folder_of_a_killed_session_goes_when_its_last_process_has_ended() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as driver:
        assert driver.stdout is not None
        path, other = driver.stdout.readline().split()
        driver.kill()
    ended = os.pidfd_open(int(other))
    try:
        remove_abandoned()
        assert (Path(path) / "state" / "0.sst").exists()
    finally:
        os.kill(int(other), signal.SIGKILL)
        select.select([ended], [], [])
        os.close(ended)
    remove_abandoned()
    assert not Path(path).exists()


def test_folders_of_others_stay(temporary: Path) -> None:
    for name in ("pk-spark-no-lock", "elsewhere"):
        (temporary / name).mkdir()
    (temporary / "elsewhere" / "lock").write_text("")
    (temporary / "pk-spark-a-link").mkdir()
    (temporary / "pk-spark-a-link" / "lock").symlink_to(temporary / "elsewhere" / "lock")
    remove_abandoned()
    assert sorted(path.name for path in temporary.iterdir()) == [
        "elsewhere",
        "pk-spark-a-link",
        "pk-spark-no-lock",
    ]


@pytest.mark.slow
def test_a_folder_may_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark parses the options that it gives to Java as a shell does its words."""
    folder = tmp_path / """it's "two" \\ words"""
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with launch(cores=1, conf={"spark.driver.extraJavaOptions": "-Dpk.said='a b'"}) as own:
        said = own.session().sql("select reflect('java.lang.System', 'getProperty', 'pk.said')")
        assert said.first() == ("a b",)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="command lines of processes are in /proc there")
def test_configs_are_passed_as_they_are_and_not_by_a_command_line() -> None:
    word = uuid.uuid4().hex
    secret = f"""it's a \\ "{word}"\nof two lines: ä=#!"""
    with launch(cores=1, conf={"spark.hadoop.pk.key": secret}) as own:
        assert own.session().sparkContext.getConf().get("spark.hadoop.pk.key") == secret
        for process in Path("/proc").glob("[0-9]*"):
            try:
                command = (process / "cmdline").read_bytes()
            except OSError:
                continue  # it has ended
            assert word.encode() not in command, command
