"""examples/frameworks: each is started, talked to and stopped, by its own tests."""

import re
import shutil
from pathlib import Path

import pytest
from testing_project import run_project

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "frameworks"


@pytest.mark.slow
def test_each_example_runs(tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(EXAMPLES, project, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    assert "4 passed" in run_project(project)[0]


def test_the_readme_names_each() -> None:
    listed = re.findall(r"(?m)^\| `(\S+)` \|", (EXAMPLES / "README.md").read_text())
    tests = {"conftest.py", "test_frameworks.py"}
    files = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb")}
    assert set(listed) == files - tests
