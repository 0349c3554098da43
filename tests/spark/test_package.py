"""The package that a cluster's workers get: a zip that Python imports, and libraries; and a cluster
whose Python has no pk."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from clients import topics
from clients.fixtures import Kafka
from pyarrow import dataset
from spark_servers import standalone

from pk.spark.export.exporter import ExportOptions, export, exported_files
from pk.spark.importer.importer import import_rows
from pk.spark.importer.options import ImportOptions
from pk.spark.session.local import Where
from pk.spark.session.package import (
    DEPENDENCIES,
    ZIP,
    archive_name,
    write_dependencies,
    write_zip,
)

Fresh = Callable[[str], str]
SECRET = "s3cr3t-of-the-export"

IMPORTS = """
import sys
assert not any(name == "pk" or name.startswith("pk.") for name in sys.modules)
import pk.spark.export.task, pk.spark.sink.seal, pyspark_pk
print(pk.spark.export.task.__file__)
"""


@pytest.mark.thorough
def test_python_imports_pk_from_the_zip(tmp_path: Path) -> None:
    path = write_zip(tmp_path / ZIP)
    with zipfile.ZipFile(path) as zipped:
        names = zipped.namelist()
    assert {"pk/", "pk/core/", "pk/spark/sink/", "pk/__init__.py", "pyspark_pk.py"} <= set(names)
    assert not any("__pycache__" in name or name.startswith("pk/cli") for name in names)
    assert len(names) == len(set(names))
    before = path.read_bytes()
    assert write_zip(tmp_path / "again.zip").read_bytes() == before, "the same each time"
    libraries = [p for p in sys.path if p.endswith("site-packages")]
    ran = subprocess.run(
        [sys.executable, "-S", "-c", IMPORTS],
        env={"PYTHONPATH": os.pathsep.join([str(path), *libraries])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout.startswith(str(path)), ran.stderr


def test_the_zip_finds_the_folders_beside_it(tmp_path: Path) -> None:
    """A Spark Connect server unpacks archives beside it."""
    path = write_zip(tmp_path / ZIP, ["pk-deps"])
    (tmp_path / "pk-deps").mkdir()
    (tmp_path / "pk-deps" / "a_library.py").touch()
    (tmp_path / "older").mkdir()
    (tmp_path / "older" / "a_library.py").touch()
    ran = subprocess.run(
        [sys.executable, "-S", "-c", "import pk, a_library; print(a_library.__file__)"],
        env={"PYTHONPATH": os.pathsep.join([str(path), str(tmp_path / "older")])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout.strip() == str(tmp_path / "pk-deps" / "a_library.py"), ran.stderr


def test_an_archive_is_unpacked_under_its_name() -> None:
    assert archive_name("x/pk-deps.tar.gz") == "pk-deps"
    assert archive_name("x/env.tar.gz#environment") == "environment"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """A cluster whose Python has no pk."""
    with standalone(tmp_path) as url:
        yield url


@pytest.mark.slow
def test_a_cluster_that_lacks_pk_exports_and_imports(
    pk_kafka: Kafka, fresh: Fresh, cluster: str, tmp_path: Path
) -> None:
    deps = write_dependencies(tmp_path / DEPENDENCIES)
    with tarfile.open(deps) as archive:
        assert "trio/__init__.py" in archive.getnames()
    (tmp_path / "events").mkdir()
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{tmp_path / 'events'}",
        "spark.eventLog.compress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
    }
    where = Where(cluster, conf, (str(deps),))
    topic = topics.create_topic(pk_kafka, fresh("cluster"), 2)
    topics.produce(pk_kafka, topic, 2, 1_000)
    client = {"ssl.key.password": SECRET}
    summary = export(
        ExportOptions(
            bootstrap=pk_kafka.bootstrap,
            topic=topic,
            directory=tmp_path / "out",
            client=client,
            cores=2,
            where=where,
            value="string",
        )
    )
    assert summary.records == 2_000
    files = [str(path) for path in exported_files(tmp_path / "out")]
    assert dataset.dataset(files).count_rows() == 2_000
    copy = topics.create_topic(pk_kafka, fresh("copy"), 2)
    done = import_rows(
        ImportOptions(
            bootstrap=pk_kafka.bootstrap,
            topic=copy,
            source=str(tmp_path / "out"),
            client=client,
            key="offset",
            value="value",
            where=where,
        )
    )
    assert done.records == 2_000
    events = [p for p in (tmp_path / "events").rglob("*") if p.is_file()]
    logged = b"".join(path.read_bytes() for path in events)
    assert b"SparkListenerJobStart" in logged and b"spark.master" in logged
    assert SECRET.encode() not in logged
