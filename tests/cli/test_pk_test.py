"""`pk test`: the command's environment, its exit code, its signals, and that no process remains."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from clients.apache_kafka import free_ports
from clients.pk_broker import pk_command, pk_environment, run_pk, running

PYTHON = sys.executable
SAY_URL = "import os; print(os.environ['KAFKA_BOOTSTRAP_SERVERS'], flush=True)"
# No signal.pause(): a signal that comes right before it would be heard of after the next one.
WAIT = f"import time; {SAY_URL}\nwhile True: time.sleep(0.05)"
CATCH = f"import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(3)); {WAIT}"


def run(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return run_pk("test", *words, env=pk_environment() | env, text=True)


def own_port() -> tuple[str, str]:
    """Options for a port that no other test gets. A process that listens there after the test was
    left behind."""
    return "-X", f"listeners=PLAINTEXT://127.0.0.1:{free_ports(1)[0]}"


def refused(url: str) -> bool:
    host, _, port = url.strip().rpartition(":")
    try:
        socket.create_connection((host, int(port)), 5).close()
    except ConnectionRefusedError:
        return True
    return False


def test_the_command_uses_the_broker_and_gives_the_exit_code(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import os, sys\n"
        "from confluent_kafka import Producer\n"
        "producer = Producer({'bootstrap.servers': os.environ['KAFKA_BOOTSTRAP_SERVERS']})\n"
        "producer.produce('orders', 'x', on_delivery=lambda error, _: print(error))\n"
        "assert producer.flush(60) == 0\n"
        "assert os.environ['PK_BOOTSTRAP_SERVER'] == os.environ['KAFKA_BOOTSTRAP_SERVERS']\n"
        "print(os.environ['KAFKA_BOOTSTRAP_SERVERS'], sys.argv[1:])\n"
        "sys.exit(7)\n"
    )
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    words = (*own_port(), "--", PYTHON, str(program), "-x", "--", "y")
    done = run(*words, TMPDIR=str(temporary))
    assert done.returncode == 7, done.stderr
    said, words = done.stdout.splitlines()
    assert said == "None"
    url, _, arguments = words.partition(" ")
    assert arguments == "['-x', '--', 'y']"
    assert refused(url)
    assert not list(temporary.iterdir())


def test_broker_configs() -> None:
    done = run("-X", "num.partitions=many", "--", "true")
    assert done.returncode == 2
    assert "num.partitions" in done.stderr
    program = (
        f"{SAY_URL}; import subprocess; subprocess.run({pk_command('configs')!r} + "
        "['describe', 'broker', '1', '-a', '--where', 'name = num.partitions', '-f', "
        "'{value}'])"
    )
    done = run("-X", "num.partitions=5", "--", PYTHON, "-c", program)
    assert done.stdout.split()[-1] == "5", done.stderr


@pytest.mark.parametrize(
    ("command", "code"), [(["/does/not/exist"], 127), (["/etc/passwd"], 126), (["false"], 1)]
)
def test_a_command_that_cannot_run(command: list[str], code: int) -> None:
    done = run("--", *command)
    assert done.returncode == code
    assert "Traceback" not in done.stderr


def test_no_command_is_a_mistake() -> None:
    assert run("--").returncode == 2


@pytest.mark.parametrize(
    ("program", "number", "code"),
    [
        (CATCH, signal.SIGTERM, 3),
        (WAIT, signal.SIGTERM, 128 + signal.SIGTERM),
        (WAIT, signal.SIGHUP, 128 + signal.SIGHUP),
        (WAIT, signal.SIGINT, 1),
    ],
    ids=["caught", "SIGTERM", "SIGHUP", "SIGINT"],
)
def test_signals_are_passed_on(program: str, number: signal.Signals, code: int) -> None:
    with running("test", *own_port(), "--", PYTHON, "-c", program) as process:
        assert process.stdout is not None
        url = process.stdout.readline()
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    if number == signal.SIGINT:  # Python dies of it, as a shell's command would
        code = 128 + signal.SIGINT
    assert process.returncode in (code, -number), said
    assert refused(url)


@pytest.mark.thorough
def test_faults_work_within(tmp_path: Path) -> None:
    script = tmp_path / "script"
    pk = " ".join(pk_command())
    script.write_text(
        f"set -e\n{pk} topics create orders\n"
        f"{pk} faults add fail Produce --error NOT_LEADER_OR_FOLLOWER --times 2\n"
        f"{pk} faults list -f '{{api}} {{times}}\\n'\n"
        f"echo hi | {pk} produce orders\n{pk} faults list -f jsonl\n"
    )
    done = run("--", "bash", str(script))
    assert done.returncode == 0, done.stderr
    assert "Produce 2" in done.stdout
    assert done.stdout.splitlines()[-1] == "Produce 2", "both were met, and are gone"


@pytest.mark.slow
def test_several_brokers() -> None:
    done = run("--brokers", "2", "--", PYTHON, "-c", SAY_URL)
    assert done.returncode == 0, done.stderr
    urls = done.stdout.strip().split(",")
    assert len(urls) == 2
    assert all(refused(url) for url in urls)
    assert os.getpid()
