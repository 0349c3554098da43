"""The project that `pk spark pipeline export --declarative` writes, as text. It runs in
tests/spark/test_pipelines.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from pk.spark.errors import DirectoryRefused
from pk.spark.pipeline.declarative import write_project
from pk.spark.pipeline.definition import Pipeline, WrongPipeline, parse_pipeline

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
KAFKA = {"kafka.bootstrap.servers": "h:1"}


def example(name: str) -> Pipeline:
    return parse_pipeline((EXAMPLES / f"{name}.toml").read_text(), str(EXAMPLES / f"{name}.toml"))


@pytest.mark.parametrize("name", ["enrichment", "stream-join", "dead-letters"])
def test_the_project_is_python(name: str, tmp_path: Path) -> None:
    pipeline = example(name)
    spec, code = write_project(pipeline, tmp_path / "project", KAFKA)
    text = code.read_text()
    compile(text, str(code), "exec")
    for relation in (*pipeline.sources, *pipeline.tables, *pipeline.steps):
        assert f"@dp.temporary_view(name='{relation.name}')" in text
    assert f"name: {name}\n" in spec.read_text()
    if name == "enrichment":
        assert "@dp.table(name='with_city_table', format='parquet'" in text
    with pytest.raises(DirectoryRefused, match="is not empty"):
        write_project(pipeline, tmp_path / "project", KAFKA)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("windowed-count", "a flow has only one target, so it cannot write dead letters"),
        ("windowed-count", "the flows of a declarative pipeline only append"),
        ("change-capture", "a declarative pipeline cannot read changes by JDBC"),
        ("topic-to-iceberg", "a declarative pipeline writes only topics and parquet tables"),
    ],
)
def test_what_has_no_counterpart_is_refused(name: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(WrongPipeline) as raised:
        write_project(example(name), tmp_path / "project", KAFKA)
    assert said in str(raised.value)
    assert not (tmp_path / "project").exists()
