"""A Spark Connect server, which has no pk: exports run on it, and what cannot is refused."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from clients import topics
from clients.fixtures import Kafka
from clients.pk_broker import pk_command, pk_environment
from pyarrow import dataset
from spark_servers import connect_server

from pk.spark.errors import OptionError, SparkFailed
from pk.spark.export.exporter import ExportOptions, export, exported_files
from pk.spark.importer.importer import import_rows
from pk.spark.importer.options import ImportOptions
from pk.spark.session.local import Where, launch
from pk.spark.session.package import DEPENDENCIES, write_dependencies

pytestmark = pytest.mark.slow
Fresh = Callable[[str], str]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with connect_server(tmp_path_factory.mktemp("connect")) as url:
        yield url


@pytest.fixture(scope="module")
def where(server: str, tmp_path_factory: pytest.TempPathFactory) -> Where:
    deps = write_dependencies(tmp_path_factory.mktemp("deps") / DEPENDENCIES)
    return Where(remote=server, archives=(str(deps),))


def test_a_server_that_lacks_pk_exports(
    pk_kafka: Kafka, fresh: Fresh, where: Where, tmp_path: Path
) -> None:
    topic = topics.create_topic(pk_kafka, fresh("connect"), 2)
    topics.produce(pk_kafka, topic, 2, 500)
    given: dict[str, Any] = {
        "bootstrap": pk_kafka.bootstrap,
        "topic": topic,
        "directory": tmp_path / "out",
        "cores": 2,
        "where": where,
    }
    first = export(
        ExportOptions(**given, value="json", partition_by=("date",), value_schema="n INT")
    )
    assert first.records == 1_000
    topics.produce(pk_kafka, topic, 2, 5)
    again = export(ExportOptions(**given, mode="resume"))
    assert (again.records, again.records_before) == (10, 1_000)
    found = dataset.dataset([str(p) for p in exported_files(tmp_path / "out")]).to_table()
    rows = zip(*(found.column(name).to_pylist() for name in ("partition", "offset")), strict=True)
    assert sorted(rows) == [(p, n) for p in range(2) for n in range(505)]


def test_the_command_exports_by_remote(
    pk_kafka: Kafka, fresh: Fresh, where: Where, tmp_path: Path
) -> None:
    topic = topics.create_topic(pk_kafka, fresh("connect"), 1)
    topics.produce(pk_kafka, topic, 1, 3)
    words = ("--to", "out", "--remote", str(where.remote), "--archives", where.archives[0])
    done = subprocess.run(
        pk_command("spark-export", topic, *words, "-f", "json"),
        cwd=tmp_path,
        env=pk_environment() | {"PK_BOOTSTRAP_SERVER": pk_kafka.bootstrap},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["records"] == 3


def test_what_cannot_run_on_a_server_is_refused(where: Where, tmp_path: Path) -> None:
    given = ImportOptions(
        bootstrap="127.0.0.1:1", topic="t", source=str(tmp_path / "x.csv"), where=where
    )
    with pytest.raises(OptionError, match="cannot run on a Spark Connect server"):
        import_rows(given)
    with pytest.raises(OptionError, match="only an export can run on a Spark Connect server"):
        launch(cores=1, where=where)


def test_a_server_that_is_not_there_is_said(
    pk_kafka: Kafka, fresh: Fresh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = topics.create_topic(pk_kafka, fresh("connect"), 1)
    topics.produce(pk_kafka, topic, 1, 5)
    where = Where(remote="sc://127.0.0.1:1")
    options = ExportOptions(
        bootstrap=pk_kafka.bootstrap, topic=topic, directory=tmp_path / "out", where=where
    )
    with pytest.raises(SparkFailed, match="sc://127.0.0.1:1 cannot be reached"):
        export(options)
    assert not (tmp_path / "out").exists()
