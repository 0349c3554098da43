"""`scripts/demo` needs only the packages that it installs, and reports a bad file before it starts
anything."""

import subprocess
import sys
from pathlib import Path

import pytest
from installed import hidden_from, installed_for, with_extras

ROOT = Path(__file__).resolve().parents[2]
DEMO = Path(__file__).resolve().parents[2] / "scripts" / "demo.py"


@pytest.mark.parametrize(
    ("name", "content", "key", "said"),
    [
        ("x.csv", b"a,b\n1,2\n", ["c"], "x.csv has no column 'c'; it has a, b\n"),
        ("x.csv", b"a,b\n\xff,2\n", [], "x.csv is not UTF-8 text\n"),
        ("x.csv", b"a,b\n", [], "x.csv has no records\n"),
        ("x.jsonl", b"{\n", [], "x.jsonl cannot be read: "),
    ],
)
def test_a_file_that_cannot_be_used(
    tmp_path: Path, name: str, content: bytes, key: list[str], said: str
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    ran = subprocess.run(
        [sys.executable, str(DEMO), str(file), *key],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert said in ran.stderr and "Traceback" not in ran.stderr


def test_it_installs_what_it_needs_and_no_test_tools() -> None:
    script = (ROOT / "scripts" / "demo").read_text()
    assert 'make_venv "$root" spark\n' in script
    brought = installed_for("pk-broker", ["spark"])
    assert {"pk-broker", "pyspark", "typer", "trio"} <= brought
    tools = {"pytest", "hypothesis", "pyright", "ruff", "confluent-kafka", "aiokafka", "pexpect"}
    assert tools <= installed_for("pk-broker", ["dev"])
    assert brought.isdisjoint(tools)


@pytest.mark.slow
def test_it_runs_with_what_it_installs(tmp_path: Path) -> None:
    """All other packages of this environment are hidden, as if scripts/demo had just created
    .venv."""
    pytest.importorskip("pyspark")
    assert {"pytest", "hypothesis", "confluent_kafka"} <= hidden_from(["spark"])
    ran = subprocess.run(
        [sys.executable, str(DEMO)],
        env=with_extras(["spark"], tmp_path) | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "3,376" in ran.stdout
    assert not [left for left in tmp_path.iterdir() if left.name.startswith("pk")]
