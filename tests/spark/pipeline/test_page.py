"""docs/pipelines.md and examples/: each file is a pipeline, each command line one of pk. Spark runs
them in tests/spark/test_pipelines.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pk.cli.command_line.parse import parse
from pk.spark.pipeline.definition import parse_pipeline

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "pipelines.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = re.findall(r"(?m)^pk spark pipeline .*$", PAGE)
EXAMPLES = sorted((ROOT / "examples").glob("*.toml"))


def test_the_page_and_the_examples_have_what_they_should() -> None:
    assert len(BLOCKS) == 7 and len(COMMANDS) == 6
    assert len(EXAMPLES) == 8


@pytest.mark.parametrize("text", BLOCKS, ids=lambda text: text.splitlines()[0])
def test_each_file_of_the_page_is_a_pipeline(text: str) -> None:
    assert parse_pipeline(text, "p.toml").sinks


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_each_example_is_a_pipeline_of_its_name(path: Path) -> None:
    assert parse_pipeline(path.read_text(), str(path)).name == path.stem


@pytest.mark.parametrize("line", COMMANDS)
def test_each_command_of_the_page_is_one(line: str) -> None:
    assert parse(line.split()[1:]).path[:2] == ("spark", "pipeline")
