"""A Spark of our own: what its Python processes import, and from where."""

import fcntl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyspark
from pyspark.sql import SparkSession

from pk.spark.session.local import launch

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    with launch(cores=1) as own:
        yield own.session()


def test_workers_import_the_installed_pyspark(session: SparkSession) -> None:
    # From the zip that Spark puts first in their path, each worker would compile pyspark again.
    def origin(_: int) -> str | None:
        import pyspark.worker

        return pyspark.worker.__file__

    [found] = session.sparkContext.parallelize([0], 1).map(origin).collect()
    assert found == str(Path(pyspark.__file__).parent / "worker.py")


@pytest.mark.skipif(sys.platform != "linux", reason="workers import for themselves elsewhere")
def test_workers_are_forked_with_everything_imported(session: SparkSession) -> None:
    def origin(_: int) -> list[bool]:
        wanted = ("pk.spark.stream.reader", "pk.spark.sink.writer", "pyarrow.compute")
        return [name in sys.modules for name in wanted]

    [found] = session.sparkContext.parallelize([0], 1).map(origin).collect()
    assert found == [True, True, True]


KILLED = """
import os, signal
from pk.spark.session.local import launch
own = launch(cores=1)
own.session().sparkContext.parallelize([0], 1).map(lambda _: 0).collect()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_session_removes_the_folder_of_one_that_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    subprocess.run([sys.executable, "-c", KILLED], check=False)
    [folder] = tmp_path.glob("pk-spark-*")
    with (folder / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)  # held until the JVM and the forks have ended too
    second = "from pk.spark.session.local import launch; launch(cores=1).close()"
    subprocess.run([sys.executable, "-c", second], check=True)
    assert not list(tmp_path.glob("pk-spark-*"))


@pytest.mark.skipif(sys.platform != "linux", reason="a Python of its own for each elsewhere")
def test_tasks_and_planning_are_forks(session: SparkSession) -> None:
    [started] = session.sparkContext.parallelize([0], 1).map(lambda _: sys.orig_argv).collect()
    assert "pk.spark.session.fork_server" in started
    jvm: Any = session.sparkContext._jvm
    planning = jvm.java.lang.System.getenv("PYSPARK_DRIVER_PYTHON")
    assert planning == session.sparkContext.pythonExec


def test_a_session_starts_after_one_whose_java_was_killed(session: SparkSession) -> None:
    code = """
from pk.spark.session.local import launch
with launch(cores=1, conf={}) as own:
    own.session()
    own.kill()
with launch(cores=1, conf={}) as own:
    print(own.session().range(5).count())
"""
    words = [sys.executable, "-W", "error", "-c", code]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "5\n"), ran.stderr
