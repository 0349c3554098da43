"""`scripts/demo FILE [KEY]` says what is wrong with a file before it starts anything."""

import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parents[2] / "scripts" / "demo.py"


@pytest.mark.parametrize(
    ("name", "content", "key", "said"),
    [
        ("x.csv", b"a,b\n1,2\n", ["c"], "x.csv has no column 'c'; it has a, b\n"),
        ("x.csv", b"a,b\n\xff,2\n", [], "x.csv is not UTF-8 text\n"),
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
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert said in ran.stderr and "Traceback" not in ran.stderr
