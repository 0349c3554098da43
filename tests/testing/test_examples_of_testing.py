"""examples/testing: each suite runs as its README says, the Java and Go ones if their tools are
installed."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from clients.apache_kafka import SHORT_JVM
from clients.pk_broker import pk_command, pk_environment
from testing_project import run_project

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "testing"
RUN_S = 900.0


@pytest.fixture
def pk(tmp_path: Path) -> str:
    """The command `pk`, as one word."""
    script = tmp_path / "pk"
    script.write_text(f'#!/bin/sh\nexec {" ".join(pk_command())} "$@"\n')
    script.chmod(0o755)
    return str(script)


@pytest.mark.slow
def test_the_python_suites(tmp_path: Path) -> None:
    suites = sorted(EXAMPLES.glob("test_*.py"))
    listed = re.findall(r"`(test_\w+\.py)`", (EXAMPLES / "README.md").read_text())
    assert {suite.name for suite in suites} == set(listed)
    project = tmp_path / "project"
    project.mkdir()
    for suite in suites:
        shutil.copy(suite, project)
    assert "4 passed" in run_project(project)[0]


def below_pk_test(pk: str, directory: Path, *command: str) -> None:
    done = subprocess.run(
        pk_command("test", "--", *command),
        check=False,
        cwd=directory,
        env=pk_environment() | {"PK": pk},
        capture_output=True,
        text=True,
        timeout=RUN_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.peer
def test_the_go_suite(tmp_path: Path, pk: str) -> None:
    if shutil.which("go") is None:
        pytest.skip("go is not installed")
    shutil.copytree(EXAMPLES / "go", tmp_path / "go")
    below_pk_test(pk, tmp_path / "go", "go", "test", "./...")


@pytest.mark.peer
def test_the_java_suite(tmp_path: Path, pk: str) -> None:
    if shutil.which("mvn") is None:
        pytest.skip("mvn is not installed")
    shutil.copytree(EXAMPLES / "java", tmp_path / "java")
    short = " ".join(SHORT_JVM)  # Maven runs the tests in another JVM
    maven = ("env", f"MAVEN_OPTS={short}", "mvn", "-q", "-B", f"-DargLine={short}", "test")
    below_pk_test(pk, tmp_path / "java", *maven)
