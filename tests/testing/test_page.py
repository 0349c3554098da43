"""docs/testing.md: its programs run as they stand there; its commands run in order, below `pk
test`."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from clients.pk_broker import pk_command, pk_environment

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "testing.md").read_text()
PROGRAMS = re.findall(r"(?ms)^```python\n(.*?)^```$", PAGE)
COMMANDS = re.findall(r"(?m)^\$ pk (.*)$", PAGE)


def run(directory: Path, *words: str) -> str:
    done = subprocess.run(
        words,
        check=False,
        cwd=directory,
        env=pk_environment() | {"PYTHONDONTWRITEBYTECODE": "1", "PYTEST_ADDOPTS": ""},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=["pytest", "everything else", "faults"])
def test_a_program_runs(program: str, tmp_path: Path) -> None:
    file = tmp_path / "test_program.py"
    file.write_text(program)
    if "def test_an_order" in program:
        known = "-p pk.testing.plugin" if "pk.testing.plugin" not in entry_points() else ""
        words = ("-q", "-p", "no:cacheprovider", *known.split(), str(file))
        assert "1 passed" in run(tmp_path, sys.executable, "-m", "pytest", *words)
    else:
        run(tmp_path, sys.executable, str(file))
        if "KafkaTestCase" in program:
            run(tmp_path, sys.executable, "-m", "unittest", "-q", "test_program")


def entry_points() -> set[str]:
    from importlib.metadata import entry_points

    return {point.value for point in entry_points(group="pytest11")}


@pytest.mark.slow
def test_the_commands_run(tmp_path: Path) -> None:
    tests = [words.split(" -- ")[0] for words in COMMANDS if words.startswith("test ")]
    faults = [words for words in COMMANDS if words.startswith("test faults ")]
    tests = [words for words in tests if words not in faults]
    assert tests == ["test", "test --brokers 3"], "tests/cli/test_pk_test.py has run both"
    assert len(faults) == 4
    pk = " ".join(pk_command())
    script = tmp_path / "script"
    script.write_text("set -e\n" + "".join(f"{pk} {words}\n" for words in faults))
    said = run(tmp_path, *pk_command("test", "--", "bash", str(script)))
    assert "NOT_LEADER_OR_FOLLOWER" in said and "2 cleared" in said


def test_every_method_is_named() -> None:
    from pk.testing import Broker
    from pk.testing.faults import Faults

    public = {
        n for c in (Broker, Faults) for n, v in vars(c).items() if callable(v) and n[0] != "_"
    }
    named = set(re.findall(r"(?m)^\| `(\w+)\(", PAGE))
    assert public - named == {"start", "stop", "create_topic"}
