"""What a pipeline says whose Spark fails, by the command, with a Spark of its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from clients.pk_broker import pk_command, pk_environment

from pk.spark.pipeline.definition import parse_pipeline
from pk.spark.pipeline.places import Places
from pk.spark.pipeline.status import read_status

FILE = """
name = "p"
checkpoint = "cp"
[[source]]
name = "orders"
topic = "orders"
[[sink]]
from = "orders"
topic = "out"
"""


@pytest.mark.slow
def test_what_java_says_is_shown_though_its_spark_has_ended(tmp_path: Path) -> None:
    """The text of such an error is in Java, and Spark ends before the command shows it."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "pyspark_broken.py").write_text("raise ImportError('broken')\n")
    environ = pk_environment()
    environ["PYTHONPATH"] += f"{os.pathsep}{tmp_path / 'modules'}"
    path = tmp_path / "p.toml"
    path.write_text(FILE)
    words = pk_command("spark", "pipeline", "run", str(path), "--once", "-b", "127.0.0.1:1")
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
    said = "Spark's Python does not find the data source pk"
    assert done.returncode == 1 and said in done.stderr, done.stderr
    status = read_status(Places(parse_pipeline(FILE, str(path))))
    assert status is not None and said in (status["error"] or "")
