"""Spark's Python in a session of ours: a script whose processes are forks of one that has imported
everything."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pk.spark.java import worker_environment
from pk.spark.session import fork_client
from pk.spark.session.fork_server import ForkServer, can_fork

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux only")

SHOWN = """
import json, os, sys
print(json.dumps([sys.argv[1:], os.getcwd(), os.environ.get("ASKED"), sys.stdin.read(), __name__,
    "pyarrow" in sys.modules]))
print("to the other stream", file=sys.stderr)
sys.exit(7)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    folder = tmp_path_factory.mktemp("forks")
    assert can_fork(folder)
    server = ForkServer(folder, {**os.environ, **worker_environment(os.environ)})
    yield server
    server.close()


def run(server: ForkServer, folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [server.python, *arguments],
        cwd=folder,
        input="typed",
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "ASKED": "yes", "PYTHONPATH": str(folder / "more")},
    )


def modules(folder: Path) -> None:
    (folder / "more").mkdir()
    (folder / "more" / "shown_of_fork.py").write_text(SHOWN)


def test_a_fork_has_its_own_arguments_streams_folder_variables_and_code(
    server: ForkServer, tmp_path: Path
) -> None:
    modules(tmp_path)
    ran = run(server, tmp_path, "-m", "shown_of_fork", "one", "two")
    shown = f'[["one", "two"], "{tmp_path}", "yes", "typed", "__main__", true]\n'
    assert (ran.stdout, ran.stderr, ran.returncode) == (shown, "to the other stream\n", 7)


def test_forks_do_not_see_each_other(server: ForkServer, tmp_path: Path) -> None:
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        modules(folder)
        assert f'"{folder}"' in run(server, folder, "-m", "shown_of_fork").stdout


def test_forks_draw_different_numbers(server: ForkServer, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    drawn = "import numpy, random\nprint(random.random(), numpy.random.random())\n"
    (tmp_path / "more" / "drawn_of_fork.py").write_text(drawn)
    first, second = (run(server, tmp_path, "-m", "drawn_of_fork").stdout.split() for _ in range(2))
    assert first[0] != second[0]
    assert first[1] != second[1]


def test_what_is_no_module_runs_in_a_python_of_its_own(server: ForkServer, tmp_path: Path) -> None:
    ran = run(server, tmp_path, "-c", "import sys; print('pyarrow' in sys.modules); sys.exit(3)")
    assert (ran.stdout, ran.returncode) == ("False\n", 3)


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_a_fork_that_is_killed(server: ForkServer, tmp_path: Path, sent: signal.Signals) -> None:
    (tmp_path / "more").mkdir()
    text = f"import os\nos.kill(os.getpid(), {int(sent)})\n"
    (tmp_path / "more" / "killed_of_fork.py").write_text(text)
    assert run(server, tmp_path, "-m", "killed_of_fork").returncode == 128 + sent


def test_a_fork_ends_when_the_process_that_spark_knows_is_killed(
    server: ForkServer, tmp_path: Path
) -> None:
    text = "import signal\nprint('ready', flush=True)\nsignal.pause()\n"
    (tmp_path / "left_of_fork.py").write_text(text)
    command = [server.python, "-m", "left_of_fork"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.kill()
        assert process.stdout.read() == b""  # the fork held the other end of the pipe
    modules(tmp_path)
    assert run(server, tmp_path, "-m", "shown_of_fork").returncode == 7, "and the server goes on"


def test_sigterm_is_passed_on(server: ForkServer, tmp_path: Path) -> None:
    text = "import signal\nprint('ready', flush=True)\nsignal.pause()\n"
    (tmp_path / "paused_of_fork.py").write_text(text)
    command = [server.python, "-m", "paused_of_fork"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.terminate()
        assert process.stdout.read() == b""  # the fork is gone, and with it its end of the pipe
        assert process.wait() == 128 + signal.SIGTERM


def test_sigterm_is_passed_on_when_it_comes_before_the_answer(tmp_path: Path) -> None:
    """The client is killed with nothing but a listening socket that answers later."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "forks"))
        listener.listen()
        command = [sys.executable, fork_client.__file__, str(tmp_path / "forks"), sys.executable]
        with (
            subprocess.Popen(["sleep", "60"]) as passed_to,
            subprocess.Popen([*command, "-m", "any"]) as process,
        ):
            asker, _ = listener.accept()
            with asker:
                asker.recv(1, socket.MSG_PEEK)  # it has asked
                process.terminate()
                asker.sendall(fork_client.STATUS.pack(passed_to.pid))
                assert passed_to.wait() == -signal.SIGTERM
                asker.sendall(fork_client.STATUS.pack(-signal.SIGTERM))
            assert process.wait() == 128 + signal.SIGTERM


@pytest.mark.thorough
def test_without_the_server_python_starts_as_ever(tmp_path: Path) -> None:
    modules(tmp_path)
    folder = tmp_path / "server"
    folder.mkdir()
    server = ForkServer(folder, {**os.environ, **worker_environment(os.environ)})
    server.close()
    ran = run(server, tmp_path, "-m", "shown_of_fork")
    assert '"__main__", false]' in ran.stdout
    assert ran.returncode == 7
