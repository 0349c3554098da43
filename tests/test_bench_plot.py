"""`scripts/bench --plot`: the pictures have the figures, the machine and the day."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "docs" / "figures"


def plot(*words: str) -> subprocess.CompletedProcess[str]:
    folders = (ROOT / "scripts", ROOT / "tests", ROOT / "scripts" / "path")
    return subprocess.run(
        [sys.executable, "-m", "benchmark.plot", *words],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, folders))},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def texts(path: Path) -> set[str]:
    """The texts in a picture."""
    root = ElementTree.parse(path).getroot()
    assert root.tag.endswith("svg") and not list(root.iter("{http://www.w3.org/2000/svg}script"))
    return {text.strip() for text in root.itertext() if text.strip()}


def values(path: Path) -> list[str | None]:
    """The figures that a picture shows."""
    found = ElementTree.parse(path).getroot().iter("{http://www.w3.org/2000/svg}desc")
    return [each.text for each in found if each.get("class") == "value"]


def names_of(said: set[str]) -> set[str]:
    """The names of the measurements."""
    first = ("produce ", "consume ", "one record ", "end to end ", "start ", "memory")
    return {text for text in said if text.startswith(first)}


def test_the_pictures_of_the_site_are_those_of_their_figures(tmp_path: Path) -> None:
    ran = plot("--to", str(tmp_path))
    assert ran.returncode == 0, ran.stderr
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {path.name for path in FIGURES.glob("*.svg")}
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    machine = json.loads((FIGURES / "bench-results.json").read_text(encoding="utf-8"))["machine"]
    for name in names:
        assert f"(figures/{name})" in page
        said = texts(tmp_path / name)
        assert values(tmp_path / name) == values(FIGURES / name), name
        assert names_of(said) == names_of(texts(FIGURES / name)) != set()
        assert any(f"{machine['cores']} cores, {machine['system']}" in text for text in said)
        assert {"pk", "Apache Kafka"} <= said


@pytest.mark.parametrize("text", ["", "[]", '{"rows": [{}]}', '{"rows": []}'])
def test_what_has_no_results_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "results.json"
    file.write_text(text)
    ran = plot(str(file), "--to", str(tmp_path / "to"))
    assert ran.returncode == 1 and "Traceback" not in ran.stderr
    assert str(file) in ran.stderr and not (tmp_path / "to").exists()
